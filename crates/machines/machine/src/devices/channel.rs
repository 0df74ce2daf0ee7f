//! The channel's device: the mailbox's memory, and the machine's handling of each request of the
//! guest's agent.

use std::io::Read;

use stasis_block::clock::Nanos;
use stasis_block::splitmix;
use stasis_channel::{
    Call, Host, Job, Mailbox, Refusal, Request, Response, Stream, Typed, MAILBOX_SIZE,
};
use stasis_run_events::{EventSink, RunEvent};

use crate::error::Error;
use crate::memory::Mapping;

/// The effect of a request on the machine.
#[derive(Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// Nothing.
    Nothing,
    /// The guest is set up and asks for its command, to be answered by
    /// [`ChannelDevice::give_command`].
    WantsCommand,
    /// The machine could begin with its command, to be answered by [`ChannelDevice::start`].
    Ready,
    /// The check of the command's health has this result.
    Health(bool),
    /// From now on a page of the guest's memory shows when it needs help.
    HelpPage(u64),
    /// The guest begins or ends to need help.
    Help(bool),
    /// The guest asks for a fault, to be answered by [`ChannelDevice::answer`].
    Asks(String),
    /// The agent asks for the faults that it is to bring about, to be answered by
    /// [`ChannelDevice::answer`].
    WantsOrders,
    /// The ordered fault of this number has come about.
    Ordered(u16),
    /// The way to call the agent when there are orders for it.
    Callable(Call),
    /// The agent asks for what is to run beside its command, to be answered by
    /// [`ChannelDevice::give_branch`] or [`ChannelDevice::no_branch`].
    WantsBranch,
    /// The command begins now.
    Started,
    /// The command has ended with this status.
    Exited(i32),
    /// The command could not be started.
    NotStarted(i32, String),
    /// The agent has nothing more to emit.
    Finished,
}

/// Limit on the refused requests that are reported one by one; more are only counted, so that a
/// guest cannot fill the event stream.
const REFUSALS_TOLD: u64 = 16;

/// The variable of a command's environment that tells which boot of its machine it is.
const BOOT: &str = "STASIS_BOOT";

/// The work for a guest that is set up.
pub struct Command {
    /// The job, with its command.
    pub job: Job,
    /// Files for the guest, as a tar stream.
    pub input: Box<dyn Read + Send>,
}

/// Called when the guest is set up: once for each of its boots.
pub type CommandSource = Box<dyn FnMut() -> std::io::Result<Command> + Send>;

/// The machine's end of the channel.
pub struct ChannelDevice {
    mailbox: Mapping,
    host: Host,
    /// By which the guest sets itself up.
    set_up: Job,
    job: Job,
    command: CommandSource,
    /// The command in place of the source's, if the run has become another.
    other: Option<Job>,
    /// True if the guest has been given its command since its boot.
    commanded: bool,
    /// Which of the guest's boots it is, from 1 on; in its job's environment where there can be
    /// several.
    boot: Option<u32>,
    /// Time at which the guest greeted first (ns).
    greeted: Option<Nanos>,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Output of the command since [`ChannelDevice::take_heard`], if anyone listens.
    heard: Option<Vec<(Stream, Vec<u8>)>>,
    refused: u64,
}

impl std::fmt::Debug for ChannelDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelDevice").field("host", &self.host).finish_non_exhaustive()
    }
}

struct MailboxMemory<'a>(&'a Mapping);

impl Mailbox for MailboxMemory<'_> {
    fn read(&self, offset: usize, into: &mut [u8]) {
        if self.0.read(offset as u64, into).is_err() {
            into.fill(0);
        }
    }

    fn write(&mut self, offset: usize, from: &[u8]) {
        // Beyond the mailbox: cut off, by the trait callers never ask for that.
        let _ = self.0.write(offset as u64, from);
    }
}

impl ChannelDevice {
    /// A channel that gives `job` to the guest to set itself up by, and then what
    /// `command` makes.
    pub fn new(job: Job, command: CommandSource) -> std::io::Result<Self> {
        Ok(Self {
            mailbox: Mapping::new(MAILBOX_SIZE as u64, true)?,
            host: Host::new(),
            set_up: job.clone(),
            job,
            command,
            other: None,
            commanded: false,
            boot: None,
            greeted: None,
            input: Box::new(std::io::empty()),
            buffer: Vec::new(),
            heard: None,
            refused: 0,
        })
    }

    /// Lets the guest boot again ([`Self::restart`]): its job names the boot.
    pub fn make_restartable(&mut self) {
        self.boot.get_or_insert(1);
    }

    /// Later boots of the guest draw by `seed`.
    pub fn reseed(&mut self, seed: u64) {
        self.set_up.seed = seed;
    }

    /// The guest begins anew.
    pub fn restart(&mut self) {
        self.host = Host::new();
        self.boot = self.boot.map(|boot| boot + 1);
        self.job = self.set_up.clone();
        // A new boot draws other numbers.
        let boot = self.boot.unwrap_or(1);
        self.job.seed = splitmix::nth(self.job.seed, u64::from(boot));
        (self.commanded, self.input) = (false, Box::new(std::io::empty()));
        self.mailbox.as_mut_slice().fill(0);
    }

    /// The memory behind the mailbox's BAR.
    pub fn mailbox(&self) -> &Mapping {
        &self.mailbox
    }

    /// Returns whether its command runs on a terminal.
    pub fn has_terminal(&self) -> bool {
        self.job.terminal.is_some()
    }

    /// Returns the number of requests that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Keeps the command's output for [`Self::take_heard`] from now on.
    pub fn listen(&mut self) {
        self.heard.get_or_insert_default();
    }

    /// Returns the output of the command since the last call, if anyone [listens](Self::listen).
    pub fn take_heard(&mut self) -> Vec<(Stream, Vec<u8>)> {
        self.heard.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Answers a request for a fault, with nothing or with why there is none, or for orders.
    pub fn answer(&mut self, text: &[u8]) {
        Host::respond(&mut MailboxMemory(&self.mailbox), Response::Bytes(text));
    }

    /// Sets `job` as the command that the guest is given at its next request, and at later boots.
    /// Returns whether the guest has been given a command since its boot.
    pub fn begin_with(&mut self, job: &Job) -> bool {
        self.other = Some(job.clone());
        self.commanded
    }

    /// Answers the request for what is to run beside the command; from now on that is the command.
    pub fn give_branch(&mut self, job: &Job) {
        self.host.branch();
        self.job.terminal = job.terminal;
        let job = self.numbered(job.clone());
        Host::respond(&mut MailboxMemory(&self.mailbox), Response::Job(&job));
    }

    /// Adds the number of the boot to the environment of `job`, where there can be several boots.
    fn numbered(&self, mut job: Job) -> Job {
        if let Some(boot) = self.boot {
            job.environment.insert(BOOT.into(), boot.to_string());
        }
        job
    }

    /// Answers the command's end: the agent is to ask for what runs next.
    pub fn something_is_to_run(&mut self) {
        self.answer(&[1]);
    }

    /// Answers that there is no branch.
    pub fn no_branch(&mut self) {
        Host::respond(&mut MailboxMemory(&self.mailbox), Response::Done);
    }

    /// Answers the request for a command.
    ///
    /// # Errors
    /// Errors of the data that is read for the guest ([`Error::Input`]).
    pub fn give_command(&mut self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.commanded, true) {
            let command = (self.command)().map_err(Error::Input)?;
            let mut job = command.job;
            if let Some(other) = &self.other {
                job.command.clone_from(&other.command);
                job.environment.clone_from(&other.environment);
            }
            (self.job, self.input) = (self.numbered(job), command.input);
        }
        Host::respond(&mut MailboxMemory(&self.mailbox), Response::Job(&self.job));
        Ok(())
    }

    /// Answers whether the command may begin: never, where `start` is a reason.
    pub fn start(&mut self, start: Result<bool, String>) {
        let answer = match start {
            Ok(now) => u32::from(now).to_le_bytes().to_vec(),
            Err(why) => [&2u32.to_le_bytes()[..], why.as_bytes()].concat(),
        };
        self.answer(&answer);
    }

    /// The guest rang: answers its request. `is_memory`: whether the page at an address is the guest's memory. `now`: the time (ns). `typed`: the
    /// terminal's input.
    ///
    /// # Errors
    /// Errors of the event stream ([`Error::EventSink`]), and of the data that is read for the
    /// guest ([`Error::Input`]).
    pub fn doorbell(
        &mut self,
        now: Nanos,
        events: &mut dyn EventSink,
        is_memory: impl Fn(u64) -> bool,
        typed: &mut dyn FnMut() -> std::io::Result<Typed>,
    ) -> Result<AgentEvent, Error> {
        let mut emit = |event| events.event(event).map_err(Error::EventSink);
        let mut mailbox = MailboxMemory(&self.mailbox);
        let request = match self.host.receive(&mut mailbox) {
            Ok(request) => request,
            Err(error) => {
                self.refused += 1;
                if self.refused <= REFUSALS_TOLD {
                    emit(RunEvent::Console(format!("{error}\n").into_bytes()))?;
                }
                if self.refused == REFUSALS_TOLD {
                    let more = "further refused requests are only counted\n";
                    emit(RunEvent::Console(more.into()))?;
                }
                return Ok(AgentEvent::Nothing);
            }
        };
        let mut event = AgentEvent::Nothing;
        match request {
            Request::Hello => {
                // The guest's clock goes on while it is off.
                let since = now - *self.greeted.get_or_insert(now);
                if self.job.realtime_ns > 0 {
                    self.job.realtime_ns = self.job.realtime_ns.saturating_add(since);
                }
                Host::respond(&mut mailbox, Response::Job(&self.job));
                return Ok(event);
            }
            Request::Command => return Ok(AgentEvent::WantsCommand),
            Request::ReadInput { max } => {
                self.buffer.resize(max, 0);
                let mut length = 0;
                while length < max {
                    match self.input.read(&mut self.buffer[length..]).map_err(Error::Input)? {
                        0 => break,
                        more => length += more,
                    }
                }
                Host::respond(&mut mailbox, Response::Bytes(&self.buffer[..length]));
                return Ok(event);
            }
            Request::Ready => return Ok(AgentEvent::Ready),
            Request::Health { healthy } => event = AgentEvent::Health(healthy),
            Request::HelpPage { address } => {
                let known = is_memory(address);
                self.refused += u64::from(!known);
                let answer =
                    if known { Response::Done } else { Response::Refused(Refusal::Failed) };
                Host::respond(&mut mailbox, answer);
                return Ok(if known { AgentEvent::HelpPage(address) } else { AgentEvent::Nothing });
            }
            Request::Typed => {
                self.buffer.clear();
                typed().map_err(Error::Input)?.encode(&mut self.buffer);
                Host::respond(&mut mailbox, Response::Bytes(&self.buffer));
                return Ok(event);
            }
            Request::Help { on } => event = AgentEvent::Help(on),
            Request::Started => event = AgentEvent::Started,
            Request::Output { stream, bytes } => {
                if let Some(heard) = &mut self.heard {
                    heard.push((stream, bytes.to_vec()));
                }
                emit(match stream {
                    Stream::Output => RunEvent::Output(bytes.to_vec()),
                    Stream::Error => RunEvent::ErrorOutput(bytes.to_vec()),
                })?;
            }
            Request::Orders => return Ok(AgentEvent::WantsOrders),
            Request::Branch => return Ok(AgentEvent::WantsBranch),
            Request::Callable { call } => event = AgentEvent::Callable(call),
            Request::Ordered { number } => event = AgentEvent::Ordered(number),
            Request::Fault { text } => return Ok(AgentEvent::Asks(text.into_owned())),
            Request::Exited { status } => event = AgentEvent::Exited(i32::from(status)),
            Request::NotStarted { status, message } => {
                event = AgentEvent::NotStarted(i32::from(status), message.into_owned());
            }
            Request::Results { bytes } => emit(RunEvent::Results(bytes.to_vec()))?,
            Request::Log { text } => emit(RunEvent::Console(format!("{text}\n").into_bytes()))?,
            Request::Finished => event = AgentEvent::Finished,
        }
        Host::respond(&mut mailbox, Response::Done);
        Ok(event)
    }
}
