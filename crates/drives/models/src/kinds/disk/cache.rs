//! The write cache: extents of bytes that the platter does not have yet.

use std::ops::Range;

use super::geometry::Position;

/// Size to which adjacent writes grow into one extent (bytes), so that the arm is not held for much
/// longer than a rotation. Our choice: no data sheet gives a figure.
const MAX_EXTENT: u64 = 1 << 20;

/// Bytes `start..end` that wait for the platter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Place of `start`.
    pub(crate) place: Position,
    /// Number of the first write in it.
    pub(crate) oldest: u64,
}

/// Extents, disjoint.
#[derive(Debug)]
pub(crate) struct WriteCache {
    // Extents in the order of place, as numbers of slots: small, as each insertion moves some.
    order: Vec<u16>,
    slots: Vec<Extent>,
    free: Vec<u16>,
    // The extent that the arm is writing, which still takes room.
    in_flight: Option<Extent>,
    bytes: u64,
    limit: u64,
    writes: u64,
}

impl WriteCache {
    /// Room for `limit` bytes in at most `extent_limit` extents.
    pub(crate) fn new(limit: u64, extent_limit: u16) -> Self {
        let slots = usize::from(extent_limit);
        let empty = Extent { start: 0, end: 0, place: Position::default(), oldest: 0 };
        Self {
            order: Vec::with_capacity(slots),
            slots: vec![empty; slots],
            free: (0..extent_limit).collect(),
            in_flight: None,
            bytes: 0,
            limit,
            writes: 0,
        }
    }

    /// Empties the cache.
    pub(crate) fn empty(&mut self) {
        self.order.clear();
        self.free = (0..self.slots.len() as u16).collect();
        (self.in_flight, self.bytes) = (None, 0);
    }

    /// Returns a human-readable list of the cache's contents.
    pub(crate) fn told(&self) -> String {
        /// Limit on the extents that are named.
        const NAMED: usize = 64;
        if self.bytes == 0 {
            return "the cache is empty".to_owned();
        }
        let all = self.in_flight.iter().chain(self.extents());
        let named: Vec<_> =
            all.take(NAMED).map(|one| format!("{} to {}", one.start, one.end)).collect();
        let more = match self.order.len() + usize::from(self.in_flight.is_some()) {
            count if count > NAMED => ", and more",
            _ => "",
        };
        format!("{} of {} bytes: from {}{more}", self.bytes, self.limit, named.join(", "))
    }

    /// Capacity of the cache in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn extent(&self, index: usize) -> &Extent {
        &self.slots[usize::from(self.order[index])]
    }

    fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.order.iter().map(|&slot| &self.slots[usize::from(slot)])
    }

    // The first extent, in the order of place, that is not `before`.
    fn first(&self, before: impl Fn(&Extent) -> bool) -> usize {
        self.order.partition_point(|&slot| before(&self.slots[usize::from(slot)]))
    }

    /// Returns whether `length` bytes could ever be taken.
    pub(crate) fn can_hold(&self, length: u64) -> bool {
        length <= self.limit && !self.slots.is_empty()
    }

    /// Returns whether nothing waits for the arm.
    pub(crate) fn is_clean(&self) -> bool {
        self.order.is_empty()
    }

    /// The number that the next write will have. Extents with lower ones are older.
    pub(crate) fn next_write(&self) -> u64 {
        self.writes
    }

    /// Returns whether everything older than write number `barrier` is on the platter.
    pub(crate) fn is_durable(&self, barrier: u64) -> bool {
        self.in_flight.iter().chain(self.extents()).all(|extent| extent.oldest >= barrier)
    }

    /// Takes `start..end` in, if there is room; `place` is that of `start`. Writes before number `barrier`
    /// are waited for: their extents are not made longer.
    pub(crate) fn accept(&mut self, start: u64, end: u64, place: Position, barrier: u64) -> bool {
        if start >= end {
            return true;
        }
        // Every extent that overlaps or touches the range.
        let mut low = self.first(|extent| extent.end < start);
        let mut high = self.first(|extent| extent.start <= end).max(low);
        let may_grow = |extent: &Extent| {
            extent.oldest >= barrier && end.max(extent.end) - start.min(extent.start) <= MAX_EXTENT
        };
        if low < high && self.extent(low).end == start && !may_grow(self.extent(low)) {
            low += 1;
        }
        if low < high && self.extent(high - 1).start == end && !may_grow(self.extent(high - 1)) {
            high -= 1;
        }
        let mut union = Extent { start, end, place, oldest: self.writes };
        let mut replaced = 0;
        for extent in (low..high).map(|index| self.extent(index)) {
            if extent.start < union.start {
                (union.start, union.place) = (extent.start, extent.place);
            }
            union.end = union.end.max(extent.end);
            union.oldest = union.oldest.min(extent.oldest);
            replaced += extent.end - extent.start;
        }
        let bytes = self.bytes - replaced + (union.end - union.start);
        let extents = self.order.len() - (high - low) + 1 + usize::from(self.in_flight.is_some());
        if bytes > self.limit || extents > self.slots.len() {
            return false;
        }
        self.writes += 1;
        self.bytes = bytes;
        if low == high {
            // The count above leaves a slot free.
            let Some(slot) = self.free.pop() else { return false };
            self.order.insert(low, slot);
        } else {
            self.free.extend(self.order.drain(low + 1..high));
        }
        self.slots[usize::from(self.order[low])] = union;
        true
    }

    /// Returns whether all of `start..end` can be read from the cache.
    pub(crate) fn contains(&self, start: u64, end: u64) -> bool {
        let holds = |extent: &Extent| extent.start <= start && end <= extent.end;
        let at = self.first(|extent| extent.end < end);
        (at < self.order.len() && holds(self.extent(at)))
            || self.in_flight.as_ref().is_some_and(holds)
    }

    /// The `window` extents that are nearest to `offset` in the order of place.
    pub(crate) fn near(&self, offset: u64, window: usize) -> Range<usize> {
        let at = self.first(|extent| extent.start < offset);
        let low = at.saturating_sub(window / 2);
        let high = (low + window).min(self.order.len());
        high.saturating_sub(window)..high
    }

    /// Returns the place where an extent begins.
    pub(crate) fn place(&self, index: usize) -> &Position {
        &self.extent(index).place
    }

    /// The extent that has waited longest.
    pub(crate) fn oldest(&self) -> Option<usize> {
        (0..self.order.len()).min_by_key(|&index| self.extent(index).oldest)
    }

    /// Gives an extent to the arm.
    pub(crate) fn begin(&mut self, index: usize) -> Extent {
        let slot = self.order.remove(index);
        self.free.push(slot);
        let extent = self.slots[usize::from(slot)];
        self.in_flight = Some(extent);
        extent
    }

    /// The arm has written its extent.
    pub(crate) fn finish(&mut self) {
        if let Some(extent) = self.in_flight.take() {
            self.bytes -= extent.end - extent.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accept(cache: &mut WriteCache, start: u64, end: u64, barrier: u64) -> bool {
        cache.accept(start, end, Position::default(), barrier)
    }

    #[test]
    fn adjacent_writes_join_until_a_flush_waits_for_them() {
        let mut cache = WriteCache::new(1 << 20, 2);
        assert!(
            accept(&mut cache, 0, 10, 0)
                && accept(&mut cache, 10, 20, 0)
                && accept(&mut cache, 40, 50, 0)
        );
        assert!(cache.contains(5, 15) && !cache.contains(15, 41));
        // No third extent, but the gap between the two may be filled.
        assert!(!accept(&mut cache, 60, 70, 0));
        assert!(!accept(&mut cache, 20, 25, 3), "both older than the barrier");
        assert!(accept(&mut cache, 20, 40, 0) && cache.contains(0, 50));
        let barrier = cache.next_write();
        assert!(accept(&mut cache, 50, 60, barrier));
        assert!(!cache.contains(45, 55) && !cache.is_durable(barrier));
        assert_eq!(cache.oldest(), Some(0));
        assert_eq!(
            cache.begin(0),
            Extent { start: 0, end: 50, place: Position::default(), oldest: 0 }
        );
        assert!(!cache.is_durable(barrier) && cache.contains(0, 50));
        cache.finish();
        assert!(cache.is_durable(barrier) && !cache.is_clean() && !cache.contains(0, 50));
    }

    proptest! {
        /// Against a set of bytes.
        #[test]
        fn the_extents_are_the_bytes_written(
            writes in prop::collection::vec((0u64..200, 1u64..30, any::<bool>()), 0..60),
            limit in 1u64..200,
        ) {
            let mut cache = WriteCache::new(limit, 8);
            let mut bytes = std::collections::BTreeSet::new();
            for (start, length, destage) in writes {
                let end = start + length;
                let mut union = bytes.clone();
                union.extend(start..end);
                if accept(&mut cache, start, end, 0) {
                    prop_assert!(union.len() as u64 <= limit);
                    bytes = union;
                } else {
                    prop_assert!(union.len() as u64 > limit || cache.order.len() >= 8);
                }
                if destage && !cache.is_clean() {
                    let extent = cache.begin(cache.near(start, 1).start);
                    cache.finish();
                    (extent.start..extent.end).for_each(|b| { bytes.remove(&b); });
                }
                let held: Vec<u64> = cache.extents().flat_map(|e| e.start..e.end).collect();
                prop_assert_eq!(held, bytes.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(cache.bytes, bytes.len() as u64);
                for at in (0..230).step_by(3) {
                    let inside = cache.extents().any(|e| e.start <= at && at + 3 <= e.end);
                    prop_assert_eq!(cache.contains(at, at + 3), inside);
                }
            }
        }
    }
}
