//! Errors of a root file system.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why there is no root file system.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file or folder.
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
    /// Makes the error of a failed operation on a file, for `map_err`.
    pub(crate) fn file<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::File { action, path: path.into(), source }
    }

    pub(crate) fn unusable(path: &Path, cause: impl Into<String>) -> Self {
        Self::Unusable { path: path.into(), cause: cause.into() }
    }
}
