//! A line of a history: the beginning or the end of an operation.

use serde::Deserialize;
use serde_json::Value;

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An operation begins.
    Invoke,
    /// It was done.
    Ok,
    /// It was not done, and will not be.
    Fail,
    /// Nobody knows: it may have been done, or may still be.
    Info,
}

impl Kind {
    /// Returns the kind's name in lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invoke => "invoke",
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Info => "info",
        }
    }
}

/// A line as it is written: a JSON object with the keys of Jepsen's and Maelstrom's operations. What is not needed to
/// tell a line of a history from other output may be missing, or anything.
#[derive(Debug, Clone, Deserialize)]
pub struct Line {
    /// Kind of the line.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The client: a number or a word.
    pub process: Value,
    /// Kind of the operation.
    pub f: String,
    /// Argument of the operation, or its result.
    #[serde(default)]
    pub value: Value,
    /// The server's answer, as `stasis-client` writes it.
    #[serde(default)]
    pub answer: Value,
    /// Number of the line.
    #[serde(default)]
    pub index: Value,
    /// Time at which it was written (ns).
    #[serde(default)]
    pub time: Value,
    /// The client's machine.
    #[serde(default)]
    pub machine: Value,
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is no JSON, has no `type`, `process` or `f`, or one of another type.
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }

    /// Reads a line of output; None if it is no line of a history.
    pub fn of_output(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii();
        // Most output is no JSON.
        (line.first() == Some(&b'{')).then(|| Self::parse(line).ok()).flatten()
    }
}
