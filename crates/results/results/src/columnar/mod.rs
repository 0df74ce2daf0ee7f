//! Files of rows that are kept by column (Apache Parquet), in groups of bounded size.
//!
//! The file's metadata has under `units` the unit of each column that has one, and the fields that
//! are added at the end.
//!
//! The columns are written and read one by one, without Arrow: its code for every other type
//! would be a third of the executable.

mod kept;
mod read;
mod write;

use parquet::basic::{LogicalType, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

pub use kept::KeptRows;
pub use read::Groups;
pub use write::ColumnFile;

/// Rows of a row group, which are in memory until it is written: some 8 MB.
const GROUP: usize = 64 << 10;

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of few words, in UTF-8.
    Word,
    /// An unsigned number of 64 bits.
    Long,
    /// An unsigned number of 32 bits.
    Int,
    /// An unsigned number of 16 bits.
    Short,
    /// Yes or no.
    Flag,
}

impl Kind {
    fn physical(self) -> Physical {
        match self {
            Self::Word => Physical::BYTE_ARRAY,
            Self::Long => Physical::INT64,
            Self::Int | Self::Short => Physical::INT32,
            Self::Flag => Physical::BOOLEAN,
        }
    }

    fn logical(self) -> Option<LogicalType> {
        match self {
            Self::Word => Some(LogicalType::String),
            Self::Long => Some(LogicalType::integer(64, false)),
            Self::Int => Some(LogicalType::integer(32, false)),
            Self::Short => Some(LogicalType::integer(16, false)),
            Self::Flag => None,
        }
    }
}

/// A column of a file.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Its unit; empty for none.
    pub unit: &'static str,
    /// True if a row can be without a value.
    pub optional: bool,
    /// True if it is kept as differences.
    pub differences: bool,
}

impl Column {
    /// A column of which each row has a value.
    pub const fn new(name: &'static str, kind: Kind, unit: &'static str) -> Self {
        Self { name, kind, unit, optional: false, differences: false }
    }

    /// The column, of which nearly every value is another, kept as differences
    /// (DELTA_BINARY_PACKED of the format): half of the size that a dictionary takes, and a third
    /// of the time to read.
    pub const fn differences(self) -> Self {
        Self { differences: true, ..self }
    }

    /// A column of which some rows have none.
    pub const fn optional(name: &'static str, kind: Kind, unit: &'static str) -> Self {
        Self { name, kind, unit, optional: true, differences: false }
    }
}

/// A row's value in a column.
#[derive(Debug, Clone, Copy)]
pub enum Cell<'a> {
    /// A text.
    Word(&'a ByteArray),
    /// A 64-bit number.
    Long(u64),
    /// A 32-bit number.
    Int(u32),
    /// A 16-bit number.
    Short(u16),
    /// A flag.
    Flag(bool),
    /// None, where the column is an optional one.
    Missing,
}

/// The values of one column.
#[derive(Debug)]
enum Values {
    Words(Vec<ByteArray>),
    Longs(Vec<i64>),
    Ints(Vec<i32>),
    Flags(Vec<bool>),
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Word => Self::Words(Vec::new()),
            Kind::Long => Self::Longs(Vec::new()),
            Kind::Int | Kind::Short => Self::Ints(Vec::new()),
            Kind::Flag => Self::Flags(Vec::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Words(values) => values.len(),
            Self::Longs(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Flags(values) => values.len(),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Words(values) => values.clear(),
            Self::Longs(values) => values.clear(),
            Self::Ints(values) => values.clear(),
            Self::Flags(values) => values.clear(),
        }
    }
}

/// Rows by column.
#[derive(Debug)]
pub struct Rows {
    values: Vec<Values>,
    /// Definition levels of each optional column (Parquet): for each row 1 where it has a value,
    /// else 0. Of the others nothing.
    levels: Vec<Vec<i16>>,
}

impl Rows {
    /// No rows.
    fn new(columns: &[Column]) -> Self {
        Self {
            values: columns.iter().map(|column| Values::of(column.kind)).collect(),
            levels: columns.iter().map(|_| Vec::new()).collect(),
        }
    }

    fn clear(&mut self) {
        self.values.iter_mut().for_each(Values::clear);
        self.levels.iter_mut().for_each(Vec::clear);
    }

    /// Rows, of which the first column has a value each.
    pub(crate) fn len(&self) -> usize {
        self.values.first().map_or(0, Values::len)
    }

    /// Appends a row, whose cells are in the order of the columns and of their kinds.
    fn push(&mut self, columns: &[Column], cells: &[Cell<'_>]) {
        debug_assert_eq!(columns.len(), cells.len());
        let all = self.values.iter_mut().zip(&mut self.levels);
        for ((column, cell), (values, levels)) in columns.iter().zip(cells).zip(all) {
            if column.optional {
                levels.push(i16::from(!matches!(cell, Cell::Missing)));
            }
            match (values, *cell) {
                (Values::Words(values), Cell::Word(word)) => values.push(word.clone()),
                // Parquet keeps an unsigned number in the signed one of the same bits.
                (Values::Longs(values), Cell::Long(number)) => values.push(number as i64),
                (Values::Ints(values), Cell::Int(number)) => values.push(number as i32),
                (Values::Ints(values), Cell::Short(number)) => values.push(number.into()),
                (Values::Flags(values), Cell::Flag(yes)) => values.push(yes),
                (_, Cell::Missing) if column.optional => {}
                _ => unreachable!("the cells are in the order of the columns"),
            }
        }
    }

    /// A word of rows that were read; `None` where it is missing or none.
    pub fn word(&self, column: usize, row: usize) -> Option<&str> {
        match self.values.get(column)? {
            Values::Words(values) => values.get(row)?.as_utf8().ok(),
            _ => None,
        }
    }

    /// `None` also where an optional column has no value.
    pub fn long(&self, column: usize, row: usize) -> Option<u64> {
        if self.levels.get(column)?.get(row) == Some(&0) {
            return None;
        }
        match self.values.get(column)? {
            Values::Longs(values) => Some(*values.get(row)? as u64),
            _ => None,
        }
    }

    /// `None` also where an optional column has no value.
    pub fn int(&self, column: usize, row: usize) -> Option<u32> {
        if self.levels.get(column)?.get(row) == Some(&0) {
            return None;
        }
        match self.values.get(column)? {
            Values::Ints(values) => Some(*values.get(row)? as u32),
            _ => None,
        }
    }

    /// The 16-bit number of a row.
    pub fn short(&self, column: usize, row: usize) -> Option<u16> {
        self.int(column, row).and_then(|number| u16::try_from(number).ok())
    }

    /// The flag of a row.
    pub fn flag(&self, column: usize, row: usize) -> Option<bool> {
        match self.values.get(column)? {
            Values::Flags(values) => values.get(row).copied(),
            _ => None,
        }
    }
}

fn general(message: impl Into<String>) -> ParquetError {
    ParquetError::General(message.into())
}
