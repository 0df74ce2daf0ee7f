//! Reasons why a medium cannot be described or opened.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use stasis_block::units::{format_size, UnitError};

use crate::{MIN_CAPACITY, SECTOR};

/// Reason why the description of a medium is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The kind of medium is unknown.
    #[error(
        "medium `{word}`: unknown kind `{kind}`; {}write `ram:SIZE`, `file:PATH`, `qcow2:PATH`, `ordered:PATH` or `device:PATH`",
        nearest.map(|nearest| format!("did you mean `{nearest}`? ")).unwrap_or_default()
    )]
    Kind {
        /// The text as written.
        word: String,
        /// Its kind.
        kind: String,
        /// The valid kind nearest to the written one.
        nearest: Option<&'static str>,
    },
    /// The kind stands without its size or path, or the other way round.
    #[error("medium `{word}`: write `ram:SIZE`, `file:PATH`, `qcow2:PATH`, `ordered:PATH` or `device:PATH`")]
    Incomplete {
        /// The text as written.
        word: String,
    },
    /// The size is invalid.
    #[error("medium `{word}`: {source}")]
    Size {
        /// The text as written.
        word: String,
        /// The fault in the text.
        source: UnitError,
    },
    /// A table without, or with more than one of, `ram`, `file` and `device`.
    #[error("a medium needs exactly one of `ram`, `file`, `qcow2`, `ordered` and `device`, and has {found}")]
    OneKind {
        /// The keys found.
        found: String,
    },
    /// A key that does not go with the kind of medium.
    #[error("a `{kind}` medium has no `{key}`{}", where_to(key))]
    Misplaced {
        /// `ram`, `file` or `device`.
        kind: &'static str,
        /// The key.
        key: &'static str,
    },
}

/// The media that have a key.
fn where_to(key: &str) -> &'static str {
    match key {
        "size" => ": it is that of a new raw image; write medium=file:PATH, or medium=ram:SIZE",
        "durability" => {
            ", and no `max-lag`: they are for images; write medium=qcow2:PATH or \
             medium=ordered:PATH"
        }
        _ => "",
    }
}

/// Reason why a medium cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such file.
    #[error(
        "{}: there is no such image; say how large a new one is to be: `size=1GiB` with --drive, \
         size = \"1GiB\" in the medium's table",
        .0.display()
    )]
    Missing(PathBuf),
    /// The path is an image that only the image layer opens.
    #[error("{}: a disk image in qcow2 has no bytes of its own", .0.display())]
    Image(PathBuf),
    /// The path is a disk whose flushes are orders, which takes real time.
    #[error(
        "{}: an ordered disk works in real time, for `stasis serve`; write file:PATH or qcow2:PATH here",
        .0.display()
    )]
    RealTime(PathBuf),
    /// There is no such file, and none is made.
    #[error("{}: there is no such file; name one that is there", .0.display())]
    NotFound(PathBuf),
    /// There is no folder to make the image in.
    #[error("{}: there is no such folder; make it with `mkdir -p {}`", .0.display(), .0.display())]
    MissingFolder(PathBuf),
    /// There is no such device.
    #[error("{}: there is no such device; `lsblk` lists those there are", .0.display())]
    MissingDevice(PathBuf),
    /// The path is a directory.
    #[error("{}: this is a directory; name an image in it", .0.display())]
    Directory(PathBuf),
    /// A file was asked for, and the path is a block device.
    #[error("{}: this is a block device; write `device:{}`", .0.display(), .0.display())]
    IsDevice(PathBuf),
    /// A block device was asked for, and the path is a file.
    #[error("{}: this is a file, not a block device; write `file:{}`", .0.display(), .0.display())]
    IsFile(PathBuf),
    /// The path is neither a file nor a block device.
    #[error("{}: this is neither a regular file nor a block device; name one", .0.display())]
    Special(PathBuf),
    /// The image has no contents.
    #[error(
        "{}: the image is empty; give it a size with `truncate -s 1G {}`",
        .0.display(), .0.display()
    )]
    Empty(PathBuf),
    /// The image is smaller than any drive.
    #[error(
        "{}: {} is too small for a drive, which needs at least {}; \
         enlarge it with `truncate -s 1G {}`",
        path.display(), format_size(*size), format_size(MIN_CAPACITY), path.display()
    )]
    TooSmall {
        /// The image.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// The RAM is smaller than any drive, or no whole number of sectors.
    #[error(
        "{} of RAM: a drive needs at least {}, and a multiple of {SECTOR} bytes",
        format_size(*size), format_size(MIN_CAPACITY)
    )]
    RamSize {
        /// Requested size in bytes.
        size: u64,
    },
    /// The image ends within a block.
    #[error(
        "{}: its size of {size} bytes is not a multiple of {block}; \
         round it up with `truncate -s %{block} {}`",
        path.display(), path.display()
    )]
    Unaligned {
        /// The image.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// Required divisor of the size, in bytes.
        block: u64,
    },
    /// The image exists in another size than the medium asks for.
    #[error(
        "{}: the image has {}, not the {} of the experiment; delete it, or leave `size` out",
        path.display(), format_size(*size), format_size(*wanted)
    )]
    OtherSize {
        /// The image.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The size asked for in bytes.
        wanted: u64,
    },
    /// This user may not read and write it.
    #[error("{}: no permission to read and write it; {}", .0.display(), permitted(.0))]
    Permission(PathBuf),
    /// The file system is read-only.
    #[error("{}: its file system is read-only; copy the image elsewhere", .0.display())]
    ReadOnly(PathBuf),
    /// Another run uses it.
    #[error("{}: another program uses this image; end that one, or copy the image", .0.display())]
    Locked(PathBuf),
    /// The kernel uses it.
    #[error("{}: the device is in use; unmount it (`findmnt {}`)", .0.display(), .0.display())]
    Busy(PathBuf),
    /// The file system does not do direct I/O.
    #[error("{}: its file system has no direct I/O; leave `direct` out", .0.display())]
    NoDirect(PathBuf),
    /// Its size is not for this program to change.
    #[error("{}: only a raw image in a file can get another size while it is used", .0.display())]
    Fixed(PathBuf),
    /// Anything else.
    #[error("{}: cannot {action}: {source}", path.display())]
    Os {
        /// The image or device.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
}

/// A way to what this user may not read and write, for its owner or for somebody else.
fn permitted(path: &Path) -> String {
    let shown = path.display();
    let found = std::fs::metadata(path).ok();
    if found.as_ref().is_some_and(|found| found.file_type().is_block_device()) {
        return format!(
            "take an image of it (`sudo cp {shown} disk.img`), or be of its group: `sudo usermod -aG disk \
             $USER`, which may then write to every disk of this host"
        );
    }
    // This process belongs to its user.
    let user = std::fs::metadata("/proc/self").ok().map(|own| own.uid());
    match found {
        Some(found) if Some(found.uid()) == user => format!("it is yours: `chmod u+rw {shown}`"),
        _ => format!("use a copy of your own (`cp {shown} disk.img`), or ask its owner"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_shown_to_change_what_is_another_s() {
        let own = tempfile::NamedTempFile::new().unwrap();
        let shown = OpenError::Permission(own.path().to_owned()).to_string();
        assert!(shown.contains("it is yours: `chmod u+rw"), "{shown}");
        let none = OpenError::Permission("/no/such/image".into()).to_string();
        assert!(none.contains("use a copy of your own (`cp /no/such/image disk.img`)"), "{none}");
        let devices = std::fs::read_dir("/dev").into_iter().flatten().flatten();
        let is_block =
            |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_block_device());
        // A container may have none.
        if let Some(device) = devices.into_iter().find(is_block) {
            let shown = OpenError::Permission(device.path()).to_string();
            assert!(shown.contains("-aG disk") && !shown.contains("chmod"), "{shown}");
        }
    }
}
