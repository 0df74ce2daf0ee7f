//! Work of `/init` before the machine is saved, and right after.

use super::{port, processors, InsideError};
use rustix::mount::MountFlags;
use rustix::process::{setrlimit, Resource, Rlimit};
use rustix::system::finit_module;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Kernel settings: as little as can be wakes up by itself, and pages may not move
/// (see `memory.rs`).
const SETTINGS: [(&str, &str); 13] = [
    // No throttling of real-time threads, hence no timer for it.
    ("/proc/sys/kernel/sched_rt_runtime_us", "-1"),
    // No refresh of memory statistics, in seconds.
    ("/proc/sys/vm/stat_interval", "1000000"),
    // No periodic write-back.
    ("/proc/sys/vm/dirty_writeback_centisecs", "0"),
    ("/proc/sys/vm/compaction_proactiveness", "0"),
    ("/proc/sys/vm/compact_unevictable_allowed", "0"),
    ("/proc/sys/vm/overcommit_memory", "1"),
    ("/proc/sys/kernel/randomize_va_space", "0"),
    ("/proc/sys/kernel/hung_task_timeout_secs", "0"),
    ("/proc/sys/kernel/panic_on_oops", "1"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always"),
    ("/sys/kernel/mm/transparent_hugepage/defrag", "always"),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag", "0"),
    ("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "4294967295"),
];

/// Mounts, settings and KVM: up to where the machine is saved.
pub(super) fn before_pause() -> Result<(), InsideError> {
    port::allow().map_err(failed("use the ports"))?;
    end_where_it_crashes().map_err(failed("watch for crashes"))?;
    for (kind, target) in
        [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/tmp")]
    {
        mount(kind, target).map_err(failed(format!("mount {target}")))?;
    }
    for (path, value) in SETTINGS {
        // Kernels have some and not others.
        let _ = fs::write(path, value);
    }
    raise_limits();
    load(Path::new("/modules/kvm"))?;
    processors::hold_kvm_awake().map_err(failed("use /dev/kvm"))?;
    processors::start_others().map_err(failed("start the other processors"))
}

/// Makes a crash of this process end the machine with a message. The kernel would panic, as process
/// 1 is gone, and on some of QEMU's versions then only halt.
fn end_where_it_crashes() -> io::Result<()> {
    extern "C" fn crashed(signal: libc::c_int) {
        port::crashed(signal);
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        // SAFETY: all-zero is a valid sigaction; the handler writes to ports and does
        // not return.
        let set = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = crashed as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Loads the drivers of passed drives and returns the first `count` of them.
pub(super) fn load_drives(count: usize) -> Result<Vec<PathBuf>, InsideError> {
    // Without drives the drivers are left out: they take time.
    if count == 0 {
        return Ok(Vec::new());
    }
    load(Path::new("/modules/drives"))?;
    let mut drives = vec![None; count];
    for entry in fs::read_dir("/sys/block").map_err(failed("list drives"))?.flatten() {
        let serial = fs::read_to_string(entry.path().join("serial")).unwrap_or_default();
        let index = serial.trim().strip_prefix("stasis-").and_then(|rest| rest.parse().ok());
        if let Some(place) = index.and_then(|index: usize| drives.get_mut(index)) {
            *place = Some(Path::new("/dev").join(entry.file_name()));
        }
    }
    drives
        .into_iter()
        .enumerate()
        .map(|(index, drive)| {
            let missing = || failed(format!("find drive {index}"))(io::ErrorKind::NotFound.into());
            drive.ok_or_else(missing)
        })
        .collect()
}

/// Loads the modules of a folder in the order of their names.
fn load(folder: &Path) -> Result<(), InsideError> {
    let list = fs::read_dir(folder).map_err(failed("list modules"))?;
    let mut paths: Vec<PathBuf> = list.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let file = File::open(&path).map_err(failed("open a module"))?;
        finit_module(&file, c"", 0)
            .map_err(|error| failed(format!("load module {}", path.display()))(error.into()))?;
        // Its memory is wanted for other things.
        let _ = fs::remove_file(&path);
    }
    Ok(())
}

fn mount(kind: &str, target: &str) -> io::Result<()> {
    Ok(rustix::mount::mount(kind, target, kind, MountFlags::empty(), None)?)
}

fn raise_limits() {
    for (resource, limit) in [(Resource::Memlock, None), (Resource::Nofile, Some(1 << 20))] {
        // A refusal leaves the default.
        let _ = setrlimit(resource, Rlimit { current: limit, maximum: limit });
    }
}

fn failed(step: impl Into<String>) -> impl FnOnce(io::Error) -> InsideError {
    move |source| InsideError::Start { step: step.into(), source }
}
