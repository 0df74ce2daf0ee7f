//! The repository's documents: the pages of the book in `docs/`, and those beside it.

use std::path::{Path, PathBuf};

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// The pages of the book, in the order of their paths.
pub fn of_the_book() -> Vec<PathBuf> {
    below(&root().join("docs"), "md")
}

/// The files in `folder` and the folders below it whose names end so, in the order of their
/// paths.
pub fn below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every document: the book, and the pages at the top of the repository.
pub fn all() -> Vec<PathBuf> {
    let beside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    beside.iter().map(|name| root().join(name)).chain(of_the_book()).collect()
}
