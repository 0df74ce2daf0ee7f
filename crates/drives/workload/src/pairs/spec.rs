//! A load of pairs, as users write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::units::{self, format_size};
use stasis_key_value::{KeyValue, KeyValueError, Layout, MAX_KEY};

/// Limit on the keys of a load: each takes some 200 bytes of memory.
const MAX_KEYS: u32 = 1 << 26;
/// Limit on the value of a pair: what one command moves.
const MAX_VALUE: u32 = 512 << 10;
/// Limit on the commands under way.
const MAX_DEPTH: u16 = 4096;

/// A load of pairs: each key is stored once, then keys that are drawn are stored again, then
/// values are retrieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PairsSpec {
    /// Keys.
    pub keys: u32,
    /// Bytes of a key, 1 to 16.
    #[serde(default = "usual_key")]
    pub key_size: u8,
    /// Bytes of a value.
    #[serde(with = "units::size", default = "usual_value")]
    pub value_size: u64,
    /// The least bytes of a value, where they differ: each size up to `value-size` is as probable.
    #[serde(with = "units::size_option", default)]
    pub least_value_size: Option<u64>,
    /// Stores after the first of each key.
    #[serde(default)]
    pub overwrites: u64,
    /// Retrieves behind these: of each key once, and then uniformly.
    #[serde(default)]
    pub retrieves: u64,
    /// Commands under way.
    #[serde(default = "usual_depth")]
    pub depth: u16,
    /// The log, as a drive's key `key-value`; `max-keys` is that of the load.
    #[serde(default)]
    pub log: KeyValue,
}

fn usual_key() -> u8 {
    16
}

fn usual_value() -> u64 {
    1024
}

fn usual_depth() -> u16 {
    32
}

/// A load of pairs that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairsError {
    /// No keys, or too many.
    #[error("keys is {0}, but must be 1 to {MAX_KEYS}")]
    Keys(u32),
    /// A key has no bytes, or too many, or too few to tell all keys apart.
    #[error("key-size is {size}, but must be {least} to {MAX_KEY} for so many keys")]
    KeySize {
        /// The value given.
        size: u8,
        /// The least that works.
        least: u8,
    },
    /// A value is longer than the log takes, or the range is none.
    #[error("value-size is {least} to {most} bytes, but must be 1 to {limit}, the least first")]
    ValueSize {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// The most that works.
        limit: u32,
    },
    /// Too much is under way, or nothing.
    #[error("depth is {0}, but must be 1 to {MAX_DEPTH}")]
    Depth(u16),
    /// The log has keys of its own.
    #[error("log: max-keys is the load's `keys`: leave it out")]
    MaxKeys,
    /// There can be no such log.
    #[error("log: {0}")]
    Log(#[from] KeyValueError),
    /// The values have no room.
    #[error(
        "{keys} values of {} at most have no room in {}: give a larger drive (--size), fewer keys, \
         or a smaller spare-percent", format_size(*.value), format_size(*.room)
    )]
    Room {
        /// Number of units.
        keys: u32,
        /// The largest value, in blocks.
        value: u64,
        /// Bytes that values can have.
        room: u64,
    },
}

impl PairsSpec {
    /// The least and the most bytes of a value, of a checked description.
    pub(super) fn value_sizes(&self) -> (u32, u32) {
        (self.least_value_size.unwrap_or(self.value_size) as u32, self.value_size as u32)
    }

    /// The log on a drive of `capacity` bytes in blocks of `block_size`, if all pairs have room.
    ///
    /// # Errors
    /// The value that cannot be.
    pub fn layout(&self, capacity: u64, block_size: u64) -> Result<Layout, PairsError> {
        if !(1..=MAX_KEYS).contains(&self.keys) {
            return Err(PairsError::Keys(self.keys));
        }
        // A key ends with its number.
        let least = (32 - (self.keys - 1).leading_zeros()).div_ceil(8).max(1) as u8;
        if !(least..=MAX_KEY as u8).contains(&self.key_size) {
            return Err(PairsError::KeySize { size: self.key_size, least });
        }
        if !(1..=MAX_DEPTH).contains(&self.depth) {
            return Err(PairsError::Depth(self.depth));
        }
        if self.log.max_keys != KeyValue::default().max_keys {
            return Err(PairsError::MaxKeys);
        }
        let log = KeyValue { max_keys: self.keys, ..self.log };
        let block = u32::try_from(block_size).unwrap_or(u32::MAX);
        let limit = log.layout(capacity, block, MAX_VALUE)?.max_value;
        let (least, most) = (self.least_value_size.unwrap_or(self.value_size), self.value_size);
        if least == 0 || least > most || most > limit.into() {
            return Err(PairsError::ValueSize { least, most, limit });
        }
        // The shorter the longest value is, the less stays empty at the end of a segment.
        let layout = log.layout(capacity, block, (most as u32).next_multiple_of(block))?;
        let value = layout.rounded(most as u32);
        if value.saturating_mul(self.keys.into()) > layout.capacity {
            return Err(PairsError::Room { keys: self.keys, value, room: layout.capacity });
        }
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> PairsSpec {
        PairsSpec {
            keys: 1000,
            key_size: 16,
            value_size: 1024,
            least_value_size: None,
            overwrites: 0,
            retrieves: 0,
            depth: 32,
            log: KeyValue { segment: Some(64 << 10), ..KeyValue::default() },
        }
    }

    #[test]
    fn loads_are_checked() {
        let layout = spec().layout(2 << 20, 512).unwrap();
        assert_eq!((layout.max_keys, layout.segments), (1000, 32));
        let fails = |spec: PairsSpec, bytes| spec.layout(bytes, 512).unwrap_err().to_string();
        for (wrong, expected) in [
            (PairsSpec { keys: 0, ..spec() }, "keys is 0, but must be 1 to 67108864"),
            (PairsSpec { key_size: 1, ..spec() }, "key-size is 1, but must be 2 to 16"),
            (PairsSpec { key_size: 17, ..spec() }, "key-size is 17"),
            (PairsSpec { depth: 0, ..spec() }, "depth is 0, but must be 1 to 4096"),
            (PairsSpec { value_size: 0, ..spec() }, "value-size is 0 to 0 bytes"),
            (PairsSpec { least_value_size: Some(2000), ..spec() }, "is 2000 to 1024 bytes"),
            (PairsSpec { value_size: 20_000, ..spec() }, "but must be 1 to 16384, the least first"),
            (PairsSpec { keys: 3000, ..spec() }, "3000 values of 1KiB at most have no room in"),
            (PairsSpec { log: KeyValue { max_keys: 7, ..spec().log }, ..spec() }, "leave it out"),
            (PairsSpec { log: KeyValue { segment: Some(700), ..spec().log }, ..spec() }, "log: "),
        ] {
            let text = fails(wrong, 2 << 20);
            assert!(text.contains(expected), "{text}");
        }
    }
}
