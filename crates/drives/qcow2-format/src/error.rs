//! Errors of an image's file.

use std::io;
use std::path::PathBuf;

/// Reason why a file cannot be read as an image.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file cannot be read.
    #[error("{}: cannot read it: {source}", path.display())]
    Os {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is no qcow2 image.
    #[error("{}: this is no qcow2 image", .0.display())]
    NotQcow2(PathBuf),
    /// The image is of a version, or uses a feature, that is not known here.
    #[error("{}: {feature} is not supported; convert it with `qemu-img convert -O qcow2`", path.display())]
    Unsupported {
        /// The image.
        path: PathBuf,
        /// The unsupported feature.
        feature: String,
    },
    /// Another program has marked the image as corrupt.
    #[error(
        "{}: it is marked as corrupt; see `stasis image check {}`, and copy its disk with \
         `stasis image convert`",
        .0.display(), .0.display()
    )]
    Marked(PathBuf),
    /// The image contradicts itself.
    #[error(
        "{}: the image is damaged: {contradiction}; `stasis image convert --rescue` copies what can \
         be read",
        path.display()
    )]
    Damaged {
        /// The image.
        path: PathBuf,
        /// The first contradiction.
        contradiction: String,
    },
}
