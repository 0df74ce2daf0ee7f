//! Errors in an experiment.

use std::path::PathBuf;

use stasis_config::{TextError, WordsError};

/// An error in an experiment, with its place.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("cannot read the experiment {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file's content is no experiment, or its values cannot be, or do not go together.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line, place, the value found, the allowed ones, and the nearest.
        error: TextError,
    },
    /// The file is none of an experiment.
    #[error("{path}: {message}", path = .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The reason.
        message: String,
    },
    /// The words of a `--drive` cannot be read.
    #[error("--drive {word}: {error}")]
    Words {
        /// The given words.
        word: String,
        /// The key, the value found, the allowed ones, and the nearest.
        error: WordsError,
    },
    /// Values of a `--drive` do not go together.
    #[error("--drive {word}: {message}")]
    Drive {
        /// The given words.
        word: String,
        /// The reason.
        message: String,
    },
    /// An invalid value that is in no file.
    #[error("{0}")]
    Value(String),
}
