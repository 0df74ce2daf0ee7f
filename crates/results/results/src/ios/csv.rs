//! `ios.csv`: one row per I/O, written during the run; as it is, or compressed.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use stasis_run_events::{text, IoRecord, Kind, Outcome};
use zstd::stream::write::Encoder;

use crate::sink::{Entry, Footer, Records, Sink};
use crate::ResultsError;

/// Rows are handed to the system in pieces of about this size (bytes).
const PIECE: usize = 256 << 10;

/// zstd's level. On these rows 3 takes longer and is no smaller.
const LEVEL: i32 = 1;

/// Destination of rows.
enum Output {
    Plain(File),
    Compressed(Box<Encoder<'static, File>>),
}

/// The file, with a row's buffer that is reused.
pub struct IoCsv {
    path: PathBuf,
    output: Output,
    /// The drives' names, quoted.
    names: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    numbers: itoa::Buffer,
}

impl IoCsv {
    /// A file of no drives yet.
    pub fn create(path: PathBuf, compressed: bool) -> Result<Self, ResultsError> {
        let file = File::create(&path).map_err(ResultsError::write(&path))?;
        let output = if compressed {
            let encoder = Encoder::new(file, LEVEL).map_err(ResultsError::write(&path))?;
            Output::Compressed(Box::new(encoder))
        } else {
            Output::Plain(file)
        };
        let mut buffer = Vec::with_capacity(PIECE + 4096);
        buffer.extend_from_slice(text::heading().as_bytes());
        buffer.push(b'\n');
        let names = Vec::new();
        let mut csv = Self { path, output, names, buffer, numbers: itoa::Buffer::new() };
        csv.write()?;
        Ok(csv)
    }

    fn write(&mut self) -> Result<(), ResultsError> {
        let written = match &mut self.output {
            Output::Plain(file) => file.write_all(&self.buffer),
            Output::Compressed(encoder) => encoder.write_all(&self.buffer),
        };
        self.buffer.clear();
        written.map_err(ResultsError::write(&self.path))
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
}

impl Sink for IoCsv {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        match records {
            Records::Drive(drive) => self.names.push(quoted(&drive.name).into_bytes()),
            Records::Ios(records) => {
                let taken = records.iter().try_for_each(|record| self.row(record));
                // Rows survive the end of this process where the file is a plain one. Small pieces
                // would compress badly.
                if let Output::Plain(_) = self.output {
                    self.write()?;
                }
                return taken;
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &Footer, _: Option<&Outcome>) -> Result<Entry, ResultsError> {
        self.write()?;
        if let Output::Compressed(encoder) = &mut self.output {
            encoder.do_finish().map_err(ResultsError::write(&self.path))?;
        }
        Ok(None)
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
