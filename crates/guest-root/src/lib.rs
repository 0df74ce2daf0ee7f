//! A root file system that the user has, as the image that a guest starts from: a folder, a tar
//! archive, a container image, a disk image, or this machine's own.
//!
//! Promises:
//! - Nothing is unpacked on this machine: names and rights are put together in memory, and the
//!   files' bytes are copied once, into the image. So no archive reaches a path outside, and
//!   owners, rights and device nodes are kept without being root.
//! - The same files with the same rights and times are the same image to the byte, whatever they were in.
//! - What is damaged, hostile or too large is an error that names the file and the cause. A
//!   failure leaves nothing behind but what was written of the image.

mod check;
mod compressed;
mod container;
mod content;
mod disk;
mod error;
mod ext4;
mod folder;
mod layer;
mod qcow2;
mod tree;

pub use error::RootError;
pub use tree::{Limits, Tree};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use content::{ReadAt, Span};

/// The word for this machine's own root.
pub const HOST: &str = "host";

/// Where a tar archive has its mark (POSIX pax, "ustar Interchange Format").
const TAR_MARK: (usize, &[u8]) = (257, b"ustar");

/// A root that a user names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    path: PathBuf,
    kind: SourceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceKind {
    Host,
    Folder,
    File,
}

/// A root that was read.
#[derive(Debug)]
pub struct Read {
    /// What is in it.
    pub tree: Tree,
    /// Which state of its files that is, if this shows only now.
    pub stamp: Option<String>,
    /// How many files this user may not read and were left out; only of the host's.
    pub left_out: usize,
}

impl Source {
    /// Looks at what `word` names: [`HOST`], or a path, which may begin with `~/`.
    ///
    /// # Errors
    /// If nothing is there, or this user may not read it.
    pub fn find(word: &str) -> Result<Self, RootError> {
        if word == HOST {
            return Ok(Self { path: "/".into(), kind: SourceKind::Host });
        }
        let path = match (word.strip_prefix("~/"), std::env::var_os("HOME")) {
            (Some(rest), Some(home)) => Path::new(&home).join(rest),
            _ => PathBuf::from(word),
        };
        let path = fs::canonicalize(&path).map_err(RootError::file("find the root", &path))?;
        let kind = if path.is_dir() {
            fs::read_dir(&path).map_err(RootError::file("read the root", &path))?;
            SourceKind::Folder
        } else {
            fs::File::open(&path).map_err(RootError::file("read the root", &path))?;
            SourceKind::File
        };
        Ok(Self { path, kind })
    }

    /// A name for its present state: an archive's by its size and time, a folder's by those of
    /// all files in it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn stamp(&self) -> Result<String, RootError> {
        if self.kind != SourceKind::File {
            let read = self.walk(Limits::default())?;
            return Ok(read.stamp);
        }
        let error = RootError::file("read", &self.path);
        let status = fs::metadata(&self.path);
        let status = status.and_then(|meta| Ok((meta.len(), meta.modified()?))).map_err(error)?;
        let time = status.1.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let text = format!("{} {} {time}", self.path.display(), status.0);
        Ok(hex(&Sha256::digest(text)))
    }

    fn walk(&self, limits: Limits) -> Result<folder::Walked, RootError> {
        match self.kind {
            SourceKind::Host => folder::of_host(&self.path, limits),
            _ => folder::read(&self.path, limits),
        }
    }

    /// Reads its names and rights, and finds where the files' bytes are. What is compressed is
    /// unpacked into nameless files in `work`.
    ///
    /// # Errors
    /// If it is no root, is damaged, or has more than `limits`.
    pub fn read(&self, work: &Path, limits: Limits) -> Result<Read, RootError> {
        if self.kind == SourceKind::File {
            let tree = self.file(work, limits)?;
            return Ok(Read { tree, stamp: None, left_out: 0 });
        }
        if let Some(files) = container::Files::of_folder(&self.path) {
            let tree = container::read(&files, &self.path, work, limits)?;
            return Ok(Read { tree, stamp: None, left_out: 0 });
        }
        let walked = self.walk(limits)?;
        Ok(Read { tree: walked.tree, stamp: Some(walked.stamp), left_out: walked.left_out })
    }

    fn file(&self, work: &Path, limits: Limits) -> Result<Tree, RootError> {
        let path = &self.path;
        let fail = |cause: String| RootError::unusable(path, cause);
        let span = compressed::open(path).map_err(RootError::file("read", path))?;
        let span = compressed::plain(&span, work, limits).map_err(fail)?;
        let mut start = vec![0; span.length.min(512) as usize];
        span.read_at(&mut start, 0).map_err(RootError::file("read", path))?;
        let (at, mark) = TAR_MARK;
        if start.get(at..at + mark.len()) == Some(mark) {
            return self.tar(&span, work, limits);
        }
        let source: Arc<dyn ReadAt> = match start.starts_with(qcow2::MAGIC) {
            true => Arc::new(qcow2::Image::open(span).map_err(fail)?),
            false => Arc::new(span),
        };
        if source.length() < ext4::SUPERBLOCK + ext4::SUPERBLOCK_SIZE as u64 {
            return Err(fail("it is neither a folder, nor a tar archive, nor a disk image".into()));
        }
        disk::read(&source, path, limits)
    }

    fn tar(&self, span: &Span, work: &Path, limits: Limits) -> Result<Tree, RootError> {
        if let Some(files) = container::Files::of_archive(span, &self.path)? {
            return container::read(&files, &self.path, work, limits);
        }
        let mut tree = Tree::new(&self.path, limits);
        layer::apply(&mut tree, span, 1, false)?;
        Ok(tree)
    }
}

/// Reads the tree of a bare image of ext4.
///
/// # Errors
/// If it is none, or is damaged.
pub fn read_image(path: &Path) -> Result<Tree, RootError> {
    let span = compressed::open(path).map_err(RootError::file("read", path))?;
    disk::read(&(Arc::new(span) as Arc<dyn ReadAt>), path, Limits::default())
}

/// Writes a tree as an image of ext4 to the new file `path`. Its size is a multiple of 2 MiB.
///
/// # Errors
/// If a file of the tree cannot be read any more, or the image cannot be written.
pub fn write_image(tree: &mut Tree, path: &Path) -> Result<(), RootError> {
    ext4::write::write(tree, path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
