//! An operation of a client, from its beginning to its end.

use std::fmt;

use serde_json::Value;

use crate::line::Kind;

/// Length of a value in a sentence (characters).
const MAX_SHOWN: usize = 60;

/// End of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The operation was done.
    Ok,
    /// The operation was not done.
    Fail,
    /// Nobody knows: its client says so, or has said nothing.
    Unknown,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Fail, Self::Unknown];

    /// Returns the outcome's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the outcome of an operation that ends with a line of this kind.
    pub fn of_end(kind: Kind) -> Self {
        match kind {
            Kind::Ok => Self::Ok,
            Kind::Fail => Self::Fail,
            Kind::Invoke | Kind::Info => Self::Unknown,
        }
    }
}

/// Beginning or end of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Its place in the order of all beginnings and ends. At the same time beginnings are before ends, so that
    /// operations count as concurrent that may be.
    pub rank: usize,
    /// Its line's `index`, or the line's number from 0 on.
    pub index: u64,
    /// Its line's `time` (ns).
    pub time: Option<u64>,
}

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// The client's machine.
    pub machine: Option<String>,
    /// The client: a number or a word.
    pub process: Value,
    /// Kind of the operation.
    pub f: String,
    /// Value of the line with which it began.
    pub argument: Value,
    /// Value of the line with which it ended.
    pub result: Value,
    /// The server's answer, as `stasis-client` writes it.
    pub answer: Option<String>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its beginning.
    pub begin: Moment,
    /// Its end; none if it has none. An operation whose outcome is unknown may be done later.
    pub end: Option<Moment>,
}

impl Operation {
    /// Returns whether the operation was done.
    pub fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Returns the result of an operation that was done and has one, else the argument.
    pub fn value(&self) -> &Value {
        match self.is_ok() && !self.result.is_null() {
            true => &self.result,
            false => &self.argument,
        }
    }

    /// Returns the rank at which the operation has certainly happened, if it was done; `usize::MAX` if its outcome is
    /// unknown.
    pub fn done(&self) -> usize {
        let end = self.end.filter(|_| self.is_ok());
        end.map_or(usize::MAX, |end| end.rank)
    }

    /// Returns whether it was done before another one began.
    pub fn is_before(&self, other: &Self) -> bool {
        self.done() < other.begin.rank
    }
}

/// Returns a value as it stands in a sentence.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// The kind, the value and the place: `add 5 (index 12)`.
impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.f)?;
        if !self.value().is_null() {
            write!(out, " {}", shown(self.value()))?;
        }
        if let Some(answer) = &self.answer {
            write!(out, " → {}", shown(&Value::from(answer.as_str())))?;
        }
        write!(out, " (index {})", self.begin.index)
    }
}
