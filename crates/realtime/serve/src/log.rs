//! Messages: a line each, on the standard error, which journald reads.

use std::io::Write;

/// Something that a user may have to look at, about a drive.
pub fn warn(drive: &str, message: &str) {
    // Nobody reads it any more: nothing to be done.
    let _ = writeln!(std::io::stderr().lock(), "stasis serve: {drive}: {message}");
}
