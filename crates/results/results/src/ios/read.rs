//! Reads the I/Os that a run has kept, in whichever format.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use stasis_run_events::text::{self, Heading};
use stasis_run_events::IoRecord;

use super::parquet::{record, COLUMNS};
use super::records::Records;
use crate::columnar::Groups;
use crate::{ResultsError, IOS_FILES};

/// The I/Os of a run, in the order in which they are kept: that of completion.
///
/// A record's [`IoRecord::drive`] is an index into [`Self::drives`].
pub struct KeptIos {
    path: PathBuf,
    drives: Vec<String>,
    rows: Rows,
    line: u64,
}

enum Rows {
    Csv(Records, Box<Heading>),
    /// The file, and the next one of the rows that have been read from it.
    Parquet(Box<Groups>, usize),
}

impl std::fmt::Debug for KeptIos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptIos").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KeptIos {
    /// Opens what is kept at `path`: a folder of results, or one of its files `ios.csv`,
    /// `ios.csv.zst` and `ios.parquet`.
    ///
    /// # Errors
    /// If there is no such file, or it is none of these.
    pub fn open(path: &Path) -> Result<Self, ResultsError> {
        let path = if path.is_dir() { within(path)? } else { path.to_owned() };
        let file = File::open(&path).map_err(ResultsError::read(&path))?;
        let is = |extension: &str| path.extension().is_some_and(|found| found == extension);
        let rows = if is("parquet") {
            let groups =
                Groups::open(file, crate::PARQUET_IOS_FILE, &COLUMNS).map_err(|error| {
                    ResultsError::damaged(&path, format!("it is no whole Parquet file: {error}"))
                })?;
            Rows::Parquet(Box::new(groups), 0)
        } else {
            let input: Box<dyn BufRead> = if is("zst") {
                let decoder = zstd::Decoder::new(file).map_err(ResultsError::read(&path))?;
                Box::new(BufReader::new(decoder))
            } else {
                Box::new(BufReader::new(file))
            };
            let mut records = Records::new(input);
            records.read().map_err(|error| ResultsError::damaged(&path, error.to_string()))?;
            let heading = text::heading();
            let names = (0..records.len()).filter_map(|place| records.get(place));
            if !names.eq(heading.split(',')) {
                return Err(ResultsError::damaged(
                    &path,
                    "its columns are not those of ios.csv".into(),
                ));
            }
            let heading = Heading::new(&heading)
                .map_err(|error| ResultsError::damaged(&path, error.to_string()))?;
            Rows::Csv(records, Box::new(heading))
        };
        Ok(Self { path, drives: Vec::new(), rows, line: 1 })
    }

    /// The names of the drives that have been met so far.
    pub fn drives(&self) -> &[String] {
        &self.drives
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn drive(drives: &mut Vec<String>, name: &str) -> Option<u16> {
        let place = drives.iter().position(|drive| drive == name).unwrap_or_else(|| {
            drives.push(name.to_owned());
            drives.len() - 1
        });
        u16::try_from(place).ok()
    }

    fn row(&mut self) -> Result<Option<IoRecord>, ResultsError> {
        self.line += 1;
        let bad = |problem: String| {
            ResultsError::damaged(&self.path, format!("line {}: {problem}", self.line))
        };
        match &mut self.rows {
            Rows::Csv(records, heading) => {
                if !records.read().map_err(|error| bad(error.to_string()))? {
                    return Ok(None);
                }
                if records.len() != IoRecord::COLUMNS.len() {
                    return Err(bad("it has more or fewer fields than ios.csv".into()));
                }
                let name = records.get(0).unwrap_or_default();
                let drive = Self::drive(&mut self.drives, name)
                    .ok_or_else(|| bad("there are too many drives".into()))?;
                let record = heading.read(drive, |place| records.get(place));
                record.map(Some).map_err(|error| bad(error.to_string()))
            }
            Rows::Parquet(groups, next) => {
                if *next >= groups.rows().len() {
                    match groups.more() {
                        Ok(true) => *next = 0,
                        Ok(false) => return Ok(None),
                        Err(error) => {
                            return Err(ResultsError::damaged(&self.path, error.to_string()))
                        }
                    }
                }
                let row = *next;
                *next += 1;
                let found = record(groups.rows(), row, |name| Self::drive(&mut self.drives, name));
                found.map(Some).ok_or_else(|| bad("it is not a row of ios.csv".into()))
            }
        }
    }
}

impl Iterator for KeptIos {
    type Item = Result<IoRecord, ResultsError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.row().transpose()
    }
}

fn within(folder: &Path) -> Result<PathBuf, ResultsError> {
    let found = IOS_FILES.map(|name| folder.join(name)).into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        ResultsError::damaged(folder, format!("it has none of {}", IOS_FILES.join(", ")))
    })
}
