//! Fuzzes images by files that hold whatever the input says, behind the format's
//! magic number and version. Run with `cargo +nightly fuzz run image` in
//! `crates/qcow2`; images that `qemu-img create` makes are a good corpus.

#![no_main]

#[path = "../../tests/common/damaged.rs"]
mod damaged;

use std::sync::OnceLock;

/// The magic number and version 3 (docs/interop/qcow2.txt of QEMU).
const START: &[u8; 8] = b"QFI\xfb\0\0\0\x03";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("image");
    // What has it already stays as it is.
    let rest = bytes.strip_prefix(&START[..4]).map_or(bytes, |rest| rest.get(4..).unwrap_or(&[]));
    std::fs::write(&path, [START, rest].concat()).expect("a file");
    damaged::exercise(&path);
});
