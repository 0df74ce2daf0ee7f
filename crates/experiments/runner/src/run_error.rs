//! The reason for a run without an outcome of its own.

use stasis_run_events::Ending;

/// The reason for a run without an outcome of its own.
#[derive(Debug)]
pub enum RunError {
    /// The run was ended from outside.
    Ended(Ending),
    /// The run could not start or continue.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for RunError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
