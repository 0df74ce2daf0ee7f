//! A file that may be anything, taken for an image: it is refused, or it works.

use std::path::Path;
use std::time::Duration;

use stasis_block::{Command, Operation};
use stasis_drive::{Drive, Layer};
use stasis_media::{Execution, OpenOptions};
use stasis_qcow2::{Settings, ZeroLatency};

/// The magic number and version 3 (docs/interop/qcow2.txt of QEMU).
const START: &[u8; 8] = b"QFI\xfb\0\0\0\x03";

/// A file of these bytes behind the format's magic number and version; bytes that begin with the
/// magic number are taken to have both.
#[allow(dead_code, reason = "not every test that has this file uses it")]
pub fn as_image(bytes: &[u8]) -> Vec<u8> {
    let rest = bytes.strip_prefix(&START[..4]).map_or(bytes, |rest| rest.get(4..).unwrap_or(&[]));
    [START, rest].concat()
}

/// Looks at it, and where it can be opened, writes, reads, discards and flushes.
/// `true` if it could be opened.
pub fn exercise(path: &Path) -> bool {
    let _ = stasis_qcow2::check(path);
    let base = Path::new("");
    let options = OpenOptions { execution: Execution::Synchronous, delay: Duration::ZERO, base };
    let Ok((opening, medium)) = stasis_qcow2::open_files(path, true, &options) else {
        return false;
    };
    let drive = Drive::new(0, "d".into(), Box::new(ZeroLatency::default()), medium);
    let Ok(mut image) = opening.open(Box::new(drive), Settings::default()) else { return false };
    let size = image.properties().capacity.min(1 << 20);
    let half = size / 2 / 512 * 512;
    for (operation, offset, length) in [
        (Operation::Write, 0, size.min(1024)),
        (Operation::Read, 0, size),
        (Operation::Discard, 1024, size.saturating_sub(1024)),
        (Operation::Write, half, half.min(4096)),
        (Operation::Flush, 0, 0),
    ] {
        let data = match operation {
            Operation::Write | Operation::Read => vec![1; length as usize],
            _ => vec![],
        };
        let _ = image.instant(Command::new(operation, offset, length), data);
    }
    let _ = image.map();
    true
}
