//! The guest's udevd, for what scripts expect of it: `/dev/disk`, `udevadm`, and
//! drives that come later.
//!
//! The guest's udevd is Debian's own, with the rules for storage alone (`customize.sh`). It is
//! started once the drives are there, and has looked at them before the command starts. From then
//! on it sleeps until the kernel announces something: it does not watch who writes to a drive, as
//! Debian's rules have it, because its reads from the drive would be among the experiment's I/Os.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::sys::socket::{recv, MsgFlags, SockProtocol};
use nix::unistd::Pid;
use stasis_channel::RootDevice;

use crate::root::ROOT_NAME;
use crate::wait::{listen, readable};
use crate::AgentError;

/// The daemon; the second name is a link to the first in Debian's packages.
const DAEMON: &str = "/usr/lib/systemd/systemd-udevd";

/// There while udevd has something to do.
const QUEUE: &str = "/run/udev/queue";

/// Longest time for udevd, in virtual time: it reads some 50 blocks of each drive.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts udevd and waits until it has looked at every block device but the root. A
/// guest without it goes without it. True unless it took too long.
pub(crate) fn start(root: Option<&RootDevice>) -> Result<bool, AgentError> {
    if !Path::new(DAEMON).exists() {
        return Ok(true);
    }
    let error = |e: io::Error| AgentError::new("start", DAEMON, e);
    let name = SocketAddr::from_abstract_name("stasis-udevd").map_err(error)?;
    let ready = UnixDatagram::bind_addr(&name).map_err(error)?;
    let done = listen(SockProtocol::NetlinkKObjectUEvent, PROCESSED)?;
    // Names of users and groups are looked up in files, for rules that no guest needs;
    // one worker, so that devices are always looked at in the same order.
    let mut command = Command::new(DAEMON);
    command
        .args(["--resolve-names=never", "--children-max=1"])
        .env_clear()
        .env("NOTIFY_SOCKET", "@stasis-udevd")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: setsid is async-signal-safe (signal-safety(7)) and allocates nothing.
    unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
    let daemon = command.spawn().map_err(error)?.id();
    let deadline = Instant::now() + TIMEOUT;
    if !readable(&ready, deadline, "udevd")? {
        return Ok(false);
    }
    drop(ready);
    let roots = [ROOT_NAME, root.map_or(ROOT_NAME, |root| root.device.as_str())];
    let in_time = announce(Path::new("/sys/class/block"), &roots, &done, deadline)?;
    // Its worker would go by itself, but after 3 s, in the midst of the experiment.
    for worker in children(daemon) {
        let _ = kill(worker, Signal::SIGTERM);
    }
    Ok(in_time)
}

/// The multicast group in which udevd announces the devices that it has processed (libudev's
/// monitor "udev").
const PROCESSED: u32 = 2;

/// Makes the kernel announce the block devices again, one by one, and waits for each.
fn announce(
    class: &Path,
    roots: &[&str],
    done: &OwnedFd,
    deadline: Instant,
) -> Result<bool, AgentError> {
    for device in block_devices(class, roots) {
        let file = device.join("uevent");
        let error = |e: io::Error| AgentError::new("announce", file.display().to_string(), e);
        let Ok(target) = device.canonicalize() else { continue };
        let Ok(path) = target.strip_prefix("/sys") else { continue };
        fs::write(&file, "add").map_err(error)?;
        loop {
            if !readable(done, deadline, "udevd")? {
                return Ok(false);
            }
            let mut message = [0; 8192];
            match recv(done.as_raw_fd(), &mut message, MsgFlags::empty()) {
                Ok(length) if is_about(path, &message[..length]) => break,
                Ok(_) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => {}
                Err(e) => return Err(error(e.into())),
            }
        }
    }
    // udevd announces a device before it has finished its records.
    while Path::new(QUEUE).exists() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(true)
}

/// The block devices but `roots`, which the root file system is on; disks before their partitions.
fn block_devices(class: &Path, roots: &[&str]) -> Vec<PathBuf> {
    let entries = fs::read_dir(class).into_iter().flatten();
    let mut devices: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| !roots.iter().any(|root| entry.file_name() == *root))
        .map(|entry| entry.path())
        .collect();
    devices.sort_unstable();
    devices
}

/// Returns whether a message of udevd's is about the device at `path` below `/sys`.
///
/// A message is a header and words `KEY=value`, each ended by a zero. The header
/// (systemd, src/libsystemd/sd-device/device-monitor.c, `monitor_netlink_header`) has
/// the words' place and length as its fourth and fifth field, native `u32`s after a name of
/// 8 bytes.
fn is_about(path: &Path, message: &[u8]) -> bool {
    let field = |at: usize| {
        let bytes = message.get(at..at + 4)?.first_chunk::<4>()?;
        usize::try_from(u32::from_ne_bytes(*bytes)).ok()
    };
    let (Some(place), Some(length)) = (field(16), field(20)) else { return false };
    let words = place.checked_add(length).and_then(|end| message.get(place..end));
    let wanted = path.as_os_str().as_encoded_bytes();
    message.starts_with(b"libudev\0")
        && words.is_some_and(|words| {
            words
                .split(|byte| *byte == 0)
                .filter_map(|word| word.strip_prefix(b"DEVPATH=/"))
                .any(|path| path == wanted)
        })
}

fn children(process: u32) -> Vec<Pid> {
    let list =
        fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok().map(Pid::from_raw)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: &[u8]) -> Vec<u8> {
        let mut message = b"libudev\0".to_vec();
        for field in [0xfeed_cafe_u32.to_be(), 40, 40, words.len() as u32, 1, 2, 3, 4] {
            message.extend_from_slice(&field.to_ne_bytes());
        }
        message.extend_from_slice(words);
        message
    }

    #[test]
    fn what_udevd_says_is_understood() {
        let drive = Path::new("devices/x/nvme0n1");
        let event = message(b"DEVPATH=/devices/x/nvme0n1\0ACTION=add\0");
        assert!(is_about(drive, &event));
        assert!(is_about(drive, &message(b"ACTION=add\0DEVPATH=/devices/x/nvme0n1\0")));
        assert!(!is_about(Path::new("devices/x/nvme0n1p1"), &event));
        assert!(!is_about(drive, &message(b"DEVPATH=/devices/x/nvme0n1p1\0")));
        for length in 0..event.len() {
            assert!(!is_about(drive, &event[..length]), "{length}");
        }
        let mut wrong = event.clone();
        wrong[16..24].fill(0xff);
        assert!(!is_about(drive, &wrong));
        let kernels = b"add@/devices/x/nvme0n1\0DEVPATH=/devices/x/nvme0n1\0";
        assert!(!is_about(drive, kernels));
    }

    #[test]
    fn the_root_is_left_alone_and_disks_come_first() {
        let class = tempfile::tempdir().unwrap();
        for name in ["vda1", "nvme0n1p1", "pmem0", "nvme0n1", "vda", "vdb"] {
            fs::create_dir(class.path().join(name)).unwrap();
        }
        let devices = block_devices(class.path(), &["pmem0", "vdb"]);
        let names: Vec<_> = devices.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["nvme0n1", "nvme0n1p1", "vda", "vda1"]);
    }
}
