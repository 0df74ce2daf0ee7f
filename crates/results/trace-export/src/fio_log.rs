//! fio's completion latency log (fio's HOWTO, "Log File Formats"): a line for each I/O with
//! the time of its completion (ms), its latency (ns), its direction (0 read, 1 write, 2
//! trim), its length (bytes), its offset (bytes), and its priority.

use std::io::{self, Write};

use stasis_block::Operation;
use stasis_run_events::IoRecord;

use crate::Exported;

/// ns of a ms.
const MILLISECOND: u64 = 1_000_000;

/// Writes the log of one drive's I/Os. Times count from `begin` (ns), in whole ms as fio has
/// them.
///
/// # Errors
/// Errors of `out`, or of `ios`.
pub fn fio_log<E: Into<io::Error>>(
    ios: impl Iterator<Item = Result<IoRecord, E>>,
    begin: u64,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    let mut exported = Exported::default();
    for record in ios {
        let record = record.map_err(Into::into)?;
        let direction = match record.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Discard => 2,
            _ => {
                exported.left_out += 1;
                continue;
            }
        };
        let time = record.delivered.saturating_sub(begin) / MILLISECOND;
        let latency = record.delivered.saturating_sub(record.submit);
        let IoRecord { bytes, offset, priority, .. } = record;
        writeln!(out, "{time}, {latency}, {direction}, {bytes}, {offset}, {priority}")?;
        exported.ios += 1;
    }
    out.flush()?;
    Ok(exported)
}
