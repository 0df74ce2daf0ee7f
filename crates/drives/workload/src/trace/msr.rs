//! The block traces of Microsoft Research Cambridge (Narayanan, Donnelly and
//! Rowstron, "Write off-loading", FAST 2008; SNIA IOTTA trace 388): lines of
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. Timestamps
//! are Windows file times, ticks of 100 ns; offsets and sizes are in bytes.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation};

use super::{Parsed, Reason, Record};

/// A tick of a Windows file time (ns).
const TICK: Nanos = 100;

/// Reads a line. `first` is the first line's timestamp, from which times count.
pub(crate) fn parse<'a>(line: &'a str, first: &mut Option<u64>) -> Result<Parsed<'a>, String> {
    if line.is_empty() || line.starts_with("Timestamp,") {
        return Ok(Parsed::Nothing);
    }
    let mut fields = line.split(',');
    let mut next = |name: &str| fields.next().ok_or(format!("the field {name} is missing"));
    let ticks = number(next("Timestamp")?, "Timestamp")?;
    let host = next("Hostname")?;
    let disk = next("DiskNumber")?;
    let kind = next("Type")?;
    let offset = number(next("Offset")?, "Offset")?;
    let size = number(next("Size")?, "Size")?;
    let operation = if kind.eq_ignore_ascii_case("read") {
        Operation::Read
    } else if kind.eq_ignore_ascii_case("write") {
        Operation::Write
    } else {
        return Err(format!("the type `{kind}` is neither Read nor Write"));
    };
    if size == 0 {
        return Ok(Parsed::Left(Reason::Empty));
    }
    let first = *first.get_or_insert(ticks);
    // Both stand in the line, one comma apart.
    let start = line.len() - line[line.find(',').map_or(0, |comma| comma + 1)..].len();
    let drive = &line[start..start + host.len() + 1 + disk.len()];
    let at = ticks.saturating_sub(first).saturating_mul(TICK);
    let record = Record {
        at,
        thread: 0,
        process: 0,
        ended: next("ResponseTime")
            .ok()
            .and_then(|field| field.trim().parse().ok())
            .map(|ticks: u64| at.saturating_add(ticks.saturating_mul(TICK))),
        early: false,
        order: 0,
        command: Command::new(operation, offset, size),
        line: 0,
    };
    Ok(Parsed::Io { drive, record })
}

fn number(field: &str, name: &str) -> Result<u64, String> {
    field.trim().parse().map_err(|_| format!("the field {name} is no number"))
}

/// Returns whether a line is of this format.
pub(crate) fn is_like(line: &str) -> bool {
    line.starts_with("Timestamp,Hostname,")
        || (line.split(',').count() == 7 && matches!(parse(line, &mut None), Ok(Parsed::Io { .. })))
}
