//! Room on the host's disks.

use std::io;
use std::path::Path;

use stasis_results::units;

/// A disk with less than this is full: many file systems keep a few blocks back.
const FULL: u64 = 1 << 20;

/// Room that the ends of a run's results need: the last groups of rows of its files, and its page.
const FOR_END: u64 = 16 << 20;

/// Refuses to write `bytes` more of a run's results into a folder, which is there or will be, where
/// no room would be left for their end. So that what was found until then can be read, a run ends
/// before its disk is full.
///
/// # Errors
/// Names the folder and its room.
pub fn check_results(folder: &Path, bytes: u64) -> io::Result<()> {
    match free_space(folder) {
        Some(free) if free < FOR_END.saturating_add(bytes) => {
            let message = format!(
                "the disk that holds the results, {}, has room for {} more, but what ends them may take {}: \
                 make room, or give them another folder by --results",
                folder.display(),
                units::bytes(free),
                units::bytes(FOR_END)
            );
            Err(io::Error::new(io::ErrorKind::StorageFull, message))
        }
        _ => Ok(()),
    }
}

/// Bytes that this user can write where `path` is, or will be; none if the file system does not
/// report them.
pub fn free_space(path: &Path) -> Option<u64> {
    // A relative path begins in the current folder.
    let there = match path.ancestors().find(|path| path.exists()) {
        None if path.is_relative() => Path::new("."),
        there => there?,
    };
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
        assert!(free_space(Path::new("no-such-folder")).is_some());
        assert_eq!(full(Path::new("/tmp/no/such/folder")), None);
        check_results(Path::new("/tmp/no/such/folder"), 1).unwrap();
        let more = check_results(Path::new("/tmp/no/such/folder"), u64::MAX).unwrap_err();
        assert!(more.to_string().contains("/tmp/no/such/folder, has room for"), "{more}");
        let message = full(Path::new("/proc/version")).unwrap();
        assert!(message.contains("/proc/version is full (0 B free)"), "{message}");
    }
}
