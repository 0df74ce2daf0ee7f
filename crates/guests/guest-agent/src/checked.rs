//! Disks that a check looks at: made what a power cut left before it, and let go of after it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{symlink, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use stasis_channel::CheckedDisk;

use crate::AgentError;

/// `BLKRRPART` of linux/fs.h: `_IO(0x12, 95)`.
const READ_PARTITIONS: libc::c_ulong = 0x125f;
/// `BLKFLSBUF` of linux/fs.h: `_IO(0x12, 97)`.
const DROP_CACHES: libc::c_ulong = 0x1261;
/// `BLKRESETZONE` of linux/blkzoned.h: `_IOW(0x12, 131, struct blk_zone_range)`.
const RESET_ZONES: libc::c_ulong = 0x4010_1283;
/// `BLKCLOSEZONE` of linux/blkzoned.h: `_IOW(0x12, 135, struct blk_zone_range)`.
const CLOSE_ZONE: libc::c_ulong = 0x4010_1287;
/// `BLKGETSIZE64` of linux/fs.h: `_IOR(0x12, 114, size_t)`.
const SIZE: libc::c_ulong = 0x8008_1272;

/// Unit of the kernel's zone addresses (bytes).
const SECTOR: u64 = 512;
/// Size of a write that brings a zone's pointer to its place (bytes).
const PIECE: usize = 256 << 10;
/// The alignment of memory for direct I/O (bytes).
const PAGE: usize = 4096;

/// `struct blk_zone_range` of linux/blkzoned.h.
#[repr(C)]
struct ZoneRange {
    sector: u64,
    sectors: u64,
}

/// Makes the disks as the machine describes them: each under its name, its partitions read again,
/// its zones' pointers in their places.
pub(crate) fn prepare(disks: &[CheckedDisk]) -> Result<(), AgentError> {
    for disk in disks {
        let node = Path::new("/dev").join(&disk.name);
        let error = |e: io::Error| AgentError::new("prepare", node.display().to_string(), e);
        let serial = serial(&disk.name).unwrap_or_default();
        if !disk.serial.is_empty() && serial != disk.serial {
            let subject = format!("{} with the serial number {}", node.display(), disk.serial);
            let found = io::Error::other(format!("the kernel has {serial:?} there"));
            return Err(AgentError::new("find", subject, found));
        }
        if let Some(alias) = &disk.alias {
            match symlink(&disk.name, Path::new("/dev").join(alias)) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(error(e)),
                _ => {}
            }
        }
        let file = OpenOptions::new().read(true).write(true).open(&node).map_err(error)?;
        control(&file, DROP_CACHES).map_err(error)?;
        if disk.zoned {
            write_zones(&node, disk).map_err(error)?;
        } else {
            // A disk that can have no partitions returns EINVAL.
            match control(&file, READ_PARTITIONS) {
                Err(e) if e.raw_os_error() != Some(libc::EINVAL) => return Err(error(e)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The disk's own serial number or its controller's.
fn serial(name: &str) -> Option<String> {
    let block = Path::new("/sys/block").join(name);
    let text = fs::read_to_string(block.join("serial"))
        .or_else(|_| fs::read_to_string(block.join("device/serial")));
    text.ok().map(|text| text.trim().to_owned())
}

fn control(file: &File, request: libc::c_ulong) -> io::Result<()> {
    // SAFETY: these requests take no argument.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _) };
    Errno::result(result).map(drop).map_err(Into::into)
}

fn control_zones(file: &File, request: libc::c_ulong, start: u64, length: u64) -> io::Result<()> {
    let range = ZoneRange { sector: start / SECTOR, sectors: length / SECTOR };
    // SAFETY: the ioctl reads a `blk_zone_range`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, &range) };
    Errno::result(result).map(drop).map_err(Into::into)
}

/// Writes to each zone what it holds already: so its pointer comes to its place. After a power cut
/// no zone is open.
fn write_zones(node: &Path, disk: &CheckedDisk) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_DIRECT).open(node)?;
    let mut memory = vec![0; PIECE + PAGE];
    let skip = memory.as_ptr().align_offset(PAGE);
    let size = size(&file)?;
    for &(start, written) in &disk.written {
        let end = start.checked_add(written).filter(|end| *end <= size);
        let end = end.ok_or_else(|| io::Error::other("a zone ends behind the disk"))?;
        let mut at = start;
        while at < end {
            let length = PIECE.min((end - at) as usize);
            let piece = &mut memory[skip..skip + length];
            file.read_exact_at(piece, at)?;
            file.write_all_at(piece, at)?;
            at += length as u64;
        }
        let zone = zone_size(&disk.name)?;
        // A full zone is closed already; one that ends at its capacity is full.
        let _ = control_zones(&file, CLOSE_ZONE, start, zone);
    }
    Ok(())
}

fn size(file: &File) -> io::Result<u64> {
    let mut size = 0u64;
    // SAFETY: the ioctl writes a `u64`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), SIZE as _, &mut size) };
    Errno::result(result)?;
    Ok(size)
}

fn zone_size(name: &str) -> io::Result<u64> {
    let path = format!("/sys/block/{name}/queue/chunk_sectors");
    let sectors = fs::read_to_string(path)?.trim().parse::<u64>().map_err(io::Error::other)?;
    Ok(sectors * SECTOR)
}

/// Makes zones empty for the next check, after nobody uses the disks any more; returns the
/// remaining users, and the remains of the check.
pub(crate) fn let_go(disks: &[CheckedDisk]) -> Vec<String> {
    let mut remains = leftovers(Path::new("/"), disks);
    for disk in disks {
        let node = Path::new("/dev").join(&disk.name);
        let mut options = OpenOptions::new();
        // Exclusively: a disk that a file system, an array or a swap area has claimed cannot be
        // opened so.
        let opened =
            options.read(true).write(true).custom_flags(libc::O_EXCL | libc::O_CLOEXEC).open(&node);
        match opened {
            Ok(file) if disk.zoned => {
                let reset = size(&file).and_then(|size| control_zones(&file, RESET_ZONES, 0, size));
                if let Err(e) = reset {
                    remains.push(format!("the zones of {} cannot be reset: {e}", node.display()));
                }
            }
            Ok(_) => {}
            Err(e) if remains.is_empty() => {
                remains.push(format!("{} is still in use: {e}", node.display()));
            }
            Err(_) => {}
        }
    }
    remains
}

/// Returns the kernel state that a check has left below `root`: swap areas, loop devices, mapped
/// devices, arrays, and all else that holds a disk.
fn leftovers(root: &Path, disks: &[CheckedDisk]) -> Vec<String> {
    let mut remains = Vec::new();
    let swaps = fs::read_to_string(root.join("proc/swaps")).unwrap_or_default();
    for area in swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()) {
        remains.push(format!("{area} is still a swap area"));
    }
    let block = root.join("sys/block");
    for device in names(&block) {
        let at = block.join(&device);
        let attribute = |file: &str| {
            let text = fs::read_to_string(at.join(file)).unwrap_or_default();
            text.trim().to_owned()
        };
        if device.starts_with("loop") && at.join("loop").is_dir() {
            remains.push(format!("/dev/{device} still has {}", attribute("loop/backing_file")));
        } else if device.starts_with("dm-") {
            remains.push(format!("/dev/mapper/{} is still there", attribute("dm/name")));
        } else if at.join("md").is_dir()
            && !matches!(attribute("md/array_state").as_str(), "" | "clear")
        {
            remains.push(format!(
                "/dev/{device} is still assembled ({})",
                attribute("md/array_state")
            ));
        }
    }
    for disk in disks {
        let at = block.join(&disk.name);
        let parts = names(&at).into_iter().filter(|name| at.join(name).join("partition").exists());
        let places = parts.map(|name| (at.join(&name), name));
        let own = (at.clone(), disk.name.clone());
        for (place, name) in std::iter::once(own).chain(places) {
            for holder in names(&place.join("holders")) {
                // Reported above, except for other kinds of holders.
                if !remains.iter().any(|text| text.contains(&holder)) && !holder.starts_with("dm-")
                {
                    remains.push(format!("/dev/{holder} still holds /dev/{name}"));
                }
            }
        }
    }
    remains
}

/// The names in a folder, in order; none where it is not there.
fn names(folder: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_still_holds_a_disk_is_told() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let disk = CheckedDisk { name: "vda".into(), ..CheckedDisk::default() };
        put("proc/swaps", "Filename Type Size Used Priority\n");
        put("sys/block/vda/size", "8");
        put("sys/block/loop0/size", "0");
        put("sys/block/md0/md/array_state", "clear\n");
        put("sys/block/vda/vda1/partition", "1");
        assert!(leftovers(root.path(), std::slice::from_ref(&disk)).is_empty());

        put("proc/swaps", "Filename Type Size Used Priority\n/dev/vda2 partition 4 0 -2\n");
        put("sys/block/loop1/loop/backing_file", "/mnt/image\n");
        put("sys/block/dm-0/dm/name", "vg-home\n");
        put("sys/block/md127/md/array_state", "active\n");
        put("sys/block/vda/holders/md127", "");
        put("sys/block/vda/vda1/holders/bcache0", "");
        put("sys/block/vda/vda1/holders/dm-0", "");
        let reported = leftovers(root.path(), &[disk]);
        let expected = [
            "/dev/vda2 is still a swap area",
            "/dev/mapper/vg-home is still there",
            "/dev/loop1 still has /mnt/image",
            "/dev/md127 is still assembled (active)",
            "/dev/bcache0 still holds /dev/vda1",
        ];
        assert_eq!(reported, expected);
    }
}
