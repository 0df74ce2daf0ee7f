//! `ios.parquet`: the rows of `ios.csv` by column.
//!
//! The file's metadata has what the run's summary says of its origin, such as
//! `stasis_version`, `command` and `seed`, each as JSON. What differs from one run to the next
//! is left out: the same I/Os of the same program are the same bytes.

use std::path::PathBuf;

use parquet::data_type::ByteArray;
use stasis_block::Operation;
use stasis_run_events::IoRecord;

use super::{Footer, Rows, BLOCK};
use crate::columnar::{self, Cell, Column, ColumnFile, Kind};
use crate::{Drive, ReportError};

/// Each column of `ios.csv`, with the type that it has here and its unit.
pub(super) const COLUMNS: &[Column] = &[
    Column::new("drive", Kind::Word, ""),
    Column::new("phase", Kind::Word, ""),
    Column::new("operation", Kind::Word, ""),
    Column::new("lba", Kind::Long, "512 B").differences(),
    Column::new("bytes", Kind::Long, "B"),
    Column::new("queue", Kind::Short, ""),
    Column::new("submit_ns", Kind::Long, "ns").differences(),
    Column::new("target_ns", Kind::Long, "ns").differences(),
    Column::new("delivered_ns", Kind::Long, "ns").differences(),
    Column::new("status", Kind::Word, ""),
    Column::new("fua", Kind::Flag, ""),
    Column::new("stream", Kind::Short, ""),
    Column::new("priority", Kind::Short, ""),
    Column::new("source_lba", Kind::Long, "512 B"),
    Column::new("order", Kind::Long, "").differences(),
    Column::new("code", Kind::Short, ""),
];

/// The file, with the words that its rows refer to.
pub(super) struct IoParquet {
    file: ColumnFile,
    drives: Vec<ByteArray>,
    phases: [ByteArray; 2],
    operations: Vec<ByteArray>,
    statuses: [ByteArray; 3],
}

impl IoParquet {
    /// A file of no drives yet.
    pub(super) fn create(path: PathBuf) -> Result<Self, ReportError> {
        Ok(Self {
            file: ColumnFile::create(path, "ios", COLUMNS)?,
            drives: Vec::new(),
            phases: ["boot", "command"].map(ByteArray::from),
            operations: Operation::ALL.iter().map(|one| ByteArray::from(one.name())).collect(),
            statuses: ["ok", "error", "refused"].map(ByteArray::from),
        })
    }
}

impl Rows for IoParquet {
    fn add_drive(&mut self, drive: &Drive) {
        self.drives.push(ByteArray::from(drive.name.as_str()));
    }

    fn row(&mut self, record: &IoRecord) -> Result<(), ReportError> {
        let drives = self.drives.len();
        let Some(drive) = self.drives.get(usize::from(record.drive)) else {
            return Err(ReportError::NoSuchDrive { index: record.drive, drives });
        };
        let status = match (record.refused, record.failed) {
            (true, _) => 2,
            (_, true) => 1,
            _ => 0,
        };
        self.file.push(&[
            Cell::Word(drive),
            Cell::Word(&self.phases[usize::from(!record.boot)]),
            // They are in the order of their numbers.
            Cell::Word(&self.operations[record.operation as usize]),
            Cell::Long(record.offset / BLOCK),
            Cell::Long(record.bytes),
            Cell::Short(record.queue),
            Cell::Long(record.submit),
            Cell::Long(record.target),
            Cell::Long(record.delivered),
            Cell::Word(&self.statuses[status]),
            Cell::Flag(record.fua),
            Cell::Short(record.stream),
            Cell::Short(record.priority),
            Cell::Long(record.source / BLOCK),
            Cell::Long(record.order),
            Cell::Short(record.code),
        ])
    }

    /// A group is written when it is full.
    fn flush(&mut self) -> Result<(), ReportError> {
        Ok(())
    }

    fn finish(self: Box<Self>, footer: &Footer) -> Result<(), ReportError> {
        self.file.finish(footer)
    }
}

/// The row `row`; `None` if it cannot be one of a run's. `drive` finds a name's index.
pub(super) fn record(
    rows: &columnar::Rows,
    row: usize,
    drive: impl FnOnce(&str) -> Option<u16>,
) -> Option<IoRecord> {
    let word = |column| rows.word(column, row);
    let long = |column| rows.long(column, row);
    let short = |column| rows.short(column, row);
    let bytes = |column| long(column)?.checked_mul(BLOCK);
    let (refused, failed) = super::read::status(word(9)?)?;
    Some(IoRecord {
        drive: drive(word(0)?)?,
        boot: super::read::boot(word(1)?)?,
        operation: super::read::operation(word(2)?)?,
        offset: bytes(3)?,
        bytes: long(4)?,
        queue: short(5)?,
        submit: long(6)?,
        target: long(7)?,
        delivered: long(8)?,
        refused,
        failed,
        fua: rows.flag(10, row)?,
        stream: short(11)?,
        priority: short(12)?,
        source: bytes(13)?,
        order: long(14)?,
        code: short(15)?,
    })
}
