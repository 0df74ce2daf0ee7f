//! Writes a tree as an image of ext4 that is only ever mounted read-only: no journal, no room. The
//! same tree is the same image.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use super::inode::extents;
use super::layout::{Layout, Placed, INODE, IN_BLOCK, LOST_AND_FOUND};
use super::names;
use super::{BLOCK, SUPERBLOCK};
use crate::content::Content;
use crate::map::FileExtent;
use crate::tree::{Kind, Tree, ROOT};
use crate::RootError;

/// Writes the image of `tree` to the new file `path`.
pub(crate) fn write(tree: &mut Tree, path: &Path) -> Result<(), RootError> {
    image(tree, path, None)
}

/// Like [`write`], but with holes where the bytes of this machine's files are. Returns the files of
/// the holes, in the order of their places.
pub(crate) fn write_around_files(
    tree: &mut Tree,
    path: &Path,
) -> Result<Vec<FileExtent>, RootError> {
    let mut places = Vec::new();
    image(tree, path, Some(&mut places))?;
    Ok(places)
}

fn image(
    tree: &mut Tree,
    path: &Path,
    places: Option<&mut Vec<FileExtent>>,
) -> Result<(), RootError> {
    if !tree.children(ROOT).any(|(name, _)| name == LOST_AND_FOUND) {
        let meta = crate::tree::Meta::of_root(0o700);
        tree.put(ROOT, LOST_AND_FOUND, meta, Kind::Folder(Default::default()), 0)?;
    }
    let layout = Layout::new(tree)?;
    let file = File::create(path).map_err(RootError::file("create", path))?;
    let mut out = Output { file: BufWriter::with_capacity(1 << 20, file), at: 0, path };
    out.file.get_ref().set_len(layout.blocks * BLOCK).map_err(out.error())?;
    out.write(SUPERBLOCK, &layout.superblock(tree))?;
    out.write(BLOCK, &layout.descriptions(tree))?;
    out.write(layout.block_bits * BLOCK, &layout.bits())?;
    let mut inodes: Vec<&Placed> = layout.placed.iter().collect();
    inodes.sort_unstable_by_key(|placed| placed.inode);
    for placed in inodes {
        let at = layout.inodes * BLOCK + u64::from(placed.inode - 1) * INODE;
        out.write(at, &layout.inode(tree, placed))?;
    }
    let mut writer = Writer { layout: &layout, tree, out, places };
    layout.placed.iter().try_for_each(|placed| writer.content(placed))?;
    writer.out.finish()
}

/// The image's file.
struct Output<'a> {
    file: BufWriter<File>,
    /// Place of the next byte.
    at: u64,
    path: &'a Path,
}

impl<'a> Output<'a> {
    fn error(&self) -> impl FnOnce(io::Error) -> RootError + use<'a> {
        RootError::file("write", self.path)
    }

    /// Goes to `at`, unless it is there: a jump empties the buffer.
    fn go(&mut self, at: u64) -> Result<(), RootError> {
        if self.at != at {
            self.file.seek(SeekFrom::Start(at)).map_err(self.error())?;
            self.at = at;
        }
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), RootError> {
        self.go(at)?;
        self.file.write_all(bytes).map_err(self.error())?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn finish(self) -> Result<(), RootError> {
        let error = self.error();
        self.file.into_inner().map_err(|e| error(e.into_error())).map(drop)
    }
}

/// Writes files' blocks.
struct Writer<'a> {
    layout: &'a Layout,
    tree: &'a Tree,
    out: Output<'a>,
    /// List of this machine's files that are not to be copied.
    places: Option<&'a mut Vec<FileExtent>>,
}

impl Writer<'_> {
    /// Writes a file's blocks; the bytes behind its end in the last one are zeroes, as the image is
    /// at first.
    fn content(&mut self, placed: &Placed) -> Result<(), RootError> {
        if let Some(index) = placed.index {
            self.out.write(index * BLOCK, &extents(placed, IN_BLOCK))?;
        }
        let (start, tree) = (placed.start * BLOCK, self.tree);
        match &tree.node(placed.id).kind {
            Kind::Folder(_) => {
                let inodes = (placed.inode, placed.parent);
                let names = names::blocks(tree, placed.id, inodes, &self.layout.inode_of);
                self.out.write(start, &names)
            }
            Kind::Link(target) if placed.blocks > 0 => self.out.write(start, target),
            Kind::File(Content::Path { path, length, modified }) if self.places.is_some() => {
                if let Some(places) = self.places.as_mut().filter(|_| *length > 0) {
                    let (path, length, modified) = (path.clone(), *length, *modified);
                    places.push(FileExtent { start, length, path, modified });
                }
                Ok(())
            }
            Kind::File(content) => self.copy(start, content),
            _ => Ok(()),
        }
    }

    fn copy(&mut self, start: u64, content: &Content) -> Result<(), RootError> {
        self.out.go(start)?;
        // Errors of reading and of writing are distinguished.
        let mut failed = None;
        let out = &mut self.out;
        let copied = content.copy(&mut |bytes| {
            out.at += bytes.len() as u64;
            out.file.write_all(bytes).inspect_err(|e| failed = Some(io::Error::from(e.kind())))
        });
        if let Some(failed) = failed {
            return Err(self.out.error()(failed));
        }
        copied.map_err(|e| {
            let name = match content {
                Content::Path { path, .. } => path.display().to_string(),
                _ => "a file in it".into(),
            };
            self.tree.fail(format!("{name} cannot be read: {e}"))
        })
    }
}
