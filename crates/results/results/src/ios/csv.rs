//! `ios.csv`: one row per I/O, written during the run; as it is, or compressed.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use stasis_run_events::{text, IoRecord, Kind};
use zstd::stream::write::Encoder;

use super::{Footer, Rows};
use crate::{Drive, ResultsError};

/// Rows are handed to the system in pieces of about this size (bytes).
const PIECE: usize = 256 << 10;

/// zstd's level. On these rows 3 takes longer and is no smaller.
const LEVEL: i32 = 1;

/// Destination of rows.
enum Sink {
    Plain(File),
    Compressed(Box<Encoder<'static, File>>),
}

/// The file, with a row's buffer that is reused.
pub struct IoCsv {
    path: PathBuf,
    sink: Sink,
    /// The drives' names, quoted.
    names: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    numbers: itoa::Buffer,
}

impl IoCsv {
    /// A file of no drives yet.
    pub fn create(path: PathBuf, compressed: bool) -> Result<Self, ResultsError> {
        let file = File::create(&path).map_err(ResultsError::write(&path))?;
        let sink = if compressed {
            let encoder = Encoder::new(file, LEVEL).map_err(ResultsError::write(&path))?;
            Sink::Compressed(Box::new(encoder))
        } else {
            Sink::Plain(file)
        };
        let mut buffer = Vec::with_capacity(PIECE + 4096);
        buffer.extend_from_slice(text::heading().as_bytes());
        buffer.push(b'\n');
        let names = Vec::new();
        let mut csv = Self { path, sink, names, buffer, numbers: itoa::Buffer::new() };
        csv.flush()?;
        Ok(csv)
    }

    fn write(&mut self) -> Result<(), ResultsError> {
        let written = match &mut self.sink {
            Sink::Plain(file) => file.write_all(&self.buffer),
            Sink::Compressed(encoder) => encoder.write_all(&self.buffer),
        };
        self.buffer.clear();
        written.map_err(ResultsError::write(&self.path))
    }
}

impl Rows for IoCsv {
    fn add_drive(&mut self, drive: &Drive) {
        self.names.push(quoted(&drive.name).into_bytes());
    }

    fn row(&mut self, record: &IoRecord) -> Result<(), ResultsError> {
        let Some(name) = self.names.get(usize::from(record.drive)) else {
            let drives = self.names.len();
            return Err(ResultsError::NoSuchDrive { index: record.drive, drives });
        };
        append(record, name, &mut self.numbers, &mut self.buffer);
        if self.buffer.len() >= PIECE {
            self.write()?;
        }
        Ok(())
    }

    /// Rows survive the end of this process where the file is a plain one. Small pieces would
    /// compress badly.
    fn flush(&mut self) -> Result<(), ResultsError> {
        match self.sink {
            Sink::Plain(_) => self.write(),
            Sink::Compressed(_) => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>, _: &Footer) -> Result<(), ResultsError> {
        self.write()?;
        match self.sink {
            Sink::Plain(_) => Ok(()),
            Sink::Compressed(encoder) => {
                encoder.finish().map(drop).map_err(ResultsError::write(&self.path))
            }
        }
    }
}

/// Appends the row of a record, whose drive's name is quoted already.
pub(super) fn append(
    record: &IoRecord,
    name: &[u8],
    numbers: &mut itoa::Buffer,
    out: &mut Vec<u8>,
) {
    for (index, (column, number)) in IoRecord::COLUMNS.iter().zip(record.numbers()).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match column.kind {
            Kind::Drive => out.extend_from_slice(name),
            Kind::Word(words) => out.extend_from_slice(words[number as usize].as_bytes()),
            // Writing to a vector does not fail.
            Kind::Code => drop(write!(out, "{number:#x}")),
            Kind::Long | Kind::Short | Kind::Flag => {
                out.extend_from_slice(numbers.format(number).as_bytes());
            }
        }
    }
    out.push(b'\n');
}

/// A field as RFC 4180, section 2, rules 5 to 7 want it.
pub(super) fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) || field.starts_with(' ') || field.ends_with(' ') {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
