//! Rights of the server once everything is open: few, so that a bug in it is of little use to a
//! guest.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    path_beneath_rules, Access, AccessFs, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, ABI,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::ServeError;

/// The calls that serving takes: I/O on open files, memory, threads, waiting, sockets, and opening
/// media that are attached later.
const CALLS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_ioctl,
    libc::SYS_listen,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_socket,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    libc::SYS_tgkill,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Returns whether the user that this is, or has become, may make files in `folder`.
pub fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Becomes `user`, a name of /etc/passwd or `UID:GID`, in all threads.
///
/// # Errors
/// If there is no such user, or this one may not become another.
pub fn become_user(user: &str) -> Result<(), ServeError> {
    let failed = |source| ServeError::System { action: "become another user", source };
    let missing = || {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no user `{user}` in /etc/passwd"))
    };
    let ids = match user.split_once(':') {
        Some((uid, gid)) => uid.parse().ok().zip(gid.parse().ok()),
        None => std::fs::read_to_string("/etc/passwd").map_err(failed)?.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(user);
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            found.then_some((uid, gid))
        }),
    };
    let (uid, gid): (u32, u32) = ids.ok_or_else(|| failed(missing()))?;
    // SAFETY: plain calls; the C library's apply to all threads.
    let results = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setresgid(gid, gid, gid),
            libc::setresuid(uid, uid, uid),
        ]
    };
    match results {
        [0, 0, 0] => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

fn failed(error: &dyn std::fmt::Display) -> ServeError {
    ServeError::System {
        action: "confine the server (unconfined = true goes without)",
        source: io::Error::other(error.to_string()),
    }
}

/// Leaves of the file system only the content of `folders`, to this thread and all that it starts:
/// to be called before the others are started. A kernel without Landlock is reported, and left as
/// it is.
///
/// # Errors
/// If the kernel refuses a function that it reports to have.
pub fn landlock(folders: &[PathBuf]) -> Result<(), ServeError> {
    let status = restrict(folders).map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        crate::log::warn("confinement", "this kernel has no Landlock; files stay reachable");
    }
    Ok(())
}

/// Leaves of the kernel only the calls that serving takes, to all threads.
///
/// # Errors
/// If the kernel refuses.
pub fn calls() -> Result<(), ServeError> {
    let filter = filter().map_err(|error| failed(&error))?;
    seccompiler::apply_filter_all_threads(&filter).map_err(|error| failed(&error))
}

fn restrict(folders: &[PathBuf]) -> Result<RestrictionStatus, landlock::RulesetError> {
    // Linux 5.19; rights that an older kernel does not support are left out.
    let abi = ABI::V2;
    // The last one lets ordered disks distinguish a failure of the host from one of the program. Maps
    // of the files of results have random seeds.
    let read: &[&Path] = &[
        Path::new("/dev/random"),
        Path::new("/dev/urandom"),
        Path::new("/proc/self"),
        Path::new("/sys"),
        Path::new("/etc"),
        Path::new("/proc/sys/kernel/random/boot_id"),
    ];
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(folders, AccessFs::from_all(abi)))?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(abi)))?
        .restrict_self()
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        CALLS.iter().map(|&call| (call, Vec::new())).collect();
    // An unexpected system call fails as if it were not permitted: a message is better than a drive
    // that is gone.
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, TargetArch::x86_64)?.try_into()
}
