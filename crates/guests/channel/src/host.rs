//! The machine's side: takes requests out of the mailbox and puts responses in.

use stasis_layout::{FromBytes, IntoBytes, U32, U64};

use crate::message::{kind, Head, RawCall};
use crate::{Refusal, Request, Response, Stream, HEADER_SIZE, MAILBOX_SIZE, MAX_PAYLOAD, VERSION};

/// The memory behind the mailbox's BAR, [`MAILBOX_SIZE`] bytes. Offsets and
/// lengths passed here never reach beyond it.
pub trait Mailbox {
    /// Copies out of the mailbox, from `offset` on.
    fn read(&self, offset: usize, into: &mut [u8]);
    /// Copies into the mailbox, from `offset` on.
    fn write(&mut self, offset: usize, from: &[u8]);
}

/// A mailbox in ordinary memory. Anything shorter than [`MAILBOX_SIZE`] reads as
/// zeroes and drops writes beyond its end.
impl Mailbox for [u8] {
    fn read(&self, offset: usize, into: &mut [u8]) {
        let here = self.get(offset..).unwrap_or_default();
        let length = here.len().min(into.len());
        into[..length].copy_from_slice(&here[..length]);
        into[length..].fill(0);
    }

    fn write(&mut self, offset: usize, from: &[u8]) {
        if let Some(here) = self.get_mut(offset..) {
            let length = here.len().min(from.len());
            here[..length].copy_from_slice(&from[..length]);
        }
    }
}

/// A guest's breach of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The payload would not fit into the mailbox.
    #[error("channel: the guest sent request {kind} with {length} bytes, but at most {MAX_PAYLOAD} fit; the guest's agent is damaged or hostile")]
    TooLong {
        /// Number of the request.
        kind: u32,
        /// Length that the guest gave, in bytes.
        length: u32,
    },
    /// The payload is not what this request carries.
    #[error("channel: the guest sent request {kind} with a payload of {length} bytes that does not fit it; the guest's agent is damaged or hostile")]
    Malformed {
        /// Number of the request.
        kind: u32,
        /// Length of the payload in bytes.
        length: u32,
    },
    /// No such request.
    #[error("channel: the guest sent request {kind}, which does not exist; rebuild the guest with `stasis guest build`")]
    Unknown {
        /// Number of the request.
        kind: u32,
    },
    /// A request at the wrong time.
    #[error(
        "channel: the guest sent request {kind} {when}; the guest's agent is damaged or hostile"
    )]
    OutOfOrder {
        /// Number of the request.
        kind: u32,
        /// Phase of the protocol in which the guest is.
        when: &'static str,
    },
    /// The agent is of another version.
    #[error("channel: the agent in the guest speaks version {agent}, this program version {VERSION}; rebuild the guest with `stasis guest build`")]
    Version {
        /// The agent's version.
        agent: u32,
    },
}

impl ProtocolError {
    /// The answer to the guest.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::TooLong { .. } | Self::Malformed { .. } => Refusal::Malformed,
            Self::Unknown { .. } => Refusal::Unknown,
            Self::OutOfOrder { .. } => Refusal::OutOfOrder,
            Self::Version { .. } => Refusal::Version,
        }
    }
}

/// Phase of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    Preparing,
    Running,
    Collecting,
    Finished,
}

impl Phase {
    fn when(self) -> &'static str {
        match self {
            Self::Greeting => "before its greeting",
            Self::Preparing => "before its command started",
            Self::Running => "while its command ran",
            Self::Collecting => "after its command had ended",
            Self::Finished => "after it had finished",
        }
    }
}

/// The machine's end of one guest's channel: checks each request and follows
/// where in the protocol the guest is.
///
/// For each write to the doorbell the machine calls [`Host::receive`] and answers a request with
/// [`Host::respond`]. After an error the refusal has already been written; the machine may continue
/// the guest or stop it.
#[derive(Debug, Clone)]
pub struct Host {
    phase: Phase,
    /// True if another greeting may follow a command's end.
    repeats: bool,
    results_ended: bool,
    payload: Vec<u8>,
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// The channel of a guest that has not started yet.
    pub fn new() -> Self {
        Self { phase: Phase::Greeting, repeats: false, results_ended: false, payload: Vec::new() }
    }

    /// The channel of a guest that greets again for another job after each, as
    /// over a port.
    pub fn repeating() -> Self {
        Self { repeats: true, ..Self::new() }
    }

    /// Takes the request out of the mailbox.
    ///
    /// The mailbox is read once: later changes by the guest have no effect on the request.
    ///
    /// # Errors
    /// The guest broke the protocol; the refusal has been written.
    pub fn receive<M: Mailbox + ?Sized>(
        &mut self,
        mailbox: &mut M,
    ) -> Result<Request<'_>, ProtocolError> {
        let mut head = Head::default();
        mailbox.read(0, head.as_mut_bytes());
        let (kind, length) = (head.kind.get(), head.length.get());
        let checked = self.check(mailbox, kind, length);
        if let Err(error) = checked {
            let version = VERSION.to_le_bytes();
            let payload: &[u8] = match error {
                ProtocolError::Version { .. } => &version,
                _ => &[],
            };
            put(mailbox, error.refusal() as u32, payload);
            return Err(error);
        }
        let payload = &self.payload[..length as usize];
        // `check` has parsed this payload already; a second failure is the same error.
        let request = parse(kind, payload).ok_or(ProtocolError::Malformed { kind, length })?;
        match request {
            Request::Hello => {
                self.phase = Phase::Preparing;
                self.results_ended = false;
            }
            Request::Started => self.phase = Phase::Running,
            Request::Exited { .. } | Request::NotStarted { .. } => self.phase = Phase::Collecting,
            Request::Results { bytes } => self.results_ended = bytes.is_empty(),
            Request::Finished => self.phase = Phase::Finished,
            Request::ReadInput { .. }
            | Request::Ready
            | Request::Command
            | Request::HelpPage { .. }
            | Request::Help { .. }
            | Request::Output { .. }
            | Request::Typed
            | Request::Fault { .. }
            | Request::Orders
            | Request::Ordered { .. }
            | Request::Branch
            | Request::Callable { .. }
            | Request::Health { .. }
            | Request::Log { .. } => {}
        }
        Ok(request)
    }

    /// Puts an answer into the mailbox. Bytes beyond the mailbox's size are
    /// cut off: never answer a [`Request::ReadInput`] with more than its `max`.
    pub fn respond<M: Mailbox + ?Sized>(mailbox: &mut M, response: Response<'_>) {
        match response {
            Response::Done => put(mailbox, 0, &[]),
            Response::Bytes(bytes) => put(mailbox, 0, bytes),
            Response::Refused(refusal) => put(mailbox, refusal as u32, &[]),
            Response::Job(job) => match serde_json::to_vec(job) {
                Ok(json) if json.len() <= MAX_PAYLOAD => put(mailbox, 0, &json),
                _ => put(mailbox, Refusal::Failed as u32, &[]),
            },
        }
    }

    /// The guest is given the job that it asks for by [`Request::Branch`]; it runs as its command.
    pub fn branch(&mut self) {
        self.phase = Phase::Running;
    }

    /// Returns whether a job is under way: handed over, and its end not reported yet.
    pub fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Preparing | Phase::Running)
    }

    /// Returns whether the guest has announced its end.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// Copies the payload and checks the request without acting on it.
    fn check<M: Mailbox + ?Sized>(
        &mut self,
        mailbox: &M,
        kind: u32,
        length: u32,
    ) -> Result<(), ProtocolError> {
        if !(kind::HELLO..=kind::HEALTH).contains(&kind) {
            return Err(ProtocolError::Unknown { kind });
        }
        let size = length as usize;
        if size > MAX_PAYLOAD {
            return Err(ProtocolError::TooLong { kind, length });
        }
        if self.payload.len() < size {
            self.payload.resize(size, 0);
        }
        let payload = &mut self.payload[..size];
        mailbox.read(HEADER_SIZE, payload);
        if kind == kind::HELLO {
            match U32::read_from_bytes(payload).map(U32::get) {
                Ok(VERSION) => {}
                Ok(agent) => return Err(ProtocolError::Version { agent }),
                Err(_) => return Err(ProtocolError::Malformed { kind, length }),
            }
        }
        let request =
            parse(kind, &self.payload[..size]).ok_or(ProtocolError::Malformed { kind, length })?;
        let fits = match request {
            Request::Hello => {
                self.phase == Phase::Greeting || self.repeats && self.phase == Phase::Collecting
            }
            Request::Command
            | Request::ReadInput { .. }
            | Request::Ready
            | Request::Callable { .. }
            | Request::Started => self.phase == Phase::Preparing,
            Request::Output { .. }
            | Request::Typed
            | Request::Fault { .. }
            | Request::Orders
            | Request::Ordered { .. }
            | Request::Health { .. }
            | Request::Exited { .. } => self.phase == Phase::Running,
            Request::Branch => {
                matches!(self.phase, Phase::Running | Phase::Collecting) && !self.results_ended
            }
            Request::NotStarted { .. } => matches!(self.phase, Phase::Preparing | Phase::Running),
            Request::Results { .. } => self.phase == Phase::Collecting && !self.results_ended,
            Request::Log { .. } => self.phase != Phase::Finished,
            Request::HelpPage { .. } | Request::Help { .. } => {
                !matches!(self.phase, Phase::Greeting | Phase::Finished)
            }
            Request::Finished => !matches!(self.phase, Phase::Greeting | Phase::Finished),
        };
        if !fits {
            return Err(ProtocolError::OutOfOrder { kind, when: self.phase.when() });
        }
        Ok(())
    }
}

/// Understands a payload; `None` if it does not fit the kind.
fn parse(kind: u32, payload: &[u8]) -> Option<Request<'_>> {
    let number = || U32::read_from_bytes(payload).ok().map(U32::get);
    let numbered =
        || U32::read_from_prefix(payload).ok().map(|(number, rest)| (number.get(), rest));
    let request = match kind {
        kind::HELLO => numbered().map(|_| Request::Hello)?,
        kind::READ_INPUT => {
            let max = number().filter(|max| *max > 0)? as usize;
            Request::ReadInput { max: max.min(MAX_PAYLOAD) }
        }
        kind::HELP_PAGE => Request::HelpPage { address: U64::read_from_bytes(payload).ok()?.get() },
        kind::CALLABLE => {
            let call = RawCall::read_from_bytes(payload).ok()?;
            let (callback, function) = (call.callback.get(), call.function.get());
            Request::Callable { call: crate::Call { callback, function } }
        }
        kind::HEALTH => Request::Health { healthy: number().filter(|is| *is <= 1)? == 1 },
        kind::HELP => Request::Help { on: number().filter(|on| *on <= 1)? == 1 },
        kind::READY if payload.is_empty() => Request::Ready,
        kind::COMMAND if payload.is_empty() => Request::Command,
        kind::STARTED if payload.is_empty() => Request::Started,
        kind::TYPED if payload.is_empty() => Request::Typed,
        kind::ORDERS if payload.is_empty() => Request::Orders,
        kind::BRANCH if payload.is_empty() => Request::Branch,
        kind::ORDERED => Request::Ordered { number: u16::try_from(number()?).ok()? },
        kind::OUTPUT => {
            let (stream, bytes) = numbered()?;
            let stream =
                [Stream::Output, Stream::Error].into_iter().find(|s| *s as u32 == stream)?;
            Request::Output { stream, bytes }
        }
        kind::EXITED => Request::Exited { status: u8::try_from(number()?).ok()? },
        kind::NOT_STARTED => {
            let (status, message) = numbered()?;
            let status = u8::try_from(status).ok().filter(|s| matches!(s, 126 | 127))?;
            Request::NotStarted { status, message: String::from_utf8_lossy(message) }
        }
        kind::RESULTS => Request::Results { bytes: payload },
        kind::FAULT => Request::Fault { text: String::from_utf8_lossy(payload) },
        kind::LOG => Request::Log { text: String::from_utf8_lossy(payload) },
        kind::FINISHED if payload.is_empty() => Request::Finished,
        _ => return None,
    };
    Some(request)
}

fn put<M: Mailbox + ?Sized>(mailbox: &mut M, status: u32, payload: &[u8]) {
    let payload = &payload[..payload.len().min(MAX_PAYLOAD)];
    debug_assert!(HEADER_SIZE + payload.len() <= MAILBOX_SIZE);
    // At most MAX_PAYLOAD, which is far below 4 GiB.
    let head = Head { kind: status.into(), length: (payload.len() as u32).into() };
    mailbox.write(0, head.as_bytes());
    mailbox.write(HEADER_SIZE, payload);
}
