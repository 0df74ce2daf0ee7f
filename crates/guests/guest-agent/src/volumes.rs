//! Drives whose file systems are folders of a container's root. An empty drive gets one, with what the image has
//! in the folder, as engines fill a new volume (docs.docker.com, "Populate a volume using a container").
//!
//! The files lie in a folder of the file system, so that no `lost+found` is among them. That folder gets its
//! name once all of it is on the drive: a power cut before leaves a drive that is filled anew.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{chown, lchown, symlink, DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sys::stat::{mknod, utimensat, Mode, SFlag, UtimensatFlags};
use nix::sys::time::TimeSpec;
use stasis_channel::Volume;

use crate::AgentError;

/// The folder of the files in a volume's file system, and its name until it is whole.
const FILES: &str = "volume";
const HALF: &str = "volume.new";
/// Mount point while a volume is looked at.
const PLACE: &str = "/.stasis";
/// Bytes of a drive that are looked at: all marks of file systems are among them.
const START: usize = 128 << 10;

/// Marks of file systems: the kernel's name, and what is where (ext4: `s_magic` of the superblock at 1024; XFS:
/// `sb_magicnum`; Btrfs: `magic` of the superblock at 64 KiB).
const MARKS: [(&str, usize, &[u8]); 3] =
    [("ext4", 1080, &[0x53, 0xef]), ("xfs", 0, b"XFSB"), ("btrfs", 0x1_0040, b"_BHRfS_M")];

/// Mounts the volumes of a job; `tools`: the folder of mke2fs and its libraries.
pub(crate) fn mount_all(volumes: &[Volume], tools: Option<&File>) -> Result<(), AgentError> {
    volumes.iter().try_for_each(|volume| one(volume, tools))
}

fn one(volume: &Volume, tools: Option<&File>) -> Result<(), AgentError> {
    let device = format!("/dev/{}", volume.device);
    let kind = match kind_of(&device)? {
        Some(kind) => kind,
        None => {
            make_file_system(&device, tools)?;
            "ext4"
        }
    };
    make_folder(PLACE)?;
    let flags = MsFlags::MS_NOATIME;
    mount(Some(device.as_str()), PLACE, Some(kind), flags, None::<&str>)
        .map_err(|e| AgentError::new("mount the volume", format!("{kind} of {device}"), e))?;
    let files = Path::new(PLACE).join(FILES);
    let filled = if files.is_dir() { Ok(()) } else { fill(Path::new(&volume.path), &files) };
    let bound = filled.and_then(|()| {
        fs::create_dir_all(&volume.path)
            .map_err(|e| AgentError::new("make the folder", &volume.path, e))?;
        let bind = MsFlags::MS_BIND;
        mount(Some(&files), volume.path.as_str(), None::<&str>, bind, None::<&str>)
            .map_err(|e| AgentError::new("mount the volume on", &volume.path, e))
    });
    // The file system stays where it is bound.
    let _ = umount2(PLACE, MntFlags::MNT_DETACH);
    let _ = fs::remove_dir(PLACE);
    bound
}

fn make_folder(path: &str) -> Result<(), AgentError> {
    fs::create_dir_all(path).map_err(|e| AgentError::new("make the folder", path, e))
}

/// The kind of a drive's file system; None where the drive is empty.
fn kind_of(device: &str) -> Result<Option<&'static str>, AgentError> {
    let mut start = Vec::new();
    let read = File::open(device).and_then(|file| file.take(START as u64).read_to_end(&mut start));
    read.map_err(|e| AgentError::new("read the volume", device, e))?;
    known(&start).map_err(|()| {
        let found = io::Error::other(
            "its first bytes are neither zeroes nor a file system of ext4, XFS or Btrfs",
        );
        AgentError::new("use as a volume", device, found)
    })
}

/// The kind of the file system that begins with these bytes; an error where they are anything else.
fn known(start: &[u8]) -> Result<Option<&'static str>, ()> {
    let has = |at: usize, mark: &[u8]| start.get(at..at + mark.len()) == Some(mark);
    match MARKS.iter().find(|(_, at, mark)| has(*at, mark)) {
        Some((kind, _, _)) => Ok(Some(kind)),
        None if start.iter().all(|byte| *byte == 0) => Ok(None),
        None => Err(()),
    }
}

/// Makes a file system of ext4 on a drive, by the program that lies beside the images.
fn make_file_system(device: &str, tools: Option<&File>) -> Result<(), AgentError> {
    let error = |e: io::Error| AgentError::new("make a file system on", device, e);
    let tools = tools.ok_or_else(|| error(io::Error::other("the guest has no mke2fs")))?;
    make_folder(PLACE)?;
    let from = format!("/proc/self/fd/{}", tools.as_raw_fd());
    let bind = |from: &str, to: &str| {
        mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(io::Error::from)
    };
    let devices = format!("{PLACE}/dev");
    bind(&from, PLACE).map_err(error)?;
    let output = bind("/dev", &devices).and_then(|()| {
        let mut command = Command::new("/sbin/mke2fs");
        command.args(["-q", "-t", "ext4", device]).env_clear().stdin(Stdio::null());
        // SAFETY: system calls only (signal-safety(7)), on constants.
        unsafe {
            use std::os::unix::process::CommandExt;
            command.pre_exec(|| {
                nix::unistd::chroot(PLACE)?;
                Ok(nix::unistd::chdir("/")?)
            });
        }
        command.output()
    });
    let _ = umount2(devices.as_str(), MntFlags::empty());
    let _ = umount2(PLACE, MntFlags::empty());
    let output = output.map_err(error)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(error(io::Error::other(text.trim().to_owned())))
        }
    }
}

/// Fills a new volume with what the image has in the folder `from`.
fn fill(from: &Path, files: &Path) -> Result<(), AgentError> {
    let half = files.with_file_name(HALF);
    let error = |e: io::Error| AgentError::new("fill the volume of", from.display().to_string(), e);
    if half.exists() {
        fs::remove_dir_all(&half).map_err(error)?;
    }
    fs::DirBuilder::new().mode(0o755).create(&half).map_err(error)?;
    if from.is_dir() {
        copy_folder(from, &half).map_err(error)?;
    }
    let place = File::open(PLACE).map_err(error)?;
    nix::unistd::syncfs(&place).map_err(|e| error(e.into()))?;
    fs::rename(&half, files).map_err(error)?;
    nix::unistd::syncfs(&place).map_err(|e| error(e.into()))
}

/// Copies a folder with all that is in it, and its rights, to one that is there. Names of one file stay that;
/// extended attributes are not kept.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let mut names: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    let mut folders = vec![(from.to_owned(), to.to_owned())];
    let mut made = Vec::new();
    while let Some((from, to)) = folders.pop() {
        let mut entries = fs::read_dir(&from)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let meta = fs::symlink_metadata(&from)?;
            let kind = meta.file_type();
            if kind.is_dir() {
                fs::create_dir(&to)?;
                folders.push((from, to));
                continue;
            }
            if let Some(first) = names.get(&(meta.dev(), meta.ino())) {
                fs::hard_link(first, &to)?;
                continue;
            }
            if kind.is_symlink() {
                symlink(fs::read_link(&from)?, &to)?;
                lchown(&to, Some(meta.uid()), Some(meta.gid()))?;
            } else if kind.is_file() {
                fs::copy(&from, &to)?;
                keep_rights(&meta, &to)?;
            } else {
                let kind = match kind {
                    kind if kind.is_fifo() => SFlag::S_IFIFO,
                    kind if kind.is_char_device() => SFlag::S_IFCHR,
                    kind if kind.is_block_device() => SFlag::S_IFBLK,
                    // A socket without its program is nothing.
                    _ => continue,
                };
                mknod(&to, kind, Mode::empty(), meta.rdev())?;
                keep_rights(&meta, &to)?;
            }
            if meta.nlink() > 1 {
                names.insert((meta.dev(), meta.ino()), to);
            }
        }
        made.push((from, to));
    }
    // Their times change while they are filled.
    made.iter().try_for_each(|(from, to)| keep_rights(&fs::metadata(from)?, to))
}

fn keep_rights(meta: &fs::Metadata, to: &Path) -> io::Result<()> {
    chown(to, Some(meta.uid()), Some(meta.gid()))?;
    fs::set_permissions(to, meta.permissions())?;
    let time = TimeSpec::new(meta.mtime(), meta.mtime_nsec());
    let times = utimensat(nix::fcntl::AT_FDCWD, to, &time, &time, UtimensatFlags::FollowSymlink);
    times.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn file_systems_are_told_from_bytes() {
        let mut start = vec![0; START];
        assert_eq!(known(&start), Ok(None));
        assert_eq!(known(&[]), Ok(None));
        start[40] = 1;
        assert_eq!(known(&start), Err(()));
        for (kind, at, mark) in MARKS {
            let mut start = vec![0; START];
            start[at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(known(&start), Ok(Some(kind)));
        }
    }

    #[test]
    fn a_folder_is_copied_with_its_rights_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("from/a/b")).unwrap();
        fs::create_dir(at("to")).unwrap();
        fs::write(at("from/a/file"), "content").unwrap();
        fs::hard_link(at("from/a/file"), at("from/again")).unwrap();
        symlink("nowhere", at("from/link")).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("from/a/file", 0o640);
        mode("from/a", 0o1777);
        copy_folder(&at("from"), &at("to")).unwrap();
        let meta = |name: &str| fs::symlink_metadata(at(name)).unwrap();
        assert_eq!(fs::read_to_string(at("to/a/file")).unwrap(), "content");
        assert_eq!(meta("to/a/file").ino(), meta("to/again").ino());
        assert_eq!(fs::read_link(at("to/link")).unwrap(), Path::new("nowhere"));
        for name in ["a", "a/file", "a/b"] {
            let (from, to) = (meta(&format!("from/{name}")), meta(&format!("to/{name}")));
            let rights = |meta: fs::Metadata| (meta.mode(), meta.uid(), meta.gid(), meta.mtime());
            assert_eq!(rights(from), rights(to), "{name}");
        }
    }
}
