//! Fuzzes images by files with the input's bytes behind the format's magic number and version. Run
//! with `cargo +nightly fuzz run image` in `crates/drives/qcow2`; images that `qemu-img create`
//! makes are a good corpus.

#![no_main]

#[path = "../../tests/common/damaged.rs"]
mod damaged;

use std::sync::OnceLock;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("image");
    std::fs::write(&path, damaged::as_image(bytes)).expect("a file");
    damaged::exercise(&path);
});
