//! A profile of a run: where its processors were at each so-manieth nanosecond.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_layout::{layout, take, IntoBytes, U16, U32, U64};

use crate::{KernelPlaces, Threads};

/// The samples to take of a run, and the other times that are reported without samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileJob {
    /// Virtual time between two samples of a processor (ns), at least 1; None for none.
    pub interval: Option<Nanos>,
    /// The kernel's tables for unwinding its stacks; without them a sample has the instruction only.
    pub orc: Option<Orc>,
    /// Place of the names of threads; without them a program has none.
    pub threads: Option<Threads>,
    /// Place of its modules; without them a module has no name.
    pub modules: Option<Modules>,
    /// The kernel's places that tell the time of I/Os in it, if that is kept.
    pub places: Option<KernelPlaces>,
}

/// Place of a kernel's modules: a list of `struct module`, of which these are offsets (bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modules {
    /// Linear address of the list's head, `modules`.
    pub head: u64,
    /// `list`.
    pub list: u64,
    /// `name`.
    pub name: u64,
    /// The first address of its code.
    pub base: u64,
    /// The number of bytes of that, of 32 bits.
    pub size: u64,
    /// Place of a module's symbols; without them its functions have no names.
    pub symbols: Option<ModuleSymbols>,
    /// Place of its tables for unwinding stacks; without them a stack ends at its frame.
    pub orc: Option<ModuleOrc>,
}

/// Place of a module's symbols: offsets (bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleSymbols {
    /// `kallsyms` in `struct module`: a pointer to a `struct mod_kallsyms`.
    pub list: u64,
    /// `symtab` there.
    pub table: u64,
    /// `num_symtab` there, of 32 bits.
    pub count: u64,
    /// `strtab` there.
    pub strings: u64,
}

/// Place of a module's tables for unwinding stacks: offsets in `struct module` (bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleOrc {
    /// `arch.num_orcs`, of 32 bits.
    pub count: u64,
    /// `arch.orc_unwind_ip`.
    pub addresses: u64,
    /// `arch.orc_unwind`.
    pub entries: u64,
    /// True if the kernel is 6.4 or newer, as in [`Orc`].
    pub from_6_4: bool,
}

/// Place of a kernel's tables for unwinding stacks (Linux,
/// Documentation/arch/x86/orc-unwinder.rst), as linear addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orc {
    /// `__start_orc_unwind_ip`.
    pub addresses: u64,
    /// `__stop_orc_unwind_ip`.
    pub addresses_end: u64,
    /// `__start_orc_unwind`.
    pub entries: u64,
    /// True if the kernel is 6.4 or newer, which numbers the types of entries otherwise.
    pub from_6_4: bool,
}

/// Frames from there on, which are no addresses, have names by their numbers: those of
/// [`crate::RunEvent::SampleNames`], in the order in which they come. A name that begins with `/` is a
/// place in a program's file: its path in the guest, `+`, and bytes from its begin in hexadecimal
/// (`/usr/bin/fio+0x1f0`).
pub const NAMED: u64 = 1 << 63;
/// Limit on the names.
pub const MAX_NAMES: u64 = 1 << 17;

/// Samples of a processor that have one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Time at which the first was taken (ns).
    pub at: Nanos,
    /// The processor's number among those of all machines.
    pub processor: u16,
    /// Number of samples that follow each other at the interval.
    pub count: u32,
    /// The instruction, and the calls that led to it, the innermost first; empty where the processor
    /// was idle. Below 1 << 63 a program's, of which there is one; from [`NAMED`] on one of a name.
    pub frames: Vec<u64>,
}

layout! {
    /// A sample in a stream, before its frames of 64 bits.
    struct Head: 16 {
        [0] at: U64,
        [8] processor: U16,
        [10] count: U32,
        /// Number of the frames.
        [14] frames: U16,
    }
}

impl Sample {
    /// Bytes of the sample in a stream.
    pub(crate) fn encoded(&self) -> usize {
        size_of::<Head>() + 8 * self.frames.len()
    }

    /// Appends the sample to a stream; of more frames than a stack has here, the innermost.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let count = u16::try_from(self.frames.len()).unwrap_or(u16::MAX);
        let head = Head {
            at: self.at.into(),
            processor: self.processor.into(),
            count: self.count.into(),
            frames: count.into(),
        };
        out.extend_from_slice(head.as_bytes());
        let frames = self.frames.iter().take(count.into());
        frames.for_each(|frame| out.extend_from_slice(&frame.to_le_bytes()));
    }

    /// The samples of a whole stream; `None` if it is damaged.
    pub(crate) fn decode(mut stream: &[u8]) -> Option<Vec<Self>> {
        let mut samples = Vec::new();
        while !stream.is_empty() {
            let head: Head = take(&mut stream)?;
            let frames = (0..head.frames.get()).map(|_| Some(take::<U64>(&mut stream)?.get()));
            samples.push(Self {
                at: head.at.into(),
                processor: head.processor.into(),
                count: head.count.into(),
                frames: frames.collect::<Option<_>>()?,
            });
        }
        Some(samples)
    }
}
