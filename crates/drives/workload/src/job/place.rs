//! The place of a line of a job file.

use std::fmt;
use std::sync::Arc;

/// A line's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The line in its file, from 1.
    pub line: usize,
    /// The included file's name; `None` for the job file itself.
    pub file: Option<Arc<str>>,
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}", self.line)?;
        match &self.file {
            Some(file) => write!(to, " of {file}"),
            None => Ok(()),
        }
    }
}
