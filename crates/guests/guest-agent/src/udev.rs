//! The guest's udevd, for what scripts expect of it: `/dev/disk`, `udevadm`, and
//! drives that come later.
//!
//! The guest's udevd is that of its root, with the root's rules but those of [`MASKED`]. It is
//! started once the drives are there, and has looked at them before the command starts. From then
//! on it sleeps until the kernel announces something: it does not watch who writes to a drive, as
//! Debian's rules have it, because its reads from the drive would be among the experiment's I/Os.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
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

/// Folders of packages' rules. The second is the first where `/lib` is a link.
const RULES: [&str; 2] = ["/usr/lib/udev/rules.d", "/lib/udev/rules.d"];

/// Folder in which a link to nothing takes the place of a package's rules of the same name
/// (udev(7)). Rules in `/etc/udev/rules.d` come before it: what a user has written there stays.
const MASKS: &str = "/run/udev/rules.d";

/// Packages' rules that do not belong in a guest, without their ending, by the reason. Every other
/// rule of a root stays: programs of device-mapper, for one, wait for theirs.
const MASKED: [&[&str]; 6] = [
    // udevd reads a drive again whenever a program has written to it, or gives it other settings.
    &["60-block", "90-iocost"],
    // Names and addresses of interfaces are the experiment's, and are there already.
    &[
        "60-infiniband",
        "73-special-net-names",
        "75-net-description",
        "80-ifupdown",
        "80-net-name-slot",
        "80-net-setup-link",
        "81-net-bridge",
        "81-net-dhcp",
        "82-net-auto-link-local",
        "84-nm-drivers",
        "85-nm-unmanaged",
        "90-nm-cloud-setup",
        "90-nm-thunderbolt",
    ],
    // Nobody sits before a guest: seats, their screens and keyboards, sound, batteries.
    &[
        "60-autosuspend",
        "60-drm",
        "60-evdev",
        "60-fido-id",
        "60-input-id",
        "60-persistent-alsa",
        "60-persistent-hidraw",
        "60-persistent-input",
        "60-persistent-v4l",
        "60-sensor",
        "65-libwacom",
        "70-camera",
        "70-joystick",
        "70-mouse",
        "70-power-switch",
        "70-printers",
        "70-touchpad",
        "70-uaccess",
        "71-power-switch-proliant",
        "71-seat",
        "73-seat-late",
        "78-sound-card",
        "90-alsa-restore",
        "90-console-setup",
        "90-pipewire-alsa",
        "90-vconsole",
    ],
    // Hardware that no guest has: udevd would read them at each boot.
    &[
        "40-vm-hotadd",
        "50-firmware",
        "60-cdrom_id",
        "60-dmi-id",
        "60-persistent-storage-mtd",
        "60-persistent-storage-tape",
        "60-serial",
        "60-tpm-udev",
        "70-memory",
        "75-probe_mtd",
        "80-debian-compat",
    ],
    // Arrays, volumes and controllers of other machines come when the experiment asks for them.
    &[
        "64-md-raid-assembly",
        "65-md-incremental",
        "69-dm-lvm-metad",
        "69-lvm",
        "69-lvm-metad",
        "70-nvmf-autoconnect",
        "71-nvmf-iopolicy-netapp",
    ],
    // Units of systemd, which does not run, and the clock, which is set.
    &["85-hwclock", "96-e2scrub", "99-systemd"],
];

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
    mask(&RULES, Path::new(MASKS))?;
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

/// Puts links to nothing into the folder `masks`, for the rules of [`MASKED`] in `folders`.
fn mask(folders: &[&str], masks: &Path) -> Result<(), AgentError> {
    for folder in folders {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let rule = name.to_str().and_then(|name| name.strip_suffix(".rules"));
            if !rule.is_some_and(|rule| MASKED.iter().any(|names| names.contains(&rule))) {
                continue;
            }
            let place = masks.join(&name);
            let error = |e| AgentError::new("make the link", place.display().to_string(), e);
            fs::create_dir_all(masks).map_err(error)?;
            match symlink("/dev/null", &place) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(error(e)),
                _ => {}
            }
        }
    }
    Ok(())
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
    fn rules_are_masked_by_name_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (rules, masks) = (folder.path().join("rules"), folder.path().join("run/rules"));
        fs::create_dir(&rules).unwrap();
        for name in ["60-block", "55-dm", "95-dm-notify", "71-seat", "10-of-the-user"] {
            fs::write(rules.join(name).with_extension("rules"), "KERNEL==\"x\"\n").unwrap();
        }
        fs::write(rules.join("60-block.txt"), "").unwrap();
        let rules = rules.to_str().unwrap();
        // Twice, as where one folder is a link to the other.
        mask(&[rules, "/nowhere", rules], &masks).unwrap();
        let entries = fs::read_dir(&masks).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["60-block.rules", "71-seat.rules"]);
        assert_eq!(fs::read_link(masks.join(&names[0])).unwrap(), Path::new("/dev/null"));
        assert_eq!(fs::read_dir(rules).unwrap().count(), 6, "the root stays as it is");
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
