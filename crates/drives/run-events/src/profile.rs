//! A profile of a run: where its processors were at each so-manieth nanosecond.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;

/// The samples to take of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileJob {
    /// Virtual time between two samples of a processor (ns), at least 1.
    pub interval: Nanos,
    /// The kernel's tables for unwinding its stacks; without them a sample has the instruction only.
    pub orc: Option<Orc>,
}

/// Where a kernel has its tables for unwinding stacks (Linux, Documentation/arch/x86/orc-unwinder.rst),
/// as linear addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orc {
    /// `__start_orc_unwind_ip`.
    pub addresses: u64,
    /// `__stop_orc_unwind_ip`.
    pub addresses_end: u64,
    /// `__start_orc_unwind`.
    pub entries: u64,
    /// Whether the kernel is 6.4 or newer, which numbers the types of entries otherwise.
    pub from_6_4: bool,
}

/// Samples of a processor that have one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When the first was taken (ns).
    pub at: Nanos,
    /// The processor's number among those of all machines.
    pub processor: u16,
    /// How many samples follow each other at the interval.
    pub count: u32,
    /// The instruction, and the calls that led to it, the innermost first; empty where the processor
    /// was idle. Below 1 << 63 a program's, of which there is one.
    pub frames: Vec<u64>,
}

impl Sample {
    /// Bytes of the sample in a stream.
    pub(crate) fn encoded(&self) -> usize {
        8 + 2 + 4 + 2 + 8 * self.frames.len()
    }

    /// Appends the sample to a stream; of more frames than a stack has here, the innermost.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let frames = &self.frames[..self.frames.len().min(usize::from(u16::MAX))];
        out.extend_from_slice(&self.at.to_le_bytes());
        out.extend_from_slice(&self.processor.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&(frames.len() as u16).to_le_bytes());
        frames.iter().for_each(|frame| out.extend_from_slice(&frame.to_le_bytes()));
    }

    /// The samples of a whole stream; `None` if it is damaged.
    pub(crate) fn decode(mut stream: &[u8]) -> Option<Vec<Self>> {
        let mut samples = Vec::new();
        while let [_, ..] = stream {
            let mut take = |length: usize| {
                let (bytes, rest) = stream.split_at_checked(length)?;
                stream = rest;
                Some(bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
            };
            let (at, processor, count) = (take(8)?, take(2)? as u16, take(4)? as u32);
            let frames = (0..take(2)?).map(|_| take(8)).collect::<Option<_>>()?;
            samples.push(Self { at, processor, count, frames });
        }
        Some(samples)
    }
}
