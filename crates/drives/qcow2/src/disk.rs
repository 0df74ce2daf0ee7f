//! The disk of an image: which part of it lies where, in the image's file and in those below.

use std::io;

use stasis_qcow2_format::entries::Cluster;

use crate::tables::{Look, Tables};

/// Bytes in which the drive below is asked.
const SECTOR: u64 = 512;

/// The disk, by the tables of all its files.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Size of the disk (bytes).
    pub(crate) size: u64,
    /// Limit on the size of the image's own file (bytes).
    pub(crate) room: u64,
    /// Tables of that file.
    pub(crate) tables: Tables,
    /// The files below, from the top.
    pub(crate) below: Vec<Backing>,
}

/// A file below an image's own, which is only read.
#[derive(Debug)]
pub(crate) struct Backing {
    /// Its first byte on the drive.
    pub(crate) start: u64,
    /// Its length (bytes).
    pub(crate) length: u64,
    /// Size of its disk, and its tables; `None` if it is raw.
    pub(crate) image: Option<(u64, Tables)>,
}

/// Content of a part of the disk. Files are counted from the top, the image's own being 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Zeroes; `explicit` where the image's own tables have them.
    Zero { explicit: bool },
    /// Data from the byte `at` of a file on; `own` where the image can change it in place.
    Data { file: usize, at: u64, own: bool },
    /// A compressed cluster, of `length` bytes in a file.
    Packed { file: usize, at: u64, length: u64 },
}

impl Disk {
    /// Content of the disk from `offset` on, and for how many bytes of `most` it goes on alike.
    ///
    /// # Errors
    /// Behind the disk's end, and where tables contradict themselves.
    pub(crate) fn locate(&self, offset: u64, most: u64) -> io::Result<Look<(Source, u64)>> {
        if offset >= self.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut count = most;
        let top = std::iter::once((self.size, Some(&self.tables)));
        let below = self.below.iter().map(|file| match &file.image {
            Some((size, tables)) => (*size, Some(tables)),
            None => (file.length.next_multiple_of(SECTOR), None),
        });
        for (file, (size, tables)) in top.chain(below).enumerate() {
            if size <= offset {
                break;
            }
            count = count.min(size - offset);
            let Some(tables) = tables else {
                let source = Source::Data { file, at: offset, own: false };
                return Ok(Look::Found((source, count)));
            };
            let (cluster, alike) = match tables.look_up(offset, count)? {
                Look::Found(found) => found,
                Look::Unknown { file, table } => return Ok(Look::Unknown { file, table }),
            };
            count = alike;
            let source = match cluster {
                Cluster::Hole => continue,
                Cluster::Zero { .. } => Source::Zero { explicit: file == 0 },
                Cluster::Data { at, own } => Source::Data { file, at, own: own && file == 0 },
                Cluster::Packed { at, length } => Source::Packed { file, at, length },
            };
            return Ok(Look::Found((source, count)));
        }
        Ok(Look::Found((Source::Zero { explicit: false }, count)))
    }

    /// First byte of a file on the drive, and the bytes that can be read there.
    pub(crate) fn span(&self, file: usize) -> (u64, u64) {
        match file.checked_sub(1).and_then(|file| self.below.get(file)) {
            Some(file) => (file.start, file.length),
            None => (0, self.room),
        }
    }

    /// The tables of a file.
    pub(crate) fn tables_of(&mut self, file: usize) -> &mut Tables {
        let below = file.checked_sub(1).and_then(|file| self.below.get_mut(file));
        match below.and_then(|file| file.image.as_mut()) {
            Some((_, tables)) => tables,
            None => &mut self.tables,
        }
    }
}
