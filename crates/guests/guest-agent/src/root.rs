//! File systems: the kernel's own, the root, and at the end the drives'.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::mount::{umount2, MntFlags, MsFlags};

use stasis_channel::RootDevice;
use stasis_guest_root::TOOLS;

use crate::mounts::{below, folder, move_to, new};
use crate::wait::Announcements;
use crate::{in_place, AgentError};

/// Device of the root file system's image: the first legacy persistent-memory range.
const ROOT_DEVICE: &str = "/dev/pmem0";
pub(crate) const ROOT_NAME: &str = "pmem0";

/// Links below `/dev` that Linux programs expect beside the kernel's nodes
/// (Documentation/admin-guide/devices.txt, "Compulsory links").
const LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// Folder of programs' locks.
const LOCKS: &str = "/run/lock";

/// Mounts what is needed to find devices.
pub(crate) fn mount_kernel_files() -> Result<(), AgentError> {
    new("devtmpfs", "/dev", MsFlags::empty(), "mode=0755")?;
    new("sysfs", "/sys", MsFlags::empty(), "")
}

/// Mounts the root file system, read-only and executed in place, below a layer
/// in memory that takes what is written, and makes it the root of this process
/// and of the kernel's helpers. `device`: where the root is, if it is not in memory. `image`: the folder of
/// a container's files in the root's image; then the folder of programs for volumes is returned.
pub(crate) fn enter(
    announcements: &Announcements,
    device: Option<&RootDevice>,
    image: Option<&str>,
) -> Result<Option<File>, AgentError> {
    announcements.wait_for_new(ROOT_NAME)?;
    match device {
        None => below(ROOT_DEVICE, "/lower", "ext4", Some("dax"))?,
        Some(device) => {
            below(ROOT_DEVICE, "/beside", "ext4", Some("dax"))?;
            in_place::mount(device, announcements)?;
        }
    }
    new("tmpfs", "/upper", MsFlags::MS_NOATIME, "mode=0755")?;
    folder("/upper/files")?;
    folder("/upper/work")?;
    let lower = image.map_or("/lower".into(), |folder| format!("/lower/{folder}"));
    let layers = format!("lowerdir={lower},upperdir=/upper/files,workdir=/upper/work");
    new("overlay", "/new", MsFlags::MS_NOATIME, &layers)?;
    // Neither a container's image nor a root that is read in place was made for a guest.
    let beside = device.map(|_| "/beside").or(image.map(|_| "/lower"));
    let beside = beside.map(|place| in_place::make_folders("/new", place)).transpose()?;
    let tools = image.and_then(|_| File::open(format!("/lower/{TOOLS}")).ok());
    for (from, to) in [("/dev", "/new/dev"), ("/sys", "/new/sys")] {
        move_to(from, to)?;
    }
    nix::unistd::chdir("/new").map_err(|e| AgentError::new("enter", "/new", e))?;
    move_to("/new", "/")?;
    nix::unistd::chroot(".").map_err(|e| AgentError::new("enter", "the new root", e))?;
    nix::unistd::chdir("/").map_err(|e| AgentError::new("enter", "/", e))?;

    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    new("proc", "/proc", safe, "")?;
    // blktrace reads its traces from here.
    new("debugfs", "/sys/kernel/debug", safe, "mode=0700")?;
    cgroups(safe)?;
    folder("/dev/pts")?;
    new("devpts", "/dev/pts", MsFlags::MS_NOSUID, "gid=5,mode=0620,ptmxmode=0666")?;
    folder("/dev/shm")?;
    for (place, mode) in [
        ("/dev/shm", "mode=1777"),
        ("/run", "mode=0755"),
        ("/tmp", "mode=1777"),
        ("/results", "mode=0755"),
    ] {
        // A container finds in them what its image has.
        if image.is_none() || !["/run", "/tmp"].contains(&place) {
            folder(place)?;
            new("tmpfs", place, safe, mode)?;
        }
    }
    // /var/lock leads here, for everybody (Filesystem Hierarchy Standard 3.0, 5.9).
    folder(LOCKS)?;
    std::fs::set_permissions(LOCKS, Permissions::from_mode(0o1777))
        .map_err(|e| AgentError::new("set the rights of", LOCKS, e))?;
    for (place, target) in LINKS {
        symlink(target, place).map_err(|e| AgentError::new("make the link", place, e))?;
    }
    beside.map_or(Ok(()), |modules| in_place::complete(&modules))?;
    Ok(tools)
}

/// Mounts the hierarchy of cgroups, of kernels that have it (Documentation/admin-guide/cgroup-v2.rst).
fn cgroups(flags: MsFlags) -> Result<(), AgentError> {
    const PLACE: &str = "/sys/fs/cgroup";
    if !Path::new(PLACE).is_dir() {
        return Ok(());
    }
    new("cgroup2", PLACE, flags, "")
}

/// Unmounts every file system that lies on a device, as far as it lets itself:
/// one still in use is left to `sync`. Gives those.
pub(crate) fn unmount_drives(root: Option<&RootDevice>) -> Vec<PathBuf> {
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    let mut places = mounted_devices(&mounts, root);
    places.reverse();
    places.retain(|place| umount2(place, MntFlags::empty()).is_err());
    places
}

/// Returns the mount points of file systems on devices, in the order of mounting, from the text of
/// `/proc/self/mounts` (fstab(5): blanks in it are octal escapes).
fn mounted_devices(mounts: &[u8], root: Option<&RootDevice>) -> Vec<PathBuf> {
    let root = root.map(|root| format!("/dev/{}", root.device)).unwrap_or_default();
    let not_a_drive = [ROOT_DEVICE.as_bytes(), root.as_bytes()];
    mounts
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut words = line.split(|byte| *byte == b' ');
            let (source, place) = (words.next()?, words.next()?);
            let is_drive = source.starts_with(b"/dev/") && !not_a_drive.contains(&source);
            is_drive.then(|| PathBuf::from(OsString::from_vec(unescape(place))))
        })
        .collect()
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                plain.push(byte);
                rest = &tail[3..];
            }
            _ => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drives_are_unmounted() {
        let mounts = b"/dev/vdb /lower xfs ro 0 0\n/dev/pmem0 /lower ext4 ro,dax 0 0\noverlay / overlay rw 0 0\n\
            /dev/nvme0n1 /mnt/a\\040b\\134 xfs rw 0 0\nproc /proc proc rw 0 0\n\
            /dev/mapper/x /mnt/a\\040b\\134/c ext4 rw 0 0\n\n/dev/short";
        let root = RootDevice { device: "vdb".into(), file_system: "xfs".into() };
        let drives = [PathBuf::from("/mnt/a b\\"), PathBuf::from("/mnt/a b\\/c")];
        assert_eq!(mounted_devices(mounts, Some(&root)), drives);
        assert_eq!(mounted_devices(mounts, None)[0], PathBuf::from("/lower"));
    }
}
