//! The seccomp filters: system calls that no command of a profile may make.
//!
//! Two filters apply. The first refuses every system call that is not in the table of known ones, so that other ABIs of the
//! machine and future calls are refused as a whole. The second refuses known calls by their arguments.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::Isolation;
use crate::SandboxProfile;

/// The highest system call that was reviewed (`mseal`). It has the same number on all 64-bit machines.
const LAST_KNOWN: c_long = 462;

/// `clone3` takes its flags by a pointer, which a filter cannot follow; callers fall back to `clone` on `ENOSYS`.
/// The others reach namespaces, mounts, other processes, the kernel's configuration, or bypass the filter (`io_uring`).
const REFUSED: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS__sysctl];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// Flags of `clone` that create a namespace.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME
];

/// Requests that put characters into the input of a terminal.
const TERMINAL_INPUT: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Calls that change attributes of files, which Landlock does not restrict.
const ATTRIBUTES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    452, // fchmodat2
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`, which set attributes too.
const ATTRIBUTE_REQUESTS: [u64; 2] = [0x4008_6602, 0x401c_5820];

/// What the filters depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterOptions {
    pub(super) profile: SandboxProfile,
    pub(super) network: bool,
    pub(super) unix_sockets: bool,
    pub(super) isolation: Isolation,
}

/// Applies the filters to this process. The kernel applies the strictest result of both.
pub(super) fn apply(options: FilterOptions) -> Result<(), String> {
    let fail = |error: seccompiler::Error| format!("seccomp: {error}");
    for filter in [known_calls().map_err(fail)?, arguments(options).map_err(fail)?] {
        seccompiler::apply_filter(&filter).map_err(fail)?;
    }
    Ok(())
}

fn arch() -> seccompiler::Result<TargetArch> {
    Ok(TargetArch::try_from(std::env::consts::ARCH)?)
}

/// Allows all known calls but [`REFUSED`], by number. Calls of another architecture kill the process.
fn known_calls() -> seccompiler::Result<BpfProgram> {
    let refused = |number: &c_long| REFUSED.contains(number) || REFUSED_HERE.contains(number);
    let rules = (0..=LAST_KNOWN).filter(|number| !refused(number)).map(|number| (number, Vec::new()));
    let not_implemented = SeccompAction::Errno(errno(libc::ENOSYS));
    let filter = SeccompFilter::new(rules.collect(), not_implemented, SeccompAction::Allow, arch()?)?;
    Ok(filter.try_into()?)
}

/// Refuses calls by their arguments.
fn arguments(options: FilterOptions) -> seccompiler::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.insert(libc::SYS_socket, refused_sockets(options)?);
    rules.insert(libc::SYS_socketpair, refused_socket_pairs(options)?);
    let mut namespaces = Vec::new();
    for flag in NAMESPACES {
        let bit = u64::from(flag.cast_unsigned());
        namespaces.push(rule(vec![SeccompCondition::new(0, Width::Qword, Op::MaskedEq(bit), bit)?])?);
    }
    rules.insert(libc::SYS_clone, namespaces);
    let mut requests = Vec::new();
    for request in TERMINAL_INPUT {
        // The kernel reads 32 bits of the request.
        requests.push(rule(vec![SeccompCondition::new(1, Width::Dword, Op::Eq, request)?])?);
    }
    // Without mounts, only the filter keeps a command from changing attributes.
    if options.isolation == Isolation::Landlock && options.profile == SandboxProfile::ReadOnly {
        for request in ATTRIBUTE_REQUESTS {
            requests.push(rule(vec![SeccompCondition::new(1, Width::Dword, Op::Eq, request)?])?);
        }
        rules.extend(ATTRIBUTES.iter().map(|number| (*number, Vec::new())));
    }
    rules.insert(libc::SYS_ioctl, requests);
    let refuse = SeccompAction::Errno(errno(libc::EPERM));
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch()?)?.try_into()?)
}

/// The bits of a socket type that are not flags.
const SOCKET_TYPE: u64 = 0xf;

/// Only pairs that stay connected to each other: a datagram socket can send to any path, and a family without paths may reach
/// the host.
fn refused_socket_pairs(options: FilterOptions) -> seccompiler::Result<Vec<SeccompRule>> {
    let family = u64::from(libc::AF_UNIX.cast_unsigned());
    let mut rules = vec![rule(vec![SeccompCondition::new(0, Width::Dword, Op::Ne, family)?])?];
    if options.unix_sockets && options.profile == SandboxProfile::Workspace {
        return Ok(rules);
    }
    for kind in (0..=SOCKET_TYPE).filter(|kind| !CONNECTED.contains(kind)) {
        rules.push(rule(vec![SeccompCondition::new(1, Width::Dword, Op::MaskedEq(SOCKET_TYPE), kind)?])?);
    }
    Ok(rules)
}

/// The types of Unix sockets that cannot leave the pair that they were created in: `SOCK_STREAM` and `SOCK_SEQPACKET`.
const CONNECTED: [u64; 2] = [1, 5];

/// The families of sockets that a command may create. `read-only` has none.
fn refused_sockets(options: FilterOptions) -> seccompiler::Result<Vec<SeccompRule>> {
    let mut allowed: Vec<libc::c_int> = Vec::new();
    if options.profile == SandboxProfile::Workspace {
        // Without a network namespace, these would reach the host's network.
        if options.network || options.isolation == Isolation::Namespaces {
            allowed.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
        }
        allowed.extend(options.unix_sockets.then_some(libc::AF_UNIX));
    }
    let is_other = |family: &libc::c_int| {
        SeccompCondition::new(0, Width::Dword, Op::Ne, u64::from(family.cast_unsigned()))
    };
    let others = allowed.iter().map(is_other).collect::<Result<Vec<_>, _>>()?;
    if others.is_empty() {
        // A rule needs a condition: every family is at least zero.
        return Ok(vec![rule(vec![SeccompCondition::new(0, Width::Dword, Op::Ge, 0)?])?]);
    }
    let mut rules = vec![rule(others)?];
    if !options.network {
        return Ok(rules);
    }
    // In the host's network namespace, netlink is limited to routes, which name resolution reads.
    rules.push(rule(vec![
        SeccompCondition::new(0, Width::Dword, Op::Eq, u64::from(libc::AF_NETLINK.cast_unsigned()))?,
        SeccompCondition::new(2, Width::Dword, Op::Ne, u64::from(libc::NETLINK_ROUTE.cast_unsigned()))?,
    ])?);
    Ok(rules)
}

fn rule(conditions: Vec<SeccompCondition>) -> seccompiler::Result<SeccompRule> {
    Ok(SeccompRule::new(conditions)?)
}

fn errno(number: libc::c_int) -> u32 {
    number.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compile_for_every_profile() {
        for profile in [SandboxProfile::ReadOnly, SandboxProfile::Workspace] {
            for isolation in [Isolation::Namespaces, Isolation::Landlock] {
                for (network, unix_sockets) in [(false, false), (true, false), (false, true), (true, true)] {
                    let options = FilterOptions { profile, network, unix_sockets, isolation };
                    assert!(!arguments(options).unwrap().is_empty());
                }
            }
        }
        assert!(known_calls().unwrap().len() < 4096, "the kernel's limit");
    }

    #[test]
    fn pairs_of_connected_sockets_are_the_only_ones() {
        let options = |profile, unix_sockets| FilterOptions {
            profile,
            network: true,
            unix_sockets,
            isolation: Isolation::Namespaces,
        };
        let count = |options| refused_socket_pairs(options).unwrap().len();
        assert_eq!(count(options(SandboxProfile::Workspace, true)), 1);
        assert_eq!(count(options(SandboxProfile::Workspace, false)), 15);
        assert_eq!(count(options(SandboxProfile::ReadOnly, true)), 15);
    }
}
