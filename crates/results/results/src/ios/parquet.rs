//! `ios.parquet`: the rows of `ios.csv` by column.
//!
//! The file's metadata has the fields of the run's summary about its origin, such as
//! `stasis_version`, `command` and `seed`, each as JSON. Fields that differ from one run to the
//! next are left out: the same I/Os of the same program are the same bytes.

use std::path::PathBuf;

use parquet::data_type::ByteArray;
use stasis_run_events::{IoRecord, Kind, Outcome, COLUMN_COUNT};

use crate::columnar::{self, Cell, Column, ColumnFile};
use crate::sink::{Entry, Footer, Records, Sink};
use crate::ResultsError;

/// The columns of [`IoRecord`], with the types that they have here.
pub(super) static COLUMNS: [Column; COLUMN_COUNT] = {
    let mut columns = [Column::new("", columnar::Kind::Word, ""); COLUMN_COUNT];
    let mut index = 0;
    while index < COLUMN_COUNT {
        let column = IoRecord::COLUMNS[index];
        let kind = match column.kind {
            Kind::Drive | Kind::Word(_) => columnar::Kind::Word,
            Kind::Long => columnar::Kind::Long,
            Kind::Short | Kind::Code => columnar::Kind::Short,
            Kind::Flag => columnar::Kind::Flag,
        };
        columns[index] = Column::new(column.name, kind, column.unit);
        if column.differs {
            columns[index] = columns[index].differences();
        }
        index += 1;
    }
    columns
};

/// The file, with the words that its rows refer to.
pub(super) struct IoParquet {
    file: ColumnFile,
    drives: Vec<ByteArray>,
    /// The words of each column, by their index; empty for a column that is none of words.
    words: Vec<Vec<ByteArray>>,
}

impl IoParquet {
    /// A file of no drives yet.
    pub(super) fn create(path: PathBuf) -> Result<Self, ResultsError> {
        let words = IoRecord::COLUMNS.iter().map(|column| match column.kind {
            Kind::Word(words) => words.iter().map(|&word| ByteArray::from(word)).collect(),
            _ => Vec::new(),
        });
        Ok(Self {
            file: ColumnFile::create(path, "ios", &COLUMNS)?,
            drives: Vec::new(),
            words: words.collect(),
        })
    }

    fn row(&mut self, record: &IoRecord) -> Result<(), ResultsError> {
        let drives = self.drives.len();
        let Some(drive) = self.drives.get(usize::from(record.drive)) else {
            return Err(ResultsError::NoSuchDrive { index: record.drive, drives });
        };
        let mut cells = [Cell::Missing; COLUMN_COUNT];
        let columns = IoRecord::COLUMNS.iter().zip(&self.words).zip(record.numbers());
        for (cell, ((column, words), number)) in cells.iter_mut().zip(columns) {
            *cell = match column.kind {
                Kind::Drive => Cell::Word(drive),
                Kind::Word(_) => Cell::Word(&words[number as usize]),
                Kind::Long => Cell::Long(number),
                Kind::Short | Kind::Code => Cell::Short(number as u16),
                Kind::Flag => Cell::Flag(number != 0),
            };
        }
        self.file.push(&cells)
    }
}

/// A group of rows is written when it is full.
impl Sink for IoParquet {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        match records {
            Records::Drive(drive) => self.drives.push(ByteArray::from(drive.name.as_str())),
            Records::Ios(records) => return records.iter().try_for_each(|record| self.row(record)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, footer: &Footer, _: Option<&Outcome>) -> Result<Entry, ResultsError> {
        self.file.finish(footer).map(|()| None)
    }
}

/// The row `row`; `None` if it cannot be one of a run's. `drive` finds a name's index.
pub(super) fn record(
    rows: &columnar::Rows,
    row: usize,
    mut drive: impl FnMut(&str) -> Option<u16>,
) -> Option<IoRecord> {
    let mut numbers = [0; COLUMN_COUNT];
    for (place, (column, number)) in IoRecord::COLUMNS.iter().zip(&mut numbers).enumerate() {
        *number = match column.kind {
            Kind::Drive => drive(rows.word(place, row)?)?.into(),
            Kind::Word(words) => {
                let found = rows.word(place, row)?;
                words.iter().position(|word| *word == found)? as u64
            }
            Kind::Long => rows.long(place, row)?,
            Kind::Short | Kind::Code => rows.short(place, row)?.into(),
            Kind::Flag => rows.flag(place, row)?.into(),
        };
    }
    IoRecord::from_numbers(&numbers).ok()
}
