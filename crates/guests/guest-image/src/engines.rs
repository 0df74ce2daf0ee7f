//! Container images by their names, from the engines of this machine: podman's, docker's, and by skopeo a
//! registry's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stasis_guest_root::sha256::digest;

use crate::BuildError;

/// The programs that have a store of images, in the order in which they are asked.
const ENGINES: [&str; 2] = ["podman", "docker"];
const SKOPEO: &str = "skopeo";
/// Folder of the images that skopeo has copied, in the cache.
const COPIES: &str = "images";
/// Bytes of a program's own words in an error.
const MAX_WORDS: usize = 500;

/// An image's word: a path, as [`stasis_guest_root::Source::find`] takes it, begins with one of these; every other
/// word is a name.
pub fn is_path(word: &str) -> bool {
    ["/", "./", "../", "~/"].iter().any(|begin| word.starts_with(begin))
}

/// An image that an engine has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// In the store of this program, with this identity.
    Stored { engine: &'static str, id: String },
    /// Copied from a registry to this archive, or to be.
    Copied(PathBuf),
}

impl Named {
    /// Looks for an image by its name.
    ///
    /// # Errors
    /// There is none, with what each program says.
    pub(crate) fn find(name: &str, cache: &Path) -> Result<Self, BuildError> {
        check(name)?;
        let mut reasons = Vec::new();
        for engine in ENGINES {
            // docker(1) and podman(1) have the same words for it.
            match said(engine, &["image", "inspect", "--format", "{{.Id}}", name]) {
                Ok(id) => return Ok(Self::Stored { engine, id: id.trim().to_owned() }),
                Err(reason) => reasons.push(reason),
            }
        }
        let copy = copy_of(name, cache);
        if copy.is_file() || is_there(SKOPEO) {
            return Ok(Self::Copied(copy));
        }
        reasons.push(format!("{SKOPEO} is not installed"));
        Err(BuildError::NoImage { name: name.into(), reasons: reasons.join("; ") })
    }

    /// Identity of the image's present state.
    pub(crate) fn stamp(&self, name: &str) -> Result<String, BuildError> {
        match self {
            Self::Stored { engine, id } => Ok(digest(format!("{engine} {id}").as_bytes())),
            Self::Copied(path) => {
                copy(name, path)?;
                let source = stasis_guest_root::Source::find(&path.to_string_lossy())?;
                Ok(source.stamp()?)
            }
        }
    }

    /// An archive of it: the one that was copied, or a new one in `folder`.
    pub(crate) fn archive(&self, name: &str, folder: &Path) -> Result<PathBuf, BuildError> {
        match self {
            Self::Stored { engine, .. } => {
                let path = folder.join("image.tar");
                let words = ["image", "save", "-o", &path.to_string_lossy(), name];
                said(engine, &words)
                    .map_err(|reasons| BuildError::NoImage { name: name.into(), reasons })?;
                Ok(path)
            }
            Self::Copied(path) => Ok(path.clone()),
        }
    }
}

/// Has skopeo copy an image from its registry to `path`, unless it is there.
fn copy(name: &str, path: &Path) -> Result<(), BuildError> {
    if path.is_file() {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(BuildError::file("create the folder", folder))?;
    let new = path.with_extension("new");
    let (from, to) = (format!("docker://{name}"), format!("oci-archive:{}", new.display()));
    let words =
        ["--override-os", "linux", "--override-arch", "amd64", "copy", "--quiet", &from, &to];
    let copied = said(SKOPEO, &words);
    let copied = copied.map_err(|reasons| BuildError::NoImage { name: name.into(), reasons });
    let renamed =
        copied.and_then(|_| fs::rename(&new, path).map_err(BuildError::file("create", path)));
    renamed.inspect_err(|_| {
        // Half of it.
        let _ = fs::remove_file(&new);
    })
}

/// The place of a copy. Different names have different ones.
fn copy_of(name: &str, cache: &Path) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let words: String = name.chars().map(plain).collect();
    cache.join(COPIES).join(format!("{words}-{}.tar", &digest(name.as_bytes())[..8]))
}

/// Checks a name by the signs that there are in one (distribution/reference, `reference.go`), so that none can be
/// taken for an option.
fn check(name: &str) -> Result<(), BuildError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match begins && name.len() <= 512 && name.chars().all(fits) {
        true => Ok(()),
        false => Err(BuildError::BadName { kind: "container image", name: name.into() }),
    }
}

fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// The output of a program; else why there is none.
fn said(program: &str, words: &[&str]) -> Result<String, String> {
    if !is_there(program) {
        return Err(format!("{program} is not installed"));
    }
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let error: String = error.trim().chars().take(MAX_WORDS).collect();
    Err(format!("{program}: {}", error.replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_images() {
        for name in ["postgres", "postgres:16", "a.b:5000/c/d_e@sha256:00", "localhost/x"] {
            check(name).unwrap();
            assert!(!is_path(name), "{name}");
        }
        for name in ["", "-o", ":16", "a b", "a;b", "a\n", &"a".repeat(513)] {
            assert!(check(name).is_err(), "{name}");
        }
        for path in ["./a", "/a", "../a", "~/a"] {
            assert!(is_path(path));
        }
        let cache = Path::new("/c");
        assert_ne!(copy_of("a/b", cache), copy_of("a_b", cache));
    }
}
