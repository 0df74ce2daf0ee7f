//! Profiles from what fio or blkparse wrote of a real drive.
//!
//! Both functions are pure: they take the text, and give the profile or an
//! error that names the place in the text.

mod blkparse;
mod fio;

pub use blkparse::from_blkparse;
pub use fio::from_fio;

use crate::profile::ProfileError;

/// Why no profile could be made.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// fio's output is not JSON.
    #[error("not fio's JSON output: {0}; run fio with --output-format=json+")]
    Json(#[from] serde_json::Error),
    /// A field of fio's output is missing or not as expected.
    #[error("field `{field}` of fio's output: {problem}")]
    Field {
        /// The field, as a path.
        field: String,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// A line of blkparse's output is not as expected.
    #[error("line {line} of blkparse's output: {problem}: `{text}`")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
        /// The line.
        text: String,
    },
    /// There is no I/O in it.
    #[error("no completed I/O in {what}: {hint}")]
    Empty {
        /// fio's or blkparse's output.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// What was measured makes no profile.
    #[error("what was measured makes no profile: {0}")]
    Profile(#[from] ProfileError),
}
