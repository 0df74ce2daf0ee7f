//! A host whose power can be cut: data written and not synced is lost sector by sector, in any
//! order.

use std::io;
use std::sync::{Arc, Mutex};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::host::HostFile;

pub const SECTOR: usize = 512;

/// Operations until the power is cut, for both files.
#[derive(Debug)]
pub struct Power {
    remaining: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Contents {
    // Content that a sync has made durable, and content of the host's page cache.
    stable: Vec<u8>,
    cached: Vec<u8>,
    // Sectors that were written since, in order.
    pending: Vec<(usize, [u8; SECTOR])>,
    frozen: Option<usize>,
    full: bool,
    sync_fails: bool,
    random: Option<Xoshiro256PlusPlus>,
}

/// A file of the host.
#[derive(Debug)]
pub struct File {
    contents: Mutex<Contents>,
    power: Arc<Power>,
}

impl Power {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { remaining: Mutex::new(u64::MAX) })
    }

    /// Cuts the power after this many operations.
    pub fn cut_after(&self, operations: u64) {
        *self.remaining.lock().unwrap() = operations;
    }

    fn use_some(&self) -> io::Result<()> {
        let mut remaining = self.remaining.lock().unwrap();
        *remaining = remaining.saturating_sub(1);
        if *remaining == 0 {
            return Err(io::Error::other("no power"));
        }
        Ok(())
    }
}

impl File {
    pub fn new(bytes: Vec<u8>, power: Arc<Power>, seed: u64) -> Self {
        let random = Some(Xoshiro256PlusPlus::seed_from_u64(seed));
        let contents =
            Contents { stable: bytes.clone(), cached: bytes, random, ..Contents::default() };
        Self { contents: Mutex::new(contents), power }
    }

    pub fn length(&self) -> u64 {
        self.contents.lock().unwrap().cached.len() as u64
    }

    /// A sync begins: it has to cover all writes so far, and nothing else.
    pub fn begin_sync(&self) {
        let mut contents = self.contents.lock().unwrap();
        contents.frozen = Some(contents.pending.len());
    }

    /// The sync that began is over.
    pub fn end_sync(&self) -> io::Result<()> {
        self.power.use_some()?;
        let mut contents = self.contents.lock().unwrap();
        let covered = contents.frozen.take().unwrap_or(0);
        contents.sync(covered);
        Ok(())
    }

    /// Writes find no space from now on, or again.
    pub fn set_full(&self, full: bool) {
        self.contents.lock().unwrap().full = full;
    }

    /// Syncs fail from now on, or succeed again.
    pub fn set_sync_fails(&self, fails: bool) {
        self.contents.lock().unwrap().sync_fails = fails;
    }

    /// The power comes back: of each sector some version is there that was
    /// written since the last sync, or the one before. `kept`: of 256, how
    /// likely a later version is kept.
    pub fn cut(&self, kept: u8) {
        let mut contents = self.contents.lock().unwrap();
        let Contents { stable, cached, pending, random, frozen, .. } = &mut *contents;
        let random = random.as_mut().unwrap();
        let mut stays = std::collections::HashSet::new();
        for (sector, bytes) in pending.drain(..) {
            // Once a version was not reached, later ones were not either.
            if stays.contains(&sector) || random.next_u64() % 256 > u64::from(kept) {
                stays.insert(sector);
                continue;
            }
            stable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        }
        *frozen = None;
        cached.clone_from(stable);
    }

    /// Changes stable bytes.
    pub fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut contents = self.contents.lock().unwrap();
        change(&mut contents.stable);
        contents.cached = contents.stable.clone();
    }
}

impl Contents {
    /// Makes the first `covered` pending sectors durable.
    fn sync(&mut self, covered: usize) {
        let covered = covered.min(self.pending.len());
        for (sector, bytes) in self.pending.drain(..covered) {
            self.stable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        }
        self.frozen = self.frozen.map(|frozen| frozen.saturating_sub(covered));
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        self.cached[offset..offset + bytes.len()].copy_from_slice(bytes);
        for sector in offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR) {
            let now = self.cached[sector * SECTOR..][..SECTOR].try_into().unwrap();
            self.pending.push((sector, now));
        }
    }
}

impl HostFile for File {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let contents = self.contents.lock().unwrap();
        let from = contents.cached.get(offset as usize..).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        buffer[count..].fill(0);
        Ok(())
    }

    fn write(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        let power = self.power.use_some();
        let mut contents = self.contents.lock().unwrap();
        if contents.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut bytes = slices.concat();
        if power.is_err() {
            let some = contents.random.as_mut().unwrap().next_u64() as usize % (bytes.len() + 1);
            bytes.truncate(some);
        }
        contents.put(offset, &bytes);
        power
    }

    fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        self.write(offset, &[&vec![0; length as usize]])
    }

    fn sync(&self) -> io::Result<()> {
        self.power.use_some()?;
        let mut contents = self.contents.lock().unwrap();
        if contents.sync_fails {
            return Err(io::Error::other("the sync failed"));
        }
        contents.sync(usize::MAX);
        Ok(())
    }
}

impl HostFile for Arc<File> {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read(offset, buffer)
    }
    fn write(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        (**self).write(offset, slices)
    }
    fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        (**self).zero(offset, length)
    }
    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }
}
