//! Waits of a guest's threads: when each was off its processor, and who had it go on.

use stasis_block::clock::Nanos;
use stasis_layout::{layout, take, IntoBytes, U16, U32, U64};

use crate::THREAD_NAME;

/// Why a thread was off its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WaitKind {
    /// It slept, and a signal would have woken it.
    Sleep = 0,
    /// It waited, and nothing but what it waited for could wake it.
    Block = 1,
    /// Another thread had its processor.
    Preempted = 2,
}

impl WaitKind {
    /// All of them, by their number.
    pub const ALL: [Self; 3] = [Self::Sleep, Self::Block, Self::Preempted];

    /// Returns the kind's word in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Block => "block",
            Self::Preempted => "preempted",
        }
    }
}

/// Whoever has woken a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waker {
    /// Number of the thread that ran on the processor; 0 for one that was idle.
    pub pid: u32,
    /// Its name, in zeroes.
    pub thread: [u8; THREAD_NAME],
    /// True if an interrupt did it, and the thread has no part in it.
    pub in_interrupt: bool,
    /// The calls that led to it, the innermost first.
    pub frames: Vec<u64>,
}

/// A time that a thread of a program was off its processor. Times are virtual, in ns since the machine was
/// created; each is no earlier than those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The machine's number.
    pub machine: u16,
    /// The thread's number.
    pub pid: u32,
    /// Its process's number.
    pub group: u32,
    /// Its name, in zeroes.
    pub thread: [u8; THREAD_NAME],
    /// Why it was off its processor.
    pub kind: WaitKind,
    /// Time at which it entered the system call in which it waits, if it does in one.
    pub called: Option<Nanos>,
    /// Time at which it left its processor.
    pub begun: Nanos,
    /// Time at which it was woken; none for one that was preempted.
    pub woken: Option<Nanos>,
    /// Whoever has woken it, where that is known.
    pub waker: Option<Waker>,
    /// Time at which it ran again.
    pub ran: Nanos,
    /// The calls that led to the wait, the innermost first.
    pub frames: Vec<u64>,
}

/// Stands for a missing time.
const NEVER: u64 = u64::MAX;
/// Kinds of wakers.
const NOBODY: u8 = 0;
const BY_THREAD: u8 = 1;
const BY_INTERRUPT: u8 = 2;

layout! {
    /// A wait in a stream, before its frames of 64 bits and those of its waker.
    struct Head: 84 {
        [0] machine: U16,
        [2] pid: U32,
        [6] group: U32,
        [10] thread: [u8; THREAD_NAME],
        /// The index among all.
        [26] kind: u8,
        /// [`NEVER`] for none, as for the time of the wake-up.
        [27] called: U64,
        [35] begun: U64,
        [43] woken: U64,
        [51] ran: U64,
        [59] waker: U32,
        [63] waker_thread: [u8; THREAD_NAME],
        [79] waker_kind: u8,
        /// Numbers of frames.
        [80] frames: U16,
        [82] waker_frames: U16,
    }
}

impl Wait {
    /// Bytes of it in a stream.
    pub(crate) fn encoded(&self) -> usize {
        let waker = self.waker.as_ref().map_or(0, |waker| waker.frames.len());
        size_of::<Head>() + 8 * (self.frames.len() + waker)
    }

    /// Appends it to a stream; of more frames than a stack has here, the innermost.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let count = |frames: &[u64]| u16::try_from(frames.len()).unwrap_or(u16::MAX);
        let waker = self.waker.as_ref();
        let waker_frames = waker.map_or(&[][..], |waker| &waker.frames);
        let head = Head {
            machine: self.machine.into(),
            pid: self.pid.into(),
            group: self.group.into(),
            thread: self.thread,
            kind: self.kind as u8,
            called: self.called.unwrap_or(NEVER).into(),
            begun: self.begun.into(),
            woken: self.woken.unwrap_or(NEVER).into(),
            ran: self.ran.into(),
            waker: waker.map_or(0, |waker| waker.pid).into(),
            waker_thread: waker.map_or([0; THREAD_NAME], |waker| waker.thread),
            waker_kind: match waker {
                None => NOBODY,
                Some(waker) if waker.in_interrupt => BY_INTERRUPT,
                Some(_) => BY_THREAD,
            },
            frames: count(&self.frames).into(),
            waker_frames: count(waker_frames).into(),
        };
        out.extend_from_slice(head.as_bytes());
        for frames in [&self.frames[..], waker_frames] {
            let frames = frames.iter().take(count(frames).into());
            frames.for_each(|frame| out.extend_from_slice(&frame.to_le_bytes()));
        }
    }

    /// Decodes a whole stream; `None` if the stream is damaged.
    pub(crate) fn decode(mut stream: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        let optional = |time: U64| Some(time.get()).filter(|time| *time != NEVER);
        while !stream.is_empty() {
            let head: Head = take(&mut stream)?;
            let mut frames = |count: U16| -> Option<Vec<u64>> {
                (0..count.get()).map(|_| Some(take::<U64>(&mut stream)?.get())).collect()
            };
            let (own, wakers) = (frames(head.frames)?, frames(head.waker_frames)?);
            let waker = |in_interrupt| Waker {
                pid: head.waker.into(),
                thread: head.waker_thread,
                in_interrupt,
                frames: wakers,
            };
            all.push(Self {
                machine: head.machine.into(),
                pid: head.pid.into(),
                group: head.group.into(),
                thread: head.thread,
                kind: *WaitKind::ALL.get(usize::from(head.kind))?,
                called: optional(head.called),
                begun: head.begun.into(),
                woken: optional(head.woken),
                waker: match head.waker_kind {
                    NOBODY => None,
                    BY_THREAD => Some(waker(false)),
                    BY_INTERRUPT => Some(waker(true)),
                    _ => return None,
                },
                ran: head.ran.into(),
                frames: own,
            });
        }
        Some(all)
    }
}

/// A thread's name as a text.
pub fn name_of(thread: &[u8; THREAD_NAME]) -> String {
    let end = thread.iter().position(|&byte| byte == 0).unwrap_or(THREAD_NAME);
    String::from_utf8_lossy(&thread[..end]).into_owned()
}
