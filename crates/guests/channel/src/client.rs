//! The guest's side: one method for each request.

use std::io::{self, Read, Write};

use stasis_layout::{FromBytes, Immutable, IntoBytes, U32, U64};

use crate::message::{kind, Head, RawCall};
use crate::{
    Call, Job, Orders, Refusal, Stream, Typed, HEADER_SIZE, MAILBOX_SIZE, MAX_PAYLOAD, VERSION,
};

/// The carrier of the channel: the mailbox and the doorbell as the guest sees them.
pub trait Transport {
    /// The mailbox, at least [`MAILBOX_SIZE`] bytes. It changes only while
    /// [`Transport::ring`] runs.
    fn mailbox(&mut self) -> &mut [u8];

    /// Hands the request to the machine and returns when the answer is there.
    fn ring(&mut self);
}

/// Why a call did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The machine refused the request.
    #[error("channel: the machine refused request {kind}: {refusal:?}")]
    Refused {
        /// Number of the request.
        kind: u32,
        /// Its reason.
        refusal: Refusal,
    },
    /// The machine speaks another version of the protocol.
    #[error("channel: this agent speaks version {VERSION}, the machine version {machine}; rebuild the guest with `stasis guest build`")]
    Version {
        /// The machine's version.
        machine: u32,
    },
    /// The answer makes no sense.
    #[error("channel: the machine's answer to request {kind} cannot be understood: {cause}")]
    Malformed {
        /// Number of the request.
        kind: u32,
        /// The fault in the answer.
        cause: String,
    },
    /// The data to send could not be read.
    #[error("channel: cannot read what request {kind} should send: {source}")]
    Source {
        /// Number of the request.
        kind: u32,
        /// The reader's error.
        source: io::Error,
    },
}

impl From<ClientError> for io::Error {
    fn from(error: ClientError) -> Self {
        io::Error::other(error)
    }
}

/// The guest's end of the channel.
#[derive(Debug)]
pub struct Client<T> {
    transport: T,
}

impl<T: Transport> Client<T> {
    /// A client over `transport`; sends nothing yet.
    pub fn new(transport: T) -> Self {
        Self { transport }
    }

    /// Greets the machine and receives the job.
    ///
    /// # Errors
    /// The machine refuses (another version, for one), or the job is not one.
    pub fn hello(&mut self) -> Result<Job, ClientError> {
        let length = self.put(&U32::new(VERSION));
        self.job(kind::HELLO, length)
    }

    /// The guest is set up; receives the job with what is to run in it.
    ///
    /// # Errors
    /// The machine refuses, or the job is not one.
    pub fn command(&mut self) -> Result<Job, ClientError> {
        self.job(kind::COMMAND, 0)
    }

    fn job(&mut self, kind: u32, length: usize) -> Result<Job, ClientError> {
        let json = self.call(kind, length)?;
        serde_json::from_slice(json)
            .map_err(|e| ClientError::Malformed { kind, cause: e.to_string() })
    }

    /// The input's tar stream, fetched as it is read.
    pub fn input(&mut self) -> InputReader<'_, T> {
        InputReader { client: self, at: 0, length: 0, ended: false }
    }

    /// Reports that everything is prepared for the command. Returns whether the command may begin.
    ///
    /// # Errors
    /// The machine refuses, or its answer makes no sense.
    pub fn ready(&mut self) -> Result<Start, ClientError> {
        let kind = kind::READY;
        match U32::read_from_prefix(self.call(kind, 0)?) {
            Ok((go, why)) => Ok(match go.get() {
                0 => Start::Later,
                1 => Start::Now,
                _ => Start::Never(String::from_utf8_lossy(why).into_owned()),
            }),
            Err(_) => Err(ClientError::Malformed { kind, cause: "it is no number".into() }),
        }
    }

    /// The check of the command's health has a result.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn health(&mut self, healthy: bool) -> Result<(), ClientError> {
        self.send(kind::HEALTH, &U32::new(healthy.into())).map(drop)
    }

    /// Sets the page that shows when the guest needs help.
    ///
    /// # Errors
    /// The machine refuses: it has no such memory.
    pub fn help_page(&mut self, address: u64) -> Result<(), ClientError> {
        self.send(kind::HELP_PAGE, &U64::new(address)).map(drop)
    }

    /// The guest begins or ends to need help: for those without a page.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn help(&mut self, on: bool) -> Result<(), ClientError> {
        self.send(kind::HELP, &U32::new(on.into())).map(drop)
    }

    /// The command begins now.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn started(&mut self) -> Result<(), ClientError> {
        self.call(kind::STARTED, 0).map(drop)
    }

    /// Sends a piece of the command's output that `fill` puts straight into the
    /// mailbox. Returns the piece's length; 0 means `fill` had nothing, and
    /// nothing was sent.
    ///
    /// # Errors
    /// `fill` fails, or the machine refuses.
    pub fn output(
        &mut self,
        stream: Stream,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Result<usize, ClientError> {
        let before = self.put(&U32::new(stream as u32));
        let length = fill(&mut self.payload()[before..])
            .map_err(|source| ClientError::Source { kind: kind::OUTPUT, source })?;
        if length > 0 {
            self.call(kind::OUTPUT, before + length)?;
        }
        Ok(length)
    }

    /// Asks for the input of the terminal that the command runs on.
    ///
    /// # Errors
    /// The machine refuses, or its answer makes no sense.
    pub fn typed(&mut self) -> Result<Typed, ClientError> {
        let kind = kind::TYPED;
        let typed = Typed::decode(self.call(kind, 0)?);
        typed.ok_or_else(|| ClientError::Malformed { kind, cause: "it is too short".into() })
    }

    /// A process asks for a fault by these words. Gives why it does not come, empty if it does.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn fault(&mut self, words: &[u8]) -> Result<String, ClientError> {
        let length = copy(self.payload(), words);
        let answer = self.call(kind::FAULT, length)?;
        Ok(String::from_utf8_lossy(answer).into_owned())
    }

    /// Asks for the faults that the agent is to bring about.
    ///
    /// # Errors
    /// The machine refuses, or its answer makes no sense.
    pub fn orders(&mut self) -> Result<Orders, ClientError> {
        let kind = kind::ORDERS;
        let json = self.call(kind, 0)?;
        serde_json::from_slice(json)
            .map_err(|e| ClientError::Malformed { kind, cause: e.to_string() })
    }

    /// The ordered fault of this number has come about.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn ordered(&mut self, number: u16) -> Result<(), ClientError> {
        self.send(kind::ORDERED, &U32::new(number.into())).map(drop)
    }

    /// Tells the machine the way to call the agent when there are orders for it.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn callable(&mut self, call: Call) -> Result<(), ClientError> {
        let Call { callback, function } = call;
        let call = RawCall { callback: callback.into(), function: function.into() };
        self.send(kind::CALLABLE, &call).map(drop)
    }

    /// The agent was called: asks for what is to run beside the command.
    ///
    /// # Errors
    /// The machine refuses, or its answer is no job.
    pub fn branch(&mut self) -> Result<Option<Job>, ClientError> {
        let kind = kind::BRANCH;
        match self.call(kind, 0)? {
            [] => Ok(None),
            json => serde_json::from_slice(json)
                .map(Some)
                .map_err(|e| ClientError::Malformed { kind, cause: e.to_string() }),
        }
    }

    /// Reports that the command has ended with `status`. Returns whether another command is to run
    /// ([`Client::branch`]).
    ///
    /// # Errors
    /// The machine refuses.
    pub fn exited(&mut self, status: u8) -> Result<bool, ClientError> {
        self.send(kind::EXITED, &U32::new(status.into())).map(|answer| !answer.is_empty())
    }

    /// The command could not be started; `status` is 126 or 127.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn not_started(&mut self, status: u8, message: &str) -> Result<(), ClientError> {
        let before = self.put(&U32::new(status.into()));
        let length = copy(&mut self.payload()[before..], message.as_bytes());
        self.call(kind::NOT_STARTED, before + length).map(drop)
    }

    /// A writer for the tar stream of the results. [`ResultsWriter::finish`]
    /// must end it.
    pub fn results(&mut self) -> ResultsWriter<'_, T> {
        ResultsWriter { client: self, filled: 0 }
    }

    /// Something a user should see if the run goes wrong.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn log(&mut self, text: &str) -> Result<(), ClientError> {
        let length = copy(self.payload(), text.as_bytes());
        self.call(kind::LOG, length).map(drop)
    }

    /// Reports that there is nothing more to do. A machine does not come back from this; if it
    /// does, the guest is to power itself off.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn finished(&mut self) -> Result<(), ClientError> {
        self.call(kind::FINISHED, 0).map(drop)
    }

    fn payload(&mut self) -> &mut [u8] {
        &mut self.transport.mailbox()[HEADER_SIZE..MAILBOX_SIZE]
    }

    /// Puts a payload in place, or its beginning; gives the number of its bytes.
    fn put(&mut self, payload: &(impl IntoBytes + Immutable)) -> usize {
        copy(self.payload(), payload.as_bytes())
    }

    /// Sends a request with this payload; gives the answer's payload.
    fn send(
        &mut self,
        kind: u32,
        payload: &(impl IntoBytes + Immutable),
    ) -> Result<&[u8], ClientError> {
        let length = self.put(payload);
        self.call(kind, length)
    }

    /// Sends the request whose payload is in place; gives the answer's payload.
    fn call(&mut self, kind: u32, length: usize) -> Result<&[u8], ClientError> {
        let mailbox = self.transport.mailbox();
        // At most MAX_PAYLOAD, which is far below 4 GiB.
        let head = Head { kind: kind.into(), length: (length as u32).into() };
        copy(mailbox, head.as_bytes());
        self.transport.ring();
        let mailbox = &*self.transport.mailbox();
        let malformed = |cause: &str| ClientError::Malformed { kind, cause: cause.into() };
        let (head, rest) = Head::ref_from_prefix(mailbox).map_err(|_| malformed("no header"))?;
        let length = head.length.get() as usize;
        let payload = rest.get(..length).ok_or_else(|| malformed("it is too long"))?;
        match Refusal::from_number(head.kind.get()) {
            None => Ok(payload),
            Some(Refusal::Version) => {
                let machine = stasis_layout::u32_at(payload, 0).unwrap_or(0);
                Err(ClientError::Version { machine })
            }
            Some(refusal) => Err(ClientError::Refused { kind, refusal }),
        }
    }
}

fn copy(into: &mut [u8], from: &[u8]) -> usize {
    let length = into.len().min(from.len());
    into[..length].copy_from_slice(&from[..length]);
    length
}

/// The time at which a command may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Now.
    Now,
    /// Not yet: to be asked again.
    Later,
    /// Never, and why.
    Never(String),
}

/// Reads the input's tar stream, a mailbox full at a time.
#[derive(Debug)]
pub struct InputReader<'a, T> {
    client: &'a mut Client<T>,
    at: usize,
    length: usize,
    ended: bool,
}

impl<T: Transport> Read for InputReader<'_, T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || self.ended {
            return Ok(0);
        }
        if self.at == self.length {
            self.length = self.client.send(kind::READ_INPUT, &U32::new(MAX_PAYLOAD as u32))?.len();
            self.at = 0;
            self.ended = self.length == 0;
        }
        // The piece stays in the mailbox until the next call, which is ours:
        // the client is borrowed.
        let length = copy(into, &self.client.payload()[self.at..self.length]);
        self.at += length;
        Ok(length)
    }
}

/// Writes the results' tar stream, a mailbox full at a time.
#[derive(Debug)]
pub struct ResultsWriter<'a, T> {
    client: &'a mut Client<T>,
    filled: usize,
}

impl<T: Transport> ResultsWriter<'_, T> {
    /// Sends what is left and the stream's end.
    ///
    /// # Errors
    /// The machine refuses.
    pub fn finish(mut self) -> Result<(), ClientError> {
        self.send()?;
        self.client.call(kind::RESULTS, 0).map(drop)
    }

    fn send(&mut self) -> Result<(), ClientError> {
        if self.filled > 0 {
            let length = std::mem::take(&mut self.filled);
            self.client.call(kind::RESULTS, length)?;
        }
        Ok(())
    }
}

impl<T: Transport> Write for ResultsWriter<'_, T> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if self.filled == MAX_PAYLOAD {
            self.send()?;
        }
        let length = copy(&mut self.client.payload()[self.filled..], from);
        self.filled += length;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.send()?)
    }
}
