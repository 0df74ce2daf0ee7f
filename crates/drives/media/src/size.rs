//! The check of a size that a file or a device is to have.

use std::path::Path;

use crate::{OpenError, MIN_CAPACITY, SECTOR};

/// Blocks of direct I/O on a file (bytes): the largest logical block of common
/// drives, and the block of common file systems.
pub(crate) const FILE_BLOCK: u64 = 4096;

/// Refuses a size that no medium at `path` can have.
pub(crate) fn check_size(path: &Path, size: u64, direct: bool) -> Result<(), OpenError> {
    let block = if direct { FILE_BLOCK } else { SECTOR };
    let path = path.to_path_buf();
    match size {
        0 => Err(OpenError::Empty(path)),
        _ if size < MIN_CAPACITY => Err(OpenError::TooSmall { path, size }),
        _ if !size.is_multiple_of(block) => Err(OpenError::Unaligned { path, size, block }),
        _ => Ok(()),
    }
}
