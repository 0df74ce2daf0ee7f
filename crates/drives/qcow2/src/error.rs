//! Everything that can be wrong with an image.

use std::io;
use std::path::PathBuf;

use stasis_media::OpenError;
use stasis_qcow2_format::FormatError;

/// Reason why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file of it cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file cannot be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Os {
        /// The file.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is no qcow2 image.
    #[error(
        "{}: this is no qcow2 image; use it as `file:{}`, or make an image of it with \
         `stasis image convert {} disk.qcow2`",
        .0.display(), .0.display(), .0.display()
    )]
    NotQcow2(PathBuf),
    /// The image is of a version, or uses a feature, that is not known here.
    #[error("{}: {feature} is not supported; convert it with `qemu-img convert -O qcow2`", path.display())]
    Unsupported {
        /// The image.
        path: PathBuf,
        /// The unsupported feature.
        feature: String,
    },
    /// The image contradicts itself.
    #[error(
        "{}: the image is damaged: {contradiction}; see `stasis image check {}`; `stasis image convert \
         --rescue` copies what can be read",
        path.display(), path.display()
    )]
    Damaged {
        /// The image.
        path: PathBuf,
        /// The first contradiction.
        contradiction: String,
    },
    /// A backing file is missing.
    #[error(
        "{}: its backing file {} is missing; bring it back, or name another with `qemu-img rebase -u`",
        path.display(), backing.display()
    )]
    MissingBacking {
        /// The image.
        path: PathBuf,
        /// The file below the image.
        backing: PathBuf,
    },
    /// The backing files go round in a circle.
    #[error("{}: its backing files lead back to {}; name another with `qemu-img rebase -u`",
        path.display(), again.display())]
    Loop {
        /// The image.
        path: PathBuf,
        /// The file met twice.
        again: PathBuf,
    },
    /// There are more backing files than any image needs.
    #[error("{}: more than {limit} backing files; join some with `stasis image convert`", path.display())]
    TooDeep {
        /// The image.
        path: PathBuf,
        /// Limit on the number.
        limit: usize,
    },
    /// The image can be read, but not written.
    #[error(
        "{}: {reason}, and can only be read; copy its disk with `stasis image convert`, and use the \
         copy",
        path.display()
    )]
    ReadOnly {
        /// The image.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The image is only read, and would have to be changed before it is written.
    #[error(
        "{}: it was not closed, or its refcount table is too short for all that may be written; \
         here its file is only read: opening it for writing repairs it",
        .0.display()
    )]
    Unrepaired(PathBuf),
    /// There is no internal snapshot of that name.
    #[error("{}: there is no snapshot `{name}`; there {}", path.display(), present(names))]
    NoSnapshot {
        /// The image.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// Names of the snapshots.
        names: Vec<String>,
    },
    /// A way of flushing that the drive below does not offer.
    #[error(
        "durability = \"{0}\" needs a drive with barriers; give the drive `barrier = \"0us\"`, \
         or take durability = \"flush\""
    )]
    NoBarrier(&'static str),
    /// The image cannot be read or written through the drive below.
    #[error("{}: {source}", path.display())]
    Format {
        /// The image.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A value is out of its range.
    #[error("{0}")]
    Value(String),
}

/// Reason why an image is only read.
pub(crate) const MARKED: &str = "it is marked as corrupt";

impl From<FormatError> for ImageError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Os { path, source } => Self::Os { path, action: "read it", source },
            FormatError::NotQcow2(path) => Self::NotQcow2(path),
            FormatError::Marked(path) => Self::ReadOnly { path, reason: MARKED },
            FormatError::Unsupported { path, feature } => Self::Unsupported { path, feature },
            FormatError::Damaged { path, contradiction } => Self::Damaged { path, contradiction },
        }
    }
}

fn present(names: &[String]) -> String {
    match names {
        [] => "are none".into(),
        names => format!("are: {}", names.join(", ")),
    }
}
