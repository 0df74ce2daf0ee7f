//! `ios.parquet`: the rows by column (Apache Parquet), in groups of bounded size.
//!
//! A column's unit is in its Arrow field's metadata under `unit`. The file's metadata has what
//! the run's summary says of its origin, such as `stasis_version`, `command_line` and `seed`,
//! each as JSON.

use std::collections::HashMap;
use std::fs::File;
use std::io::Error;
use std::mem::take;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::UInt16Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray, UInt16Array,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use stasis_block::Operation;
use stasis_run_events::IoRecord;

use super::{Footer, Rows, BLOCK};
use crate::{Drive, ReportError};

/// Rows of a row group, which are in memory until it is written: some 8 MB.
const GROUP: usize = 64 << 10;

/// Words of the columns `phase` and `status`, by index.
const PHASES: [&str; 2] = ["boot", "command"];
const STATUSES: [&str; 3] = ["ok", "error", "refused"];

/// Rows that are not in the file yet, by column.
#[derive(Default)]
struct Columns {
    drive: Vec<u16>,
    phase: Vec<u16>,
    operation: Vec<u16>,
    lba: Vec<u64>,
    bytes: Vec<u64>,
    queue: Vec<u16>,
    submit: Vec<u64>,
    target: Vec<u64>,
    delivered: Vec<u64>,
    status: Vec<u16>,
    fua: Vec<bool>,
    stream: Vec<u16>,
    priority: Vec<u16>,
    source_lba: Vec<u64>,
    order: Vec<u64>,
    code: Vec<u16>,
}

impl Columns {
    fn push(&mut self, record: &IoRecord) {
        self.drive.push(record.drive);
        self.phase.push(u16::from(!record.boot));
        self.operation.push(record.operation as u16);
        self.lba.push(record.offset / BLOCK);
        self.bytes.push(record.bytes);
        self.queue.push(record.queue);
        self.submit.push(record.submit);
        self.target.push(record.target);
        self.delivered.push(record.delivered);
        self.status.push(match (record.refused, record.failed) {
            (true, _) => 2,
            (_, true) => 1,
            _ => 0,
        });
        self.fua.push(record.fua);
        self.stream.push(record.stream);
        self.priority.push(record.priority);
        self.source_lba.push(record.source / BLOCK);
        self.order.push(record.order);
        self.code.push(record.code);
    }
}

/// The file, with the rows that wait for their group to be full.
pub(super) struct IoParquet {
    path: PathBuf,
    writer: ArrowWriter<File>,
    schema: SchemaRef,
    drives: Vec<String>,
    waiting: Columns,
}

impl IoParquet {
    /// A file of no drives yet.
    pub(super) fn create(path: PathBuf) -> Result<Self, ReportError> {
        let file = File::create(&path).map_err(ReportError::write(&path))?;
        let schema = Arc::new(schema());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP))
            .build();
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))
            .map_err(|error| failed(&path, error))?;
        Ok(Self { path, writer, schema, drives: Vec::new(), waiting: Columns::default() })
    }

    fn write(&mut self) -> Result<(), ReportError> {
        if self.waiting.drive.is_empty() {
            return Ok(());
        }
        let columns = take(&mut self.waiting);
        let drives = self.drives.iter().map(String::as_str);
        batch(&self.schema, columns, drives)
            .map_err(Into::into)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(|error| failed(&self.path, error))
    }
}

impl Rows for IoParquet {
    fn add_drive(&mut self, drive: &Drive) {
        self.drives.push(drive.name.clone());
    }

    fn row(&mut self, record: &IoRecord) -> Result<(), ReportError> {
        let drives = self.drives.len();
        if usize::from(record.drive) >= drives {
            return Err(ReportError::NoSuchDrive { index: record.drive, drives });
        }
        self.waiting.push(record);
        if self.waiting.drive.len() >= GROUP {
            self.write()?;
        }
        Ok(())
    }

    /// A group is written when it is full.
    fn flush(&mut self) -> Result<(), ReportError> {
        Ok(())
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> Result<(), ReportError> {
        self.write()?;
        for (name, value) in footer {
            self.writer.append_key_value_metadata(KeyValue::new(name.clone(), value.to_string()));
        }
        self.writer.close().map(drop).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &std::path::Path, error: parquet::errors::ParquetError) -> ReportError {
    let source = match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(inner) => Error::other(inner),
        },
        error => Error::other(error),
    };
    ReportError::write(path)(source)
}

/// The columns of `ios.csv`, with their types and units.
fn schema() -> Schema {
    let word = || DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    let field = |name: &str, kind: DataType, unit: &str| {
        let field = Field::new(name, kind, false);
        match unit {
            "" => field,
            unit => field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())])),
        }
    };
    Schema::new(vec![
        field("drive", word(), ""),
        field("phase", word(), ""),
        field("operation", word(), ""),
        field("lba", DataType::UInt64, "512 B"),
        field("bytes", DataType::UInt64, "B"),
        field("queue", DataType::UInt16, ""),
        field("submit_ns", DataType::UInt64, "ns"),
        field("target_ns", DataType::UInt64, "ns"),
        field("delivered_ns", DataType::UInt64, "ns"),
        field("status", word(), ""),
        field("fua", DataType::Boolean, ""),
        field("stream", DataType::UInt16, ""),
        field("priority", DataType::UInt16, ""),
        field("source_lba", DataType::UInt64, "512 B"),
        field("order", DataType::UInt64, ""),
        field("code", DataType::UInt16, ""),
    ])
}

fn batch<'a>(
    schema: &SchemaRef,
    columns: Columns,
    drives: impl Iterator<Item = &'a str>,
) -> Result<RecordBatch, ArrowError> {
    let operations = Operation::ALL.iter().map(|operation| operation.name());
    let number = |values: Vec<u16>| Arc::new(UInt16Array::from(values)) as ArrayRef;
    let long = |values: Vec<u64>| Arc::new(UInt64Array::from(values)) as ArrayRef;
    let columns = vec![
        words(columns.drive, drives)?,
        words(columns.phase, PHASES.into_iter())?,
        words(columns.operation, operations)?,
        long(columns.lba),
        long(columns.bytes),
        number(columns.queue),
        long(columns.submit),
        long(columns.target),
        long(columns.delivered),
        words(columns.status, STATUSES.into_iter())?,
        Arc::new(BooleanArray::from(columns.fua)),
        number(columns.stream),
        number(columns.priority),
        long(columns.source_lba),
        long(columns.order),
        number(columns.code),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// A column of few different words.
fn words<'a>(keys: Vec<u16>, words: impl Iterator<Item = &'a str>) -> Result<ArrayRef, ArrowError> {
    let words = Arc::new(StringArray::from_iter_values(words));
    let keys = PrimitiveArray::<UInt16Type>::from(keys);
    Ok(Arc::new(DictionaryArray::try_new(keys, words)?))
}
