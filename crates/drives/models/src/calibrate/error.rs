//! Errors in the output of fio or blkparse.

use crate::profile::ProfileError;

/// Reason why no profile could be made.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// fio's output is not JSON.
    #[error("not fio's JSON output: {0}; run fio with --output-format=json+")]
    Json(#[from] serde_json::Error),
    /// A form of fio's output without the distribution of latencies.
    #[error("this is fio's {form}, which does not hold all latencies; run fio with --output-format=json+")]
    Form {
        /// Which form.
        form: &'static str,
    },
    /// A field of fio's output is missing or not as expected.
    #[error("field `{field}` of fio's output: {problem}")]
    Field {
        /// The field, as a path.
        field: String,
        /// The fault and its remedy.
        problem: &'static str,
    },
    /// A line of blkparse's output is not as expected.
    #[error("line {line} of blkparse's output: {problem}: `{text}`")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The fault.
        problem: &'static str,
        /// The line.
        text: String,
    },
    /// The output holds no completed I/O.
    #[error("no completed I/O in {output}: {hint}")]
    Empty {
        /// fio's or blkparse's output.
        output: &'static str,
        /// The remedy.
        hint: &'static str,
    },
    /// The measurements make no profile.
    #[error("what was measured makes no profile: {0}")]
    Profile(#[from] ProfileError),
}
