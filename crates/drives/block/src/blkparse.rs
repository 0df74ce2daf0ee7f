//! Block I/O as blkparse(1) writes it: one event a line.
//!
//! The form is that of blkparse(1), "OUTPUT DESCRIPTION AND FORMATTING":
//! `%D %2c %8s %5T.%9t %5p %2a %3d` and then `%S + %n [%C]`: device, CPU,
//! sequence, time, process, action, kind, sector, number of sectors. A flush
//! has no sectors.

use crate::clock::{Nanos, SECOND};

use crate::Operation;

/// The unit of sectors in traces (bytes), independent of the drive's own.
pub const SECTOR: u64 = 512;

/// An event of a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Device, as `major,minor`.
    pub device: &'a str,
    /// CPU it was seen on.
    pub cpu: &'a str,
    /// When, since the trace's start (ns).
    pub at: Nanos,
    /// Process that caused it; 0 where that is no number.
    pub process: u32,
    /// `Q` queued, `D` issued to the driver, `C` completed, `R` requeued.
    pub action: &'a str,
    /// Requested operation.
    pub operation: Operation,
    /// True if it had to be durable before it was acknowledged.
    pub fua: bool,
    /// First sector.
    pub sector: u64,
    /// Length in sectors; 0 for a flush.
    pub sectors: u64,
    /// True if it completed with an error.
    pub failed: bool,
}

/// Reads a line; `None` if it is no event of [`Event::action`]'s, or of no operation that drives
/// support.
///
/// # Errors
/// The fault of a line that begins as an event does.
pub fn parse(line: &str) -> Result<Option<Event<'_>>, &'static str> {
    let mut fields = line.split_ascii_whitespace();
    let Some(device) = fields.next().filter(|field| is_device(field)) else { return Ok(None) };
    let mut next = |problem| fields.next().ok_or(problem);
    let cpu = next("the CPU is missing")?;
    next("the sequence number is missing")?;
    let at = time(next("the time is missing")?).ok_or("the time is not seconds.nanoseconds")?;
    let process = next("the process is missing")?.parse().unwrap_or(0);
    let action = next("the action is missing")?;
    if !matches!(action, "Q" | "D" | "C" | "R") {
        return Ok(None);
    }
    let kind = next("the kind of request is missing")?;
    let first = [fields.next(), fields.next(), fields.next()];
    let last = fields.last().or(first[2]).or(first[1]).or(first[0]);
    let (sector, sectors) = match first {
        [Some(sector), Some("+"), Some(sectors)] => (
            sector.parse().map_err(|_| "the sector is no number")?,
            sectors.parse::<u32>().map_err(|_| "the number of sectors is no number")?,
        ),
        // A flush, as "[fio]" or "0 [0]".
        _ => (0, 0),
    };
    let Some((operation, fua)) = operation(kind, sectors) else { return Ok(None) };
    let failed = action == "C" && last.is_some_and(|status| status != "[0]");
    let sectors = u64::from(sectors);
    Ok(Some(Event { device, cpu, at, process, action, operation, fua, sector, sectors, failed }))
}

/// Returns whether a field is `major,minor`.
fn is_device(field: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    field.split_once(',').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// From `seconds.nanoseconds`, nine digits of them.
fn time(field: &str) -> Option<Nanos> {
    let (seconds, nanos) = field.split_once('.')?;
    if nanos.len() != 9 {
        return None;
    }
    seconds.parse::<u64>().ok()?.checked_mul(SECOND)?.checked_add(nanos.parse::<u32>().ok()?.into())
}

/// From the letters of `blk_fill_rwbs` in the kernel's `blktrace.c`: the
/// operation's (R, W, D, F, N), with F before it for a flush that precedes and
/// F after it for forced unit access.
fn operation(kind: &str, sectors: u32) -> Option<(Operation, bool)> {
    if sectors == 0 {
        return kind.starts_with('F').then_some((Operation::Flush, false));
    }
    let mut letters = kind.trim_start_matches('F').chars();
    let operation = match letters.next()? {
        'R' => Operation::Read,
        'W' => Operation::Write,
        'D' => Operation::Discard,
        _ => return None,
    };
    Some((operation, letters.next() == Some('F')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_are_read_by_field() {
        let line = "  8,0    3        1     0.000000123   697  D WFS 223490 + 8 [kjournald]";
        let event = parse(line).unwrap().unwrap();
        assert_eq!((event.device, event.cpu, event.at, event.action), ("8,0", "3", 123, "D"));
        assert_eq!((event.operation, event.fua), (Operation::Write, true));
        assert_eq!((event.sector, event.sectors, event.failed), (223_490, 8, false));
        let flush = parse("8,0 3 1 0.000000123 697 D FN [fio]").unwrap().unwrap();
        assert_eq!((flush.operation, flush.sectors), (Operation::Flush, 0));
        let failed = parse("8,0 3 1 1.000000000 697 C R 8 + 8 [5]").unwrap().unwrap();
        assert!(failed.failed && failed.at == SECOND);
        for other in ["CPU0 (8,0):", "8,0 3 1 0.000000001 1 P N [fio]", "", "8,0 3 1 0.0 x"] {
            assert!(!matches!(parse(other), Ok(Some(_))), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "(8,0 3 1 0.000000001 1 [QDCR] )?[ -~]{0,40}") {
            let _ = parse(&line);
        }
    }
}
