//! Messages: a line each, on the standard error, which journald reads.

use std::io::Write;

/// Something that happens to a drive because a user has asked for it.
pub fn say(drive: &str, message: &str) {
    warn(drive, message);
}

/// Something that a user may have to look at, about a drive.
pub fn warn(drive: &str, message: &str) {
    // Nobody reads it any more: nothing to be done.
    let _ = writeln!(std::io::stderr().lock(), "stasis serve: {drive}: {message}");
}
