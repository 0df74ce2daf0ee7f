//! Files that are there as a whole or not at all.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::ResultsError;

/// Makes the folder with its parents. A folder that exists is not made again: a confined process
/// may not do so.
pub fn make_folder(path: &Path) -> Result<(), ResultsError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)
        .map_err(|source| ResultsError::Folder { path: path.to_owned(), source })
}

/// The file from which `path` is renamed once it is whole.
pub fn part_of(path: &Path) -> PathBuf {
    let mut part: OsString = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Writes a file under another name first, so that no reader (and no kill)
/// ever meets half of it.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), ResultsError> {
    let part = part_of(path);
    let written = fs::write(&part, contents).and_then(|()| fs::rename(&part, path));
    written.map_err(ResultsError::write(path)).inspect_err(|_| {
        // A full disk has room again for what is left to write.
        let _ = fs::remove_file(&part);
    })
}
