//! Opening images and devices: every way in which that fails has its message.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::backing::Backing;
use crate::size::{check_size, FILE_BLOCK};
use crate::{OpenError, SECTOR};

/// Opens an image; makes it where it is missing and `size` is given.
pub(crate) fn file(
    path: &Path,
    label: &str,
    size: Option<u64>,
    direct: bool,
) -> Result<Backing, OpenError> {
    let os = |action| move |source| OpenError::Os { path: path.into(), action, source };
    if let Some(size) = size {
        check_size(path, size, direct)?;
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(OpenError::Directory(path.into())),
        Ok(found) if found.file_type().is_block_device() => {
            return Err(OpenError::IsDevice(path.into()));
        }
        Ok(found) if !found.is_file() => return Err(OpenError::Special(path.into())),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound && size.is_some() => {}
        Err(error) => return Err(refused(path, error, OpenError::Missing)),
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if size.is_some() && !folder.exists() {
        return Err(OpenError::MissingFolder(folder.into()));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(size.is_some());
    let file = open(path, options, direct, OFlags::empty(), OpenError::Missing)?;
    lock(path, &file)?;

    let mut found = file.metadata().map_err(os("read its size"))?.len();
    if let (0, Some(size)) = (found, size) {
        file.set_len(size).map_err(os("give it its size"))?;
        // The name has to be durable before any flush is acknowledged.
        file.sync_all().map_err(os("write it"))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(os("write its folder"))?;
        found = size;
    }
    check_size(path, found, direct)?;
    if let Some(wanted) = size.filter(|&wanted| wanted != found) {
        return Err(OpenError::OtherSize { path: path.into(), size: found, wanted });
    }
    // Behind the end there is nothing to lose.
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let beyond = found.next_multiple_of(FILE_BLOCK);
    let punches = rustix::fs::fallocate(&file, flags, beyond, FILE_BLOCK).is_ok();
    let block = if direct { FILE_BLOCK } else { 1 };
    Ok(Backing::new(file, Arc::from(label), found, direct, block, punches))
}

/// Opens a file whose content may grow up to `room` bytes; without `writable`, to be read beside
/// others that read it. A block device keeps its size.
pub(crate) fn host_file(
    path: &Path,
    label: &str,
    room: u64,
    writable: bool,
) -> Result<Backing, OpenError> {
    let os = |action| move |source| OpenError::Os { path: path.into(), action, source };
    let found = fs::metadata(path).map_err(|error| refused(path, error, OpenError::NotFound))?;
    if found.file_type().is_block_device() && writable {
        return device(path, label, true);
    }
    match found.file_type() {
        kind if kind.is_dir() => return Err(OpenError::Directory(path.into())),
        kind if !kind.is_file() && !kind.is_block_device() => {
            return Err(OpenError::Special(path.into()));
        }
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(writable);
    let mut file = open(path, options, false, OFlags::empty(), OpenError::NotFound)?;
    let how = match writable {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    lock_as(path, &file, how)?;
    let length = file.seek(SeekFrom::End(0)).map_err(os("read its size"))?;
    let room = room.max(length).next_multiple_of(SECTOR);
    let mut punches = false;
    if writable {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let beyond = length.next_multiple_of(FILE_BLOCK);
        punches = rustix::fs::fallocate(&file, flags, beyond, FILE_BLOCK).is_ok();
    }
    let mut backing = Backing::new(file, Arc::from(label), room, false, 1, punches);
    backing.grows = true;
    Ok(backing)
}

/// Refuses a block device that is mounted, or that another program has to itself: what it holds
/// changes.
pub(crate) fn check_unused(path: &Path) -> Result<(), OpenError> {
    /// Another that only reads the device may be at this check at the same time.
    const LOOKS: u32 = 40;
    let mut looks = 0;
    loop {
        let mut options = OpenOptions::new();
        options.read(true);
        match open(path, options, false, OFlags::EXCL, OpenError::MissingDevice) {
            Err(OpenError::Busy(_)) if looks < LOOKS => {
                looks += 1;
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            outcome => return outcome.map(drop),
        }
    }
}

/// Opens a block device that nobody else uses.
pub(crate) fn device(path: &Path, label: &str, direct: bool) -> Result<Backing, OpenError> {
    let os = |action| move |source| OpenError::Os { path: path.into(), action, source };
    let found =
        fs::metadata(path).map_err(|error| refused(path, error, OpenError::MissingDevice))?;
    match found.file_type() {
        kind if kind.is_dir() => return Err(OpenError::Directory(path.into())),
        kind if kind.is_file() => return Err(OpenError::IsFile(path.into())),
        kind if !kind.is_block_device() => return Err(OpenError::Special(path.into())),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    // O_EXCL on a block device: refused while it is mounted or otherwise held.
    let mut file = open(path, options, direct, OFlags::EXCL, OpenError::MissingDevice)?;
    lock(path, &file)?;
    let block = rustix::fs::ioctl_blksszget(&file)
        .map_err(|error| os("read its block size")(error.into()))?;
    let size = file.seek(SeekFrom::End(0)).map_err(os("read its size"))?;
    check_size(path, size, false)?;
    let punches = device_punches(found.rdev());
    Ok(Backing::new(file, Arc::from(label), size, direct, u64::from(block.max(1)), punches))
}

/// Returns whether a block device zeroes ranges by itself, as its discards then do (Linux:
/// Documentation/ABI/stable/sysfs-block, `write_zeroes_max_bytes`).
fn device_punches(number: u64) -> bool {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    // A partition's queue is that of the whole device.
    ["", "../"].iter().any(|parent| {
        let path = format!("/sys/dev/block/{major}:{minor}/{parent}queue/write_zeroes_max_bytes");
        let limit = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        limit.is_some_and(|bytes: u64| bytes > 0)
    })
}

fn open(
    path: &Path,
    mut options: OpenOptions,
    direct: bool,
    flags: OFlags,
    missing: fn(std::path::PathBuf) -> OpenError,
) -> Result<File, OpenError> {
    let direct_flag = if direct { OFlags::DIRECT } else { OFlags::empty() };
    options.custom_flags((flags | direct_flag).bits() as i32);
    options.open(path).map_err(|error| {
        if direct && Errno::from_io_error(&error) == Some(Errno::INVAL) {
            return OpenError::NoDirect(path.into());
        }
        refused(path, error, missing)
    })
}

fn refused(
    path: &Path,
    source: std::io::Error,
    missing: fn(std::path::PathBuf) -> OpenError,
) -> OpenError {
    match source.kind() {
        ErrorKind::NotFound => missing(path.into()),
        ErrorKind::PermissionDenied => OpenError::Permission(path.into()),
        ErrorKind::ReadOnlyFilesystem => OpenError::ReadOnly(path.into()),
        ErrorKind::ResourceBusy => OpenError::Busy(path.into()),
        ErrorKind::IsADirectory => OpenError::Directory(path.into()),
        _ => OpenError::Os { path: path.into(), action: "open it", source },
    }
}

fn lock(path: &Path, file: &File) -> Result<(), OpenError> {
    lock_as(path, file, FlockOperation::NonBlockingLockExclusive)
}

fn lock_as(path: &Path, file: &File, how: FlockOperation) -> Result<(), OpenError> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(OpenError::Locked(path.into())),
        Err(error) => {
            Err(OpenError::Os { path: path.into(), action: "lock it", source: error.into() })
        }
    }
}
