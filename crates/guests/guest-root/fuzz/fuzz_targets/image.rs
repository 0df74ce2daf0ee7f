//! Fuzzes roots in disk images (ext4, partition tables, qcow2): the input is what some sectors of
//! an image hold. Run with `scripts/fuzz guest-root/image`.

#![no_main]

#[path = "../../tests/common/damaged.rs"]
mod damaged;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    damaged::exercise(|path| damaged::write_image(bytes, path));
});
