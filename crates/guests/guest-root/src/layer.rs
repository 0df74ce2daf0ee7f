//! Puts the entries of a tar archive into a tree: the whole of a root, or one layer of it.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;
use std::sync::Arc;

use tar::EntryType;

use crate::archive::Head;
use crate::content::{Content, Piece, ReadAt, Span};
use crate::sparse::Holes;
use crate::tree::{cut, text, Found, Kind, Tree};
use crate::RootError;

/// Limit on the bytes of one entry of an archive beside the file's bytes: long names and
/// attributes.
const HEAD: u64 = 1 << 20;
/// Names that take away what earlier layers have (OCI Image Format 1.1, layer.md, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Reads an archive in a span; bytes that are read, not skipped, have a budget.
struct Archive {
    span: Span,
    at: u64,
    budget: Rc<Cell<u64>>,
}

impl Read for Archive {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.span.length.saturating_sub(self.at);
        let length = rest.min(into.len() as u64);
        let budget = self.budget.get();
        if length > budget {
            return Err(io::Error::other("the names or attributes of an entry are too long"));
        }
        self.span.read_at(&mut into[..length as usize], self.at)?;
        self.budget.set(budget - length);
        self.at += length;
        Ok(length as usize)
    }
}

impl Seek for Archive {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.span.length.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// An entry.
pub(crate) struct Entry {
    pub head: Head,
    /// Place of its bytes in the archive.
    pub start: u64,
    pub length: u64,
    /// Places of its bytes if it has holes.
    pub holes: Option<Holes>,
}

/// Calls `visit` with each entry of the archive in `span`.
pub(crate) fn each(
    span: &Span,
    damaged: &dyn Fn(String) -> RootError,
    mut visit: impl FnMut(Entry) -> Result<(), RootError>,
) -> Result<(), RootError> {
    let broken = |error: io::Error| damaged(format!("its tar archive is damaged: {error}"));
    let budget = Rc::new(Cell::new(HEAD));
    let mut archive =
        tar::Archive::new(Archive { span: span.clone(), at: 0, budget: Rc::clone(&budget) });
    let mut entries = archive.entries_with_seek().map_err(broken)?;
    loop {
        budget.set(HEAD);
        let Some(entry) = entries.next() else { return Ok(()) };
        let mut entry = entry.map_err(broken)?;
        let head = Head::of(&mut entry).map_err(broken)?;
        let (kind, path) = (head.kind, &head.path);
        let (start, length) = (entry.raw_file_position(), entry.size());
        let in_file = |cause: String| damaged(format!("{cause}, in {}", text(path)));
        let holes = match entry.header().as_gnu().filter(|_| kind.is_gnu_sparse()) {
            Some(gnu) => {
                Holes::of_gnu(&gnu.sparse, gnu.is_extended(), span, start, length).map(Some)
            }
            None => head.keys.holes(span, start, length),
        };
        let holes = holes.map_err(in_file)?;
        let has_bytes = kind.is_file() || kind.is_contiguous();
        if has_bytes && holes.is_none() && span.part(start, length).is_none() {
            return Err(damaged(format!("its tar archive is cut short in {}", text(path))));
        }
        visit(Entry { head, start, length, holes })?;
    }
}

/// Puts an archive's entries into `tree` as its layer `layer`. `layered`: whether names that begin
/// with `.wh.` take away what earlier layers have.
pub(crate) fn apply(
    tree: &mut Tree,
    span: &Span,
    layer: u32,
    layered: bool,
) -> Result<(), RootError> {
    let source: Arc<dyn ReadAt> = Arc::new(span.clone());
    let origin = tree.origin().to_owned();
    let damaged = |cause: String| RootError::unusable(&origin, cause);
    each(span, &damaged, |entry| put(tree, &source, entry, layer, layered))
}

fn put(
    tree: &mut Tree,
    source: &Arc<dyn ReadAt>,
    mut entry: Entry,
    layer: u32,
    layered: bool,
) -> Result<(), RootError> {
    let (folder, name) = cut(&entry.head.path).map_err(|cause| tree.fail(cause))?;
    let Some(name) = name else {
        if entry.head.kind.is_dir() {
            tree.node_mut(crate::tree::ROOT).meta = entry.head.meta;
        }
        return Ok(());
    };
    if layered && name.starts_with(WHITEOUT) {
        return take_away(tree, &folder, name, layer);
    }
    let kind = match entry.head.kind {
        EntryType::Directory => Kind::Folder(Default::default()),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let whole = || {
                let piece = Piece { at: 0, from: entry.start, length: entry.length };
                let pieces = if entry.length > 0 { vec![piece] } else { Vec::new() };
                Holes { length: entry.length, pieces }
            };
            let Holes { length, pieces } = entry.holes.take().unwrap_or_else(whole);
            Kind::File(Content::Pieces { source: Arc::clone(source), pieces, length })
        }
        EntryType::Symlink => Kind::Link(link(tree, &entry)?),
        EntryType::Link => return hard_link(tree, &entry, &folder, name, layer),
        EntryType::Char | EntryType::Block => {
            let (major, minor) = entry.head.device;
            Kind::Device { block: entry.head.kind == EntryType::Block, major, minor }
        }
        EntryType::Fifo => Kind::Pipe,
        EntryType::XGlobalHeader => return Ok(()),
        other => {
            let (path, kind) = (text(&entry.head.path), char::from(other.as_byte()));
            return Err(tree.fail(format!("its entry {path} is of the unknown kind {kind:?}")));
        }
    };
    let folder = tree.folder(&folder, layer)?;
    tree.put(folder, name, entry.head.meta, kind, layer).map(drop)
}

/// The target of a symbolic link, wherever it leads: it is followed within the root.
fn link(tree: &Tree, entry: &Entry) -> Result<Vec<u8>, RootError> {
    /// One block of a file system has it.
    const MAX_LENGTH: usize = 4095;
    let target = &entry.head.target;
    if target.is_empty() || target.len() > MAX_LENGTH || target.contains(&0) {
        return Err(
            tree.fail(format!("its symbolic link {} has no target", text(&entry.head.path)))
        );
    }
    Ok(target.clone())
}

fn hard_link(
    tree: &mut Tree,
    entry: &Entry,
    folder: &[u8],
    name: &[u8],
    layer: u32,
) -> Result<(), RootError> {
    cut(&entry.head.target).map_err(|cause| tree.fail(cause))?;
    let Found::Node(id) = tree.follow(&entry.head.target, false)? else {
        let (path, target) = (text(&entry.head.path), text(&entry.head.target));
        return Err(tree.fail(format!("its hard link {path} leads to {target}, which it has not")));
    };
    let folder = tree.folder(folder, layer)?;
    tree.link(folder, name, id)
}

fn take_away(tree: &mut Tree, folder: &[u8], name: &[u8], layer: u32) -> Result<(), RootError> {
    let Found::Node(folder) = tree.follow(folder, true)? else { return Ok(()) };
    if name == OPAQUE {
        tree.empty(folder, layer);
        return Ok(());
    }
    let name = &name[WHITEOUT.len()..];
    let there = tree.children(folder).find(|(there, _)| *there == name).map(|(_, id)| id);
    match there {
        Some(id) if tree.node(id).layer < layer => tree.remove(folder, name),
        Some(id) => tree.empty(id, layer),
        None => {}
    }
    Ok(())
}
