//! Questions, their answers, and how a protocol is spoken.

use super::wire::{Failure, Wire};

/// A protocol as a client speaks it.
pub(super) struct Protocol {
    pub name: &'static str,
    pub port: Option<u16>,
    pub greet: fn(&mut Wire, &Login) -> Result<(), Failure>,
    /// The operation, the server's name and port.
    pub ask: fn(&str, &str, &Login) -> Result<Question, String>,
    pub answer: fn(&mut Wire, &Question) -> Result<Reply, Failure>,
}

/// Words of a session.
#[derive(Default)]
pub(super) struct Login {
    pub user: Option<String>,
    pub password: String,
    pub database: Option<String>,
    pub headers: Vec<String>,
    pub greeting: u32,
}

/// An operation as it is sent.
pub(super) struct Question {
    pub bytes: Vec<u8>,
    /// Answers that it has.
    pub answers: usize,
    /// True if some of it may have happened where it fails.
    pub partial: bool,
}

impl From<Vec<u8>> for Question {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, answers: 1, partial: false }
    }
}

/// End of an operation, with the answer or the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// The operation was done.
    Ok(String),
    /// The operation was not done.
    Fail(String),
    /// Nobody knows.
    Info(String),
}

impl Reply {
    /// Name in a history, and the text.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Ok(text) => ("ok", text),
            Self::Fail(text) => ("fail", text),
            Self::Info(text) => ("info", text),
        }
    }
}
