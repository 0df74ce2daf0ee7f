//! A file of columns in a folder of results, read row by row.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Column, Groups, Rows};
use crate::ResultsError;

/// The rows of a finished run's file, in the order in which they were recorded.
pub struct KeptRows {
    path: PathBuf,
    name: &'static str,
    groups: Groups,
    next: usize,
}

impl std::fmt::Debug for KeptRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptRows").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KeptRows {
    /// Opens the file `name` of a folder of results, which has these columns; `None` where there is
    /// none.
    ///
    /// # Errors
    /// The file is not of this kind.
    pub fn open(
        folder: &Path,
        name: &'static str,
        columns: &'static [Column],
    ) -> Result<Option<Self>, ResultsError> {
        let path = folder.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ResultsError::read(&path)(error)),
        };
        let groups = Groups::open(file, name, columns).map_err(|error| {
            ResultsError::damaged(&path, format!("it is no whole Parquet file: {error}"))
        })?;
        Ok(Some(Self { path, name, groups, next: 0 }))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of `name` in the file's metadata.
    pub fn said(&self, name: &str) -> Option<&str> {
        self.groups.said(name)
    }

    /// The place of the next row among [`Self::rows`]; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read on.
    pub fn next_row(&mut self) -> Result<Option<usize>, ResultsError> {
        if self.next >= self.groups.rows().len() {
            match self.groups.more() {
                Ok(true) => self.next = 0,
                Ok(false) => return Ok(None),
                Err(error) => return Err(ResultsError::damaged(&self.path, error.to_string())),
            }
        }
        self.next += 1;
        Ok(Some(self.next - 1))
    }

    /// The rows that are in memory.
    pub fn rows(&self) -> &Rows {
        self.groups.rows()
    }

    /// The error of a row that is none of such a file.
    pub fn wrong_row(&self) -> ResultsError {
        ResultsError::damaged(&self.path, format!("a row is none of a {}", self.name))
    }
}
