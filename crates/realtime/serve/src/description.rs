//! The description of a drive, for later requests about it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use stasis_block::Model;

/// The description of a drive. The server keeps it with the drive, so that a drive and its
/// description come, change and go together.
pub trait Description: Send + Sync {
    /// The drive's number, which its seeds follow from.
    fn index(&self) -> usize;

    /// The drive's model, for reports.
    fn label(&self) -> String;

    /// The model for a capacity of this many bytes; `None`: it takes no time.
    ///
    /// # Errors
    /// The reason why the model cannot have that capacity.
    fn model(&self, capacity: u64) -> Result<Option<Box<dyn Model>>, String>;

    /// Returns the drive with another model, as the drive's table has it.
    ///
    /// # Errors
    /// The fault of the model's table.
    fn with_model(&self, model: Value) -> Result<Arc<dyn Description>, String>;

    /// Returns whether its contents outlive this process.
    fn is_lasting(&self) -> bool;
}

/// A file that was made for a drive, and is removed again unless the drive comes to be.
#[derive(Debug, Default)]
pub struct Made(Option<PathBuf>);

impl Made {
    /// The file at `path` was made.
    pub fn new(path: PathBuf) -> Self {
        Self(Some(path))
    }

    /// Keeps the file.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}
