//! Errors of a root file system.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no root file system.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// A file or folder could not be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The attempted action.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The path holds no root file system that a guest can start from.
    #[error("the root {} cannot be used: {cause}", path.display())]
    Unusable {
        /// The folder, archive or image.
        path: PathBuf,
        /// The fault or the missing part.
        cause: String,
    },
    /// The root is a disk image that cannot be read.
    #[error("the root cannot be used: {0}")]
    Image(#[from] stasis_qcow2_format::FormatError),
    /// The root has more than a guest can have.
    #[error("the root {} cannot be used: {cause}", path.display())]
    TooLarge {
        /// The folder, archive or image.
        path: PathBuf,
        /// The quantity above its limit.
        cause: String,
    },
}

impl RootError {
    /// For `map_err`: a failed operation on a file.
    pub(crate) fn file<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::File { what, path: path.into(), source }
    }

    pub(crate) fn unusable(path: &Path, cause: impl Into<String>) -> Self {
        Self::Unusable { path: path.into(), cause: cause.into() }
    }
}
