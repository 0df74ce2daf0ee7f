//! Map of a disk's ranges.

use std::sync::Arc;

use crate::disk::Source;
use crate::turns::Subject;
use crate::{Image, ImageError};

/// A range of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte of the disk.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Kind of the range.
    pub kind: Kind,
}

/// Kind of a range of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Zeroes; `explicit` where the image marks them as such, and it is not merely that
    /// nothing was written.
    Zero {
        /// True if the image marks them as zeroes.
        explicit: bool,
    },
    /// Data in the image's own file, from this byte on.
    Data(u64),
    /// Data in a file below, from this byte of the drive on.
    Below(u64),
    /// Compressed data.
    Compressed,
}

impl Image {
    /// The disk's ranges in order, adjoining ones of a kind joined, outside of time.
    ///
    /// # Errors
    /// An [`ImageError`] if the image cannot be read.
    pub fn map(&mut self) -> Result<Vec<Extent>, ImageError> {
        let core = Arc::clone(&self.core);
        let walked = self.instantly(async move {
            let _turn = core.turns.shared(Subject::Mappings).await;
            let mut extents: Vec<Extent> = Vec::new();
            let (mut at, size) = (0, core.shared.lock().disk.size);
            while at < size {
                let (source, count) = core.locate(at, size - at).await?;
                let kind = match source {
                    Source::Data { file: 0, at, .. } => Kind::Data(at),
                    Source::Data { file, at, .. } => {
                        Kind::Below(core.shared.lock().disk.span(file).0 + at)
                    }
                    Source::Zero { explicit } => Kind::Zero { explicit },
                    Source::Packed { .. } => Kind::Compressed,
                };
                match extents.last_mut() {
                    Some(last) if goes_on(last, kind) => last.length += count,
                    _ => extents.push(Extent { offset: at, length: count, kind }),
                }
                at += count;
            }
            std::io::Result::Ok(extents)
        });
        walked
            .unwrap_or_else(|| Err(std::io::Error::other("it waits for something")))
            .map_err(|source| ImageError::Format { path: self.path().into(), source })
    }
}

fn goes_on(last: &Extent, kind: Kind) -> bool {
    match (last.kind, kind) {
        (Kind::Data(before), Kind::Data(after)) | (Kind::Below(before), Kind::Below(after)) => {
            before + last.length == after
        }
        (before, after) => before == after,
    }
}
