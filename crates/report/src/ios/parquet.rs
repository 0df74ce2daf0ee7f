//! `ios.parquet`: the rows by column (Apache Parquet), in groups of bounded size.
//!
//! The file's metadata has what the run's summary says of its origin, such as
//! `stasis_version`, `command` and `seed`, each as JSON, and under `units` the unit of each
//! column that has one. What differs from one run to the next is left out: the same I/Os of
//! the same program are the same bytes.
//!
//! The columns are written and read one by one, without Arrow: its code for every other type
//! would be a third of the executable.

use std::fs::File;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Map, Value};
use stasis_run_events::IoRecord;

use super::columns::{Columns, Kind, Values, Words, COLUMNS};
use super::{Footer, Rows};
use crate::{Drive, ReportError};

/// Rows of a row group, which are in memory until it is written: some 8 MB.
const GROUP: usize = 64 << 10;

/// The file, with the rows that wait for their group to be full.
pub(super) struct IoParquet {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    words: Words,
    waiting: Columns,
}

impl IoParquet {
    /// A file of no drives yet.
    pub(super) fn create(path: PathBuf) -> std::result::Result<Self, ReportError> {
        let file = File::create(&path).map_err(ReportError::write(&path))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let writer = schema()
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties)))
            .map_err(|error| failed(&path, error))?;
        Ok(Self { path, writer, words: Words::new(), waiting: Columns::new() })
    }

    fn write(&mut self) -> std::result::Result<(), ReportError> {
        if self.waiting.rows() == 0 {
            return Ok(());
        }
        write_group(&mut self.writer, &self.waiting).map_err(|error| failed(&self.path, error))?;
        self.waiting.clear();
        Ok(())
    }
}

impl Rows for IoParquet {
    fn add_drive(&mut self, drive: &Drive) {
        self.words.add_drive(&drive.name);
    }

    fn row(&mut self, record: &IoRecord) -> std::result::Result<(), ReportError> {
        let drives = self.words.drives();
        self.waiting
            .push(record, &self.words)
            .ok_or(ReportError::NoSuchDrive { index: record.drive, drives })?;
        if self.waiting.rows() >= GROUP {
            self.write()?;
        }
        Ok(())
    }

    /// A group is written when it is full.
    fn flush(&mut self) -> std::result::Result<(), ReportError> {
        Ok(())
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> std::result::Result<(), ReportError> {
        self.write()?;
        let units = COLUMNS.iter().filter(|(_, _, unit)| !unit.is_empty());
        let units: Map<_, _> =
            units.map(|(name, _, unit)| ((*name).to_owned(), Value::from(*unit))).collect();
        let units = KeyValue::new("units".to_owned(), Value::from(units).to_string());
        self.writer.append_key_value_metadata(units);
        for (name, value) in footer {
            self.writer.append_key_value_metadata(KeyValue::new(name.clone(), value.to_string()));
        }
        self.writer.close().map(drop).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: ParquetError) -> ReportError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(inner) => Error::other(inner),
        },
        error => Error::other(error),
    };
    ReportError::write(path)(source)
}

/// The columns of `ios.csv`, with their types. No value is ever missing.
fn schema() -> Result<TypePtr> {
    let fields = COLUMNS.iter().map(|&(name, kind, _)| {
        let logical = match kind {
            Kind::Word => Some(LogicalType::String),
            Kind::Long => Some(LogicalType::integer(64, false)),
            Kind::Short => Some(LogicalType::integer(16, false)),
            Kind::Flag => None,
        };
        Type::primitive_type_builder(name, physical(kind))
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Type::group_type_builder("ios").with_fields(fields).build().map(Arc::new)
}

fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::Word => Physical::BYTE_ARRAY,
        Kind::Long => Physical::INT64,
        Kind::Short => Physical::INT32,
        Kind::Flag => Physical::BOOLEAN,
    }
}

fn write_group(writer: &mut SerializedFileWriter<File>, columns: &Columns) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for values in &columns.0 {
        let Some(column) = group.next_column()? else { break };
        match values {
            Values::Words(values) => write_column::<ByteArrayType>(column, values),
            Values::Longs(values) => write_column::<Int64Type>(column, values),
            Values::Shorts(values) => write_column::<Int32Type>(column, values),
            Values::Flags(values) => write_column::<BoolType>(column, values),
        }?;
    }
    group.close().map(drop)
}

fn write_column<T: DataType>(
    mut column: SerializedColumnWriter<'_>,
    values: &[T::T],
) -> Result<()> {
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// The rows of a file, a bounded number of them at a time.
pub(super) struct Groups {
    file: SerializedFileReader<File>,
    /// Where each of [`COLUMNS`] is in the file.
    places: [usize; COLUMNS.len()],
    next: usize,
    readers: Vec<ColumnReader>,
    columns: Columns,
}

impl Groups {
    /// The file with all of [`COLUMNS`], in whichever order and beside whichever others.
    pub(super) fn open(file: File) -> Result<Self> {
        let file = SerializedFileReader::new(file)?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let mut places = [0; COLUMNS.len()];
        for (place, (name, kind, _)) in places.iter_mut().zip(COLUMNS) {
            let found = schema.columns().iter().position(|column| {
                column.path().parts() == [name]
                    && column.physical_type() == physical(kind)
                    && column.max_rep_level() == 0
            });
            *place = found.ok_or_else(|| {
                ParquetError::General(format!("it has no column {name} as ios.parquet has"))
            })?;
        }
        Ok(Self { file, places, next: 0, readers: Vec::new(), columns: Columns::new() })
    }

    /// Reads more rows into [`Self::columns`]; false at the end.
    pub(super) fn more(&mut self) -> Result<bool> {
        loop {
            self.columns.clear();
            for (reader, values) in self.readers.iter_mut().zip(&mut self.columns.0) {
                read_column(reader, values)?;
            }
            let rows = self.columns.rows();
            if self.columns.0.iter().any(|values| values.len() != rows) {
                return Err(ParquetError::General("a column is shorter than others".into()));
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
    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }
}

fn read_column(reader: &mut ColumnReader, values: &mut Values) -> Result<()> {
    // Levels say which values of a column that may lack some are there.
    let mut levels = Vec::new();
    let (rows, present, _) = match (reader, values) {
        (ColumnReader::ByteArrayColumnReader(reader), Values::Words(values)) => {
            reader.read_records(GROUP, Some(&mut levels), None, values)
        }
        (ColumnReader::Int64ColumnReader(reader), Values::Longs(values)) => {
            reader.read_records(GROUP, Some(&mut levels), None, values)
        }
        (ColumnReader::Int32ColumnReader(reader), Values::Shorts(values)) => {
            reader.read_records(GROUP, Some(&mut levels), None, values)
        }
        (ColumnReader::BoolColumnReader(reader), Values::Flags(values)) => {
            reader.read_records(GROUP, Some(&mut levels), None, values)
        }
        _ => return Err(ParquetError::General("a column changes its type".into())),
    }?;
    match present == rows {
        true => Ok(()),
        false => Err(ParquetError::General("a value is missing".into())),
    }
}
