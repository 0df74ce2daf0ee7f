//! Results that are kept: a file in a point's folder marks them as complete, and names their
//! program and experiment.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::point_digest::program_digest;

/// Name of the file that marks a folder's results as complete.
const COMPLETE_FILE: &str = "complete.json";
/// Message about results that are to be gathered and are not complete.
const NOT_COMPLETE: &str =
    "not complete here, or of another program or other settings: run it without --gather";

/// Identity of results: the program and the experiment that made them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Key {
    program: String,
    experiment: String,
}

/// The content of [`COMPLETE_FILE`].
#[derive(Serialize, Deserialize)]
struct Complete<T> {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    result: T,
}

/// The results of a batch's points, each in a folder with the point's name.
#[derive(Debug)]
pub struct KeptResults {
    folder: PathBuf,
    program: String,
    force: bool,
    gather: bool,
}

impl KeptResults {
    /// The results in `folder` that this program made. `force` finds none; `gather` makes none.
    ///
    /// # Errors
    /// This program's file cannot be read.
    pub fn new(folder: &Path, force: bool, gather: bool) -> Result<Self> {
        Ok(Self { folder: folder.to_owned(), program: program_digest()?, force, gather })
    }

    /// The folder of a point's results.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the complete results of the point `name`, made by the experiment with this digest.
    /// `read` reads them from their folder, with what [`Begun::complete`] kept; results that it
    /// cannot read are not complete.
    pub fn find<T: DeserializeOwned, R>(
        &self,
        name: &str,
        digest: &str,
        read: impl FnOnce(&Path, T) -> Result<R>,
    ) -> Option<R> {
        let folder = self.folder(name);
        let written = std::fs::read(folder.join(COMPLETE_FILE)).ok().filter(|_| !self.force)?;
        let Complete { key, result } = serde_json::from_slice(&written).ok()?;
        (key == self.key(digest)).then(|| read(&folder, result).ok())?
    }

    /// Begins the results of the point `name` anew.
    ///
    /// # Errors
    /// If results are only gathered, and if the folder cannot be written.
    pub fn begin(&self, name: &str, digest: &str) -> Result<Begun> {
        if self.gather {
            bail!(NOT_COMPLETE);
        }
        let folder = self.folder(name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let path = folder.join(COMPLETE_FILE);
        gone(&path, std::fs::remove_file(&path))?;
        Ok(Begun { folder, key: self.key(digest) })
    }

    fn key(&self, digest: &str) -> Key {
        Key { program: self.program.clone(), experiment: digest.to_owned() }
    }
}

/// Results that are not complete yet.
#[derive(Debug)]
pub struct Begun {
    /// Folder of the results.
    pub folder: PathBuf,
    key: Key,
}

impl Begun {
    /// Marks the results as complete. `result` has the fields that no other file of the folder
    /// has.
    ///
    /// # Errors
    /// If the mark cannot be written.
    pub fn complete<T: Serialize>(self, result: T) -> Result<T> {
        let path = self.folder.join(COMPLETE_FILE);
        let complete = Complete { key: self.key, result };
        serde_json::to_vec_pretty(&complete)
            .map_err(std::io::Error::from)
            .and_then(|json| std::fs::write(&path, json))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(complete.result)
    }
}

/// Checks the result of removing `path`, which need not have existed.
///
/// # Errors
/// Returns the path and the reason.
pub fn gone(path: &Path, removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("cannot remove {}: {error}", path.display())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Figure {
        seconds: f64,
    }

    fn find(kept: &KeptResults, digest: &str) -> Option<Figure> {
        kept.find("a", digest, |_, figure| Ok(figure))
    }

    #[test]
    fn only_complete_results_of_the_same_program_and_experiment_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = KeptResults::new(folder.path(), false, false).unwrap();
        let begun = kept.begin("a", "x").unwrap();
        assert_eq!(find(&kept, "x"), None);
        begun.complete(Figure { seconds: 1.5 }).unwrap();
        assert_eq!(find(&kept, "x"), Some(Figure { seconds: 1.5 }));
        assert_eq!(find(&kept, "y"), None);
        // A mark whose folder cannot be read is no result.
        let unread = |_: &Path, _: Figure| -> Result<()> { bail!("no file") };
        assert_eq!(kept.find("a", "x", unread), None);
        kept.force = true;
        assert_eq!(find(&kept, "x"), None);
        kept.force = false;
        kept.program.push('0');
        assert_eq!(find(&kept, "x"), None);
        kept.gather = true;
        assert_eq!(kept.begin("a", "x").unwrap_err().to_string(), NOT_COMPLETE);
        kept.gather = false;
        kept.begin("a", "x").unwrap().complete(()).unwrap();
        assert_eq!(kept.find("a", "x", |_, (): ()| Ok(())), Some(()));
        // The mark of earlier results does not outlive the beginning of new ones.
        kept.begin("a", "x").unwrap();
        assert_eq!(kept.find("a", "x", |_, (): ()| Ok(())), None);
    }
}
