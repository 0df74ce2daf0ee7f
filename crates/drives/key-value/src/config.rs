//! Configuration of a store, as users write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units::{self, format_size};

use crate::layout::{Layout, LayoutError};

/// Limit on the keys of a store: its index stays below some 8 GiB.
const MAX_KEYS: u32 = 1 << 26;
/// Segments of a log, about, and the bytes of one.
const USUAL_SEGMENTS: u64 = 256;
const USUAL_SEGMENT: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 20;
/// Segments that are whole multiples of what a drive erases, at least.
const MIN_WHOLE: u64 = 32;
/// Limit on the share that is left to collection (percent).
const MAX_SPARE: u8 = 90;

/// The pairs of a key-value namespace: their number, and the log that their values lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct KeyValue {
    /// Bytes of a segment of the log, which is collected as a whole. A value has a fourth of it at
    /// most. By default some 256th of the namespace, 1 MiB to 16 MiB, in whole multiples of what flash
    /// with page mapping erases together.
    #[serde(with = "units::size_option")]
    pub segment: Option<u64>,
    /// Share of the namespace that pairs cannot have, so that collection finds segments that are
    /// partly empty (percent).
    pub spare_percent: u8,
    /// Maximum number of keys. The index takes some 100 bytes of the host's memory for each that is
    /// there.
    pub max_keys: u32,
    /// The drive's memory for pages of its index, which are read from the log and written to it, 32
    /// bytes for each of `max-keys` and a third more. By default memory holds all of the index.
    #[serde(with = "units::size_option", skip_serializing_if = "Option::is_none")]
    pub index_cache: Option<u64>,
    /// Page of the drive below: [`Layout::with_page`].
    #[serde(skip)]
    pub page: Option<u64>,
}

impl Default for KeyValue {
    fn default() -> Self {
        Self { segment: None, spare_percent: 7, max_keys: 1 << 22, index_cache: None, page: None }
    }
}

/// An invalid configuration of a key-value namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyValueError {
    /// There can be no such log.
    #[error("key-value: {0}")]
    Layout(#[from] LayoutError),
    /// A segment is smaller than four blocks.
    #[error("key-value: segment is {}, but must be four blocks or more", format_size(*.0))]
    Segment(u64),
    /// Too many keys, or none.
    #[error("key-value: max-keys is {0}, but must be 1 to {MAX_KEYS}")]
    Keys(u32),
    /// Too much is left to collection.
    #[error("key-value: spare-percent is {0}, but must be 0 to {MAX_SPARE}")]
    Spare(u8),
}

impl KeyValue {
    /// Bytes of a segment of the log of a namespace of `bytes` bytes.
    pub fn segment(&self, bytes: u64) -> u64 {
        let (least, most) = USUAL_SEGMENT.into_inner();
        let usual = (bytes / USUAL_SEGMENTS).clamp(least, most);
        self.segment.unwrap_or(1 << usual.ilog2())
    }

    /// The log of `bytes` bytes on a drive that erases `erased` bytes together, and that programs
    /// `page` bytes at once, or fewer before a flush: its segments are whole multiples, unless they
    /// are given or would be few.
    #[must_use]
    pub fn on_flash(self, bytes: u64, (erased, page): (u64, Option<u64>)) -> Self {
        let whole = self.segment(bytes).checked_next_multiple_of(erased);
        let whole = whole.filter(|whole| bytes / whole >= MIN_WHOLE);
        Self { segment: self.segment.or(whole), page, ..self }
    }

    /// The log on `bytes` bytes in blocks of `block` bytes, for values that a command of `transfer`
    /// bytes moves.
    ///
    /// # Errors
    /// There can be no such log.
    pub fn layout(&self, bytes: u64, block: u32, transfer: u32) -> Result<Layout, KeyValueError> {
        let block = u64::from(block);
        if !(1..=MAX_KEYS).contains(&self.max_keys) {
            return Err(KeyValueError::Keys(self.max_keys));
        }
        if self.spare_percent > MAX_SPARE {
            return Err(KeyValueError::Spare(self.spare_percent));
        }
        let segment = self.segment(bytes);
        let most = (segment / 4 / block * block).min(transfer.into()) as u32;
        if most == 0 {
            return Err(KeyValueError::Segment(segment));
        }
        let spare = u16::from(self.spare_percent) * 10;
        let layout = Layout::new(bytes, segment, block, (most, self.max_keys), spare)?;
        let layout = match self.index_cache {
            Some(cache) => layout.with_index(cache)?,
            None => layout,
        };
        Ok(self.page.map_or(layout, |page| layout.with_page(page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_checked() {
        let layout = |config: KeyValue, bytes| config.layout(bytes, 512, 512 << 10);
        let usual = layout(KeyValue::default(), 64 << 30).unwrap();
        assert_eq!((usual.max_value, usual.segments), (512 << 10, 4096));
        assert_eq!(usual.capacity / 512, (64 << 30) * 93 / 100 / 512);
        let segment = |bytes| layout(KeyValue::default(), bytes).unwrap().segment;
        assert_eq!([64 << 20, 1 << 30, 5 << 30].map(segment), [1 << 20, 4 << 20, 16 << 20]);
        let small = KeyValue { segment: Some(64 << 10), ..KeyValue::default() };
        assert_eq!(layout(small, 1 << 20).unwrap().max_value, 16 << 10);
        let cached = KeyValue { index_cache: Some(64 << 10), max_keys: 960, ..small };
        assert_eq!(layout(cached, 1 << 20).unwrap().index.map(|index| index.cached), Some(10));
        let on_flash =
            |config: KeyValue, erased| config.on_flash(1 << 30, (erased, Some(16384))).segment;
        assert_eq!(on_flash(KeyValue::default(), 6 << 20), Some(6 << 20));
        assert_eq!(on_flash(KeyValue::default(), 3 << 20), Some(6 << 20));
        assert_eq!(on_flash(KeyValue::default(), 33 << 20), None, "there would be 31");
        assert_eq!(on_flash(small, 6 << 20), small.segment);
        let text = |result: Result<Layout, KeyValueError>| result.unwrap_err().to_string();
        for (wrong, expected) in [
            (KeyValue { max_keys: 0, ..small }, "max-keys is 0, but must be 1 to 67108864"),
            (KeyValue { spare_percent: 91, ..small }, "spare-percent is 91, but must be 0 to 90"),
            (KeyValue { segment: Some(1024), ..small }, "segment is 1KiB, but must be four blocks"),
            (KeyValue { segment: Some(70_000), ..small }, "no multiple of 512"),
            (KeyValue { segment: Some(256 << 10), ..small }, "are 4 segments of 262144"),
            (KeyValue { index_cache: Some(4096), ..small }, "the index takes 178958336 bytes of"),
        ] {
            assert!(
                text(layout(wrong, 1 << 20)).contains(expected),
                "{}",
                text(layout(wrong, 1 << 20))
            );
        }
    }
}
