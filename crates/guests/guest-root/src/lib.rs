//! A root file system that the user has, as what a guest starts from: a folder, a tar archive, a
//! container image, a disk image, or this machine's own.
//!
//! A small one is copied into an image, which the guest has in memory. A large one is read where
//! it lies, by a device of the guest's: of a folder the names are in an image and the files' bytes
//! stay in the files ([`write_names`], [`Lower::of_files`]); of a disk image the guest's kernel
//! reads the file system ([`Part`], [`Lower::of_image`]).
//!
//! Promises:
//! - Nothing is unpacked on this machine: names and rights are put together in memory, and the
//!   files' bytes are copied once at most, into the image. So no archive reaches a path outside,
//!   and owners, rights and device nodes are kept without being root.
//! - The same files with the same rights and times are the same image to the byte, in any form of
//!   the input.
//! - A damaged, hostile or too large root is an error that names the file and the cause. A failure
//!   leaves nothing behind but the written part of the image.

mod archive;
mod check;
mod compressed;
mod container;
mod content;
mod disk;
mod error;
mod ext4;
mod folder;
mod image_config;
mod layer;
mod lower;
mod map;
mod partitions;
pub mod sha256;
mod sparse;
mod tree;

pub use archive::{each_text, unpack, Pack};
pub use check::{image_folder, TOOLS};
pub use disk::{FileSystemKind, Part};
pub use error::RootError;
pub use image_config::{HealthCheck, ImageConfig};
pub use lower::Lower;
pub use tree::{Limits, Tree};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use content::{ReadAt, Span};

/// The bytes of a file in an image of a root, at most `most`; None where the image has none of this
/// path, or cannot be read.
pub fn read_from_image(image: &Path, path: &str, most: u64) -> Option<Vec<u8>> {
    let file = Span::whole(fs::File::open(image).ok()?).ok()?;
    ext4::read::file_of(&(Arc::new(file) as _), 0, path, most)
}

/// The word for this machine's own root.
pub const HOST: &str = "host";

/// Place of a tar archive's mark (POSIX pax, "ustar Interchange Format").
const TAR_MARK: (usize, &[u8]) = (257, b"ustar");

/// A root that a user names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    path: PathBuf,
    kind: SourceKind,
    /// Name of a container image among several.
    image: Option<String>,
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
    /// Its content, and the way in which a guest gets it.
    pub form: Form,
    /// Number of files that this user may not read and were left out; only of the host's.
    pub left_out: usize,
    /// The configuration of a container image.
    pub config: Option<ImageConfig>,
}

/// Form in which a guest gets a root.
#[derive(Debug)]
pub enum Form {
    /// As an image in its memory ([`write_image`]).
    Copied(Tree),
    /// Its files are read where they lie ([`write_names`]).
    Files(Tree),
    /// Its kernel reads the file system in the disk image at this path.
    Part(PathBuf, Part),
}

impl Form {
    /// The names that are in it, where they are known.
    pub fn tree(&self) -> Option<&Tree> {
        match self {
            Self::Copied(tree) | Self::Files(tree) => Some(tree),
            Self::Part(..) => None,
        }
    }
}

/// The path in a word for a root, and the name of a container image behind it, where nothing is at
/// the whole word: `PATH:NAME`.
pub fn path_and_image(word: &str) -> (PathBuf, Option<&str>) {
    let path = |word: &str| match (word.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(word),
    };
    let whole = path(word);
    if whole.exists() {
        return (whole, None);
    }
    let mut parts = word.match_indices(':').map(|(at, _)| (path(&word[..at]), &word[at + 1..]));
    let there = parts.find(|(path, name)| !name.is_empty() && path.exists());
    there.map_or((whole, None), |(path, name)| (path, Some(name)))
}

impl Source {
    /// Looks at what `word` names: [`HOST`], or a path, which may begin with `~/`, or
    /// `PATH:NAME` for one of several container images.
    ///
    /// # Errors
    /// If nothing is there, or this user may not read it.
    pub fn find(word: &str) -> Result<Self, RootError> {
        if word == HOST {
            return Ok(Self { path: "/".into(), kind: SourceKind::Host, image: None });
        }
        let (path, image) = path_and_image(word);
        let image = image.map(str::to_owned);
        let path = fs::canonicalize(&path).map_err(RootError::file("find the root", &path))?;
        let kind = if path.is_dir() {
            fs::read_dir(&path).map_err(RootError::file("read the root", &path))?;
            SourceKind::Folder
        } else if !path.is_file() {
            // To open a pipe would wait for whoever writes to it.
            return Err(RootError::unusable(&path, "it is neither a folder nor a file"));
        } else {
            fs::File::open(&path).map_err(RootError::file("read the root", &path))?;
            SourceKind::File
        };
        Ok(Self { path, kind, image })
    }

    /// A name for its present state: an archive's by its size and time, a folder's by those of
    /// all files in it.
    ///
    /// # Errors
    /// The source cannot be read.
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
        Ok(sha256::digest(text.as_bytes()))
    }

    fn walk(&self, limits: Limits) -> Result<folder::Walked, RootError> {
        // The tables of a file system of 1 TiB take 64 MiB.
        let limits = Limits { bytes: 1 << 40, ..limits };
        match self.kind {
            SourceKind::Host => folder::of_host(&self.path, limits),
            _ => folder::read(&self.path, limits),
        }
    }

    /// Reads its names and rights, and finds where the files' bytes are. Compressed files are
    /// unpacked into nameless files in `work`.
    ///
    /// # Errors
    /// The source is no root, is damaged, or has more than `limits`.
    pub fn read(&self, work: &Path, limits: Limits) -> Result<Read, RootError> {
        if self.kind == SourceKind::File {
            let (form, config) = self.file(work, limits)?;
            return self.named(Read { form, left_out: 0, config });
        }
        if let Some(files) = container::Files::of_folder(&self.path) {
            return self.image(&files, work, limits).map(|(form, config)| Read {
                form,
                left_out: 0,
                config,
            });
        }
        let folder::Walked { tree, left_out, .. } = self.walk(limits)?;
        let copied = self.kind == SourceKind::Folder && tree.bytes() <= limits.copied;
        let form = if copied { Form::Copied(tree) } else { Form::Files(tree) };
        self.named(Read { form, left_out, config: None })
    }

    /// Refuses the name of an image where there is none.
    fn named(&self, read: Read) -> Result<Read, RootError> {
        match &self.image {
            Some(name) if read.config.is_none() => {
                let cause = format!("it is no container image, and {name} is the name of one");
                Err(RootError::unusable(&self.path, cause))
            }
            _ => Ok(read),
        }
    }

    fn image(
        &self,
        files: &container::Files,
        work: &Path,
        limits: Limits,
    ) -> Result<Found, RootError> {
        let (tree, config) =
            container::read(files, (&self.path, self.image.as_deref()), work, limits)?;
        Ok((Form::Copied(tree), Some(config)))
    }

    fn file(&self, work: &Path, limits: Limits) -> Result<Found, RootError> {
        let path = &self.path;
        let fail = |cause: String| RootError::unusable(path, cause);
        let file = lower::open(path)?;
        let span = compressed::plain(&file, work, limits).map_err(fail)?;
        let is_compressed = !Arc::ptr_eq(&span.file, &file.file);
        let mut start = vec![0; span.length.min(512) as usize];
        span.read_at(&mut start, 0).map_err(RootError::file("read", path))?;
        let (at, mark) = TAR_MARK;
        if start.get(at..at + mark.len()) == Some(mark) {
            return self.tar(&span, work, limits);
        }
        let source = lower::image(span, path)?;
        if source.length() < ext4::SUPERBLOCK + ext4::SUPERBLOCK_SIZE as u64 {
            return Err(fail("it is neither a folder, nor a tar archive, nor a disk image".into()));
        }
        match disk::read(&source, path, limits)? {
            disk::Found::Tree(tree) => Ok((Form::Copied(tree), None)),
            disk::Found::Part(_) if is_compressed => Err(fail(
                "its file system is one that a guest reads where it lies, and the image is \
                 compressed: unpack it"
                    .into(),
            )),
            disk::Found::Part(part) => Ok((Form::Part(path.clone(), part), None)),
        }
    }

    fn tar(&self, span: &Span, work: &Path, limits: Limits) -> Result<Found, RootError> {
        if let Some(files) = container::Files::of_archive(span, &self.path)? {
            return self.image(&files, work, limits);
        }
        let mut tree = Tree::new(&self.path, limits);
        layer::apply(&mut tree, span, 1, false)?;
        Ok((Form::Copied(tree), None))
    }
}

/// A root, with its configuration where it is a container image.
type Found = (Form, Option<ImageConfig>);

/// Reads the tree of a bare image of ext4.
///
/// # Errors
/// The file is no image, or is damaged.
pub fn read_image(path: &Path) -> Result<Tree, RootError> {
    let span: Arc<dyn ReadAt> = Arc::new(lower::open(path)?);
    let limits = Limits { copied: Limits::default().bytes, ..Limits::default() };
    match disk::read(&span, path, limits)? {
        disk::Found::Tree(tree) => Ok(tree),
        disk::Found::Part(_) => Err(RootError::unusable(path, "it is no image of ext4")),
    }
}

/// Writes a tree as an image of ext4 to the new file `path`. Its size is a multiple of 2 MiB.
///
/// # Errors
/// If a file of the tree cannot be read any more, or the image cannot be written.
pub fn write_image(tree: &mut Tree, path: &Path) -> Result<(), RootError> {
    ext4::write::write(tree, path)
}

/// Writes the names of a tree as an image of ext4 to the new file `path`, with holes where the
/// bytes of this machine's files belong, and to the new file `map` which these are:
/// [`Lower::of_files`] puts them together.
///
/// # Errors
/// The files cannot be written.
pub fn write_names(tree: &mut Tree, path: &Path, map: &Path) -> Result<(), RootError> {
    map::write(&ext4::write::write_around_files(tree, path)?, map)
}

#[cfg(test)]
mod tests;
