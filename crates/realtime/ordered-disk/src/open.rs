//! Making and opening disks in files of the host.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, IFlags};
use rustix::io::Errno;

use crate::host::HostFile;
use crate::record::{MAX_DATA, PAGE};
use crate::recover::{self, Unrecoverable};
use crate::state::State;
use crate::superblock::{NoSuperblock, Superblock, SUPERBLOCKS, UNKNOWN};
use crate::{OpenError, Options, OrderedDisk, MIN_LOG};

/// Findings at the opening of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Bytes of the log that were written to the disk's own file.
    pub replayed: u64,
    /// Bytes of the log that were cut off: records of an epoch without its end.
    pub cut: u64,
}

/// Path of the log of the disk in `image`.
pub fn log_path(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".log");
    name.into()
}

impl OrderedDisk {
    /// Makes the file of a disk of `capacity` bytes, all zeroes.
    ///
    /// # Errors
    /// An [`OpenError`]: the file is there already, or the host's.
    pub fn create(image: &Path, capacity: u64) -> Result<(), OpenError> {
        check_capacity(image, capacity)?;
        let host = |action| move |source| OpenError::Host { path: image.into(), action, source };
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).open(image).map_err(host("make it"))?;
        file.set_len(capacity).map_err(host("give it its size"))?;
        file.sync_all().map_err(host("write it"))?;
        sync_folder(image)
    }

    /// Opens the disk in `image`, any plain image, and makes it a log where it
    /// has none. After a crash this is all that is to be done.
    ///
    /// # Errors
    /// An [`OpenError`] that names the file, the cause, and the remedy.
    pub fn open(image: &Path, options: Options) -> Result<(Self, Recovered), OpenError> {
        let (disk, capacity) = open_locked(image)?;
        check_capacity(image, capacity)?;
        let path = log_path(image);
        let host = |path: &Path, action| {
            let path = path.to_path_buf();
            move |source| OpenError::Host { path, action, source }
        };
        if !path.exists() {
            make_log(&path, capacity, options.log_bytes)?;
        }
        let (log, length) = open_locked(&path)?;
        let recovery = recover::recover(&log, length, stasis_media::boot().unwrap_or(UNKNOWN))
            .map_err(|why| match why {
                Unrecoverable::Superblock(NoSuperblock::Newer(version)) => {
                    OpenError::Newer { log: path.clone(), version }
                }
                Unrecoverable::Superblock(NoSuperblock::Damaged) => {
                    OpenError::NoLog { log: path.clone(), image: image.into() }
                }
                Unrecoverable::Truncated { length, expected } => {
                    OpenError::Truncated { log: path.clone(), length, expected }
                }
                Unrecoverable::Damaged { offset } => {
                    OpenError::Damaged { log: path.clone(), offset }
                }
                Unrecoverable::Io(source) => host(&path, "read it")(source),
            })?;
        let expected = recovery.plan.superblock.capacity;
        if expected != capacity {
            let (log, image) = (path, image.into());
            return Err(OpenError::OtherDisk { log, image, capacity, expected });
        }
        let recovered = Recovered { replayed: recovery.replayed, cut: recovery.cut };
        let superblock = recover::apply(&log, &disk, recovery)
            .map_err(host(image, "write to it, or to its log, what the log holds"))?;
        let limit = options.max_lag_bytes.clamp(MAX_DATA, superblock.ring / 2);
        let options = Options { max_lag_bytes: limit, ..options };
        let names = (path.display().to_string(), image.display().to_string());
        let disk = Self::start((log, &names.0), (disk, &names.1), State::new(superblock), options)
            .map_err(host(image, "start its threads"))?;
        Ok((disk, recovered))
    }
}

fn check_capacity(image: &Path, capacity: u64) -> Result<(), OpenError> {
    match capacity > 0 && capacity.is_multiple_of(stasis_media::SECTOR) && capacity < 1 << 62 {
        true => Ok(()),
        false => Err(OpenError::Capacity { path: image.into(), capacity }),
    }
}

/// Opens a file that nobody else uses, and its length.
fn open_locked(path: &Path) -> Result<(File, u64), OpenError> {
    let host = |action| move |source| OpenError::Host { path: path.into(), action, source };
    // A device or pipe could wait or do something when it is opened.
    let found = fs::metadata(path).map_err(host("open it"))?;
    if !found.is_file() {
        return Err(OpenError::NoFile(path.into()));
    }
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(path).map_err(host("open it"))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(OpenError::Locked(path.into())),
        Err(error) => return Err(host("lock it")(error.into())),
    }
    let length = file.metadata().map_err(host("read its size"))?.len();
    Ok((file, length))
}

/// Makes an empty log, whole or not at all. All of it is written once: a sync
/// then has no metadata of the host's file system to wait for.
fn make_log(path: &Path, capacity: u64, size: u64) -> Result<(), OpenError> {
    if size < MIN_LOG || !size.is_multiple_of(PAGE) || size >= 1 << 60 {
        return Err(OpenError::LogSize(size));
    }
    let mut name = OsString::from(path);
    name.push(".new");
    let new = PathBuf::from(name);
    let made = write_log(&new, capacity, size).and_then(|()| fs::rename(&new, path));
    made.map_err(|source| {
        // Half a log takes up space and is of no use.
        let _ = fs::remove_file(&new);
        OpenError::Host { path: path.into(), action: "make the log", source }
    })?;
    sync_folder(path)
}

fn write_log(path: &Path, capacity: u64, ring: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).open(path)?;
    // On btrfs: written in place, so that it never lacks space later. Other
    // file systems do so anyway, and some refuse the flag.
    if let Ok(flags) = rustix::fs::ioctl_getflags(&file) {
        let _ = rustix::fs::ioctl_setflags(&file, flags | IFlags::NOCOW);
    }
    let zeroes = vec![0; MAX_DATA as usize];
    let mut at = 0;
    while at < SUPERBLOCKS + ring {
        let part = (SUPERBLOCKS + ring - at).min(MAX_DATA);
        file.write(at, &[&zeroes[..part as usize]])?;
        at += part;
    }
    let superblock = Superblock {
        generation: 0,
        incarnation: 0,
        capacity,
        ring,
        tail: 0,
        epoch: 0,
        boot: UNKNOWN,
        clean: true,
    };
    file.write(superblock.place(), &[&superblock.encode()])?;
    file.sync_all()
}

/// A file's name is durable only with its folder.
fn sync_folder(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| OpenError::Host {
        path: folder.into(),
        action: "make the name durable",
        source,
    })
}
