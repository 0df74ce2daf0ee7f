//! The rows of `ios.parquet` by column, as Parquet keeps them.

use parquet::data_type::ByteArray;
use stasis_block::Operation;
use stasis_run_events::IoRecord;

use super::BLOCK;

/// What a column's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of few words, in UTF-8.
    Word,
    /// An unsigned number of 64 bits.
    Long,
    /// An unsigned number of 16 bits.
    Short,
    /// Yes or no.
    Flag,
}

/// Each column of `ios.csv`, with the type that it has here and its unit.
pub(super) const COLUMNS: [(&str, Kind, &str); 16] = [
    ("drive", Kind::Word, ""),
    ("phase", Kind::Word, ""),
    ("operation", Kind::Word, ""),
    ("lba", Kind::Long, "512 B"),
    ("bytes", Kind::Long, "B"),
    ("queue", Kind::Short, ""),
    ("submit_ns", Kind::Long, "ns"),
    ("target_ns", Kind::Long, "ns"),
    ("delivered_ns", Kind::Long, "ns"),
    ("status", Kind::Word, ""),
    ("fua", Kind::Flag, ""),
    ("stream", Kind::Short, ""),
    ("priority", Kind::Short, ""),
    ("source_lba", Kind::Long, "512 B"),
    ("order", Kind::Long, ""),
    ("code", Kind::Short, ""),
];

/// The values of one column.
#[derive(Debug)]
pub(super) enum Values {
    Words(Vec<ByteArray>),
    Longs(Vec<i64>),
    Shorts(Vec<i32>),
    Flags(Vec<bool>),
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Word => Self::Words(Vec::new()),
            Kind::Long => Self::Longs(Vec::new()),
            Kind::Short => Self::Shorts(Vec::new()),
            Kind::Flag => Self::Flags(Vec::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Words(values) => values.len(),
            Self::Longs(values) => values.len(),
            Self::Shorts(values) => values.len(),
            Self::Flags(values) => values.len(),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Words(values) => values.clear(),
            Self::Longs(values) => values.clear(),
            Self::Shorts(values) => values.clear(),
            Self::Flags(values) => values.clear(),
        }
    }
}

/// A cell of a row that is written.
enum Cell<'a> {
    Word(&'a ByteArray),
    Long(u64),
    Short(u16),
    Flag(bool),
}

/// The words of a file. A row refers to them, and copies none.
#[derive(Debug)]
pub(super) struct Words {
    drives: Vec<ByteArray>,
    phases: [ByteArray; 2],
    operations: Vec<ByteArray>,
    statuses: [ByteArray; 3],
}

impl Words {
    pub(super) fn new() -> Self {
        Self {
            drives: Vec::new(),
            phases: ["boot", "command"].map(ByteArray::from),
            operations: Operation::ALL.iter().map(|one| ByteArray::from(one.name())).collect(),
            statuses: ["ok", "error", "refused"].map(ByteArray::from),
        }
    }

    pub(super) fn add_drive(&mut self, name: &str) {
        self.drives.push(ByteArray::from(name));
    }

    pub(super) fn drives(&self) -> usize {
        self.drives.len()
    }
}

/// Rows by column.
#[derive(Debug)]
pub(super) struct Columns(pub(super) [Values; COLUMNS.len()]);

impl Columns {
    /// No rows.
    pub(super) fn new() -> Self {
        Self(COLUMNS.map(|(_, kind, _)| Values::of(kind)))
    }

    pub(super) fn rows(&self) -> usize {
        self.0[0].len()
    }

    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(Values::clear);
    }

    /// Appends a row; `None` if the record's drive is none of the words'.
    pub(super) fn push(&mut self, record: &IoRecord, words: &Words) -> Option<()> {
        let operation = Operation::ALL.iter().position(|&one| one == record.operation)?;
        let status = match (record.refused, record.failed) {
            (true, _) => 2,
            (_, true) => 1,
            _ => 0,
        };
        let cells = [
            Cell::Word(words.drives.get(usize::from(record.drive))?),
            Cell::Word(&words.phases[usize::from(!record.boot)]),
            Cell::Word(&words.operations[operation]),
            Cell::Long(record.offset / BLOCK),
            Cell::Long(record.bytes),
            Cell::Short(record.queue),
            Cell::Long(record.submit),
            Cell::Long(record.target),
            Cell::Long(record.delivered),
            Cell::Word(&words.statuses[status]),
            Cell::Flag(record.fua),
            Cell::Short(record.stream),
            Cell::Short(record.priority),
            Cell::Long(record.source / BLOCK),
            Cell::Long(record.order),
            Cell::Short(record.code),
        ];
        for (values, cell) in self.0.iter_mut().zip(cells) {
            match (values, cell) {
                (Values::Words(values), Cell::Word(word)) => values.push(word.clone()),
                // Parquet keeps an unsigned number in the signed one of the same bits.
                (Values::Longs(values), Cell::Long(number)) => values.push(number as i64),
                (Values::Shorts(values), Cell::Short(number)) => values.push(number.into()),
                (Values::Flags(values), Cell::Flag(yes)) => values.push(yes),
                _ => unreachable!("the cells are in the order of COLUMNS"),
            }
        }
        Some(())
    }

    /// The row `row`; `None` if it cannot be one of a run's. `drive` finds a name's index.
    pub(super) fn record(
        &self,
        row: usize,
        drive: impl FnOnce(&str) -> Option<u16>,
    ) -> Option<IoRecord> {
        let word = |column: usize| match &self.0[column] {
            Values::Words(values) => values.get(row)?.as_utf8().ok(),
            _ => None,
        };
        let long = |column: usize| match &self.0[column] {
            Values::Longs(values) => Some(*values.get(row)? as u64),
            _ => None,
        };
        let short = |column: usize| match &self.0[column] {
            Values::Shorts(values) => u16::try_from(*values.get(row)?).ok(),
            _ => None,
        };
        let flag = |column: usize| match &self.0[column] {
            Values::Flags(values) => values.get(row).copied(),
            _ => None,
        };
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
            fua: flag(10)?,
            stream: short(11)?,
            priority: short(12)?,
            source: bytes(13)?,
            order: long(14)?,
            code: short(15)?,
        })
    }
}
