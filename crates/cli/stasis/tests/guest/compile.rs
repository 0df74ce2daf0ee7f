//! Compiles the programs beside this file, for tests that give them to a guest.

use std::path::Path;
use std::process::Command;

/// Compiles `source` to `program`, so that it needs no libraries.
pub fn compile(source: &Path, program: &Path) {
    // The compiler beside the cargo that built this test.
    let status = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
        .args(["--edition=2021", "-O", "-C", "target-feature=+crt-static", "-C", "strip=symbols"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .args([source, Path::new("-o"), program])
        .status();
    assert!(status.unwrap().success());
}
