//! The page of doorbells that a client maps.

use std::fs::File;
use std::io;
use std::sync::atomic::{fence, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use stasis_vfio_user::{Doorbells, DOORBELLS, DOORBELLS_SIZE};

use crate::vhost_user::mapping::Mapping;

/// The memory of a client's BAR 0, of which the doorbells are used. A client that comes later has
/// another one, so that the last one's mapping rings nothing.
pub(super) struct Page {
    file: File,
    mapping: Mapping,
}

impl Page {
    /// A page of zeroes.
    ///
    /// # Errors
    /// There is no memory, or no descriptor.
    pub(super) fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("stasis-doorbells", flags)?);
        file.set_len(DOORBELLS + DOORBELLS_SIZE)?;
        // The client cannot take it away.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let mapping = Mapping::new(&file, DOORBELLS, DOORBELLS_SIZE)?;
        Ok(Self { file, mapping })
    }

    /// The memory, for the client.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn load(&self, index: usize) -> u32 {
        self.mapping.long(4 * index).map_or(0, |word| u32::from_le(word.load(Ordering::Relaxed)))
    }
}

impl Doorbells for Page {
    fn read(&self, into: &mut [u32]) {
        into.iter_mut().enumerate().for_each(|(index, word)| *word = self.load(index));
        // The commands that they announce are read after.
        fence(Ordering::Acquire);
    }

    fn differ(&self, known: &[u32]) -> bool {
        known.iter().enumerate().any(|(index, word)| self.load(index) != *word)
    }

    fn write(&self, index: usize, value: u32) {
        if let Some(word) = self.mapping.long(4 * index) {
            word.store(value.to_le(), Ordering::Release);
        }
    }

    fn clear(&self, index: usize, expected: u32) {
        if let Some(word) = self.mapping.long(4 * index) {
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = word.compare_exchange(expected.to_le(), 0, order.0, order.1);
        }
    }
}
