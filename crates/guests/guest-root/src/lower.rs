//! The storage below a guest's overlay where the root is read in place.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use stasis_qcow2_format::Reader;

use crate::content::{ReadAt, Span};
use crate::ext4::read::file_of;
use crate::map::Mapped;
use crate::partitions::SECTOR;
use crate::{Part, RootError};

/// A file system's bytes, which are only read.
#[derive(Debug, Clone)]
pub struct Lower {
    source: Arc<dyn ReadAt>,
    start: u64,
    length: u64,
}

impl Lower {
    /// The file system `part` of the disk image at `path`.
    ///
    /// # Errors
    /// The image cannot be read, or has become shorter.
    pub fn of_image(path: &Path, part: &Part) -> Result<Self, RootError> {
        let fail = |cause: String| RootError::unusable(path, cause);
        let source = image(open(path)?, path)?;
        if part.start.checked_add(part.length).is_none_or(|end| end > source.length()) {
            return Err(fail("it is shorter than it was".into()));
        }
        Ok(Self { source, start: part.start, length: part.length / SECTOR * SECTOR })
    }

    /// The image in `names` with the files that `map` lists ([`write_names`](crate::write_names)).
    ///
    /// # Errors
    /// One of the two files cannot be read or is damaged.
    pub fn of_files(names: &Path, map: &Path) -> Result<Self, RootError> {
        let source = Arc::new(Mapped::open(names, map)?);
        Ok(Self { start: 0, length: source.length(), source })
    }

    /// The bytes of a file in it, at most `most`; None where there is none of this path, or it is no
    /// ext2, ext3 or ext4.
    pub fn file(&self, path: &str, most: u64) -> Option<Vec<u8>> {
        file_of(&self.source, self.start, path, most)
    }

    /// Returns the drive's size in bytes, a multiple of 512.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// If a file cannot be read, or has changed since the guest was made; or beyond the end.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.source.read_at(into, self.start + offset)
    }
}

/// Opens a whole file.
pub(crate) fn open(path: &Path) -> Result<Span, RootError> {
    File::open(path).and_then(Span::whole).map_err(RootError::file("read", path))
}

/// The disk in the file at `path`: as it is, or in qcow2.
pub(crate) fn image(span: Span, path: &Path) -> Result<Arc<dyn ReadAt>, RootError> {
    let is_image = Reader::is_image(&span.file).map_err(RootError::file("read", path))?;
    Ok(if is_image { Arc::new(Reader::open(span.file, path)?) } else { Arc::new(span) })
}

impl ReadAt for Reader {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        Reader::read_at(self, into, offset)
    }

    fn length(&self) -> u64 {
        self.size()
    }
}
