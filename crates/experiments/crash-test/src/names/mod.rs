//! Holders of the places of a disk: files, inodes and blocks of the journal, by the file system's own
//! tools in a guest.
//!
//! A file system is told by its superblock. Its tools run in the guest of a check, each time on a
//! fresh copy of the disk, and what they print is read here.

mod btrfs;
mod bytes;
mod ext4;
mod holder;
mod probe;
mod tools;
mod xfs;

use tools::Ask;

pub use holder::{Holder, Holders};
pub use probe::{probe, FileSystem};

/// The holders of the blocks at `offsets` (multiples of [`FileSystem::unit`]) of the disk
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

/// Texts of the holders of `offsets`, and the scripts that were run, for tests. A script is
/// answered by the first of `answers` whose word it contains.
#[cfg(test)]
fn named(
    file_system: FileSystem,
    device: &str,
    offsets: &[u64],
    answers: &[(&str, &str)],
) -> (Vec<String>, Vec<String>) {
    let mut scripts = Vec::new();
    let found = holders(&file_system, device, offsets, &mut |script| {
        scripts.push(script.to_owned());
        let answer = answers.iter().find(|(word, _)| script.contains(word)).expect("an answer").1;
        Ok(answer.to_owned())
    });
    let found = found.unwrap();
    (offsets.iter().map(|offset| found[offset].text()).collect(), scripts)
}
