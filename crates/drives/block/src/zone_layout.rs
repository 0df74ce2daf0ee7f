//! Sequential zones: where they lie on a drive, and the commands that move their write pointers.

use crate::{Command, Operation, SECTOR};

/// A part of a drive with zones of one size, from its first byte on; the last one may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonedPart {
    /// First byte.
    pub start: u64,
    /// The byte behind the last one.
    pub end: u64,
    /// From one zone's start to the next's, in bytes.
    pub size: u64,
}

/// The zones of a drive, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneLayout {
    parts: Vec<ZonedPart>,
}

impl ZoneLayout {
    /// The zones of these parts, which do not overlap.
    pub fn new(mut parts: Vec<ZonedPart>) -> Self {
        parts.retain(|part| part.start < part.end);
        parts.sort_unstable_by_key(|part| part.start);
        Self { parts }
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The first part that ends behind this byte.
    fn part_from(&self, offset: u64) -> Option<&ZonedPart> {
        self.parts.get(self.parts.partition_point(|part| part.end <= offset))
    }

    /// The zone with this byte, by its first byte, and the byte behind it.
    pub fn zone(&self, offset: u64) -> Option<(u64, u64)> {
        let part = self.part_from(offset).filter(|part| part.start <= offset)?;
        let size = part.size.max(SECTOR);
        let start = part.start + (offset - part.start) / size * size;
        Some((start, start.saturating_add(size).min(part.end)))
    }

    /// Returns whether the command makes whole zones empty, and no other one in part.
    pub fn resets(&self, command: &Command) -> bool {
        let Command { operation, offset, length, .. } = *command;
        let end = offset.saturating_add(length);
        operation == Operation::Discard
            && length > 0
            && self.part_from(offset).is_some_and(|part| part.start < end)
            && self.zone(offset).is_none_or(|(start, _)| start == offset)
            && self.zone(end - 1).is_none_or(|(_, behind)| behind == end)
    }

    /// Returns whether the command moves a write pointer.
    pub fn moves(&self, command: &Command) -> bool {
        let Command { operation, offset, length, .. } = *command;
        let writes =
            matches!(operation, Operation::Write | Operation::WriteZeroes | Operation::Copy);
        let reaches = |part: &ZonedPart| part.start < offset.saturating_add(length);
        (writes && self.part_from(offset).is_some_and(reaches)) || self.resets(command)
    }

    /// The zones of sectors `first` to `end`, each by its first sector, with the part of them
    /// that lies in it.
    pub fn parts(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let mut at = first;
        std::iter::from_fn(move || {
            let next = self.part_from(at.saturating_mul(SECTOR))?;
            let from = at.max(next.start / SECTOR);
            let (start, behind) = self.zone(from.saturating_mul(SECTOR))?;
            at = end.min(behind / SECTOR);
            (from < at).then_some((start / SECTOR, from, at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> ZoneLayout {
        let part = |start, end, size| ZonedPart {
            start: start * SECTOR,
            end: end * SECTOR,
            size: size * SECTOR,
        };
        ZoneLayout::new(vec![part(100, 110, 5), part(20, 31, 4), part(7, 7, 1)])
    }

    fn command(operation: Operation, first: u64, end: u64) -> Command {
        Command::new(operation, first * SECTOR, (end - first) * SECTOR)
    }

    #[test]
    fn zones_lie_in_their_parts() {
        let zone = |sector: u64| {
            let found = layout().zone(sector * SECTOR);
            found.map(|(start, behind)| (start / SECTOR, behind / SECTOR))
        };
        assert_eq!([0, 7, 19, 31, 99, 110].map(zone), [None; 6]);
        assert_eq!([20, 23, 24].map(zone), [Some((20, 24)), Some((20, 24)), Some((24, 28))]);
        assert_eq!([30, 109].map(zone), [Some((28, 31)), Some((105, 110))]);
        let parts: Vec<_> = layout().parts(0, 200).collect();
        let last = [(20, 20, 24), (24, 24, 28), (28, 28, 31), (100, 100, 105), (105, 105, 110)];
        assert_eq!(parts, last);
        assert_eq!(
            layout().parts(26, 102).collect::<Vec<_>>(),
            [(24, 26, 28), (28, 28, 31), (100, 100, 102)]
        );
        assert_eq!(layout().parts(40, 60).count() + layout().parts(200, 300).count(), 0);
    }

    #[test]
    fn a_reset_is_of_whole_zones() {
        let resets = |first, end| layout().resets(&command(Operation::Discard, first, end));
        assert!(resets(20, 24) && resets(24, 31) && resets(20, 110) && resets(0, 200));
        assert!(!resets(20, 23) && !resets(21, 24) && !resets(0, 22) && !resets(104, 120));
        assert!(!resets(0, 20) && !resets(40, 90), "no zone is there");
        assert!(!layout().resets(&command(Operation::Write, 20, 24)));
    }

    #[test]
    fn writes_to_zones_move_pointers() {
        let moves = |operation, first, end| layout().moves(&command(operation, first, end));
        for operation in [Operation::Write, Operation::WriteZeroes, Operation::Copy] {
            assert!(moves(operation, 21, 22) && moves(operation, 107, 110));
            assert!(!moves(operation, 0, 20) && !moves(operation, 31, 100));
        }
        assert!(!moves(Operation::Read, 20, 24) && moves(Operation::Discard, 20, 24));
        assert!(!moves(Operation::Discard, 20, 22));
        assert!(!ZoneLayout::default().moves(&command(Operation::Write, 0, 100)));
    }
}
