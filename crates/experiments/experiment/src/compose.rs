//! Compose files in place of an experiment's.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stasis_compose::{Imported, Surroundings};

use crate::ExperimentError;

/// The surroundings of a Compose file in a folder: the files there, and this program's environment.
struct Beside<'a>(&'a Path);

impl Surroundings for Beside<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &str) -> Result<Option<String>, String> {
        match std::fs::read_to_string(self.0.join(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns whether a path is one of a Compose file, by its ending.
pub fn is_one(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

/// Reads a Compose file.
///
/// # Errors
/// It cannot be read, or cannot be an experiment, with each reason.
pub fn read(path: &Path) -> Result<Imported, ExperimentError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ExperimentError::Read { path: path.to_owned(), source })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    stasis_compose::import(&text, &Beside(folder)).map_err(|error| {
        let message = match error.mistakes.len() {
            1 => error.to_string(),
            count => format!("{count} mistakes\n{error}"),
        };
        ExperimentError::Content { path: path.to_owned(), message }
    })
}

/// The experiment's text of a Compose file, a path that errors in that text name, and notes that name the file.
pub(crate) fn text(path: &Path) -> Result<(PathBuf, Imported), ExperimentError> {
    let mut imported = read(path)?;
    // Lines in a later error are those of the text that `stasis import` writes.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let shown = path.with_file_name(format!("{name} (as stasis import writes it)"));
    for note in &mut imported.notes {
        *note = format!("{}: {note}", path.display());
    }
    Ok((shown, imported))
}
