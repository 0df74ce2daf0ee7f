//! What lies at a place of a disk: files, inodes and blocks of the journal, by the file system's own
//! tools in a guest.
//!
//! A file system is told by its superblock. Its tools run in the guest of a check, each time on a
//! fresh copy of the disk, and what they print is read here.

mod btrfs;
mod ext4;
mod probe;
mod xfs;

use std::collections::BTreeMap;

use serde::Serialize;

pub use probe::{probe, FileSystem};

/// What lies at a place.
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

/// How the description of a place begins where nothing lies.
const NOTHING: &str = "nothing: ";

/// Files that a holder names at most.
const FILES: usize = 6;
/// Characters of a path that are kept.
const PATH: usize = 200;

impl Holder {
    /// Something without files.
    fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), files: Vec::new() }
    }

    /// An image's own tables, or what it does not use.
    pub fn tables() -> Self {
        Self::of("the image's own tables")
    }

    /// Whether nothing is known to lie there.
    pub fn is_free(&self) -> bool {
        self.what.starts_with(NOTHING)
    }

    /// For a reader.
    pub fn text(&self) -> String {
        let nameless = |file: &NamedFile| file.path.is_none();
        if self.files.len() == 1 && self.files.iter().all(nameless) {
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
fn path(printed: &str) -> String {
    let printed = printed.trim_start_matches('/');
    let plain = |c: char| if c.is_control() { '?' } else { c };
    format!("/{}", printed.chars().take(PATH).map(plain).collect::<String>())
}

/// Runs a shell's script in a guest on a fresh copy of the disk; returns its output.
pub type Ask<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// Holders by the first byte of a block that was asked for.
pub type Holders = BTreeMap<u64, Holder>;

/// The holders of the blocks at `offsets` (multiples of the file system's block size) of the disk
/// that the guest calls `device`.
///
/// # Errors
/// The guest has not the tools, or they fail; the message says which package has them.
pub fn holders(
    file_system: &FileSystem,
    device: &str,
    offsets: &[u64],
    ask: &mut Ask<'_>,
) -> Result<Holders, String> {
    match file_system {
        FileSystem::Ext4(ext4) => ext4.holders(device, offsets, ask),
        FileSystem::Xfs(xfs) => xfs.holders(device, offsets, ask),
        FileSystem::Btrfs(btrfs) => btrfs.holders(device, offsets, ask),
    }
}

/// The folder of the guest at which scripts mount.
const MOUNTED: &str = "/run/stasis-names";

/// The line that a script prints where the guest lacks a tool.
const MISSING: &str = "stasis-missing";

/// The start of a script that uses `tool`.
fn needs(tool: &str) -> String {
    format!("command -v {tool} >/dev/null || {{ echo {MISSING} {tool}; exit 0; }}\n")
}

/// The output of a script that began with [`needs`]. `package`: Debian's package with the tool.
fn answer(output: String, package: &str) -> Result<String, String> {
    match output.lines().find_map(|line| line.strip_prefix(MISSING)) {
        Some(tool) => Err(format!(
            "the guest has no{tool}: add the package `{package}` to `packages` in [guest]"
        )),
        None => Ok(output),
    }
}

/// The lines of `output` after the line `== section`, up to the next such.
fn section<'a>(output: &'a str, section: &'a str) -> impl Iterator<Item = &'a str> {
    let mut lines = output.lines();
    let head = move |line: &&str| line.strip_prefix("== ") == Some(section);
    lines.by_ref().find(head);
    lines.take_while(|line| !line.starts_with("== "))
}

/// Numbers in words for a shell.
fn words(numbers: impl IntoIterator<Item = u64>) -> String {
    let words: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    words.join(" ")
}
