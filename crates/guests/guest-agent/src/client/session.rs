//! Servers, one of which is asked at a time, over connections that stay.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::options::Options;
use super::protocol::{Protocol, Question, Reply};
use super::wire::{Address, Failure, Wire};
use super::words::is_like;

/// Time between two tries to reach a server.
const PAUSE: Duration = Duration::from_millis(20);
/// Time between two tries of an operation that is repeated until its answer comes.
const BETWEEN: Duration = Duration::from_millis(100);

pub(super) struct Session<'a> {
    protocol: &'static Protocol,
    options: &'a Options,
    servers: Vec<(&'a Address, Option<Wire>)>,
    /// The one that is asked.
    current: usize,
}

impl<'a> Session<'a> {
    pub(super) fn new(protocol: &'static Protocol, options: &'a Options) -> Self {
        let servers = options.servers.iter().map(|address| (address, None)).collect();
        Self { protocol, options, servers, current: 0 }
    }

    /// Does an operation.
    ///
    /// # Errors
    /// The operation is none, or the server wants what this program does not do.
    pub(super) fn perform(&mut self, operation: &str) -> Result<Reply, String> {
        let deadline = Instant::now() + self.options.timeout;
        let question = loop {
            let address = self.servers[self.current].0;
            let host = format!("{}:{}", address.name, address.port);
            let question = (self.protocol.ask)(operation, &host, &self.options.login)?;
            match self.connect(deadline) {
                Ok(()) => break question,
                Err(Failure::Unsupported(feature)) => return Err(format!("{host}: {feature}")),
                Err(failure) => {
                    self.current = (self.current + 1) % self.servers.len();
                    if Instant::now() + PAUSE >= deadline {
                        let why = failure.text();
                        return Ok(Reply::Fail(format!("not sent: {host}: {why}")));
                    }
                    sleep(PAUSE);
                }
            }
        };
        let reply = self.exchange(&question, deadline)?;
        if !matches!(reply, Reply::Ok(_)) {
            self.current = (self.current + 1) % self.servers.len();
        }
        Ok(reply)
    }

    /// Repeats an operation until it is done and its answer is like this.
    pub(super) fn until(&mut self, operation: &str, answer: &str) -> Result<Reply, String> {
        loop {
            match self.perform(operation)? {
                Reply::Ok(text) if is_like(&text, answer) => return Ok(Reply::Ok(text)),
                _ => sleep(BETWEEN),
            }
        }
    }

    /// Sees to it that the current server has a session.
    fn connect(&mut self, deadline: Instant) -> Result<(), Failure> {
        let count = self.servers.len() as u32;
        let (address, slot) = &mut self.servers[self.current];
        if slot.as_ref().is_some_and(Wire::is_quiet) {
            return Ok(());
        }
        *slot = None;
        // A server that is silent leaves time for the others.
        let own = (Instant::now() + self.options.timeout / count).min(deadline);
        let mut wire = Wire::connect(address, own)?;
        (self.protocol.greet)(&mut wire, &self.options.login)?;
        *slot = Some(wire);
        Ok(())
    }

    fn exchange(&mut self, question: &Question, deadline: Instant) -> Result<Reply, String> {
        let (address, slot) = &mut self.servers[self.current];
        let Some(mut wire) = slot.take() else { return Ok(Reply::Fail("not sent".into())) };
        wire.begin(deadline);
        let sent = wire.send(&question.bytes);
        match sent.and_then(|()| (self.protocol.answer)(&mut wire, question)) {
            Ok(reply) => {
                *slot = (!wire.ends).then_some(wire);
                Ok(reply)
            }
            Err(Failure::Unsupported(feature)) => Err(format!("{}: {feature}", address.name)),
            Err(failure) => Ok(Reply::Info(failure.text().into())),
        }
    }
}
