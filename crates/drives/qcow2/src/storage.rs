//! The files of an image as the library that does the format's work sees them.

use std::fmt;
use std::io;
use std::sync::Arc;

use imago::io_buffers::{IoVector, IoVectorMut};
use imago::storage::drivers::CommonStorageHelper;
use imago::storage::PreallocateMode;
use imago::Storage;
use stasis_block::{Command, Operation};

use crate::host::Shared;

/// Bytes in which the drive below is asked.
const ALIGNMENT: usize = 512;

/// Target of a handle's reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// The image's own tables: writes stay in memory until they can be written in a sound order.
    Tables,
    /// The clusters with data, in the same file.
    Data,
    /// A file below, only read: where it begins on the drive, and its length.
    Below(u64, u64),
    /// The image's own file, only read, beginning with these bytes: as it was
    /// at a snapshot.
    Snapshot(Arc<[u8]>),
}

/// A file of an image.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) role: Role,
    helper: CommonStorageHelper,
}

impl Handle {
    pub(crate) fn new(shared: &Arc<Shared>, role: Role) -> Self {
        Self { shared: Arc::clone(shared), role, helper: CommonStorageHelper::default() }
    }

    /// Reads from the drive below.
    async fn below(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let room = self.shared.lock().room;
        let (start, length) = match self.role {
            Role::Below(start, length) => (start, length),
            _ => (0, room),
        };
        // The part beyond the file's end is zero.
        let there = length.saturating_sub(offset).min(into.len() as u64) as usize;
        let (there, rest) = into.split_at_mut(there);
        rest.fill(0);
        if !there.is_empty() {
            // A file may end within a sector.
            let length = there.len().next_multiple_of(ALIGNMENT);
            let command = Command::new(Operation::Read, start + offset, length as u64);
            let data = self.shared.io(command, vec![0; length]).await?;
            there.copy_from_slice(data.get(..there.len()).unwrap_or(&vec![0; there.len()]));
        }
        Ok(())
    }

    /// Reads tables: from memory, or from the drive, and then they are known.
    async fn read_tables(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        while at < into.len() {
            let place = offset + at as u64;
            let known = self.shared.lock().tables.read(place, &mut into[at..]);
            if known > 0 {
                at += known;
                continue;
            }
            let size = self.shared.lock().tables.size();
            let start = place & !(size as u64 - 1);
            let mut table = vec![0; size];
            self.below(start, &mut table).await?;
            self.shared.lock().tables.load(start, table);
        }
        Ok(())
    }

    fn check_room(&self, offset: u64, length: usize) -> io::Result<()> {
        let room = self.shared.lock().room;
        match offset.checked_add(length as u64) {
            Some(end) if end <= room => Ok(()),
            _ => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self.role {
            Role::Tables => "tables",
            Role::Data => "data",
            Role::Below(..) => "backing file",
            Role::Snapshot(_) => "snapshot",
        })
    }
}

impl Storage for Handle {
    fn req_align(&self) -> usize {
        ALIGNMENT
    }

    fn size(&self) -> io::Result<u64> {
        Ok(match self.role {
            Role::Below(_, length) => length,
            _ => self.shared.lock().length,
        })
    }

    async unsafe fn pure_readv(&self, mut bufv: IoVectorMut<'_>, offset: u64) -> io::Result<()> {
        let mut data = vec![0; bufv.len() as usize];
        match &self.role {
            Role::Tables => self.read_tables(offset, &mut data).await?,
            Role::Data | Role::Below(..) => self.below(offset, &mut data).await?,
            Role::Snapshot(head) => {
                self.below(offset, &mut data).await?;
                if let Some(head) = head.get(offset as usize..) {
                    let length = head.len().min(data.len());
                    data[..length].copy_from_slice(&head[..length]);
                }
            }
        }
        bufv.copy_from_slice(&data);
        Ok(())
    }

    async unsafe fn pure_writev(&self, bufv: IoVector<'_>, offset: u64) -> io::Result<()> {
        let mut data = vec![0; bufv.len() as usize];
        bufv.copy_into_slice(&mut data);
        self.check_room(offset, data.len())?;
        match self.role {
            Role::Tables => {
                while let Some(start) = {
                    let state = self.shared.lock();
                    state.tables.missing(offset, data.len())
                } {
                    let size = self.shared.lock().tables.size();
                    let mut table = vec![0; size];
                    self.below(start, &mut table).await?;
                    self.shared.lock().tables.load(start, table);
                }
                self.shared.lock().tables.write(offset, &data);
                Ok(())
            }
            Role::Data => {
                let command = Command::new(Operation::Write, offset, data.len() as u64);
                self.shared.io(command, data).await.map(drop)
            }
            Role::Below(..) | Role::Snapshot(_) => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    async fn flush(&self) -> io::Result<()> {
        // The order of writes is decided elsewhere.
        Ok(())
    }

    async fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    async unsafe fn invalidate_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn get_storage_helper(&self) -> &CommonStorageHelper {
        &self.helper
    }

    async fn resize(&self, _: u64, _: PreallocateMode) -> io::Result<()> {
        // The file grows as it is written.
        Ok(())
    }
}
