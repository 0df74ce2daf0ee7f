//! Removal of files and folders of a cache.

use std::fs;
use std::path::Path;

use crate::BuildError;

/// Removes a file or a folder with everything in it, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), BuildError> {
    let result = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    result.map_err(BuildError::file("remove", path))
}
