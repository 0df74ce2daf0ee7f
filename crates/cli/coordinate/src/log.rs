//! Lines for whoever looks after the program.

use std::io::Write;

/// A line for whoever looks after the program.
pub fn log(text: &str) {
    // Nobody reads it any more: nothing to be done.
    let _ = writeln!(std::io::stderr().lock(), "stasis coordinate: {text}");
}
