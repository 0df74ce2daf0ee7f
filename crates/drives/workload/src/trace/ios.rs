//! The `ios.csv` of a run.

use stasis_run_events::text::{FieldError, Heading};

use super::{Parsed, Reason, Record};

/// Limit on the columns of a file.
const COLUMNS: usize = 32;

/// The columns of a file by its first line.
///
/// # Errors
/// If the line is not the heading of rows of I/Os.
pub(crate) fn columns(header: &str) -> Result<Heading, String> {
    let heading = Heading::new(header).map_err(|error| error.to_string())?;
    if heading.count() > COLUMNS {
        return Err("this is not the heading of an ios.csv".into());
    }
    Ok(heading)
}

/// Reads a row. Its fields are counted from the last: a drive's name, which is the first, may
/// hold commas.
pub(crate) fn parse<'a>(heading: &Heading, line: &'a str) -> Result<Parsed<'a>, String> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let mut fields = [""; COLUMNS];
    let mut rest = line;
    for field in fields[1..heading.count()].iter_mut().rev() {
        let (before, last) = rest.rsplit_once(',').ok_or(FieldError::Missing.to_string())?;
        (*field, rest) = (last, before);
    }
    let io = heading.read(0, |place| fields.get(place).copied()).map_err(|e| e.to_string())?;
    if io.refused() {
        // No drive was asked.
        return Ok(Parsed::Left(Reason::Refused));
    }
    let record = Record {
        at: io.submit,
        thread: io.queue,
        process: io.queue.into(),
        ended: Some(io.delivered),
        early: io.boot,
        order: io.order,
        command: io.command(),
        line: 0,
    };
    Ok(Parsed::Io { drive: rest, record })
}

/// Returns whether a line is the heading of such a file.
pub(crate) fn is_like(line: &str) -> bool {
    line.starts_with("drive,phase,operation,")
}
