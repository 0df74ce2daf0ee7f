//! Source of the bytes of a file until the image is written, or a guest reads them.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Something whose bytes can be read anywhere.
pub(crate) trait ReadAt: Send + Sync + Debug {
    /// Fills `into` from `offset` on.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
    /// Returns the number of bytes.
    fn length(&self) -> u64;
}

/// A file, or the part of one.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub file: Arc<File>,
    pub start: u64,
    pub length: u64,
}

impl Span {
    /// Returns the span of a whole file.
    pub(crate) fn whole(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), start: 0, length })
    }

    /// A part of it; `None` if it reaches beyond the end.
    pub(crate) fn part(&self, start: u64, length: u64) -> Option<Self> {
        let end = start.checked_add(length)?;
        (end <= self.length).then(|| Self {
            file: Arc::clone(&self.file),
            start: self.start + start,
            length,
        })
    }

    /// Returns all its bytes, if they are at most `limit`.
    pub(crate) fn read_all(&self, limit: u64) -> io::Result<Vec<u8>> {
        if self.length > limit {
            return Err(io::Error::other(format!("it has more than {limit} bytes")));
        }
        let mut bytes = vec![0; self.length as usize];
        self.read_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

impl ReadAt for Span {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(into, self.start + offset)
    }

    fn length(&self) -> u64 {
        self.length
    }
}

/// A stretch of a file that lies in one piece in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Place in the file at which it begins (bytes).
    pub at: u64,
    /// Place in the source.
    pub from: u64,
    /// Its length.
    pub length: u64,
}

/// A file's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// The bytes of a file on this machine; `modified` in seconds and nanoseconds since 1970.
    Path { path: PathBuf, length: u64, modified: (i64, i64) },
    /// Pieces of something larger, in order; between them are zeroes.
    Pieces { source: Arc<dyn ReadAt>, pieces: Vec<Piece>, length: u64 },
}

impl Content {
    /// Returns the number of bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Path { length, .. } | Self::Pieces { length, .. } => *length,
        }
    }

    /// Hands all bytes to `write`, in order.
    pub(crate) fn copy(&self, write: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Path { path, length, .. } => {
                let file = File::open(path)?;
                let span = Span { file: Arc::new(file), start: 0, length: *length };
                copy_piece(&span, 0, *length, write)
            }
            Self::Pieces { source, pieces, length } => {
                let mut at = 0;
                for piece in pieces {
                    zeroes(piece.at - at, write)?;
                    copy_piece(&**source, piece.from, piece.length, write)?;
                    at = piece.at + piece.length;
                }
                zeroes(length - at, write)
            }
        }
    }

    /// The first bytes, at most `most`.
    pub(crate) fn start(&self, most: usize) -> io::Result<Vec<u8>> {
        /// Ends the copy; nobody sees it.
        const ENOUGH: io::ErrorKind = io::ErrorKind::Interrupted;
        let mut start = Vec::new();
        let copied = self.copy(&mut |bytes| {
            start.extend_from_slice(&bytes[..bytes.len().min(most - start.len())]);
            if start.len() < most {
                Ok(())
            } else {
                Err(ENOUGH.into())
            }
        });
        match copied {
            Err(error) if error.kind() != ENOUGH => Err(error),
            _ => Ok(start),
        }
    }
}

/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

fn copy_piece(
    source: &dyn ReadAt,
    mut from: u64,
    mut length: u64,
    write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; length.min(CHUNK) as usize];
    while length > 0 {
        let now = length.min(CHUNK) as usize;
        source.read_at(&mut buffer[..now], from)?;
        write(&buffer[..now])?;
        from += now as u64;
        length -= now as u64;
    }
    Ok(())
}

fn zeroes(mut length: u64, write: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    static ZEROES: [u8; 1 << 16] = [0; 1 << 16];
    while length > 0 {
        let now = length.min(ZEROES.len() as u64);
        write(&ZEROES[..now as usize])?;
        length -= now;
    }
    Ok(())
}
