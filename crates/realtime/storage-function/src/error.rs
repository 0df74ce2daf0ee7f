//! Errors of a function, each with its remedy.

use std::io;
use std::path::PathBuf;

/// Reason why a definition is refused, or a function does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No shipped function has the name, and no file is there.
    #[error("there is no function `{word}`; {guess}`stasis function list` has those that are shipped; a file of your own needs its path, such as ./function.toml")]
    Unknown {
        /// The word given.
        word: String,
        /// The nearest name as a question; empty where none resembles the word.
        guess: String,
    },
    /// A definition is not as it should be.
    #[error("{place}: {cause}")]
    Definition {
        /// The file, or the shipped function.
        place: String,
        /// The fault, and a valid form.
        cause: String,
    },
    /// Requested settings that do not go together.
    #[error("{0}")]
    Invalid(String),
    /// A file could not be used.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// The attempted action.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The function runs already.
    #[error("the function {name} runs already, as process {process}: stop it, or give this one another name by --name")]
    Running {
        /// Its name.
        name: String,
        /// Its supervisor.
        process: u32,
    },
    /// The function never was well.
    #[error(
        "the function {name} did not become well in {attempts} attempts; the last one: {reason}"
    )]
    NeverWell {
        /// Its name.
        name: String,
        /// Number of attempts.
        attempts: u32,
        /// Why not.
        reason: String,
    },
    /// The machine cannot be made, now or later.
    #[error(transparent)]
    Machine(#[from] stasis_qemu_vm::Error),
    /// The system refuses something that is not about a file.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
