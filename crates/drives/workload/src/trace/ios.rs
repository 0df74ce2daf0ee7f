//! The `ios.csv` of a run.

use stasis_block::{Command, Operation};

use super::{Parsed, Reason, Record};

/// The most columns that are looked at.
const COLUMNS: usize = 32;
/// Bytes of an LBA.
const BLOCK: u64 = 512;

/// Where the columns are, counted from the last: a drive's name, which is the
/// first, may hold commas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    count: usize,
    phase: usize,
    operation: usize,
    lba: usize,
    bytes: usize,
    queue: usize,
    submit: usize,
    fua: usize,
    stream: usize,
    priority: usize,
    source: usize,
    order: usize,
    status: usize,
}

impl Columns {
    /// From the first line.
    pub(crate) fn new(header: &str) -> Result<Self, String> {
        let count = header.split(',').count();
        if count > COLUMNS || !header.starts_with("drive,") {
            return Err("this is not the heading of an ios.csv".into());
        }
        let place = |name: &str| {
            header.rsplit(',').position(|column| column == name).ok_or(format!(
                "the column `{name}` is missing: the file is of an older version, run again"
            ))
        };
        Ok(Self {
            count,
            phase: place("phase")?,
            operation: place("operation")?,
            lba: place("lba")?,
            bytes: place("bytes")?,
            queue: place("queue")?,
            submit: place("submit_ns")?,
            fua: place("fua")?,
            stream: place("stream")?,
            priority: place("priority")?,
            source: place("source_lba")?,
            order: place("order")?,
            status: place("status")?,
        })
    }

    /// Reads a row.
    pub(crate) fn parse<'a>(&self, line: &'a str) -> Result<Parsed<'a>, String> {
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        let mut fields = [""; COLUMNS];
        let mut rest = line;
        for field in &mut fields[..self.count - 1] {
            let (before, last) = rest.rsplit_once(',').ok_or("it has too few fields")?;
            (*field, rest) = (last, before);
        }
        if fields[self.status] == "refused" {
            // No drive was asked.
            return Ok(Parsed::Left(Reason::Refused));
        }
        let number = |place: usize, name: &str| {
            fields[place].parse::<u64>().map_err(|_| format!("the field `{name}` is no number"))
        };
        let short = |place, name: &str| {
            u16::try_from(number(place, name)?).map_err(|_| format!("`{name}` is too large"))
        };
        let bytes = |place, name: &str| {
            number(place, name)?.checked_mul(BLOCK).ok_or(format!("`{name}` is too large"))
        };
        let name = fields[self.operation];
        let operation = Operation::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
            .ok_or_else(|| format!("the operation `{name}` is unknown"))?;
        let early = match fields[self.phase] {
            "boot" => true,
            "command" => false,
            phase => return Err(format!("the phase `{phase}` is neither boot nor command")),
        };
        let command = Command {
            operation,
            offset: bytes(self.lba, "lba")?,
            length: number(self.bytes, "bytes")?,
            fua: number(self.fua, "fua")? != 0,
            source: bytes(self.source, "source_lba")?,
            stream: short(self.stream, "stream")?,
            priority: short(self.priority, "priority")?,
        };
        let record = Record {
            at: number(self.submit, "submit_ns")?,
            thread: short(self.queue, "queue")?,
            early,
            order: number(self.order, "order")?,
            command,
            line: 0,
        };
        Ok(Parsed::Io { drive: rest, record })
    }
}

/// Whether a line is the heading of such a file.
pub(crate) fn is_like(line: &str) -> bool {
    line.starts_with("drive,phase,operation,")
}
