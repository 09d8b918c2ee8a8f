//! New namespaces for a command, and the loopback interface of its network namespace.

use std::{fs, io};

use nix::sched::{CloneFlags, unshare};
use rustix::{
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
    process::{getgid, getuid},
    thread::{CapabilitySet, CapabilitySets},
};

use super::Isolation;

/// What the init process needs to mount `/proc` and to give up its capabilities.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SETPCAP);

/// `RTM_NEWLINK` and its answer.
const NEW_LINK: u16 = 16;
const NETLINK_ERROR: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_ACK`
const REQUEST_WITH_ACK: u16 = 5;
const IFF_UP: u32 = 1;
/// The index of the loopback interface is 1 in every network namespace.
const LOOPBACK: i32 = 1;

/// Enters new namespaces. Children of this process are in a new PID namespace.
pub(super) fn enter(network: bool) -> Result<(), String> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if !network {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    if let Err(errno) = unshare(flags | CloneFlags::CLONE_NEWUSER) {
        // A privileged process needs no user namespace.
        return unshare(flags).map_err(|_| format!("user namespaces are not available: {errno}"));
    }
    let map = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("{file}: {error}"))
    };
    map("uid_map", format!("{uid} {uid} 1"))?;
    map("setgroups", "deny".to_owned())?;
    map("gid_map", format!("{gid} {gid} 1"))
}

/// Lets the next program keep the capabilities that it needs, whatever its user.
pub(super) fn keep_capabilities() -> io::Result<()> {
    let current = rustix::thread::capabilities(None)?;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: KEPT, ..current })?;
    for capability in KEPT.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Gives up all capabilities, for this process and whatever it executes.
pub(super) fn drop_capabilities(isolation: Isolation) -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    for bit in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The kernel knows no capability with this number, nor with a higher one.
            Err(rustix::io::Errno::INVAL) => break,
            // A process without capabilities gets none by `no_new_privs`, whatever its bounding set.
            Err(rustix::io::Errno::PERM) if isolation == Isolation::Landlock => break,
            other => other?,
        }
    }
    let none = CapabilitySet::empty();
    Ok(rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}

/// Brings up the loopback interface, which test suites use.
pub(super) fn bring_up_loopback() -> io::Result<()> {
    // No protocol is protocol 0, NETLINK_ROUTE.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::send(&socket, &link_up_message(), SendFlags::empty())?;
    let mut answer = [0; 128];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // The header has 16 bytes: length, type, flags, sequence number, port. An error number follows.
    let (Some(kind), Some(errno)) = (answer.get(4..6), answer[..length].get(16..20)) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    match (kind == NETLINK_ERROR.to_ne_bytes(), errno == [0; 4]) {
        (true, true) => Ok(()),
        _ => Err(io::Error::other("the loopback interface could not be brought up")),
    }
}

/// A netlink header and `struct ifinfomsg`.
fn link_up_message() -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_WITH_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message
}
