//! Room on the host's disks.

use std::path::Path;

use stasis_report::units;

/// A disk with less than this is full: many file systems keep a few blocks back.
const FULL: u64 = 1 << 20;

/// Bytes that this user can write where `path` is, or will be; none if the file system does not
/// report them.
pub fn free_space(path: &Path) -> Option<u64> {
    let there = path.ancestors().find(|path| path.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(found.f_bavail * found.f_frsize)
}

/// Message about the disk that holds `path`, if the disk is full.
pub fn full(path: &Path) -> Option<String> {
    let free = free_space(path).filter(|free| *free < FULL)?;
    let path = path.display();
    Some(format!("the host's disk that holds {path} is full ({} free)", units::bytes(free)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_will_be_has_the_room_of_the_one_above() {
        assert!(free_space(Path::new("/tmp/no/such/folder")).is_some());
        assert_eq!(full(Path::new("/tmp/no/such/folder")), None);
        let said = full(Path::new("/proc/version")).unwrap();
        assert!(said.contains("/proc/version is full (0 B free)"), "{said}");
    }
}
