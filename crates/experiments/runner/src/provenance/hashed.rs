//! Hashes of what a run reads.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use stasis_guest_image::sha256;
use stasis_report::InputFile;

/// Length of a file up to which it is hashed (bytes): 256 MiB take a second at most. A drive's
/// image may have terabytes.
const MAX_HASHED: u64 = 256 << 20;
/// Length of a text up to which it is kept (bytes), and of all texts of a run together.
const MAX_TEXT: u64 = 16 << 10;
const MAX_TEXTS: usize = 128 << 10;
/// Files of one folder that are hashed.
const MAX_FILES: usize = 10_000;

/// The files and folders with their hashes, each once. What is not there yet, as an image that the
/// run will make, is left out; so is what cannot be read, which the run reports.
pub(super) fn hashed(paths: &[PathBuf]) -> Vec<InputFile> {
    let mut known = BTreeSet::new();
    let named = paths.iter().filter(|path| known.insert(plain(path)));
    let mut room = MAX_TEXTS;
    let with_text = |mut read: InputFile| {
        read.text = (read.sha256.is_some() && read.bytes <= MAX_TEXT)
            .then(|| std::fs::read_to_string(&read.path).ok())
            .flatten()
            .filter(|text| text.len() <= room);
        room -= read.text.as_ref().map_or(0, String::len);
        read
    };
    named.filter_map(|path| input(path).ok()).map(with_text).collect()
}

/// A path without `./` before it.
fn plain(path: &Path) -> PathBuf {
    path.components().collect::<PathBuf>().strip_prefix(".").map_or(path.into(), PathBuf::from)
}

/// Returns whether the file or folder that a run has read is as it was then.
pub fn is_unchanged(read: &InputFile) -> bool {
    input(Path::new(&read.path))
        .is_ok_and(|now| (now.bytes, &now.sha256) == (read.bytes, &read.sha256))
}

fn input(path: &Path) -> io::Result<InputFile> {
    let metadata = path.metadata()?;
    let shown = plain(path).display().to_string();
    if metadata.is_dir() {
        let mut files = Vec::new();
        let whole = below(path, &mut files)?;
        files.sort();
        let lengths = files.iter().filter_map(|file| Some(file.metadata().ok()?.len()));
        let bytes = lengths.sum();
        let sha256 = (whole && bytes <= MAX_HASHED).then(|| listed(path, &files)).transpose()?;
        return Ok(InputFile { path: shown, bytes, sha256, text: None });
    }
    let bytes = metadata.len();
    // A device or a pipe is read by the run alone.
    let small = metadata.is_file() && bytes <= MAX_HASHED;
    let sha256 = small.then(|| of_file(path)).transpose()?;
    Ok(InputFile { path: shown, bytes, sha256, text: None })
}

/// The files below a folder; false where there are more than [`MAX_FILES`].
fn below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<bool> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !below(&entry.path(), files)? {
                return Ok(false);
            }
        } else if kind.is_file() {
            files.push(entry.path());
        }
        if files.len() > MAX_FILES {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The hash of what `sha256sum` prints for the files in a folder, called there.
fn listed(folder: &Path, files: &[PathBuf]) -> io::Result<String> {
    let mut all = Sha256::new();
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(file);
        all.update(format!("{}  {}\n", of_file(file)?, name.display()));
    }
    Ok(sha256::hex(&all.finalize()))
}

fn of_file(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    sha256::add_file(&mut hash, path)?;
    Ok(sha256::hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;

    #[test]
    fn files_and_folders_have_the_hashes_that_sha256sum_prints() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("jobs/b")).unwrap();
        for (name, text) in [("a.toml", "x"), ("jobs/z", "1"), ("jobs/b/a", "22")] {
            std::fs::write(at(name), text).unwrap();
        }
        File::create(at("disk.img")).unwrap().set_len(1 << 40).unwrap();
        let paths = ["a.toml", "jobs", "disk.img", "none", "a.toml"].map(at);
        let found = hashed(&paths);
        let names: Vec<_> = found.iter().map(|one| one.path.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["a.toml", "jobs", "disk.img"]);
        let printed = |command: &str| {
            let done = Command::new("sh").args(["-c", command]).current_dir(folder.path()).output();
            String::from_utf8(done.unwrap().stdout).unwrap()[..64].to_owned()
        };
        assert_eq!(found[0].sha256, Some(printed("sha256sum a.toml")));
        assert_eq!(found[1].sha256, Some(printed("cd jobs && sha256sum b/a z | sha256sum")));
        assert_eq!((found[1].bytes, found[2].bytes), (3, 1 << 40));
        assert_eq!(found[2].sha256, None);
        // Small texts are kept, and what is no text is not.
        let texts: Vec<_> = found.iter().map(|one| one.text.as_deref()).collect();
        assert_eq!(texts, [Some("x"), None, None]);
        std::fs::write(at("bytes"), [0xff, 0xfe]).unwrap();
        std::fs::write(at("long"), "y".repeat(20_000)).unwrap();
        let others = hashed(&["bytes", "long"].map(at));
        assert!(others.iter().all(|one| one.text.is_none() && one.sha256.is_some()));
        assert!(found.iter().all(is_unchanged));
        std::fs::write(at("a.toml"), "z").unwrap();
        assert!(!is_unchanged(&found[0]));
    }
}
