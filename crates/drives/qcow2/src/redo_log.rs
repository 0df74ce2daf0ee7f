//! The redo log of a killed process: changes of an image's tables that its file does
//! not have yet, so that a program that is killed loses nothing that it acknowledged.
//!
//! It lies beside the image, as `IMAGE.unflushed`, and is appended to before a command that changed
//! tables ends. It needs no flush: it survives in the host's cache when the program is killed, and
//! a power cut may take it, as it may take any unflushed data. It is valid only for the boot and
//! the file that it names, and while the image's header has [`LOGGED`]: an autoclear feature, which
//! every other program takes away when it opens the image to write (qcow2.txt, bytes 88 to 95), so
//! that an old log never overwrites later changes.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use stasis_layout::{layout, take, IntoBytes, U32, U64};
use stasis_media::boot;

use crate::header::Source;
use crate::tables::Write;
use crate::{layout, Header, ImageError};

/// Autoclear feature bit: there is such a log.
pub(crate) const LOGGED: u64 = 1 << 63;

/// Sets or clears the mark in the bytes of a header; `false` if its version has no room for it.
#[must_use]
pub(crate) fn mark(header: &mut [u8], on: bool) -> bool {
    let version3 = layout::version3_mut(header);
    version3.map(|version3| layout::set_feature(&mut version3.autoclear, LOGGED, on)).is_some()
}

/// A log that is longer than this is begun again (bytes).
const LONG: u64 = 32 << 20;
/// Its first bytes, with its version.
const MAGIC: &[u8; 8] = b"STSUNFL1";
/// Bytes of its head.
const HEAD: usize = size_of::<Head>();

layout! {
    /// The log's head.
    struct Head: 48 {
        [0] magic: [u8; 8],
        [8] boot: [u8; 16],
        /// The image's.
        [24] device: U64,
        [32] inode: U64,
        /// [`State`].
        [40] state: u8,
        [41] reserved41: [u8; 3],
        /// CRC-32 of all before.
        [44] checksum: U32,
    }
}
layout! {
    /// Before a record's changes.
    struct Record: 8 {
        /// Bytes of the changes.
        [0] length: U32,
        /// Their CRC-32.
        [4] checksum: U32,
    }
}
layout! {
    /// Before the bytes of a change.
    struct Change: 12 {
        /// Place in the image (bytes).
        [0] offset: U64,
        [8] length: U32,
    }
}

/// State of a log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Written to, and valid as long as the host runs.
    Written = 0,
    /// Being carried into the image, and valid until that is done.
    Carried = 1,
}

/// A log that is written to.
#[derive(Debug)]
pub(crate) struct RedoLog {
    path: PathBuf,
    file: File,
    head: Head,
    length: u64,
    // The record that is being made.
    record: Vec<u8>,
    /// True if it lost something, and has to be begun again.
    broken: bool,
}

fn path_of(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".unflushed");
    name.into()
}

fn head(boot: [u8; 16], (device, inode): (u64, u64), state: State) -> Head {
    let (device, inode, state) = (device.into(), inode.into(), state as u8);
    let mut head = Head { magic: *MAGIC, boot, device, inode, state, ..Default::default() };
    let before = &head.as_bytes()[..offset_of!(Head, checksum)];
    head.checksum = crc32fast::hash(before).into();
    head
}

fn identity(image: &Metadata) -> (u64, u64) {
    (image.dev(), image.ino())
}

impl RedoLog {
    /// Begins a log for `image`.
    ///
    /// # Errors
    /// If the image is no file, or the file beside it cannot be made.
    pub(crate) fn create(image: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(image)?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let boot = boot().ok_or(io::ErrorKind::Unsupported)?;
        let head = head(boot, identity(&metadata), State::Written);
        let path = path_of(image);
        let file = write_new(&path, head.as_bytes())?;
        Ok(Self { path, file, head, length: HEAD as u64, record: Vec::new(), broken: false })
    }

    /// Appends changes of tables.
    ///
    /// # Errors
    /// If there is no room; then nothing is in the log any more, and it
    /// takes nothing until it is begun again.
    pub(crate) fn append(&mut self, changes: &[Write]) -> io::Result<()> {
        if self.broken {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.record.clear();
        record(changes, &mut self.record);
        let outcome = self.file.write_all_at(&self.record, self.length);
        match outcome {
            Ok(()) => self.length += self.record.len() as u64,
            // Without this record the others would take tables back in time.
            Err(_) => {
                self.broken = true;
                let _ = self.file.set_len(HEAD as u64);
            }
        }
        outcome
    }

    /// Returns whether it should be begun again.
    pub(crate) fn is_long(&self) -> bool {
        self.length > LONG
    }

    /// Begins it again with the changes that the image's file does not have yet.
    pub(crate) fn restart(&mut self, changes: &[Write]) {
        let done = if changes.is_empty() {
            self.file.set_len(HEAD as u64).map(|()| self.length = HEAD as u64)
        } else {
            self.replace(changes)
        };
        self.broken = match done {
            Ok(()) => false,
            // Old records must not overwrite the present content of the file.
            Err(_) => {
                let _ = self.file.set_len(HEAD as u64);
                true
            }
        };
    }

    fn replace(&mut self, changes: &[Write]) -> io::Result<()> {
        self.record.clear();
        self.record.extend_from_slice(self.head.as_bytes());
        record(changes, &mut self.record);
        let mut new = OsString::from(&self.path);
        new.push(".new");
        let new = PathBuf::from(new);
        let file = write_new(&new, &self.record)?;
        std::fs::rename(&new, &self.path)?;
        self.file = file;
        self.length = self.record.len() as u64;
        Ok(())
    }

    /// Removes it: the image's file has everything.
    pub(crate) fn remove(self) {
        // Without the mark in the header it is worth nothing.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

fn record(changes: &[Write], into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(Record::default().as_bytes());
    let begin = into.len();
    for Write { offset, data } in changes {
        let change = Change { offset: (*offset).into(), length: (data.len() as u32).into() };
        into.extend_from_slice(change.as_bytes());
        into.extend_from_slice(data);
    }
    let body = &into[begin..];
    let length = (body.len() as u32).into();
    let record = Record { length, checksum: crc32fast::hash(body).into() };
    into[start..begin].copy_from_slice(record.as_bytes());
}

/// Returns whether the image's header marks a log.
pub(crate) fn is_marked(header: &Header) -> bool {
    header.autoclear & LOGGED != 0
}

/// Carries the changes that a killed program left beside the image into its file; returns whether
/// there were any. Nobody else may have the image open.
///
/// # Errors
/// An [`ImageError`] that names the file that cannot be read or written.
pub(crate) fn recover(image: &Path, header: &Header) -> Result<bool, ImageError> {
    let path = path_of(image);
    let os = |path: &Path, action| {
        let path = path.to_owned();
        move |source| ImageError::Os { path, action, source }
    };
    let logged = is_marked(header);
    let log = match File::options().read(true).write(true).open(&path) {
        Ok(log) => Some(log),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(os(&path, "open it")(error)),
    };
    let mut carried = false;
    if logged {
        let file = File::options().read(true).write(true).open(image);
        let file = file.map_err(os(image, "open it"))?;
        if let Some(log) = &log {
            carried = carry(log, &file).map_err(os(image, "take over what was not flushed"))?;
        }
        unmark(&file).map_err(os(image, "write it"))?;
    }
    if log.is_some() {
        std::fs::remove_file(&path).map_err(os(&path, "remove it"))?;
    }
    Ok(carried)
}

/// Carries the records of a log, if it belongs to this file.
fn carry(log: &File, image: &File) -> io::Result<bool> {
    let metadata = image.metadata()?;
    let source = Source::new(log)?;
    let mut found = Head::default();
    source.read(0, found.as_mut_bytes())?;
    let Some(boot) = boot() else { return Ok(false) };
    let written = head(boot, identity(&metadata), State::Written);
    // One that was being carried when the power was cut is of an earlier boot.
    let again = head(found.boot, identity(&metadata), State::Carried);
    if found != written && found != again {
        return Ok(false);
    }
    let length = usize::try_from(source.length).map_err(io::Error::other)?;
    let bytes = source.bytes(0, length)?;
    let changes = changes(&bytes);
    if changes.is_empty() {
        return Ok(false);
    }
    // From here on, a power cut leaves a log that is carried again.
    image.sync_data()?;
    log.write_all_at(again.as_bytes(), 0)?;
    log.sync_data()?;
    for (offset, data) in changes {
        image.write_all_at(data, offset)?;
    }
    image.sync_data()?;
    Ok(true)
}

/// The changes of whole records, in their order.
fn changes(bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    let mut rest = bytes.get(HEAD..).unwrap_or_default();
    while let Some(record) = take::<Record>(&mut rest) {
        let Some((mut body, more)) = rest.split_at_checked(record.length.get() as usize) else {
            break;
        };
        if record.checksum != crc32fast::hash(body) {
            break;
        }
        while let Some(change) = take::<Change>(&mut body) {
            let length = change.length.get() as usize;
            let Some((data, more)) = body.split_at_checked(length) else { break };
            found.push((change.offset.get(), data));
            body = more;
        }
        rest = more;
    }
    found
}

fn unmark(image: &File) -> io::Result<()> {
    let mut header = [0; layout::LENGTH[1]];
    image.read_exact_at(&mut header, 0)?;
    if mark(&mut header, false) {
        image.write_all_at(&header, 0)?;
    }
    image.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log is read by the next program, of another build.
    #[test]
    fn the_bytes_are_as_ever() {
        let head = head([7; 16], (0x102, 0x304), State::Carried);
        let mut bytes = head.as_bytes().to_vec();
        record(&[Write { offset: 0x506, data: b"data".to_vec() }], &mut bytes);
        let expected: [&str; 1] = [
            r"STSUNFL1\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x02\x01\x00\x00\x00\x00\x00\x00\x04\x03\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x1f\x07\xbb\xa9\x10\x00\x00\x00\xbf\xbeP\x84\x06\x05\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00data",
        ];
        assert_eq!([bytes.escape_ascii().to_string()], expected);
    }

    #[test]
    fn what_was_cut_off_or_damaged_is_left_out() {
        let write = |offset, value: u8| Write { offset, data: vec![value; 512] };
        let mut bytes = vec![0; HEAD];
        record(&[write(0, 1), write(1 << 40, 2)], &mut bytes);
        let first = bytes.len();
        record(&[write(512, 3)], &mut bytes);
        assert_eq!(changes(&bytes).len(), 3);
        assert_eq!(changes(&bytes)[1].0, 1 << 40);
        for length in 0..bytes.len() {
            let whole = if length >= first { 2 } else { 0 };
            assert_eq!(changes(&bytes[..length]).len(), whole, "{length}");
        }
        for at in first + size_of::<Record>()..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(changes(&damaged).len(), 2, "{at}");
        }
    }
}
