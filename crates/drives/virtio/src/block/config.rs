//! Configuration of a device.

use stasis_block::Doorbells;

use crate::SECTOR;

/// Configuration of a device. `Default` has everything but a capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Size in bytes, a multiple of the block size.
    pub capacity: u64,
    /// Size of a logical block in bytes: 512 or 4096. A hint to the driver:
    /// requests are in sectors of 512 all the same.
    pub block_size: u32,
    /// Logical blocks in a physical one, as a power of two: 0 to 7.
    pub physical_block_exponent: u8,
    /// Identifier of the device for the driver: 1 to 20 printable ASCII characters.
    pub identifier: String,
    /// Request queues, 1 to 64.
    pub queues: u16,
    /// Entries of the largest queue: a power of two, 4 to 1024.
    pub queue_size: u16,
    /// Limit on the pieces of a request's data (`seg_max`): at most `queue_size - 2`.
    pub max_segments: u16,
    /// Limit on the bytes in a piece (`size_max`): 4 KiB to 64 KiB. A request moves at most
    /// `max_segments` times as many.
    pub max_segment_bytes: u32,
    /// Limit on the bytes of data in all requests that the drive holds; above it no more are taken
    /// until some complete. At least the limit of one request.
    pub max_in_flight_bytes: usize,
    /// True if writes are refused.
    pub read_only: bool,
    /// True if the drive has a volatile write cache, which a guest can then flush and turn off.
    pub volatile_write_cache: bool,
    /// True if a discarded range reads as zeroes afterwards, so that a request to write zeroes that
    /// may deallocate becomes a discard.
    pub discard_zeroes: bool,
    /// Delivery of the driver's notifications. If exact, every request made available to an idle
    /// queue is notified; if lazy, none is, and the carrier calls [`crate::Device::poll`].
    pub notify: Doorbells,
    /// True if indirect descriptors are offered.
    pub indirect: bool,
    /// True if the event index is offered.
    pub event_index: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity: 0,
            block_size: 512,
            physical_block_exponent: 0,
            identifier: "STASIS0".into(),
            queues: 1,
            queue_size: 256,
            max_segments: 254,
            max_segment_bytes: 16 << 10,
            max_in_flight_bytes: 256 << 20,
            read_only: false,
            volatile_write_cache: true,
            discard_zeroes: false,
            notify: Doorbells::default(),
            indirect: true,
            event_index: true,
        }
    }
}

/// Reason why a device cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The identifier does not fit.
    #[error("virtio identifier {0:?} must be 1 to 20 printable ASCII characters")]
    Identifier(String),
    /// A number outside its range.
    #[error("virtio {field} is {value}, but must be {expected}")]
    Number {
        /// The name of the field.
        field: &'static str,
        /// The given value.
        value: u64,
        /// The allowed values.
        expected: &'static str,
    },
}

impl Config {
    /// Checks every field.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the field and its allowed values.
    pub fn check(&self) -> Result<(), ConfigError> {
        let printable = self.identifier.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
        if !(1..=20).contains(&self.identifier.len()) || !printable {
            return Err(ConfigError::Identifier(self.identifier.clone()));
        }
        let number = |field, value: u64, good: bool, expected| {
            if good {
                return Ok(());
            }
            Err(ConfigError::Number { field, value, expected })
        };
        let block = u64::from(self.block_size);
        number("block_size", block, matches!(block, 512 | 4096), "512 or 4096 bytes")?;
        let whole = self.capacity.is_multiple_of(block);
        let fits = (block..=i64::MAX as u64).contains(&self.capacity);
        number("capacity", self.capacity, whole && fits, "a multiple of the block size")?;
        let exponent = self.physical_block_exponent;
        number("physical_block_exponent", exponent.into(), exponent < 8, "0 to 7")?;
        let queues = self.queues;
        number("queues", queues.into(), (1..=64).contains(&queues), "1 to 64")?;
        let size = self.queue_size;
        let good = size.is_power_of_two() && (4..=1024).contains(&size);
        number("queue_size", size.into(), good, "a power of two, 4 to 1024")?;
        let segments = self.max_segments;
        let good = (1..=size - 2).contains(&segments);
        number("max_segments", segments.into(), good, "1 to queue_size - 2")?;
        let bytes = u64::from(self.max_segment_bytes);
        let good = (4096..=64 << 10).contains(&bytes) && bytes.is_multiple_of(SECTOR);
        number("max_segment_bytes", bytes, good, "a multiple of 512, 4096 to 65536")?;
        let held = self.max_in_flight_bytes;
        let expected = "at least max_segments times max_segment_bytes";
        number("max_in_flight_bytes", held as u64, held >= self.max_transfer(), expected)
    }

    /// Limit on the bytes that a request moves.
    pub(crate) fn max_transfer(&self) -> usize {
        usize::from(self.max_segments) * self.max_segment_bytes as usize
    }
}
