//! The time of I/Os in a guest's kernel: before the doorbell, and after the interrupt.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_layout::{layout, take, IntoBytes, U16, U64};

use crate::Tasks;

/// The kernel's places that tell the time of I/Os in it, by its own symbols.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelPlaces {
    /// `entry_SYSCALL_64`: the first instruction of each system call.
    pub system_call: u64,
    /// End of that code: the outermost frame of a system call's stack lies between the two.
    pub system_call_end: u64,
    /// `try_to_wake_up`, whose first argument is the thread.
    pub wake_up: u64,
    /// `__switch_to_asm`, whose second argument is the next thread.
    pub switch: u64,
    /// Offset from a processor's GS base to the pointer to its thread: `current_task`, or the first
    /// field of `pcpu_hot`.
    pub current: u64,
    /// Offset from a processor's GS base to its `__preempt_count`.
    pub preempt_count: u64,
    /// Offset of `comm` in `struct task_struct`, where the kernel tells it.
    pub comm: Option<u64>,
    /// Places of I/Os that it gives to its block layer, where its types describe them.
    pub bios: Option<BioPlaces>,
    /// Places of its tasks likewise.
    pub tasks: Option<Tasks>,
}

/// The place at which a kernel gives I/Os to its block layer, and offsets of fields of each I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BioPlaces {
    /// `blk_mq_submit_bio`, whose first argument is the `struct bio`.
    pub submit: u64,
    /// Offset of `bi_bdev` in `struct bio` (bytes).
    pub device: u64,
    /// Offset of `bd_disk` in `struct block_device` (bytes).
    pub disk: u64,
    /// Offset of `bi_iter.bi_sector` in `struct bio` (bytes).
    pub sector: u64,
    /// Offset of `bi_iter.bi_size` in `struct bio` (bytes).
    pub size: u64,
}

/// Who has submitted an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Submitter {
    /// A program's thread in a system call.
    SystemCall = 0,
    /// A thread of the kernel's own.
    KernelThread = 1,
    /// A program's thread in a page fault, or another exception.
    Fault = 2,
    /// An interrupt, which belongs to no thread.
    Interrupt = 3,
}

impl Submitter {
    /// All of them, by number.
    pub const ALL: [Self; 4] = [Self::SystemCall, Self::KernelThread, Self::Fault, Self::Interrupt];

    /// Returns the submitter's word in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemCall => "system-call",
            Self::KernelThread => "kernel-thread",
            Self::Fault => "fault",
            Self::Interrupt => "interrupt",
        }
    }
}

/// The time of an I/O in the guest. Times are virtual, in ns since the machine was created; each is
/// no earlier than those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestIo {
    /// The drive's index.
    pub drive: u16,
    /// The I/O's number among the submissions to its drive.
    pub order: u64,
    /// Who has submitted it.
    pub submitter: Submitter,
    /// Its thread's name, in zeroes; empty for an interrupt.
    pub thread: [u8; THREAD_NAME],
    /// Time at which its system call was entered; of a thread of the kernel's own that at which it
    /// last began to run; else the time of the doorbell.
    pub begun: Nanos,
    /// Time at which the kernel's block layer got it; the time of the doorbell where that is not
    /// known.
    pub queued: Nanos,
    /// Time at which the doorbell was rung.
    pub rung: Nanos,
    /// Time at which the guest could see it complete.
    pub delivered: Nanos,
    /// Time at which a processor has taken its interrupt.
    pub interrupted: Nanos,
    /// Time at which its thread was woken, if it was off its processor and asleep then.
    pub woken: Option<Nanos>,
    /// Time at which its thread ran again, if it was off its processor.
    pub ran: Option<Nanos>,
    /// The calls that led to the block layer, or to the doorbell where those are not known, the innermost
    /// first.
    pub frames: Vec<u64>,
}

/// Bytes of a thread's name (Linux, TASK_COMM_LEN).
pub const THREAD_NAME: usize = 16;
/// Stands for a missing time.
const NEVER: u64 = u64::MAX;

layout! {
    /// An I/O in a stream, before its frames of 64 bits.
    struct Head: 85 {
        [0] drive: U16,
        [2] order: U64,
        /// The index among all.
        [10] submitter: u8,
        [11] thread: [u8; THREAD_NAME],
        [27] begun: U64,
        [35] queued: U64,
        [43] rung: U64,
        [51] delivered: U64,
        [59] interrupted: U64,
        /// [`NEVER`] for none, as in the next.
        [67] woken: U64,
        [75] ran: U64,
        /// Number of the frames.
        [83] frames: U16,
    }
}

impl GuestIo {
    /// Bytes of it in a stream.
    pub(crate) fn encoded(&self) -> usize {
        size_of::<Head>() + 8 * self.frames.len()
    }

    /// Appends it to a stream; of more frames than a stack has here, the innermost.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let count = u16::try_from(self.frames.len()).unwrap_or(u16::MAX);
        let head = Head {
            drive: self.drive.into(),
            order: self.order.into(),
            submitter: self.submitter as u8,
            thread: self.thread,
            begun: self.begun.into(),
            queued: self.queued.into(),
            rung: self.rung.into(),
            delivered: self.delivered.into(),
            interrupted: self.interrupted.into(),
            woken: self.woken.unwrap_or(NEVER).into(),
            ran: self.ran.unwrap_or(NEVER).into(),
            frames: count.into(),
        };
        out.extend_from_slice(head.as_bytes());
        let frames = self.frames.iter().take(count.into());
        frames.for_each(|frame| out.extend_from_slice(&frame.to_le_bytes()));
    }

    /// Decodes a whole stream; `None` if the stream is damaged.
    pub(crate) fn decode(mut stream: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        let optional = |time: U64| Some(time.get()).filter(|time| *time != NEVER);
        while !stream.is_empty() {
            let head: Head = take(&mut stream)?;
            let frames = (0..head.frames.get()).map(|_| Some(take::<U64>(&mut stream)?.get()));
            all.push(Self {
                drive: head.drive.into(),
                order: head.order.into(),
                submitter: *Submitter::ALL.get(usize::from(head.submitter))?,
                thread: head.thread,
                begun: head.begun.into(),
                queued: head.queued.into(),
                rung: head.rung.into(),
                delivered: head.delivered.into(),
                interrupted: head.interrupted.into(),
                woken: optional(head.woken),
                ran: optional(head.ran),
                frames: frames.collect::<Option<_>>()?,
            });
        }
        Some(all)
    }

    /// The thread's name as a text.
    pub fn thread(&self) -> String {
        let end = self.thread.iter().position(|&byte| byte == 0).unwrap_or(THREAD_NAME);
        String::from_utf8_lossy(&self.thread[..end]).into_owned()
    }
}
