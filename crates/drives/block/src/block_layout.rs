//! Layout of a host's logical blocks on a drive where some of them have metadata: each such block
//! is followed by a sector for it.
//!
//! Whoever keeps bytes sees both, in one request, so that no layer can part them. A model sees the
//! host's data alone, as a drive's flash has room for metadata beside each page.

use std::ops::Range;

use crate::{Command, PowerLoss, ZoneLayout, SECTOR};

/// A part of a drive whose blocks have metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleaved {
    /// Its first byte on the drive, and the one behind it.
    pub start: u64,
    /// The byte behind it.
    pub end: u64,
    /// Bytes of a block's data.
    pub block: u64,
    /// From one block to the next, in bytes.
    pub stride: u64,
}

/// The layout of a drive: the parts whose blocks have metadata, in order, and its zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockLayout {
    largest: u32,
    parts: Vec<Interleaved>,
    zones: ZoneLayout,
}

impl Default for BlockLayout {
    /// The layout of a drive of sectors.
    fn default() -> Self {
        Self { largest: SECTOR as u32, parts: Vec::new(), zones: ZoneLayout::default() }
    }
}

impl BlockLayout {
    /// The layout of a drive whose largest blocks have `largest` bytes of data; `parts` do not
    /// overlap.
    pub fn new(largest: u32, mut parts: Vec<Interleaved>) -> Self {
        parts.sort_unstable_by_key(|part| part.start);
        Self { largest, parts, zones: ZoneLayout::default() }
    }

    /// Adds the zones of the drive.
    #[must_use]
    pub fn with_zones(self, zones: ZoneLayout) -> Self {
        Self { zones, ..self }
    }

    /// The zones.
    pub fn zones(&self) -> &ZoneLayout {
        &self.zones
    }

    /// The largest logical block, in bytes of data.
    pub fn largest(&self) -> u32 {
        self.largest
    }

    /// Returns whether nothing has metadata.
    pub fn is_plain(&self) -> bool {
        self.parts.is_empty()
    }

    /// The part with this byte.
    fn part(&self, offset: u64) -> Option<&Interleaved> {
        let index = self.parts.partition_point(|part| part.end <= offset);
        self.parts.get(index).filter(|part| part.start <= offset)
    }

    /// Returns the byte of data at or behind byte `offset` of the drive, counted as in the part of
    /// byte `base`.
    fn data_at(&self, offset: u64, base: u64) -> u64 {
        let Some(part) = self.part(base) else { return offset };
        let within = offset - part.start;
        let data = (within % part.stride).min(part.block);
        part.start + within / part.stride * part.block + data
    }

    /// A command in bytes of the host's data, as the drive's model sees it.
    #[must_use]
    pub fn of_data(&self, command: &Command) -> Command {
        let Command { offset, length, source, .. } = *command;
        let Some(end) = offset.checked_add(length).filter(|_| length > 0 && !self.is_plain())
        else {
            return *command;
        };
        let first = self.data_at(offset, offset);
        let length = self.data_at(end, end - 1).saturating_sub(first);
        Command { offset: first, length, source: self.data_at(source, source), ..*command }
    }

    /// The byte of a command's range on the drive, counted from its start, where a byte of the host's
    /// data is, counted likewise.
    pub fn on_drive(&self, command: &Command, at: u64) -> u64 {
        let Some(part) = self.part(command.offset) else { return at };
        let within = self.data_at(command.offset, command.offset) + at - part.start;
        let place = part.start + within / part.block * part.stride + within % part.block;
        place.saturating_sub(command.offset)
    }
}

/// The units that a power cut does not tear, in sectors of a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomicUnits {
    unit: u64,
    // First sector, the one behind the last, and sectors of a unit.
    parts: Vec<(Range<u64>, u64)>,
}

impl AtomicUnits {
    /// Returns the atomic units of a drive whose model describes a power cut by `power_loss`,
    /// whatever its blocks are. A block and its metadata are in one unit, and a unit has as many
    /// blocks as without metadata.
    pub fn new(power_loss: PowerLoss, layout: &BlockLayout) -> Self {
        let parts = layout.parts.iter().map(|part| {
            let blocks = power_loss.for_blocks(part.block).atomic_unit / part.block;
            (part.start / SECTOR..part.end / SECTOR, blocks * part.stride / SECTOR)
        });
        let unit = power_loss.for_blocks(layout.largest.into()).atomic_unit / SECTOR;
        Self { unit, parts: parts.collect() }
    }

    /// Units of `sectors` sectors, side by side from the first sector of the drive on.
    pub fn of_sectors(sectors: u64) -> Self {
        Self { unit: sectors, parts: Vec::new() }
    }

    /// The unit of a sector: its first sector, and how many it has.
    pub fn of(&self, sector: u64) -> (u64, u64) {
        let index = self.parts.partition_point(|(part, _)| part.end <= sector);
        let found = self.parts.get(index).filter(|(part, _)| part.start <= sector);
        let (start, unit) = found.map_or((0, self.unit), |(part, unit)| (part.start, *unit));
        (start + (sector - start) / unit * unit, unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheKind, Operation};

    fn layout() -> BlockLayout {
        let part = |start, end, block| Interleaved { start, end, block, stride: block + SECTOR };
        BlockLayout::new(4096, vec![part(1 << 20, 2 << 20, 4096), part(0, 4096, 512)])
    }

    #[test]
    fn a_model_sees_the_data_alone() {
        let layout = layout();
        let data_of = |offset, length| {
            let data = layout.of_data(&Command::new(Operation::Read, offset, length));
            (data.offset, data.length)
        };
        assert_eq!(data_of(0, 1024), (0, 512));
        assert_eq!(data_of(1024, 3072), (512, 1536));
        assert_eq!(data_of(8192, 4096), (8192, 4096), "between the parts");
        assert_eq!(data_of(1 << 20, 4608), (1 << 20, 4096));
        assert_eq!(data_of((1 << 20) + 4608, 3 * 4608), ((1 << 20) + 4096, 3 * 4096));
        assert_eq!(data_of(0, 0), (0, 0), "a flush");
        let copy = Command { source: 2048, ..Command::new(Operation::Copy, 0, 1024) };
        assert_eq!(layout.of_data(&copy).source, 1024);
        // A range over several parts, as an erasure has: all of it, and nothing twice.
        let (first, rest) = (data_of(0, 1 << 20), data_of(1 << 20, 3 << 20));
        assert_eq!((first.0 + first.1, rest.0), (1 << 20, 1 << 20));
        let read = Command::new(Operation::Read, 1 << 20, 4 * 4608);
        assert_eq!(
            [0, 4095, 4096, 9000].map(|at| layout.on_drive(&read, at)),
            [0, 4095, 4608, 9216 + 808]
        );
        let plain = Command::new(Operation::Read, 4096, 512);
        assert_eq!((layout.on_drive(&plain, 7), layout.of_data(&plain)), (7, plain));
    }

    #[test]
    fn a_block_and_its_metadata_are_one_unit() {
        let units = |unit| AtomicUnits::new(PowerLoss::new(CacheKind::None, unit), &layout());
        let of_512 = units(512);
        assert_eq!([0, 1, 2, 3].map(|sector| of_512.of(sector)), [(0, 2), (0, 2), (2, 2), (2, 2)]);
        assert_eq!(of_512.of(9), (8, 8), "the largest block without metadata");
        assert_eq!([2048, 2056, 2057].map(|sector| of_512.of(sector).0), [2048, 2048, 2057]);
        let of_16k = units(16384);
        assert_eq!(of_16k.of(2048 + 35), (2048, 36), "four blocks");
        assert_eq!(of_16k.of(2048 + 36), (2048 + 36, 36));
        assert_eq!(of_16k.of(1000), (992, 32));
    }
}
