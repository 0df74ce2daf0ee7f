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
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use stasis_media::boot;

use crate::header::Source;
use crate::tables::Write;
use crate::{layout, Header, ImageError};

/// Autoclear feature bit: there is such a log.
pub(crate) const LOGGED: u64 = 1 << 63;

/// Sets or clears the mark in the bytes of a header; `false` if its version has no room for it.
#[must_use]
pub(crate) fn mark(header: &mut [u8], on: bool) -> bool {
    layout::AUTOCLEAR.set_bits(header, LOGGED, on)
}

/// A log that is longer than this is begun again (bytes).
const LONG: u64 = 32 << 20;
/// Its first bytes, with its version.
const MAGIC: &[u8; 8] = b"STSUNFL1";
/// Bytes of its head: the magic, the boot, the image's device and inode, its
/// state, and the checksum of these.
const HEAD: usize = 48;
/// Bytes before a record's changes: their length and their checksum.
const RECORD: usize = 8;
/// Bytes before a change: where it is, and its length.
const CHANGE: usize = 12;

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
    head: [u8; HEAD],
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

fn head(boot: [u8; 16], image: &Metadata, state: State) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..24].copy_from_slice(&boot);
    head[24..32].copy_from_slice(&image.dev().to_le_bytes());
    head[32..40].copy_from_slice(&image.ino().to_le_bytes());
    head[40] = state as u8;
    let checksum = crc32fast::hash(&head[..HEAD - 4]);
    head[HEAD - 4..].copy_from_slice(&checksum.to_le_bytes());
    head
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
        let head = head(boot().ok_or(io::ErrorKind::Unsupported)?, &metadata, State::Written);
        let path = path_of(image);
        let file = write_new(&path, &head)?;
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
        self.record.extend_from_slice(&self.head);
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
    into.extend_from_slice(&[0; RECORD]);
    for Write { offset, data } in changes {
        into.extend_from_slice(&offset.to_le_bytes());
        into.extend_from_slice(&(data.len() as u32).to_le_bytes());
        into.extend_from_slice(data);
    }
    let body = &into[start + RECORD..];
    let (length, checksum) = (body.len() as u32, crc32fast::hash(body));
    into[start..start + 4].copy_from_slice(&length.to_le_bytes());
    into[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
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
    let found = source.bytes(0, HEAD)?;
    let Some(boot) = boot() else { return Ok(false) };
    let written = head(boot, &metadata, State::Written);
    // One that was being carried when the power was cut is of an earlier boot.
    let then = found[8..24].try_into().unwrap_or(boot);
    let again = head(then, &metadata, State::Carried);
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
    log.write_all_at(&again, 0)?;
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
    let mut at = HEAD;
    while let (Some(length), Some(checksum)) = (le32(bytes, at), le32(bytes, at + 4)) {
        let start = at + RECORD;
        let Some(body) = bytes.get(start..start + length as usize) else { break };
        if crc32fast::hash(body) != checksum {
            break;
        }
        let mut rest = body;
        while let Some((fixed, more)) = rest.split_at_checked(CHANGE) {
            let (Some(low), Some(high), Some(length)) =
                (le32(fixed, 0), le32(fixed, 4), le32(fixed, 8))
            else {
                break;
            };
            let Some((data, more)) = more.split_at_checked(length as usize) else { break };
            found.push((u64::from(high) << 32 | u64::from(low), data));
            rest = more;
        }
        at = start + length as usize;
    }
    found
}

fn unmark(image: &File) -> io::Result<()> {
    let mut header = [0; layout::LENGTH[1] as usize];
    image.read_exact_at(&mut header, 0)?;
    if mark(&mut header, false) {
        image.write_all_at(&header, 0)?;
    }
    image.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for at in first + RECORD..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(changes(&damaged).len(), 2, "{at}");
        }
    }
}
