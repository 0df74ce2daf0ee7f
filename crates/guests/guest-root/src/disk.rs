//! Images of disks: the root that is in one, with or without a partition table.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::ReadAt;
use crate::ext4::read::{FileSystem, Opened};
use crate::partitions::partitions;
use crate::tree::{Limits, Tree};
use crate::RootError;

/// A file system in an image that a guest's kernel reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its kind.
    pub kind: FileSystemKind,
    /// Its first byte in the image.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Kinds of file systems that a guest can have its root on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystemKind {
    /// ext2, ext3 and ext4, all of which the driver of ext4 reads.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystemKind {
    /// The kernel's name for it, and for its module.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

/// The root that an image has.
pub(crate) enum Found {
    /// All that is in it.
    Tree(Tree),
    /// A part of a disk.
    Part(Part),
}

/// Content of a stretch of an image.
enum Seen {
    Tree(Tree),
    Part(Part),
    /// Not a root, but this.
    Other(&'static str),
}

/// Reads the root of an image: its own file system, or the one in the first of its partitions with
/// a `/bin/sh`. If that cannot be known, the largest counts.
pub(crate) fn read(
    source: &Arc<dyn ReadAt>,
    origin: &Path,
    limits: Limits,
) -> Result<Found, RootError> {
    let fail = |cause: String| RootError::unusable(origin, cause);
    match inspect(source, (0, source.length()), origin, limits)? {
        Seen::Tree(tree) => return Ok(Found::Tree(tree)),
        Seen::Part(part) => return Ok(Found::Part(part)),
        Seen::Other(UNKNOWN) => {}
        Seen::Other(other) => {
            return Err(fail(format!(
                "it is {other}: file systems of ext2, ext3, ext4, XFS and Btrfs are read"
            )));
        }
    }
    let found = partitions(source).map_err(fail)?;
    if found.is_empty() {
        return Err(fail(
            "it has no Linux: it is no file system of ext4, XFS or Btrfs and has no table of \
             partitions"
                .into(),
        ));
    }
    let (mut descriptions, mut first_error, mut parts) = (Vec::new(), None, Vec::new());
    for (number, place) in (1..).zip(found) {
        match inspect(source, place, origin, limits) {
            Ok(Seen::Tree(tree)) if tree.at("/bin/sh").is_some() => return Ok(Found::Tree(tree)),
            Ok(Seen::Tree(_)) => descriptions.push(format!("{number}: ext4 without /bin/sh")),
            Ok(Seen::Part(part)) => parts.push(part),
            Ok(Seen::Other(kind)) => descriptions.push(format!("{number}: {kind}")),
            Err(error) => {
                descriptions.push(format!("{number}: ext4"));
                first_error.get_or_insert(error);
            }
        }
    }
    if let Some(part) = parts.into_iter().max_by_key(|part| part.length) {
        return Ok(Found::Part(part));
    }
    Err(first_error.unwrap_or_else(|| {
        let descriptions = descriptions.join(", ");
        fail(format!(
            "it has no Linux in a file system that is read; its partitions are {descriptions}"
        ))
    }))
}

/// Identifies the content of a range (first byte and length) of an image.
fn inspect(
    source: &Arc<dyn ReadAt>,
    (start, length): (u64, u64),
    origin: &Path,
    limits: Limits,
) -> Result<Seen, RootError> {
    let fail = |cause: String| RootError::unusable(origin, cause);
    // A table may describe partitions that reach beyond the image's end or have no length.
    let rest = source.length().saturating_sub(start);
    let length = if length == 0 { rest } else { length.min(rest) };
    let part = |kind| Seen::Part(Part { kind, start, length });
    let ext4 = part(FileSystemKind::Ext4);
    let system = match FileSystem::open(source, start, limits).map_err(fail)? {
        Opened::Known(system) => system,
        Opened::Unknown => return Ok(ext4),
        Opened::Other => {
            return Ok(match mark(source, start) {
                "XFS" => part(FileSystemKind::Xfs),
                "Btrfs" => part(FileSystemKind::Btrfs),
                other => Seen::Other(other),
            });
        }
    };
    if system.used() > limits.copied {
        return Ok(match system.looks_like_linux().map_err(fail)? {
            true => ext4,
            false => Seen::Other("ext4 without /bin and /usr"),
        });
    }
    match system.tree(origin, Limits { bytes: limits.copied, ..limits }) {
        Ok(tree) => Ok(Seen::Tree(tree)),
        // Files with holes are larger than what is in use.
        Err(RootError::TooLarge { .. }) => Ok(ext4),
        Err(error) => Err(error),
    }
}

/// File systems and the like that are recognized by their marks: where a mark is and what it is
/// (Linux, include/uapi/linux/magic.h and the file systems' own headers).
const MARKS: [(u64, &[u8], &str); 8] = [
    (0, b"XFSB", "XFS"),
    (0x1_0040, b"_BHRfS_M", "Btrfs"),
    (0, b"hsqs", "SquashFS"),
    (0x218, b"LVM2 001", "LVM"),
    (0, b"LUKS\xba\xbe", "LUKS (encrypted)"),
    (1024, b"\xe2\xe1\xf5\xe0", "EROFS"),
    (0x36, b"FAT", "FAT"),
    (0x52, b"FAT32", "FAT"),
];
const UNKNOWN: &str = "something unknown";

fn mark(source: &Arc<dyn ReadAt>, start: u64) -> &'static str {
    let is = |(at, mark, _): &&(u64, &[u8], &str)| {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..mark.len()];
        let at = start.checked_add(*at);
        at.is_some_and(|at| source.read_at(bytes, at).is_ok()) && bytes == *mark
    };
    MARKS.iter().find(is).map_or(UNKNOWN, |(.., name)| *name)
}
