//! How the binary is linked.

use std::process::Command;

/// The first C library that can start a program whose relocations are packed.
const PACKED_SINCE: (u32, u32) = (2, 36);

/// A program that may be loaded anywhere holds a list of all places that depend on where. The loader reads the whole of it at
/// each start, and it stays in memory; packed, it is a fortieth of 0.9 MB.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if libc_version().is_some_and(|version| version >= PACKED_SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of glibc here, if it is the C library both here and there.
fn libc_version() -> Option<(u32, u32)> {
    let target = std::env::var("TARGET").ok()?;
    let here = std::env::var("HOST").ok()? == target && target.ends_with("-linux-gnu");
    let told = here.then(|| Command::new("getconf").arg("GNU_LIBC_VERSION").output())?.ok()?.stdout;
    let told = String::from_utf8(told).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
