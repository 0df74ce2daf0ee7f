//! The end of a command that the user stopped.

/// The user stopped the command.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;
