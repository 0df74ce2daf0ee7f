//! The parts that an import takes, and those that it gives.

use std::collections::BTreeMap;

/// Limit on the bytes of a Compose file.
pub const MAX_FILE: usize = 4 << 20;

/// The surroundings of a Compose file.
pub trait Surroundings {
    /// A variable of the user's environment.
    fn variable(&self, name: &str) -> Option<String>;
    /// The text of a file, by its path from the Compose file's folder on; None where there is none.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn file(&self, path: &str) -> Result<Option<String>, String>;
}

/// A Compose file as an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The experiment's file. Its relative paths begin in the Compose file's folder.
    pub experiment: String,
    /// Differences between the file and the experiment, each with its line.
    pub notes: Vec<String>,
}

/// The reasons for which a Compose file is no experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .mistakes.join("\n"))]
pub struct ComposeError {
    /// Each with its line.
    pub mistakes: Vec<String>,
}

/// The environment of a map, for tests and for callers that have one.
impl Surroundings for BTreeMap<String, String> {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }

    fn file(&self, path: &str) -> Result<Option<String>, String> {
        Ok(self.get(&format!("./{path}")).cloned())
    }
}
