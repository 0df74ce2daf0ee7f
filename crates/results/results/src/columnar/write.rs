//! A file of columns, written while its rows come.

use std::fs::File;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Repetition, ZstdLevel};
use parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use serde_json::{Map, Value};

use super::{Cell, Column, Kind, Rows, Values, GROUP};
use crate::ResultsError;

/// The file, with the rows that wait for their group to be full.
pub struct ColumnFile {
    path: PathBuf,
    columns: &'static [Column],
    writer: SerializedFileWriter<File>,
    waiting: Rows,
}

impl ColumnFile {
    /// An empty file; `name` is that of its schema.
    pub fn create(
        path: PathBuf,
        name: &str,
        columns: &'static [Column],
    ) -> std::result::Result<Self, ResultsError> {
        let file = File::create(&path).map_err(ResultsError::write(&path))?;
        let writer = schema(name, columns)
            .and_then(|schema| {
                SerializedFileWriter::new(file, schema, Arc::new(properties(columns)))
            })
            .map_err(|error| failed(&path, error))?;
        Ok(Self { path, columns, writer, waiting: Rows::new(columns) })
    }

    /// Appends a row, whose cells are in the order of the columns.
    pub fn push(&mut self, cells: &[Cell<'_>]) -> std::result::Result<(), ResultsError> {
        self.waiting.push(self.columns, cells);
        if self.waiting.len() >= GROUP {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> std::result::Result<(), ResultsError> {
        if self.waiting.len() == 0 {
            return Ok(());
        }
        write_group(&mut self.writer, &self.waiting).map_err(|error| failed(&self.path, error))?;
        self.waiting.clear();
        Ok(())
    }

    /// Ends the file; `footer` goes into its metadata.
    pub fn finish(&mut self, footer: &Map<String, Value>) -> std::result::Result<(), ResultsError> {
        self.write()?;
        let units = self.columns.iter().filter(|column| !column.unit.is_empty());
        let units: Map<_, _> =
            units.map(|column| (column.name.to_owned(), Value::from(column.unit))).collect();
        let units = KeyValue::new("units".to_owned(), Value::from(units).to_string());
        self.writer.append_key_value_metadata(units);
        for (name, value) in footer {
            self.writer.append_key_value_metadata(KeyValue::new(name.clone(), value.to_string()));
        }
        self.writer.finish().map(drop).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: ParquetError) -> ResultsError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(inner) => Error::other(inner),
        },
        error => Error::other(error),
    };
    ResultsError::write(path)(source)
}

fn properties(columns: &[Column]) -> WriterProperties {
    let all = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    let each = columns.iter().fold(all, |properties, column| {
        let path = ColumnPath::from(column.name);
        match column.kind {
            // Nobody skips rows by the least and the greatest of a few words, and comparing each
            // row's word is a tenth of what writing takes.
            Kind::Word => properties.set_column_statistics_enabled(path, EnabledStatistics::None),
            _ if column.differences => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            _ => properties,
        }
    });
    each.build()
}

fn schema(name: &str, columns: &[Column]) -> Result<TypePtr> {
    let fields = columns.iter().map(|column| {
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(column.name, column.kind.physical())
            .with_repetition(repetition)
            .with_logical_type(column.kind.logical())
            .build()
            .map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Type::group_type_builder(name).with_fields(fields).build().map(Arc::new)
}

fn write_group(writer: &mut SerializedFileWriter<File>, rows: &Rows) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for (values, levels) in rows.values.iter().zip(&rows.levels) {
        let Some(column) = group.next_column()? else { break };
        let levels = (!levels.is_empty()).then_some(levels.as_slice());
        match values {
            Values::Words(values) => write_column::<ByteArrayType>(column, values, levels),
            Values::Longs(values) => write_column::<Int64Type>(column, values, levels),
            Values::Ints(values) => write_column::<Int32Type>(column, values, levels),
            Values::Flags(values) => write_column::<BoolType>(column, values, levels),
        }?;
    }
    group.close().map(drop)
}

fn write_column<T: DataType>(
    mut column: SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
