//! The chunks of a namespace and their states (OCSSD 2.0 section 1.2.4): a state machine that is
//! independent of queues and of the drive.

mod kept;

use crate::narrow::{count32, remainder, size};
use crate::ocssd::config::{Bits, Ocssd};
use crate::ocssd::kept::ChunkState;
use crate::status::StatusCode;

/// A chunk.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    pub state: ChunkState,
    /// Sectors before the write pointer.
    pub written: u32,
    /// Number of resets.
    resets: u32,
}

/// Neighbouring sectors of a chunk that follow each other in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub chunk: usize,
    pub sector: u32,
    pub count: u32,
    /// The first of them in the command.
    pub element: u32,
}

impl Run {
    /// A bit for each of its elements.
    pub fn mask(&self) -> u64 {
        let bits = u64::MAX >> (64 - self.count.clamp(1, 64));
        bits.checked_shl(self.element).unwrap_or(0)
    }

    fn end(&self) -> u32 {
        self.sector + self.count
    }

    /// The rest of the run after its first `count` sectors.
    pub fn after(&self, count: u32) -> Self {
        Self {
            sector: self.sector + count,
            count: self.count - count,
            element: self.element + count,
            ..*self
        }
    }
}

/// All chunks of a namespace.
#[derive(Debug)]
pub struct ChunkSet {
    pub config: Ocssd,
    bits: Bits,
    chunks: Vec<Chunk>,
    open: u32,
    /// By parallel unit.
    open_in: Vec<u32>,
    /// Returns the number of changes of what is kept of them.
    changes: u64,
}

impl ChunkSet {
    /// Free chunks of a geometry, if there is one.
    pub fn new(config: Option<&Ocssd>) -> Option<Self> {
        let config = config?;
        let units = usize::from(config.groups) * usize::from(config.units);
        let free = Chunk { state: ChunkState::Free, written: 0, resets: 0 };
        Some(Self {
            config: config.clone(),
            bits: config.bits(),
            chunks: vec![free; units * config.chunks as usize],
            open: 0,
            open_in: vec![0; units],
            changes: 0,
        })
    }

    /// Returns the number of changes of what is kept of them.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The chunk and the sector in it that an address names, if they exist.
    pub fn find(&self, lba: u64) -> Option<(usize, u32)> {
        let Bits { sector, chunk, unit, group } = self.bits;
        let mut rest = lba;
        let mut take = |bits: u8| {
            let value = rest & ((1 << bits) - 1);
            rest >>= bits;
            value
        };
        let (sector, chunk) = (take(sector), take(chunk));
        let (unit, group) = (take(unit), take(group));
        let config = &self.config;
        let sector = u32::try_from(sector).ok()?;
        let exists = rest == 0
            && sector < config.sectors
            && chunk < config.chunks.into()
            && unit < config.units.into()
            && group < config.groups.into();
        let index = (group * u64::from(config.units) + unit) * u64::from(config.chunks) + chunk;
        exists.then_some((size(index), sector))
    }

    /// The address of a chunk's first sector.
    pub fn start(&self, chunk: usize) -> u64 {
        let per_unit = self.config.chunks as usize;
        let (unit, chunk) = (chunk / per_unit, chunk % per_unit);
        let per_group = usize::from(self.config.units);
        let (group, unit) = (unit / per_group, unit % per_group);
        let Bits { sector, chunk: chunk_bits, unit: unit_bits, .. } = self.bits;
        let above = (group as u64) << unit_bits | unit as u64;
        (above << chunk_bits | chunk as u64) << sector
    }

    /// The sector's number on the drive.
    pub fn linear(&self, chunk: usize, sector: u32) -> u64 {
        chunk as u64 * u64::from(self.config.sectors) + u64::from(sector)
    }

    /// The chunk and sector of a number on the drive.
    pub fn of_linear(&self, sector: u64) -> (usize, u32) {
        let per_chunk = self.config.sectors;
        (size(sector / u64::from(per_chunk)), remainder(sector, per_chunk))
    }

    /// The address of a number on the drive.
    pub fn lba_of(&self, sector: u64) -> u64 {
        let (chunk, sector) = self.of_linear(sector);
        self.start(chunk) + u64::from(sector)
    }

    /// Divides a command's addresses into runs; or the element that does not
    /// exist.
    pub fn runs(&self, lbas: impl Iterator<Item = u64>, runs: &mut Vec<Run>) -> Result<(), u32> {
        for (element, lba) in (0..).zip(lbas) {
            let (chunk, sector) = self.find(lba).ok_or(element)?;
            match runs.last_mut() {
                Some(run) if run.chunk == chunk && run.end() == sector => run.count += 1,
                _ => runs.push(Run { chunk, sector, count: 1, element }),
            }
        }
        Ok(())
    }

    /// Returns whether runs can be written, one after the other; or why not, and the first that
    /// cannot.
    pub fn check_write(&self, runs: &[Run]) -> Result<(), (StatusCode, Run)> {
        let mut opened = 0;
        for (index, run) in runs.iter().enumerate() {
            let chunk = &self.chunks[run.chunk];
            let before = runs[..index].iter().rfind(|before| before.chunk == run.chunk);
            let pointer = before.map_or(chunk.written, Run::end);
            let writable = matches!(chunk.state, ChunkState::Free | ChunkState::Open);
            if !writable || run.sector != pointer {
                return Err((StatusCode::OutOfOrderWrite, *run));
            }
            if !run.count.is_multiple_of(self.config.write_min) {
                return Err((StatusCode::InvalidField, *run));
            }
            if chunk.state == ChunkState::Free && before.is_none() {
                opened += 1;
                let unit = self.unit(run.chunk);
                // The runs are few: count those that open a chunk of the unit.
                let in_unit = runs[..=index].iter().enumerate().filter(|&(at, other)| {
                    self.unit(other.chunk) == unit
                        && self.chunks[other.chunk].state == ChunkState::Free
                        && !runs[..at].iter().any(|earlier| earlier.chunk == other.chunk)
                });
                let in_unit = count32(in_unit.count());
                let too_many =
                    |most: Option<u32>, count: u32| most.is_some_and(|most| count > most);
                if too_many(self.config.max_open, self.open + opened)
                    || too_many(self.config.max_open_per_unit, self.open_in[unit] + in_unit)
                {
                    return Err((StatusCode::OutOfOrderWrite, *run));
                }
            }
        }
        Ok(())
    }

    fn unit(&self, chunk: usize) -> usize {
        chunk / self.config.chunks as usize
    }

    /// A run is being written, as `check_write` has allowed.
    pub fn write(&mut self, run: &Run) {
        self.chunks[run.chunk].written = run.end();
        let closed = run.end() == self.config.sectors;
        self.set(run.chunk, if closed { ChunkState::Closed } else { ChunkState::Open });
    }

    fn set(&mut self, index: usize, state: ChunkState) {
        self.changes += 1;
        let unit = self.unit(index);
        let before = std::mem::replace(&mut self.chunks[index].state, state);
        for open in [&mut self.open, &mut self.open_in[unit]] {
            *open = *open + u32::from(state == ChunkState::Open)
                - u32::from(before == ChunkState::Open);
        }
    }

    /// Returns whether a chunk can be reset.
    pub fn check_reset(&self, chunk: usize) -> Result<(), StatusCode> {
        match self.chunks[chunk].state {
            ChunkState::Closed => Ok(()),
            ChunkState::Offline => Err(StatusCode::OfflineChunk),
            ChunkState::Free | ChunkState::Open => Err(StatusCode::InvalidReset),
        }
    }

    /// A chunk is being reset, as `check_reset` has allowed.
    pub fn reset(&mut self, chunk: usize) {
        self.set(chunk, ChunkState::Free);
        let chunk = &mut self.chunks[chunk];
        chunk.written = 0;
        chunk.resets = chunk.resets.saturating_add(1);
    }

    /// A write to a chunk from `sector` on failed: it is closed, and readable
    /// up to there.
    pub fn close_early(&mut self, index: usize, sector: u32) {
        let chunk = &mut self.chunks[index];
        if matches!(chunk.state, ChunkState::Open | ChunkState::Closed) {
            chunk.written = chunk.written.min(sector);
            self.set(index, ChunkState::Closed);
        }
    }

    /// A chunk could not be erased.
    pub fn take_offline(&mut self, index: usize) {
        self.set(index, ChunkState::Offline);
        self.chunks[index].written = 0;
    }

    pub fn is_offline(&self, chunk: usize) -> bool {
        self.chunks[chunk].state == ChunkState::Offline
    }

    /// Sectors of a chunk that can be read: those before the write pointer,
    /// but for the last ones of an open chunk.
    pub fn readable(&self, index: usize) -> u32 {
        let chunk = &self.chunks[index];
        match chunk.state {
            ChunkState::Open => chunk.written.saturating_sub(self.config.cached),
            ChunkState::Closed => chunk.written,
            ChunkState::Free | ChunkState::Offline => 0,
        }
    }

    /// Wear-level Index: 255 when the endurance is used up.
    pub fn wear(&self, index: usize) -> u8 {
        let resets = u64::from(self.chunks[index].resets);
        let endurance = self.config.endurance.map_or(u64::MAX, u64::from);
        (resets * 255 / endurance).min(255) as u8
    }
}
