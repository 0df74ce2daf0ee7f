//! Holders of the places of a disk, as readers and programs get it.

use std::collections::BTreeMap;

use serde::Serialize;

/// A holder of a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its description.
    pub what: String,
    /// The files that it is of, or that it tells of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<NamedFile>,
}

/// A file or a folder of a file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NamedFile {
    /// Its inode's number.
    pub inode: u64,
    /// Its path from the file system's root; none where no folder names it.
    pub path: Option<String>,
}

/// Beginning of the description of a place where nothing lies.
const NOTHING: &str = "nothing: ";

/// Files that a holder names at most.
const FILES: usize = 6;
/// Characters of a path that are kept.
const PATH: usize = 200;

impl Holder {
    /// Something without files.
    pub(super) fn of(description: impl Into<String>) -> Self {
        Self { what: description.into(), files: Vec::new() }
    }

    /// An image's own tables, or what it does not use.
    pub fn tables() -> Self {
        Self::of("the image's own tables")
    }

    /// Returns whether nothing is known to lie there.
    pub fn is_free(&self) -> bool {
        self.what.starts_with(NOTHING)
    }

    /// For a reader.
    pub fn text(&self) -> String {
        let nameless = |file: &NamedFile| file.path.is_none();
        let one = self.files.len() == 1 && self.what.starts_with("inode ");
        if one && self.files.iter().all(nameless) {
            return format!("{}, which has no name", self.what);
        }
        let names: Vec<String> = self.files.iter().take(FILES).map(NamedFile::text).collect();
        let more = if self.files.len() > FILES { ", …" } else { "" };
        match names.is_empty() {
            true => self.what.clone(),
            false => format!("{}: {}{more}", self.what, names.join(", ")),
        }
    }
}

impl NamedFile {
    fn text(&self) -> String {
        match &self.path {
            Some(path) => path.clone(),
            None => format!("inode {} without a name", self.inode),
        }
    }
}

/// A path that a guest printed, for readers.
pub(super) fn path(printed: &str) -> String {
    let printed = printed.trim_start_matches('/');
    let plain = |c: char| if c.is_control() { '?' } else { c };
    format!("/{}", printed.chars().take(PATH).map(plain).collect::<String>())
}

/// Holders by the first byte of a block that was asked for.
pub type Holders = BTreeMap<u64, Holder>;
