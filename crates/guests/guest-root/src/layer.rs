//! Puts the entries of a tar archive into a tree: the whole of a root, or one layer of it.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;
use std::sync::Arc;

use tar::EntryType;

use crate::content::{Content, Piece, ReadAt, Span};
use crate::sparse::{Holes, Keys};
use crate::tree::{cut, text, Found, Kind, Meta, Tree};
use crate::RootError;

/// Limit on the bytes of one entry of an archive beside the file's bytes: long names and
/// attributes.
const HEAD: u64 = 1 << 20;
/// Names that take away what earlier layers have (OCI Image Format 1.1, layer.md, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// How PAX headers have a program's rights (star's, as GNU tar and Docker write it).
const CAPABILITY: &str = "SCHILY.xattr.security.capability";

/// Reads an archive in a span; bytes that are read, not skipped, have a budget.
struct Archive {
    span: Span,
    at: u64,
    budget: Rc<Cell<u64>>,
}

impl Read for Archive {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.span.length.saturating_sub(self.at);
        let length = left.min(into.len() as u64);
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

/// An entry's head.
pub(crate) struct Entry {
    pub path: Vec<u8>,
    pub target: Vec<u8>,
    pub kind: EntryType,
    pub meta: Meta,
    pub device: (u32, u32),
    /// Where its bytes are in the archive.
    pub start: u64,
    pub length: u64,
    /// Where they are if it has holes.
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
        let (mut capability, mut keys) = (None, Keys::default());
        for extension in entry.pax_extensions().map_err(broken)?.into_iter().flatten().flatten() {
            match extension.key() {
                Ok(CAPABILITY) => capability = Some(extension.value_bytes().to_vec()),
                Ok(key) => keys.take(key, extension.value_bytes()),
                Err(_) => {}
            }
        }
        let header = entry.header();
        let (kind, number) = (header.entry_type(), |value: io::Result<u64>| value.unwrap_or(0));
        let user = |value| u32::try_from(number(value)).unwrap_or(65_534);
        let meta = Meta {
            mode: (header.mode().unwrap_or(0o644) & 0o7777) as u16,
            uid: user(header.uid()),
            gid: user(header.gid()),
            mtime: number(header.mtime()),
            capability,
        };
        let part = |value: io::Result<Option<u32>>| value.ok().flatten().unwrap_or(0);
        let device = (part(header.device_major()), part(header.device_minor()));
        let named = keys.name.take();
        let path = named.unwrap_or_else(|| entry.path_bytes().into_owned());
        let target = entry.link_name_bytes().map(|name| name.into_owned()).unwrap_or_default();
        let (start, length) = (entry.raw_file_position(), entry.size());
        let in_file = |cause: String| damaged(format!("{cause}, in {}", text(&path)));
        let holes = match header.as_gnu().filter(|_| kind.is_gnu_sparse()) {
            Some(gnu) => {
                Holes::of_gnu(&gnu.sparse, gnu.is_extended(), span, start, length).map(Some)
            }
            None => keys.holes(span, start, length),
        };
        let holes = holes.map_err(in_file)?;
        let has_bytes = kind.is_file() || kind.is_contiguous();
        if has_bytes && holes.is_none() && span.part(start, length).is_none() {
            return Err(damaged(format!("its tar archive is cut short in {}", text(&path))));
        }
        visit(Entry { path, target, kind, meta, device, start, length, holes })?;
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
    let (folder, name) = cut(&entry.path).map_err(|cause| tree.fail(cause))?;
    let Some(name) = name else {
        if entry.kind.is_dir() {
            tree.node_mut(crate::tree::ROOT).meta = entry.meta;
        }
        return Ok(());
    };
    if layered && name.starts_with(WHITEOUT) {
        return take_away(tree, &folder, name, layer);
    }
    let kind = match entry.kind {
        EntryType::Directory => Kind::Folder(Default::default()),
        // As tar(5) has it for archives older than the type.
        EntryType::Regular if entry.path.ends_with(b"/") => Kind::Folder(Default::default()),
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
            let (major, minor) = entry.device;
            Kind::Device { block: entry.kind == EntryType::Block, major, minor }
        }
        EntryType::Fifo => Kind::Pipe,
        EntryType::XGlobalHeader => return Ok(()),
        other => {
            let (path, kind) = (text(&entry.path), char::from(other.as_byte()));
            return Err(tree.fail(format!("its entry {path} is of the unknown kind {kind:?}")));
        }
    };
    let folder = tree.folder(&folder, layer)?;
    tree.put(folder, name, entry.meta, kind, layer).map(drop)
}

/// The target of a symbolic link, wherever it leads: it is followed within the root.
fn link(tree: &Tree, entry: &Entry) -> Result<Vec<u8>, RootError> {
    /// One block of a file system has it.
    const MAX_LENGTH: usize = 4095;
    let target = &entry.target;
    if target.is_empty() || target.len() > MAX_LENGTH || target.contains(&0) {
        return Err(tree.fail(format!("its symbolic link {} has no target", text(&entry.path))));
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
    cut(&entry.target).map_err(|cause| tree.fail(cause))?;
    let Found::Node(id) = tree.follow(&entry.target, false)? else {
        let (path, target) = (text(&entry.path), text(&entry.target));
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
