//! A file of columns, read a bounded number of rows at a time.

use std::fs::File;

use parquet::column::reader::ColumnReader;
use parquet::errors::Result;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::{general, Column, Rows, Values, GROUP};

/// The rows of a file, a bounded number of them at a time.
pub struct Groups {
    file: SerializedFileReader<File>,
    columns: &'static [Column],
    /// Place of each of the columns in the file.
    places: Vec<usize>,
    next: usize,
    readers: Vec<ColumnReader>,
    rows: Rows,
}

impl Groups {
    /// The file with all of these columns, in whichever order and beside whichever others;
    /// `like` is the name of a file that has them.
    pub fn open(file: File, like: &str, columns: &'static [Column]) -> Result<Self> {
        let file = SerializedFileReader::new(file)?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let place = |column: &Column| {
            let found = schema.columns().iter().position(|there| {
                there.path().parts() == [column.name]
                    && there.physical_type() == column.kind.physical()
                    && there.max_rep_level() == 0
            });
            found.ok_or_else(|| general(format!("it has no column {} as {like} has", column.name)))
        };
        let places = columns.iter().map(place).collect::<Result<_>>()?;
        let rows = Rows::new(columns);
        Ok(Self { file, columns, places, next: 0, readers: Vec::new(), rows })
    }

    /// The value of `name` in the file's metadata.
    pub fn said(&self, name: &str) -> Option<&str> {
        let metadata = self.file.metadata().file_metadata().key_value_metadata()?;
        metadata.iter().find(|entry| entry.key == name)?.value.as_deref()
    }

    /// Reads more rows into [`Self::rows`]; false at the end.
    pub fn more(&mut self) -> Result<bool> {
        loop {
            self.rows.clear();
            let all = self.rows.values.iter_mut().zip(&mut self.rows.levels);
            for ((reader, column), (values, levels)) in
                self.readers.iter_mut().zip(self.columns).zip(all)
            {
                read_column(reader, column, values, levels)?;
            }
            let rows = self.rows.len();
            if self.rows.values.iter().any(|values| values.len() != rows) {
                return Err(general("a column is shorter than others"));
            }
            if rows > 0 {
                return Ok(true);
            }
            if self.next == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.next)?;
            self.next += 1;
            let readers = self.places.iter().map(|&place| group.get_column_reader(place));
            self.readers = readers.collect::<Result<_>>()?;
        }
    }

    /// The rows that [`Self::more`] has read.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }
}

fn read_column(
    reader: &mut ColumnReader,
    column: &Column,
    values: &mut Values,
    levels: &mut Vec<i16>,
) -> Result<()> {
    let some = Some(&mut *levels);
    let (rows, present, _) = match (reader, &mut *values) {
        (ColumnReader::ByteArrayColumnReader(reader), Values::Words(values)) => {
            reader.read_records(GROUP, some, None, values)
        }
        (ColumnReader::Int64ColumnReader(reader), Values::Longs(values)) => {
            reader.read_records(GROUP, some, None, values)
        }
        (ColumnReader::Int32ColumnReader(reader), Values::Ints(values)) => {
            reader.read_records(GROUP, some, None, values)
        }
        (ColumnReader::BoolColumnReader(reader), Values::Flags(values)) => {
            reader.read_records(GROUP, some, None, values)
        }
        _ => return Err(general("a column changes its type")),
    }?;
    if present == rows {
        // There is one for each row, whatever the levels allow.
        levels.clear();
        return Ok(());
    }
    if !column.optional || levels.len() != rows {
        return Err(general("a value is missing"));
    }
    match values {
        Values::Words(values) => spread(values, levels),
        Values::Longs(values) => spread(values, levels),
        Values::Ints(values) => spread(values, levels),
        Values::Flags(values) => spread(values, levels),
    }
}

/// Brings each value to its row; rows without one get the default.
fn spread<T: Default + Clone>(values: &mut Vec<T>, levels: &[i16]) -> Result<()> {
    let mut from = values.len();
    values.resize(levels.len(), T::default());
    for (row, &level) in levels.iter().enumerate().rev() {
        if level == 0 {
            values[row] = T::default();
        } else {
            from = from.checked_sub(1).ok_or_else(|| general("a value is missing"))?;
            values.swap(row, from);
        }
    }
    Ok(())
}
