//! The last output of a guest and of QEMU, for messages.

use crate::process::{tail, Process};
use crate::Error;
use std::fs::{self, File};
use tempfile::TempDir;

/// The machine has ended by itself.
pub(crate) fn ended(mut process: Process, folder: &TempDir) -> Error {
    Error::Ended { output: last_output(&mut process, folder) }
}

/// The end of the console, and of QEMU's own complaints.
pub(crate) fn last_output(process: &mut Process, folder: &TempDir) -> String {
    // Its descriptors are closed, so its end is near.
    let _ = process.wait();
    let log = File::open(folder.path().join("log"));
    let log = log.and_then(|mut log| tail(&mut log)).unwrap_or_default();
    let console = console(folder);
    [console, log].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The last lines of the console. A panic's reason stands above what follows it.
pub(crate) fn console(folder: &TempDir) -> String {
    let path = folder.path().join("console");
    let end = File::open(&path).and_then(|mut console| tail(&mut console)).unwrap_or_default();
    let whole = fs::read(&path).unwrap_or_default();
    let whole = String::from_utf8_lossy(&whole);
    match whole.lines().rev().find(|line| line.contains("Kernel panic")) {
        Some(reason) if !end.contains(reason) => format!("{reason}\n{end}"),
        _ => end,
    }
}
