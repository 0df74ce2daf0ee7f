//! Rows of I/Os as text: the heading of `ios.csv`, and a row's fields.

use crate::io_columns::{Column, Kind, COLUMN_COUNT};
use crate::IoRecord;

/// The first line of `ios.csv`.
pub fn heading() -> String {
    IoRecord::COLUMNS.map(|column| column.name).join(",")
}

/// The places of the columns in the fields of a file's rows.
#[derive(Debug, Clone, Copy)]
pub struct Heading {
    /// `None` for a column that the file lacks and may lack.
    places: [Option<usize>; COLUMN_COUNT],
    /// The number of fields.
    count: usize,
}

/// A file whose heading is not that of rows of I/Os.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadingError {
    /// The drive's name does not come first.
    #[error("this is not the heading of an ios.csv")]
    Other,
    /// A column is missing.
    #[error("the column `{0}` is missing: the file is of an older version, run again")]
    Missing(&'static str),
}

/// A field that is no value of its column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The row ends before it.
    #[error("it has too few fields")]
    Missing,
    /// The text is not among the column's words.
    #[error("the {column} `{found}` is unknown")]
    Word {
        /// The column's name.
        column: &'static str,
        /// The field.
        found: String,
    },
    /// The text is no number.
    #[error("the field `{0}` is no number")]
    Number(&'static str),
    /// The number is beyond the column's range.
    #[error("`{0}` is too large")]
    TooLarge(&'static str),
}

impl Heading {
    /// The places by a file's first line.
    ///
    /// # Errors
    /// [`HeadingError`] if the line does not begin with the drive's name, or lacks a column that
    /// every version has had.
    pub fn new(line: &str) -> Result<Self, HeadingError> {
        if !line.starts_with("drive,") {
            return Err(HeadingError::Other);
        }
        let mut places = [None; COLUMN_COUNT];
        for (column, place) in IoRecord::COLUMNS.iter().zip(&mut places) {
            *place = line.split(',').position(|name| name == column.name);
            if place.is_none() && !column.recent {
                return Err(HeadingError::Missing(column.name));
            }
        }
        Ok(Self { places, count: line.split(',').count() })
    }

    /// The number of fields in a row.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The record of a row, whose fields are counted from 0. The drive's field is not read:
    /// the record's drive is `drive`.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that is no value of its column.
    pub fn read<'a>(
        &self,
        drive: u16,
        field: impl Fn(usize) -> Option<&'a str>,
    ) -> Result<IoRecord, FieldError> {
        let mut numbers = [0; COLUMN_COUNT];
        let columns = IoRecord::COLUMNS.iter().zip(self.places);
        for (number, (column, place)) in numbers.iter_mut().zip(columns) {
            *number = match (column.kind, place) {
                (Kind::Drive, _) => drive.into(),
                (_, None) => 0,
                (_, Some(place)) => value(column, field(place).ok_or(FieldError::Missing)?)?,
            };
        }
        IoRecord::from_numbers(&numbers).map_err(|column| FieldError::TooLarge(column.name))
    }
}

fn value(column: &Column, field: &str) -> Result<u64, FieldError> {
    let Column { name, kind, .. } = *column;
    let number = match kind {
        Kind::Word(words) => {
            let place = words.iter().position(|word| *word == field);
            let place = place.ok_or_else(|| FieldError::Word { column: name, found: field.into() });
            return Ok(place? as u64);
        }
        Kind::Code => {
            let digits = field.strip_prefix("0x").ok_or(FieldError::Number(name))?;
            u64::from_str_radix(digits, 16)
        }
        _ => field.parse(),
    };
    number.map_err(|_| FieldError::Number(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IoStatus;
    use stasis_block::{Command, Operation};

    const HEADING: &str = "drive,phase,operation,lba,bytes,queue,submit_ns,target_ns,delivered_ns,\
                           status,fua,stream,priority,source_lba,order,code,image_ns,\
                           limited_ns,scheduled_ns,fault_ns";

    fn read(heading: &str, row: &str) -> Result<IoRecord, FieldError> {
        let fields: Vec<_> = row.split(',').collect();
        Heading::new(heading).unwrap().read(3, |place| fields.get(place).copied())
    }

    #[test]
    fn the_columns_are_those_that_files_have_had() {
        assert_eq!(heading(), HEADING);
    }

    #[test]
    fn a_row_is_read_by_its_heading() {
        let command = Command { fua: true, stream: 2, ..Command::new(Operation::Write, 4096, 512) };
        let expected = IoRecord {
            drive: 3,
            boot: true,
            queue: 1,
            submit: 10,
            target: 20,
            delivered: 21,
            status: IoStatus::Error,
            order: 9,
            code: 0x281,
            image: 1,
            limited: 2,
            scheduled: 3,
            fault: 4,
            ..IoRecord::of(&command)
        };
        let row = "d,boot,write,8,512,1,10,20,21,error,1,2,0,0,9,0x281,1,2,3,4";
        assert_eq!(read(HEADING, row), Ok(expected));
        let older =
            HEADING.strip_suffix(",code,image_ns,limited_ns,scheduled_ns,fault_ns").unwrap();
        let row = row.strip_suffix(",0x281,1,2,3,4").unwrap();
        assert_eq!(
            read(older, row),
            Ok(IoRecord { code: 0, image: 0, limited: 0, scheduled: 0, fault: 0, ..expected })
        );
    }

    #[test]
    fn bad_fields_are_named() {
        let row = |from: &str, to: &str| {
            "d,boot,write,8,512,1,10,20,21,ok,1,2,0,0,9,0x0,0,0,0,0".replacen(from, to, 1)
        };
        let error = |from: &str, to: &str| read(HEADING, &row(from, to)).unwrap_err().to_string();
        assert_eq!(error("write", "writ"), "the operation `writ` is unknown");
        assert_eq!(error(",8,", ",x,"), "the field `lba` is no number");
        assert_eq!(error(",8,", &format!(",{},", u64::MAX)), "`lba` is too large");
        assert_eq!(error(",512,1", ",512,65536"), "`queue` is too large");
        assert_eq!(error("ok,1", "ok,2"), "`fua` is too large");
        assert_eq!(error("0x0", "0"), "the field `code` is no number");
        assert_eq!(error(",9,0x0,0,0,0,0", ""), "it has too few fields");
        assert_eq!(Heading::new("a,b").unwrap_err(), HeadingError::Other);
        assert_eq!(Heading::new("drive,phase").unwrap_err(), HeadingError::Missing("operation"));
    }
}
