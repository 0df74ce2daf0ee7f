//! The state of a drive in use, for the next run if this one is killed: in two files beside the state
//! file, which are written in turns, so that one of them is whole at every moment.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stasis_guest_image::sha256::digest;
use stasis_nvme::KeptState;

/// Limit on the length of a state file (bytes): 67 million pairs, as many as a namespace has at most.
pub(super) const MAX_LENGTH: u64 = 5 << 30;

/// Length of a file's head: a number, a length and a digest, and a line's end.
const HEAD: usize = 16 + 1 + 16 + 1 + 64 + 1;

/// The files in which a carrier keeps a drive's state.
#[derive(Debug)]
pub struct Follow {
    files: [File; 2],
    name: PathBuf,
    /// Number of times that it was kept.
    number: u64,
}

/// The two files beside the state file `file`.
fn names(file: &Path) -> [PathBuf; 2] {
    ["0", "1"].map(|number| {
        let mut name = file.as_os_str().to_owned();
        name.push(".");
        name.push(number);
        name.into()
    })
}

/// Names this boot of the host and the file of a medium, which another one may replace; `None` where
/// they cannot be had.
pub fn moment(medium: &Path) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let metadata = fs::metadata(medium).ok()?;
    Some(format!("{} {:x}:{:x}", boot.trim(), metadata.dev(), metadata.ino()))
}

impl Follow {
    /// Makes the files beside the state file `file`; `goes_on`: after what they have, which stays
    /// until there is more.
    pub(super) fn new(file: &Path, goes_on: bool) -> Result<Self> {
        if !goes_on {
            remove(file);
        }
        let number = newest(file).map_or(0, |(number, _)| number + 1);
        let open = |name| File::options().write(true).create(true).truncate(false).open(name);
        let [one, other] = names(file).map(open);
        let named = || format!("cannot keep the drive's state beside {}", file.display());
        let files = [one.with_context(named)?, other.with_context(named)?];
        Ok(Self { files, name: file.to_owned(), number })
    }

    /// Keeps a state. A power cut of the host may take it.
    ///
    /// # Errors
    /// The file cannot be written: then the other one has the state before.
    pub fn put(&mut self, state: &KeptState) -> Result<()> {
        let mut text = vec![0; HEAD];
        serde_json::to_writer(&mut text, state)?;
        let digest = digest(&text[HEAD..]);
        let head = format!("{:016x} {:016x} {digest}\n", self.number, text.len() - HEAD);
        text[..HEAD].copy_from_slice(head.as_bytes());
        let file = &self.files[(self.number % 2) as usize];
        let named = || format!("cannot keep the drive's state beside {}", self.name.display());
        file.write_all_at(&text, 0).with_context(named)?;
        self.number += 1;
        Ok(())
    }
}

/// The number and the state of a file, if it is whole.
fn read(file: &Path) -> Option<(u64, KeptState)> {
    if fs::metadata(file).ok()?.len() > MAX_LENGTH {
        return None;
    }
    let bytes = fs::read(file).ok()?;
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let mut words = std::str::from_utf8(head).ok()?.trim_end().split(' ');
    let number = u64::from_str_radix(words.next()?, 16).ok()?;
    let length = usize::from_str_radix(words.next()?, 16).ok()?;
    let text = rest.get(..length)?;
    let digest = digest(text);
    let state = serde_json::from_slice(text).ok().filter(|_| words.next() == Some(&digest))?;
    Some((number, state))
}

/// The state that was kept last beside the state file `file`.
pub fn last(file: &Path) -> Option<KeptState> {
    newest(file).map(|(_, state)| state)
}

fn newest(file: &Path) -> Option<(u64, KeptState)> {
    let all = names(file).into_iter().filter_map(|name| read(&name));
    all.max_by_key(|(number, _)| *number)
}

/// Removes the files beside the state file `file`, which say nothing without it.
pub fn remove(file: &Path) {
    for name in names(file) {
        let _ = fs::remove_file(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_nvme::{Config, Namespace};

    #[test]
    fn a_file_that_is_torn_leaves_the_state_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("d.state");
        let state = |blocks| {
            let namespaces = vec![Namespace::new(blocks, 512)];
            KeptState::as_made(&Config { namespaces, ..Config::default() })
        };
        assert_eq!(last(&file), None);
        let mut follow = Follow::new(&file, true).unwrap();
        assert_eq!(last(&file), None, "nothing was kept");
        for blocks in [4_000_000_000, 8, 16] {
            follow.put(&state(blocks)).unwrap();
            assert_eq!(last(&file), Some(state(blocks)));
        }
        // The last one, in the first file, behind which a longer one stood.
        let torn = &names(&file)[0];
        let bytes = fs::read(torn).unwrap();
        for at in [17, 40, HEAD, HEAD + 10] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            fs::write(torn, &other).unwrap();
            assert_eq!(last(&file), Some(state(8)), "byte {at}");
        }
        fs::write(torn, &bytes[..HEAD + 5]).unwrap();
        assert_eq!(last(&file), Some(state(8)));
        // Another run goes on in the torn one.
        let mut follow = Follow::new(&file, true).unwrap();
        assert_eq!(last(&file), Some(state(8)), "until it has kept its own");
        follow.put(&state(24)).unwrap();
        assert_eq!(last(&file), Some(state(24)));
        Follow::new(&file, false).unwrap();
        assert_eq!(last(&file), None);
    }
}
