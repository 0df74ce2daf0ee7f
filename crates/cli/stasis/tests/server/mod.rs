//! Programs that a test starts, and that do not outlive it.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use stasis_qemu_vm::readiness::Readiness;

/// A process that is killed where its test ends.
pub struct Process(pub Child);

impl Process {
    /// Kills it; one that has ended is none the worse for it.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts `stasis serve` with its sockets in `folder`; returns once it serves. Its output is added
/// to `serve.log` there.
pub fn serve(folder: &Path, arguments: &[&str]) -> Process {
    let log = folder.join("serve.log");
    let ready = Readiness::new(folder).unwrap();
    // Another package's tests have the program beside theirs.
    let built = option_env!("CARGO_BIN_EXE_stasis").map(PathBuf::from);
    let built =
        built.unwrap_or_else(|| std::env::current_exe().unwrap().with_file_name("../stasis"));
    assert!(built.exists(), "`make build` makes {}", built.display());
    let mut command = Command::new(built);
    command.args(["serve", "--sockets", "."]).args(arguments).current_dir(folder);
    command.stderr(OpenOptions::new().create(true).append(true).open(&log).unwrap());
    let mut process = Process(ready.notified_by(&mut command).spawn().unwrap());
    let is_ready = ready.wait(Duration::from_secs(60), || process.0.try_wait().unwrap().is_some());
    assert!(is_ready, "the server does not get ready: {}", std::fs::read_to_string(&log).unwrap());
    process
}
