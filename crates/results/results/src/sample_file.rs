//! `profile.parquet`: the samples of a profile, one row for those that follow each other with one stack.

use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use stasis_block::clock::Nanos;

use crate::columnar::{Cell, Column, ColumnFile, KeptRows, Kind};
use crate::sink::Footer;
use crate::{ResultsError, SAMPLES_FILE};

const COLUMNS: &[Column] = &[
    Column::new("at_ns", Kind::Long, "ns").differences(),
    Column::new("processor", Kind::Word, ""),
    Column::new("count", Kind::Int, ""),
    Column::new("interval_ns", Kind::Long, "ns"),
    Column::new("stack", Kind::Word, ""),
];

/// Samples of a processor that have one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSample {
    /// Time at which the first was taken (ns of virtual time since the machine was created).
    pub at: Nanos,
    /// The processor's name.
    pub processor: String,
    /// Number of consecutive samples with the stack.
    pub count: u32,
    /// Time between two samples (ns).
    pub interval: Nanos,
    /// The functions, the outermost first, by semicolons; empty where it was idle.
    pub stack: String,
}

/// The file.
pub struct SampleFile {
    file: ColumnFile,
    interval: Nanos,
}

impl SampleFile {
    /// A file of no rows yet.
    ///
    /// # Errors
    /// The failure to write it.
    pub fn create(path: PathBuf, interval: Nanos) -> Result<Self, ResultsError> {
        Ok(Self { file: ColumnFile::create(path, "profile", COLUMNS)?, interval })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// The failure to write it.
    pub fn row(
        &mut self,
        at: Nanos,
        processor: &ByteArray,
        count: u32,
        stack: &ByteArray,
    ) -> Result<(), ResultsError> {
        self.file.push(&[
            Cell::Long(at),
            Cell::Word(processor),
            Cell::Int(count),
            Cell::Long(self.interval),
            Cell::Word(stack),
        ])
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The failure to write it.
    pub fn finish(&mut self, footer: &Footer) -> Result<(), ResultsError> {
        self.file.finish(footer)
    }
}

/// The samples of a finished run, in the order in which they were taken of each processor.
#[derive(Debug)]
pub struct KeptSamples {
    rows: KeptRows,
}

impl KeptSamples {
    /// Opens the [`SAMPLES_FILE`] of a folder of results; `None` where there is none.
    ///
    /// # Errors
    /// The file is not of this kind.
    pub fn open(folder: &Path) -> Result<Option<Self>, ResultsError> {
        let rows = KeptRows::open(folder, SAMPLES_FILE, COLUMNS)?;
        Ok(rows.map(|rows| Self { rows }))
    }

    /// The next samples; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read on, or a row is none of a run's.
    pub fn next_sample(&mut self) -> Result<Option<KeptSample>, ResultsError> {
        let Some(row) = self.rows.next_row()? else { return Ok(None) };
        self.sample(row).ok_or_else(|| self.rows.wrong_row()).map(Some)
    }

    fn sample(&self, row: usize) -> Option<KeptSample> {
        let rows = self.rows.rows();
        Some(KeptSample {
            at: rows.long(0, row)?,
            processor: rows.word(1, row)?.to_owned(),
            count: rows.int(2, row)?,
            interval: rows.long(3, row)?,
            stack: rows.word(4, row)?.to_owned(),
        })
    }
}
