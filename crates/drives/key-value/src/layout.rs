//! Layout of a store on its bytes.

/// Minimum number of segments of a log: below, most of them would be open or in reserve.
pub const MIN_SEGMENTS: u64 = 8;
/// Segments that hold no pairs when a store is full: two that are open, and those in reserve.
const APART: u64 = 2 + RESERVE as u64;
/// Free segments below which collection begins. Hosts leave one of them to it.
pub(crate) const RESERVE: usize = 2;
/// Bytes of a page of the index, where units are no larger.
const PAGE: u64 = 4096;
/// Bytes of an entry of it: a key and its length, the value's place and length.
const ENTRY: u64 = 32;
/// Pages of a segment below which the log does not fill them up.
const PAGES: u64 = 32;

/// Layout of a store on its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a segment.
    pub segment: u64,
    /// Segments.
    pub segments: u32,
    /// Unit of the places of values (bytes).
    pub unit: u64,
    /// Maximum length of a value in bytes.
    pub max_value: u32,
    /// Maximum number of keys.
    pub max_keys: u32,
    /// Bytes that the values of all pairs can have together, each rounded up to units.
    pub capacity: u64,
    /// Bytes that the drive programs at once, if a flush makes it program fewer: before one, the log
    /// fills its ends up to a multiple.
    pub page: Option<u64>,
    /// The pages of the index; none where all of it is in memory.
    pub index: Option<Index>,
}

/// The pages of an index of which memory holds a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// Bytes of a page.
    pub page: u64,
    /// Pages.
    pub pages: u32,
    /// Pages that memory has room for.
    pub cached: u32,
}

/// Why there can be no such store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A segment is no multiple of the unit.
    #[error("a segment of {segment} bytes is no multiple of {unit} bytes")]
    Unit {
        /// Bytes of a segment.
        segment: u64,
        /// Bytes of a unit.
        unit: u64,
    },
    /// A segment is too small for the largest value.
    #[error(
        "a segment of {segment} bytes is less than four times the largest value, {value} bytes"
    )]
    Value {
        /// Bytes of a segment.
        segment: u64,
        /// Bytes of the largest value, in units.
        value: u64,
    },
    /// There are too few segments, or too many.
    #[error("{bytes} bytes are {count} segments of {segment}, but must be 8 to {}", u32::MAX)]
    Segments {
        /// Bytes of the store.
        bytes: u64,
        /// Bytes of a segment.
        segment: u64,
        /// Number of segments.
        count: u64,
    },
    /// The pages of the index leave no room.
    #[error("the index takes {index} bytes of the log's {capacity}; take fewer keys")]
    Index {
        /// Bytes of the index.
        index: u64,
        /// Bytes that pairs could have without it.
        capacity: u64,
    },
    /// There would be no key.
    #[error("a store has at least one key")]
    Keys,
}

impl Layout {
    /// A store on `bytes` bytes, of which `spare` of a thousand are left to collection. What is no
    /// whole segment at the end is not used. Collection needs some space in any case, so that the
    /// capacity can be less.
    ///
    /// # Errors
    /// The value that cannot be.
    pub fn new(
        bytes: u64,
        segment: u64,
        unit: u64,
        (max_value, max_keys): (u32, u32),
        spare: u16,
    ) -> Result<Self, LayoutError> {
        if unit == 0 || segment == 0 || !segment.is_multiple_of(unit) {
            return Err(LayoutError::Unit { segment, unit });
        }
        let value = u64::from(max_value).next_multiple_of(unit);
        if value.saturating_mul(4) > segment {
            return Err(LayoutError::Value { segment, value });
        }
        let count = bytes / segment;
        let segments = u32::try_from(count).ok().filter(|_| count >= MIN_SEGMENTS);
        let segments = segments.ok_or(LayoutError::Segments { bytes, segment, count })?;
        if max_keys == 0 {
            return Err(LayoutError::Keys);
        }
        let kept = 1000 - u128::from(spare.min(1000));
        let asked = (u128::from(count * segment) * kept / 1000) as u64;
        // A value that finds no room at the end of a segment leaves as much of it empty at most; so
        // the emptiest of the full segments has more free bytes than it takes to move its pairs.
        let most = (count - APART) * (segment - value);
        let capacity = asked.min(most) / unit * unit;
        Ok(Self { segment, segments, unit, max_value, max_keys, capacity, page: None, index: None })
    }

    /// Adds memory of `cache` bytes for pages of the index, which are in the log then, beside
    /// values: as many pages as have three quarters of their room taken by [`Layout::max_keys`].
    ///
    /// # Errors
    /// The value that cannot be.
    pub fn with_index(self, cache: u64) -> Result<Self, LayoutError> {
        let page = PAGE.next_multiple_of(self.unit);
        if page.saturating_mul(4) > self.segment {
            return Err(LayoutError::Value { segment: self.segment, value: page });
        }
        let entries = page / ENTRY;
        let pages = (u64::from(self.max_keys) * 4).div_ceil(entries * 3) as u32;
        let cached = (cache / page).clamp(1, pages.into()) as u32;
        let index = u64::from(pages) * page;
        // As in `new`: a page may be what finds no room at the end of a segment.
        let most = (u64::from(self.segments) - APART) * (self.segment - page);
        let capacity = self.capacity.min(most);
        if index >= capacity {
            return Err(LayoutError::Index { index, capacity });
        }
        let index = Index { page, pages, cached };
        let taken = u64::from(pages) * page;
        Ok(Self {
            capacity: (capacity - taken) / self.unit * self.unit,
            index: Some(index),
            ..self
        })
    }

    /// Adapts the layout to a drive that programs `page` bytes at once, or fewer before a flush:
    /// the log's ends are filled up to pages then, except where segments have few pages.
    #[must_use]
    pub fn with_page(self, page: u64) -> Self {
        if page == 0 || page.saturating_mul(PAGES) > self.segment {
            return self;
        }
        let page = page.next_multiple_of(self.unit);
        let filled = Self { page: Some(page), ..self };
        // Each collection gains more than what it fills.
        let most = (u64::from(self.segments) - APART) * filled.most_collected();
        Self { capacity: self.capacity.min(most) / self.unit * self.unit, ..filled }
    }

    /// Bytes in use of a segment whose collection gives more than it takes: there are fewer.
    pub(crate) fn most_collected(&self) -> u64 {
        let filled = self.page.map_or(0, |page| 2 * page);
        self.segment.saturating_sub(self.largest() + filled)
    }

    /// Bytes of the largest thing in the log.
    pub(crate) fn largest(&self) -> u64 {
        self.rounded(self.max_value).max(self.index.map_or(0, |index| index.page))
    }

    /// The bytes that a value of `length` bytes takes.
    pub fn rounded(&self, length: u32) -> u64 {
        u64::from(length).next_multiple_of(self.unit)
    }

    /// The segment of a byte.
    pub(crate) fn segment_of(&self, offset: u64) -> u32 {
        (offset / self.segment) as u32
    }

    /// The first byte of a segment.
    pub(crate) fn start(&self, segment: u32) -> u64 {
        u64::from(segment) * self.segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_checked() {
        let layout = |bytes, segment, max_value, keys| {
            Layout::new(bytes, segment, 512, (max_value, keys), 100)
        };
        let good = layout(64 << 20, 1 << 20, 65_536, 9).unwrap();
        assert_eq!((good.segments, good.capacity), (64, (60 << 20) / 16 * 15));
        let spacious = Layout::new(64 << 20, 1 << 20, 512, (65_536, 9), 500).unwrap();
        assert_eq!(spacious.capacity, 32 << 20);
        assert_eq!(good.rounded(1), 512);
        let wrong = layout(64 << 20, 1000, 1, 1);
        assert_eq!(wrong, Err(LayoutError::Unit { segment: 1000, unit: 512 }));
        let wrong = layout(64 << 20, 1 << 20, (256 << 10) + 1, 1);
        let value = (256 << 10) + 512;
        assert_eq!(wrong, Err(LayoutError::Value { segment: 1 << 20, value }));
        let wrong = layout(8 << 20, 2 << 20, 1, 1);
        let expected = LayoutError::Segments { bytes: 8 << 20, segment: 2 << 20, count: 4 };
        assert_eq!(wrong, Err(expected));
        assert_eq!(layout(64 << 20, 1 << 20, 1, 0), Err(LayoutError::Keys));
    }

    #[test]
    fn an_index_takes_its_pages_of_the_log() {
        let layout = Layout::new(64 << 20, 1 << 20, 512, (65_536, 960), 100).unwrap();
        // 128 entries of a page, three quarters of them taken.
        let indexed = layout.with_index(10_000).unwrap();
        assert_eq!(indexed.index, Some(Index { page: 4096, pages: 10, cached: 2 }));
        assert_eq!(indexed.capacity, layout.capacity - 10 * 4096);
        let large = Layout { unit: 16_384, ..layout }.with_index(1).unwrap();
        assert_eq!(large.index, Some(Index { page: 16_384, pages: 3, cached: 1 }));
        let many = Layout { max_keys: 2 << 20, ..layout }.with_index(1);
        let index = 4096 * (4u64 * (2 << 20)).div_ceil(384);
        assert_eq!(many, Err(LayoutError::Index { index, capacity: layout.capacity }));
    }
}
