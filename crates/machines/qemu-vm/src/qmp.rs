//! The little of QEMU's machine protocol (docs/interop/qmp-spec.rst) that
//! this program takes.

use crate::fd::readable;
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Why a conversation with QEMU failed.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU is gone.
    #[error("QEMU is gone")]
    Closed,
    /// QEMU did not answer in time.
    #[error("QEMU does not answer ({0})")]
    Timeout(
        /// The request without an answer.
        &'static str,
    ),
    /// QEMU refused a command.
    #[error("QEMU refused `{command}`: {message}")]
    Refused {
        /// The QMP command.
        command: &'static str,
        /// Its answer.
        message: String,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// A connection to a QEMU monitor.
pub struct Qmp<'a> {
    stream: UnixStream,
    buffer: Vec<u8>,
    events: VecDeque<Value>,
    stopped: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Qmp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "monitor on {:?}", self.stream)
    }
}

/// Longest that a command may take: they are all about descriptors and flags, but the machine may be
/// busy with much else.
const ANSWER: Duration = Duration::from_secs(60);

impl<'a> Qmp<'a> {
    /// Greets QEMU. `stopped` is asked about every 50 ms while waiting.
    ///
    /// # Errors
    /// There is no QEMU that answers.
    pub fn new(
        stream: UnixStream,
        stopped: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Self, QmpError> {
        let mut qmp = Self { stream, buffer: Vec::new(), events: VecDeque::new(), stopped };
        let deadline = Instant::now() + ANSWER;
        while qmp.message(deadline, "its greeting")?.get("QMP").is_none() {}
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Returns the connection with `stopped` as the condition that ends its waits.
    pub fn until<'b>(self, stopped: &'b (dyn Fn() -> bool + Sync)) -> Qmp<'b> {
        Qmp { stream: self.stream, buffer: self.buffer, events: self.events, stopped }
    }

    /// Runs a command and returns what it returned.
    ///
    /// # Errors
    /// QEMU refuses it, or does not answer.
    pub fn execute(&mut self, command: &'static str, arguments: Value) -> Result<Value, QmpError> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.stream.write_all(line.as_bytes()).map_err(|_| QmpError::Closed)?;
        let deadline = Instant::now() + ANSWER;
        loop {
            let mut message = self.message(deadline, command)?;
            if let Some(error) = message.get("error") {
                let message = error["desc"].as_str().unwrap_or("no reason given").to_owned();
                return Err(QmpError::Refused { command, message });
            }
            if message.get("event").is_some() {
                self.events.push_back(message);
            } else if message.get("return").is_some() {
                return Ok(message["return"].take());
            }
        }
    }

    /// Waits for an event for which `wanted` returns a value.
    ///
    /// # Errors
    /// The event does not come within `limit`.
    pub fn wait<T>(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(&str, &Value) -> Option<T>,
    ) -> Result<T, QmpError> {
        let deadline = Instant::now() + limit;
        loop {
            let message = match self.events.pop_front() {
                Some(event) => event,
                None => self.message(deadline, "an event")?,
            };
            if let Some(name) = message.get("event").and_then(Value::as_str) {
                if let Some(answer) = wanted(name, &message["data"]) {
                    return Ok(answer);
                }
            }
        }
    }

    /// Waits until a migration, in or out, has come to its end.
    ///
    /// # Errors
    /// The migration fails, or does not end within `limit`.
    pub fn migrated(&mut self, limit: Duration) -> Result<(), QmpError> {
        let done = self.wait(limit, |name, data| {
            (name == "MIGRATION").then(|| data["status"].as_str())?.and_then(
                |status| match status {
                    "completed" => Some(true),
                    "failed" | "cancelled" => Some(false),
                    _ => None,
                },
            )
        })?;
        if done {
            return Ok(());
        }
        let answer = self.execute("query-migrate", json!({}))?;
        let message = answer["error-desc"].as_str().unwrap_or("no reason given").to_owned();
        Err(QmpError::Refused { command: "migrate", message })
    }

    fn message(&mut self, deadline: Instant, command: &'static str) -> Result<Value, QmpError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if let Ok(value) = serde_json::from_slice(&line) {
                    return Ok(value);
                }
                continue;
            }
            if (self.stopped)() {
                return Err(QmpError::Stopped);
            }
            if Instant::now() > deadline {
                return Err(QmpError::Timeout(command));
            }
            let [ready] = readable([self.stream.as_fd()], 50).map_err(|_| QmpError::Closed)?;
            if ready {
                self.fill().map_err(|_| QmpError::Closed)?;
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                self.buffer.extend_from_slice(&piece[..length]);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(answers: &'static [&'static str]) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                theirs.write_all(answer.as_bytes()).unwrap();
            }
            // Held open until the client is done with it.
            let _ = theirs.read_to_end(&mut Vec::new());
        });
        ours
    }

    #[test]
    fn events_before_an_answer_are_kept() {
        let stream = peer(&[
            "{\"QMP\":{}}\r\n{\"return\":{}}\r\n",
            "{\"event\":\"STOP\"}\r\n{\"return\":{\"status\":\"paused\"}}\r\n",
        ]);
        let mut qmp = Qmp::new(stream, &|| false).unwrap();
        assert_eq!(qmp.execute("query-status", json!({})).unwrap()["status"], "paused");
        qmp.wait(ANSWER, |name, _| (name == "STOP").then_some(())).unwrap();
    }

    #[test]
    fn a_refusal_names_the_command_and_the_reason() {
        let stream = peer(&["{\"QMP\":{}}\n{\"return\":{}}\n{\"error\":{\"desc\":\"no such\"}}\n"]);
        let mut qmp = Qmp::new(stream, &|| false).unwrap();
        let refused = qmp.execute("migrate", json!({})).unwrap_err();
        assert!(
            matches!(refused, QmpError::Refused { command: "migrate", message } if message == "no such")
        );
    }

    #[test]
    fn a_dead_qemu_and_a_stop_end_the_wait() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(matches!(Qmp::new(ours, &|| false), Err(QmpError::Closed)));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(matches!(Qmp::new(ours, &|| true), Err(QmpError::Stopped)));
    }
}
