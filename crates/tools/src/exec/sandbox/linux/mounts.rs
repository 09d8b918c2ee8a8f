//! Makes the mounts of a plan, and replaces the root directory by them.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, UnmountFlags},
};

use super::super::plan::{MountKind, MountPlan};

/// Mount points for the first step, which exist on every system. What they hide is visible again in the second step.
const BASES: [&str; 4] = ["/tmp", "/dev/shm", "/mnt", "/usr"];
/// Where the new root and the old one are after the first step.
const NEW: &str = "/new";
const OLD: &str = "/old";
const DENIED_FILE: &str = "/denied-file";
const DENIED_DIR: &str = "/denied-dir";

/// Replaces the root directory of this process's mount namespace.
pub(super) fn apply(plan: &MountPlan) -> Result<(), String> {
    let step = |what: &str, done: rustix::io::Result<()>| done.map_err(|errno| format!("{what}: {errno}"));
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    step("private mounts", rustix::mount::mount_change("/", private))?;
    enter_base().map_err(|error| format!("root directory: {error}"))?;
    // A mount point, because the second `pivot_root` needs one.
    step("new root", mount_tmpfs(NEW, 16 << 20, 0o755))?;
    for (path, kind) in &plan.mounts {
        make(path, *kind).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    prepare_proc_and_dev().map_err(|error| format!("/proc and /dev: {error}"))?;
    restrict(plan).map_err(|error| format!("mount flags: {error}"))?;
    step("unmounting the host", rustix::mount::unmount(OLD, UnmountFlags::DETACH))?;
    step("new root", rustix::process::chdir(NEW))?;
    step("pivot_root", rustix::process::pivot_root(".", "."))?;
    step("unmounting the base", rustix::mount::unmount(".", UnmountFlags::DETACH))?;
    step("new root", rustix::process::chdir("/"))
}

/// Moves to a tmpfs that has the host's root directory at [`OLD`].
fn enter_base() -> io::Result<()> {
    let base = BASES.into_iter().find(|dir| Path::new(dir).is_dir()).ok_or(io::ErrorKind::NotFound)?;
    mount_tmpfs(base, 1 << 20, 0o755)?;
    let base = Path::new(base);
    fs::create_dir(base.join("new"))?;
    fs::create_dir(base.join("old"))?;
    File::create(base.join("denied-file"))?.set_permissions(fs::Permissions::from_mode(0o0))?;
    DirBuilder::new().mode(0o0).create(base.join("denied-dir"))?;
    rustix::process::pivot_root(base, base.join("old").as_path())?;
    rustix::process::chdir("/")?;
    Ok(())
}

fn mount_tmpfs(target: impl rustix::path::Arg, bytes: u64, mode: u32) -> rustix::io::Result<()> {
    let options = std::ffi::CString::new(format!("size={bytes},mode={mode:o}")).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", target, "tmpfs", flags, Some(options.as_c_str()))
}

fn at(base: &str, path: &Path) -> PathBuf {
    Path::new(base).join(path.strip_prefix("/").unwrap_or(path))
}

fn make(path: &Path, kind: MountKind) -> io::Result<()> {
    let (source, target) = (at(OLD, path), at(NEW, path));
    match kind {
        MountKind::Tmpfs(bytes) => {
            fs::create_dir_all(&target)?;
            Ok(mount_tmpfs(&target, bytes, 0o1777)?)
        }
        MountKind::Pts => {
            fs::create_dir_all(&target)?;
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
            rustix::mount::mount(
                "devpts",
                &target,
                "devpts",
                flags,
                Some(c"newinstance,ptmxmode=0666,mode=620"),
            )?;
            symlink("pts/ptmx", at(NEW, Path::new("/dev/ptmx")))
        }
        MountKind::Denied => {
            // A file that disappeared since the survey needs no mount.
            let Ok(metadata) = fs::symlink_metadata(&source) else { return Ok(()) };
            let mask = if metadata.is_dir() { DENIED_DIR } else { DENIED_FILE };
            bind(Path::new(mask), &target, metadata.is_dir())
        }
        MountKind::ReadOnly | MountKind::ReadWrite | MountKind::Device => bind_host(&source, &target),
    }
}

fn bind_host(source: &Path, target: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(source)?;
    if !metadata.is_symlink() {
        return bind(source, target, metadata.is_dir());
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    match symlink(fs::read_link(source)?, target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Binds with all mounts below: in a user namespace, a mount cannot be separated from what is mounted in it.
fn bind(source: &Path, target: &Path, is_dir: bool) -> io::Result<()> {
    if fs::symlink_metadata(target).is_err() {
        create_mount_point(target, is_dir)?;
    }
    Ok(rustix::mount::mount_bind_recursive(source, target)?)
}

fn create_mount_point(target: &Path, is_dir: bool) -> io::Result<()> {
    if is_dir {
        return fs::create_dir_all(target);
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(target).map(drop)
}

/// The host's `/proc` stays mounted until the init process covers it by its own: the kernel requires a visible one for that.
fn prepare_proc_and_dev() -> io::Result<()> {
    bind(&at(OLD, Path::new("/proc")), &at(NEW, Path::new("/proc")), true)?;
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        symlink(target, at(NEW, Path::new("/dev")).join(name))?;
    }
    Ok(())
}

/// Sets the flags of all mounts: read-only ones, and neither setuid programs nor devices anywhere.
fn restrict(plan: &MountPlan) -> io::Result<()> {
    let mounts = fs::read_to_string(at(OLD, Path::new("/proc/self/mountinfo")))?;
    for line in mounts.lines() {
        let Some((path, mut flags)) = parse_mount(line) else { continue };
        let Ok(inside) = path.strip_prefix(NEW) else { continue };
        let inside = Path::new("/").join(inside);
        if inside.starts_with("/proc") {
            continue;
        }
        flags |= MountFlags::BIND | MountFlags::NOSUID;
        match plan.kind_at(&inside) {
            Some(MountKind::Device | MountKind::Pts) => continue,
            Some(MountKind::Tmpfs(_) | MountKind::ReadWrite) => flags |= MountFlags::NODEV,
            Some(MountKind::ReadOnly | MountKind::Denied) | None => {
                flags |= MountFlags::NODEV | MountFlags::RDONLY;
            }
        }
        match rustix::mount::mount_remount(&path, flags, c"") {
            // The path is hidden by another mount, or not accessible to this user: not to the command either.
            Ok(()) | Err(Errno::INVAL | Errno::ACCESS | Errno::NOENT) => {}
            Err(errno) => return Err(io::Error::other(format!("{}: {errno}", path.display()))),
        }
    }
    Ok(())
}

/// The mount point and the flags of a line of `/proc/self/mountinfo`. Flags that are set must stay set in a user namespace.
fn parse_mount(line: &str) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(' ').skip(4);
    let (path, options) = (unescape(fields.next()?), fields.next()?);
    let mut flags = MountFlags::empty();
    for option in options.split(',') {
        flags |= match option {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            "nosymfollow" => MountFlags::NOSYMFOLLOW,
            _ => MountFlags::empty(),
        };
    }
    Some((path, flags))
}

/// Replaces the octal escapes of a path.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let (mut bytes, text) = (Vec::new(), text.as_bytes());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let digits = text.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 4 } else { 1 };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_parsed_with_escapes_and_flags() {
        let line = r"36 35 98:0 / /mnt/a\040b\134c ro,nosuid,relatime shared:1 - ext4 /dev/root rw";
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::RELATIME;
        assert_eq!(parse_mount(line), Some((PathBuf::from(r"/mnt/a b\c"), flags)));
        assert_eq!(parse_mount("1 2 3"), None);
    }
}
