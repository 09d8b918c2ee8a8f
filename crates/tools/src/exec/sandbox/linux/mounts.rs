//! Makes the mounts of a plan, and replaces the root directory by them.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, PermissionsExt, symlink},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, ResolveFlags, StatVfsMountFlags},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags},
};

use super::{
    super::plan::{MountKind, MountPlan},
    strict,
};

/// Mount points for the first step, which exist on every system. What they hide is visible again in the second step.
const BASES: [&str; 4] = ["/tmp", "/dev/shm", "/mnt", "/usr"];
/// Where the new root and the old one are after the first step.
const NEW: &str = "/new";
const OLD: &str = "/old";
/// The directory in the new root with the masks of denied files and directories.
pub(super) const DENIED: &str = "/.denied";

/// Replaces the root directory of this process's mount namespace.
pub(super) fn apply(plan: &MountPlan) -> Result<(), String> {
    let step = |what: &str, done: rustix::io::Result<()>| done.map_err(|errno| format!("{what}: {errno}"));
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    step("private mounts", rustix::mount::mount_change("/", private))?;
    enter_base().map_err(|error| format!("root directory: {error}"))?;
    // A mount point, because the second `pivot_root` needs one.
    step("new root", mount_tmpfs(NEW, 16 << 20, 0o755))?;
    create_masks().map_err(|error| format!("masks: {error}"))?;
    let trees = MountTrees::open(plan).map_err(|error| format!("root directory: {error}"))?;
    for (path, kind) in &plan.mounts {
        trees.make(path, *kind).map_err(|error| format!("{}: {error}", path.display()))?;
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
    rustix::process::pivot_root(base, base.join("old").as_path())?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// An empty file and an empty directory without permissions.
fn create_masks() -> io::Result<()> {
    let dir = at(NEW, Path::new(DENIED));
    fs::create_dir(&dir)?;
    File::create(dir.join("file"))?.set_permissions(fs::Permissions::from_mode(0o0))?;
    DirBuilder::new().mode(0o0).create(dir.join("dir"))
}

fn mount_tmpfs(target: impl rustix::path::Arg, bytes: u64, mode: u32) -> rustix::io::Result<()> {
    let options = std::ffi::CString::new(format!("size={bytes},mode={mode:o}")).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", target, "tmpfs", flags, Some(options.as_c_str()))
}

fn at(base: &str, path: &Path) -> PathBuf {
    Path::new(base).join(path.strip_prefix("/").unwrap_or(path))
}

/// The host's tree, and the one that is built.
struct MountTrees<'a> {
    plan: &'a MountPlan,
    host: OwnedFd,
    /// The masks of a file and of a directory.
    masks: [OwnedFd; 2],
}

impl<'a> MountTrees<'a> {
    fn open(plan: &'a MountPlan) -> io::Result<Self> {
        let mask = |name: &str| strict::open(&at(NEW, Path::new(DENIED)).join(name));
        Ok(Self { plan, host: strict::open(Path::new(OLD))?, masks: [mask("file")?, mask("dir")?] })
    }

    fn make(&self, path: &Path, kind: MountKind) -> io::Result<()> {
        match kind {
            MountKind::Tmpfs(bytes) => {
                let target = at(NEW, path);
                fs::create_dir_all(&target)?;
                Ok(mount_tmpfs(&target, bytes, 0o1777)?)
            }
            MountKind::Pts => mount_pts(path),
            MountKind::Denied => {
                // A file that disappeared since the survey needs no mount.
                let Ok(source) = self.resolve(&self.host, path) else { return self.check_absent(path) };
                let is_dir = is_dir(&source)?;
                self.bind(&self.masks[usize::from(is_dir)], path, is_dir)
            }
            MountKind::ReadOnly | MountKind::ReadWrite | MountKind::Device => self.bind_host(path),
        }
    }

    fn bind_host(&self, path: &Path) -> io::Result<()> {
        let source = self.resolve(&self.host, path)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode) {
            FileType::Symlink if self.plan.is_changeable(path) => Err(Errno::LOOP.into()),
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(&source, "", Vec::new())?;
                let target = at(NEW, path);
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent)?;
                }
                match symlink(OsStr::from_bytes(text.as_bytes()), target) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    done => done,
                }
            }
            kind => self.bind(&source, path, kind == FileType::Directory),
        }
    }

    /// Binds with all mounts below: in a user namespace, a mount cannot be separated from what is mounted in it.
    fn bind(&self, source: &OwnedFd, path: &Path, is_dir: bool) -> io::Result<()> {
        let target = self.mount_point(path, is_dir)?;
        Ok(attach(source, &target)?)
    }

    /// The file or directory that is mounted over. If it is missing, it is created, but never inside a directory of the host.
    fn mount_point(&self, path: &Path, is_dir: bool) -> io::Result<OwnedFd> {
        // Opened each time, because the root itself may be a mount of the plan.
        let root = strict::open(Path::new(NEW))?;
        match self.resolve(&root, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        if path.parent().is_some_and(|parent| self.plan.is_changeable(parent)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        create_mount_point(&at(NEW, path), is_dir)?;
        self.resolve(&root, path)
    }

    /// Opens a path inside a tree. Links are followed only where no command can create one.
    fn resolve(&self, tree: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
        let links =
            if self.plan.is_changeable(path) { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::IN_ROOT };
        let inside = path.strip_prefix("/").unwrap_or(path);
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        strict::open_at(tree, inside, links | ResolveFlags::NO_MAGICLINKS)
    }

    /// Fails unless a path does not exist.
    fn check_absent(&self, path: &Path) -> io::Result<()> {
        match self.resolve(&self.host, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }
}

/// Binds a file or directory, with all mounts below it, on another one.
pub(super) fn attach(source: &OwnedFd, target: &OwnedFd) -> rustix::io::Result<()> {
    let (clone, recursive) = (OpenTreeFlags::OPEN_TREE_CLONE, OpenTreeFlags::AT_RECURSIVE);
    let flags = clone | recursive | OpenTreeFlags::AT_EMPTY_PATH | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(source, "", flags)?;
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&tree, "", target, "", both)
}

/// Makes an existing mount inside a root read-only.
pub(super) fn make_read_only(path: &Path) -> io::Result<()> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    let kept = flags_at(path)?;
    Ok(rustix::mount::mount_remount(path, flags | kept, c"")?)
}

/// The flags of the mount at a path, which must stay set in a user namespace.
fn flags_at(path: &Path) -> io::Result<MountFlags> {
    let found = rustix::fs::statvfs(path)?.f_flag;
    let pairs = [
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    Ok(pairs.into_iter().filter(|(set, _)| found.contains(*set)).map(|(_, flag)| flag).collect())
}

fn is_dir(file: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) == FileType::Directory)
}

fn mount_pts(path: &Path) -> io::Result<()> {
    let target = at(NEW, path);
    fs::create_dir_all(&target)?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    rustix::mount::mount("devpts", &target, "devpts", flags, Some(options))?;
    symlink("pts/ptmx", at(NEW, Path::new("/dev/ptmx")))
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
    let proc = at(NEW, Path::new("/proc"));
    fs::create_dir_all(&proc)?;
    rustix::mount::mount_bind_recursive(at(OLD, Path::new("/proc")), proc)?;
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
pub(super) fn parse_mount(line: &str) -> Option<(PathBuf, MountFlags)> {
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
