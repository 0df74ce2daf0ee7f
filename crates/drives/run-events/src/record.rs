//! One I/O as the results keep it.

use stasis_block::Operation;
use stasis_clock::Nanos;

/// One I/O. All times are virtual, in ns since the machine was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoRecord {
    /// Index of the drive in the experiment.
    pub drive: u16,
    /// The queue it was submitted to (NVMe: submission queue identifier).
    pub queue: u16,
    /// What was asked.
    pub operation: Operation,
    /// Whether it failed.
    pub failed: bool,
    /// Whether its controller refused it: no drive was asked, no model said when.
    pub refused: bool,
    /// What the guest was told: of an NVMe drive the status code and its type (NVMe 1.4
    /// section 4.6.1: type in bits 10:8), of a virtio one the request's status byte
    /// (virtio 1.2 section 5.2.6); 0 where it ended well.
    pub code: u16,
    /// Whether it belongs to the guest's boot, before the command began.
    pub boot: bool,
    /// Whether it was to be durable before it was acknowledged.
    pub fua: bool,
    /// Which data a write belongs with, as the host numbers it; 0 for none.
    pub stream: u16,
    /// I/O priority as Linux numbers it; 0 for none.
    pub priority: u16,
    /// First byte of the range.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// First byte of the range that a copy takes its contents from.
    pub source: u64,
    /// Its number among the submissions to the drive, from 0.
    pub order: u64,
    /// The doorbell write.
    pub submit: Nanos,
    /// When the model let it complete.
    pub target: Nanos,
    /// When its completion was visible to the guest.
    pub delivered: Nanos,
}

impl IoRecord {
    /// Length of a record in an event stream's frames.
    pub(crate) const ENCODED: usize = 68;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.drive.to_le_bytes());
        out.extend_from_slice(&self.queue.to_le_bytes());
        out.push(self.operation as u8);
        out.push(
            u8::from(self.failed)
                | u8::from(self.boot) << 1
                | u8::from(self.fua) << 2
                | u8::from(self.refused) << 3,
        );
        out.extend_from_slice(&self.stream.to_le_bytes());
        let Self { offset, bytes, source, order, submit, target, delivered, .. } = *self;
        for field in [offset, bytes, source, order, submit, target, delivered] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.priority.to_le_bytes());
        out.extend_from_slice(&self.code.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8; Self::ENCODED]) -> Option<Self> {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |index: usize| {
            let at = 8 + 8 * index;
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
        };
        Some(Self {
            drive: short(0),
            queue: short(2),
            operation: Operation::from_number(bytes[4])?,
            failed: bytes[5] & 1 != 0,
            refused: bytes[5] & 8 != 0,
            code: short(66),
            boot: bytes[5] & 2 != 0,
            fua: bytes[5] & 4 != 0,
            stream: short(6),
            priority: short(64),
            offset: long(0),
            bytes: long(1),
            source: long(2),
            order: long(3),
            submit: long(4),
            target: long(5),
            delivered: long(6),
        })
    }
}
