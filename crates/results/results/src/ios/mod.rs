//! One row per I/O, written during the run, in one of several formats. Its columns are
//! [`stasis_run_events::IoRecord::COLUMNS`].

mod as_csv;
mod csv;
mod parquet;
mod read;
mod records;

use crate::folder::ResultsFolder;
use crate::sink::Sink;
use crate::ResultsError;

pub use as_csv::IosAsCsv;
pub use read::KeptIos;

/// Form in which a run's I/Os are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ios {
    /// In `ios.csv`. Recorded I/Os are in the file, so that a killed run keeps it.
    #[default]
    Csv,
    /// In `ios.csv.zst`, compressed by zstd (RFC 8878) to a sixth or so. A killed run loses
    /// the last few thousand.
    Zst,
    /// In `ios.parquet`, by column and with units, for pandas, Polars and DuckDB. A killed
    /// run leaves a file that cannot be read.
    Parquet,
    /// Not at all.
    None,
}

impl Ios {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Csv, Self::Zst, Self::Parquet, Self::None];

    /// Returns the format's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Zst => "zst",
            Self::Parquet => "parquet",
            Self::None => "none",
        }
    }

    /// Begins the file in a results folder; `None` where the I/Os are not kept.
    pub fn begin(self, folder: &mut ResultsFolder) -> Result<Option<Box<dyn Sink>>, ResultsError> {
        Ok(Some(match self {
            Self::Csv => Box::new(csv::IoCsv::create(folder.file(crate::IOS_FILE)?, false)?),
            Self::Zst => {
                Box::new(csv::IoCsv::create(folder.file(crate::COMPRESSED_IOS_FILE)?, true)?)
            }
            Self::Parquet => {
                Box::new(parquet::IoParquet::create(folder.file(crate::PARQUET_IOS_FILE)?)?)
            }
            Self::None => return Ok(None),
        }))
    }
}

impl std::str::FromStr for Ios {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|ios| ios.name() == word);
        found.ok_or_else(|| "must be csv, zst, parquet or none".to_owned())
    }
}
