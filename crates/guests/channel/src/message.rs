//! Requests, responses and their form in the mailbox.

use std::borrow::Cow;

use stasis_layout::{layout, U32, U64};

/// Numbers of the requests on the wire.
pub(crate) mod kind {
    pub const HELLO: u32 = 1;
    pub const READ_INPUT: u32 = 2;
    pub const STARTED: u32 = 3;
    pub const OUTPUT: u32 = 4;
    pub const EXITED: u32 = 5;
    pub const NOT_STARTED: u32 = 6;
    pub const RESULTS: u32 = 7;
    pub const LOG: u32 = 8;
    pub const FINISHED: u32 = 9;
    pub const READY: u32 = 10;
    pub const HELP_PAGE: u32 = 11;
    pub const HELP: u32 = 12;
    pub const COMMAND: u32 = 13;
    pub const TYPED: u32 = 14;
    pub const FAULT: u32 = 15;
    pub const ORDERS: u32 = 16;
    pub const ORDERED: u32 = 17;
    pub const BRANCH: u32 = 18;
    pub const CALLABLE: u32 = 19;
    pub const HEALTH: u32 = 20;
}

/// Stream to which the command wrote a piece of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stream {
    /// Standard output.
    Output = 1,
    /// Standard error.
    Error = 2,
}

/// A message of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// The agent is there. Answer: [`Response::Job`], by which it sets the guest up.
    Hello,
    /// The guest is set up. Answer: [`Response::Job`], with what is to run in it.
    Command,
    /// The next piece of the input's tar stream, at most `max` bytes. Answer:
    /// [`Response::Bytes`], empty at the stream's end.
    ReadInput {
        /// Longest answer the guest takes, in bytes.
        max: usize,
    },
    /// Everything is prepared for the command, which is to begin when it is in
    /// all machines. Answer: [`Response::Bytes`], a `u32`: 1 if so, 0 to ask
    /// again a little later; or 2 and text, why it never will.
    Ready,
    /// From now on a page of the guest's memory shows when the guest needs help (see
    /// [`crate::application_hint`]).
    HelpPage {
        /// Address of the page, as the guest's hardware sees it.
        address: u64,
    },
    /// The guest begins or ends to need help: for those without a page.
    Help {
        /// True if it begins.
        on: bool,
    },
    /// The command begins now.
    Started,
    /// The command wrote something.
    Output {
        /// Destination.
        stream: Stream,
        /// The bytes written.
        bytes: &'a [u8],
    },
    /// Asks for the input of the terminal that the command runs on. Answer: [`Response::Bytes`], a
    /// [`crate::Typed`].
    Typed,
    /// A process of the guest asks for a fault. Answer: [`Response::Bytes`], empty if it comes, else
    /// why not, for a user.
    Fault {
        /// Its words.
        text: Cow<'a, str>,
    },
    /// Asks for the faults that the agent is to bring about. Answer: [`Response::Bytes`], a
    /// [`crate::Orders`].
    Orders,
    /// An ordered fault has come about.
    Ordered {
        /// Number of the fault.
        number: u16,
    },
    /// The agent was called, or told to ask at the command's end. Answer: [`Response::Job`], which
    /// is to run beside the command; or [`Response::Done`], if there is none.
    Branch,
    /// The way to call the agent when there are orders for it, which it then asks for.
    Callable {
        /// Places in the guest's kernel.
        call: crate::Call,
    },
    /// The check of the command's health has a result: the first one that says so.
    Health {
        /// True if it is healthy.
        healthy: bool,
    },
    /// The command has ended. Status as a shell gives it: the exit code, or
    /// 128 + the signal's number. Answer: [`Response::Done`]; or [`Response::Bytes`], if the agent is to
    /// ask for what runs next ([`Request::Branch`]).
    Exited {
        /// 0 to 255.
        status: u8,
    },
    /// The command, or what it needs, could not be started.
    NotStarted {
        /// 126 (not possible) or 127 (not found), as a shell gives it.
        status: u8,
        /// The missing part, for a user.
        message: Cow<'a, str>,
    },
    /// The next piece of the tar stream of `/results`; empty at its end.
    Results {
        /// The piece.
        bytes: &'a [u8],
    },
    /// Something a user should see if the run goes wrong.
    Log {
        /// One or more lines.
        text: Cow<'a, str>,
    },
    /// Nothing more to do: the machine is to be stopped.
    Finished,
}

/// The machine's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response<'a> {
    /// Done; no data.
    Done,
    /// Done; here are the bytes that were asked for.
    Bytes(&'a [u8]),
    /// The job.
    Job(&'a crate::Job),
    /// Not done.
    Refused(Refusal),
}

/// Why the machine did not do what it was asked: the response's first word,
/// where 0 stands for "done".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// The request's length or contents break the protocol.
    Malformed = 1,
    /// No such request.
    Unknown = 2,
    /// A request that makes no sense at this point.
    OutOfOrder = 3,
    /// The agent speaks another version; the payload is the machine's, a `u32`.
    Version = 4,
    /// The machine could not do it (for example, a file became unreadable).
    Failed = 5,
}

impl Refusal {
    /// The refusal that a response's first word stands for; an unknown one
    /// counts as [`Refusal::Failed`].
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => None,
            1 => Some(Self::Malformed),
            2 => Some(Self::Unknown),
            3 => Some(Self::OutOfOrder),
            4 => Some(Self::Version),
            _ => Some(Self::Failed),
        }
    }
}

layout! {
    /// Before each payload.
    pub(crate) struct Head: 8 {
        /// Number of the request; in an answer 0, or that of the refusal.
        [0] kind: U32,
        /// Bytes of the payload.
        [4] length: U32,
    }
}
const _: () = assert!(size_of::<Head>() == crate::HEADER_SIZE);

layout! {
    /// The payload of [`kind::CALLABLE`].
    pub(crate) struct RawCall: 16 {
        [0] callback: U64,
        [8] function: U64,
    }
}
