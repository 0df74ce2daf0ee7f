//! A file system whose names and tables are in an image, and whose files' bytes are those of files
//! on this machine: read when a guest reads them, and never copied.
//!
//! A map beside the image holds the place of each file's bytes. The map begins with [`MARK`]; then
//! come the places ([`Head`]) with their paths, in the order of where they are.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use stasis_layout::{layout, take, IntoBytes, I64, U16, U32, U64};

use crate::content::{ReadAt, Span};
use crate::RootError;

const MARK: &[u8; 16] = b"stasis root map1";
/// Files that are kept open.
const OPEN: usize = 64;

layout! {
    /// A place, before its file's path.
    struct Head: 30 {
        /// First byte.
        [0] start: U64,
        [8] length: U64,
        /// The file's last change (seconds since 1970).
        [16] seconds: I64,
        /// And nanoseconds.
        [24] nanos: U32,
        /// Bytes of the path.
        [28] path: U16,
    }
}

/// Place in the image of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileExtent {
    /// First byte.
    pub start: u64,
    /// Number of blocks.
    pub length: u64,
    pub path: PathBuf,
    /// Time at which the file was changed last.
    pub modified: (i64, i64),
}

impl FileExtent {
    fn end(&self) -> u64 {
        self.start + self.length
    }

    /// Opens the file, if it is still the one that was seen when the map was made.
    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        // A pipe that has come in its place is not waited for.
        let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(&self.path);
        let file = file.map_err(|e| self.error(&e.to_string()))?;
        let status = file.metadata()?;
        let modified = (status.mtime(), status.mtime_nsec());
        if !status.is_file() || status.len() != self.length || modified != self.modified {
            return Err(self.error("it has changed since the guest was made of it"));
        }
        Ok(file)
    }

    fn error(&self, cause: &str) -> io::Error {
        io::Error::other(format!("{}: {cause}", self.path.display()))
    }
}

/// Writes a map to the new file `path`.
pub(crate) fn write(places: &[FileExtent], path: &Path) -> Result<(), RootError> {
    let write = || -> io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        out.write_all(MARK)?;
        for place in places {
            let name = place.path.as_os_str().as_bytes();
            let (seconds, nanos) = place.modified;
            let head = Head {
                start: place.start.into(),
                length: place.length.into(),
                seconds: seconds.into(),
                nanos: u32::try_from(nanos).map_err(io::Error::other)?.into(),
                path: u16::try_from(name.len()).map_err(io::Error::other)?.into(),
            };
            out.write_all(head.as_bytes())?;
            out.write_all(name)?;
        }
        out.flush()
    };
    write().map_err(RootError::file("write", path))
}

/// Reads a map; the places must follow each other.
fn read(mut bytes: &[u8]) -> Option<Vec<FileExtent>> {
    bytes = bytes.strip_prefix(MARK)?;
    let mut places: Vec<FileExtent> = Vec::new();
    while !bytes.is_empty() {
        let head: Head = take(&mut bytes)?;
        let (name, rest) = bytes.split_at_checked(head.path.get().into())?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
        let modified = (head.seconds.get(), head.nanos.get().into());
        let (start, length) = (head.start.get(), head.length.get());
        let place = FileExtent { start, length, path, modified };
        let before = places.last().map_or(0, FileExtent::end);
        if place.start < before || place.start.checked_add(place.length).is_none() {
            return None;
        }
        places.push(place);
        bytes = rest;
    }
    Some(places)
}

/// An image with the files that belong into it.
#[derive(Debug)]
pub(crate) struct Mapped {
    image: Span,
    places: Vec<FileExtent>,
    /// The files that were read last, the latest at the end, by the number of their place.
    open: Mutex<VecDeque<(usize, Arc<File>)>>,
}

impl Mapped {
    /// The image in `image` with the files of the map in `map`.
    pub(crate) fn open(image: &Path, map: &Path) -> Result<Self, RootError> {
        let file = File::open(image).and_then(Span::whole);
        let span = file.map_err(RootError::file("read", image))?;
        let bytes = fs::read(map).map_err(RootError::file("read", map))?;
        let places = read(&bytes)
            .filter(|places| places.last().is_none_or(|last| last.end() <= span.length));
        let places = places.ok_or_else(|| RootError::unusable(map, "it is damaged"))?;
        Ok(Self { image: span, places, open: Mutex::default() })
    }

    fn file(&self, number: usize) -> io::Result<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|(index, _)| *index == number) {
            if let Some(found) = open.remove(at) {
                let file = Arc::clone(&found.1);
                open.push_back(found);
                return Ok(file);
            }
        }
        let file = Arc::new(self.places[number].open()?);
        if open.len() >= OPEN {
            open.pop_front();
        }
        open.push_back((number, Arc::clone(&file)));
        Ok(file)
    }
}

impl ReadAt for Mapped {
    fn read_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.length()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The first place that is not wholly before.
        let mut number = self.places.partition_point(|place| place.end() <= offset);
        while !into.is_empty() {
            let next = self.places.get(number);
            let inside = next.filter(|place| place.start <= offset);
            let border = inside.map_or(next.map_or(u64::MAX, |place| place.start), FileExtent::end);
            let now = (into.len() as u64).min(border - offset) as usize;
            let (piece, rest) = into.split_at_mut(now);
            match inside {
                Some(place) => {
                    let read = self.file(number)?.read_exact_at(piece, offset - place.start);
                    read.map_err(|e| place.error(&e.to_string()))?;
                    number += 1;
                }
                None => self.image.read_at(piece, offset)?,
            }
            into = rest;
            offset += now as u64;
        }
        Ok(())
    }

    fn length(&self) -> u64 {
        self.image.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(start: u64, length: u64) -> FileExtent {
        FileExtent {
            start,
            length,
            path: format!("/a/{start}").into(),
            modified: (-1, 999_999_999),
        }
    }

    /// A kept root is read by later versions.
    #[test]
    fn the_bytes_are_as_ever() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(&[place(0x102, 0x304)], file.path()).unwrap();
        let bytes = fs::read(file.path()).unwrap().escape_ascii().to_string();
        let expected: [&str; 1] = [
            r"stasis root map1\x02\x01\x00\x00\x00\x00\x00\x00\x04\x03\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xc9\x9a;\x06\x00/a/258",
        ];
        assert_eq!([bytes], expected);
    }

    proptest! {
        #[test]
        fn a_map_is_read_as_it_was_written(gaps in prop::collection::vec((0u64..99, 1u64..99), 0..20)) {
            let mut at = 0;
            let places: Vec<_> = gaps.iter().map(|(gap, length)| {
                let place = place(at + gap, *length);
                at = place.end();
                place
            }).collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            write(&places, file.path()).unwrap();
            prop_assert_eq!(read(&fs::read(file.path()).unwrap()), Some(places));
        }

        #[test]
        fn damaged_maps_never_panic(noise in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..99) {
            let mut bytes = MARK.to_vec();
            bytes.extend(&noise);
            read(&bytes);
            let file = tempfile::NamedTempFile::new().unwrap();
            write(&[place(5, 7), place(12, 1)], file.path()).unwrap();
            let whole = fs::read(file.path()).unwrap();
            let cut = cut.min(whole.len());
            let read = read(&whole[..cut]);
            prop_assert!(read.is_none_or(|places| places.len() == 2 || cut == whole.len() || places.len() <= 1));
        }
    }

    #[test]
    fn places_that_overlap_are_no_map() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for places in [[place(5, 7), place(11, 1)], [place(0, 1), place(u64::MAX, 2)]] {
            write(&places, file.path()).unwrap();
            assert_eq!(read(&fs::read(file.path()).unwrap()), None);
        }
    }
}
