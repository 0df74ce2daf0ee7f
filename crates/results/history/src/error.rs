//! Errors of reading.

/// A line that is no part of a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct HistoryError {
    /// Number of the line, from 1 on; in EDN the line where the operation begins.
    pub line: usize,
    /// The reason.
    pub reason: String,
}
