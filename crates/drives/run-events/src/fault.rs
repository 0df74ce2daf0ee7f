//! A fault that has happened, as it is reported.

use stasis_block::clock::Nanos;

/// One happening of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRecord {
    /// Number of the fault among those of the experiment.
    pub fault: u16,
    /// Time at which it happened (ns).
    pub at: Nanos,
    /// The I/O that it befell, by its number among the submissions to the drive; `None` for one
    /// that befell a drive or a machine as a whole.
    pub order: Option<u64>,
    /// First byte of the range that it befell; 0 where there is none.
    pub offset: u64,
    /// Length of that range in bytes.
    pub length: u64,
}

/// Bytes of an encoded record.
pub(crate) const ENCODED: usize = 2 + 4 * 8;

impl FaultRecord {
    /// Appends the record in the form of the event stream.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fault.to_le_bytes());
        // No run has that many I/Os.
        let order = self.order.unwrap_or(u64::MAX);
        for word in [self.at, order, self.offset, self.length] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// The record that `bytes` encode; `None` if there are too few.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fault, words) = bytes.split_first_chunk::<2>()?;
        let word = |index: usize| stasis_layout::u64_at(words, 8 * index);
        Some(Self {
            fault: u16::from_le_bytes(*fault),
            at: word(0)?,
            order: Some(word(1)?).filter(|order| *order != u64::MAX),
            offset: word(2)?,
            length: word(3)?,
        })
    }
}
