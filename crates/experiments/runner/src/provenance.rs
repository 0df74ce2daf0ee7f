//! Provenance of results: this program, this machine, the time, and the command line.

mod hashed;
mod utc;
pub mod words;

pub use hashed::is_unchanged;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::SystemTime;

use serde_json::{Map, Value};
use stasis_report::page::Section;
use stasis_report::Repeat;

/// The commit that this program was built from, if the build set it (the Makefile does).
fn commit() -> Option<&'static str> {
    // A Makefile exports nothing as an empty text.
    option_env!("STASIS_COMMIT").filter(|commit| !commit.is_empty())
}

/// This program's version, with its commit if that is known.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| match commit() {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// The time that `started_at` of `summary.json` names; none if it names none.
pub fn time_of(started_at: &str) -> Option<SystemTime> {
    utc::moment(started_at)
}

/// Facts about a run that are known at its start.
#[derive(Debug)]
pub struct Provenance {
    started: SystemTime,
    /// A thread reads QEMU's version, which takes a moment, so that the run need not wait.
    qemu: Option<JoinHandle<Option<String>>>,
    repeat: Repeat,
}

impl Provenance {
    /// For a run that begins now; `qemu`: whether the run uses QEMU.
    pub fn begin(qemu: bool) -> Self {
        let qemu = qemu.then(|| std::thread::spawn(stasis_qemu_vm::process::version_line));
        let repeat = Repeat {
            command: words::command_line(words::with_own_results(words::own())),
            inputs: Vec::new(),
        };
        Self { started: SystemTime::now(), qemu, repeat }
    }

    /// Sets the files and folders that the run reads. Each is hashed now.
    #[must_use]
    pub fn reading(mut self, inputs: &[PathBuf]) -> Self {
        self.repeat.inputs = hashed::hashed(inputs);
        self
    }

    /// Sets the words of the command line that repeats the run, where it is one of many.
    #[must_use]
    pub fn repeated_by(mut self, words: Vec<String>) -> Self {
        self.repeat.command = words::command_line(words::with_own_results(words));
        self
    }

    /// Adds `file`, which keeps the run's standard input.
    #[must_use]
    pub fn given(mut self, file: &Path) -> Self {
        let name = file.display().to_string();
        self.repeat.command = format!("{} < {}", self.repeat.command, words::command_line([name]));
        self.repeat.inputs.extend(hashed::hashed(&[file.to_owned()]));
        self
    }

    /// Returns the command that repeats the run, for a page.
    pub fn repeat(&self) -> Repeat {
        self.repeat.clone()
    }

    /// The fields of `summary.json`.
    pub fn fields(self) -> Map<String, Value> {
        let qemu = self.qemu.and_then(|thread| thread.join().ok().flatten());
        let kernel = rustix::system::uname();
        let (system, release) = (kernel.sysname().to_string_lossy(), kernel.release());
        let kernel = Some(format!("{system} {}", release.to_string_lossy()));
        let fields = [
            ("stasis_version", Some(env!("CARGO_PKG_VERSION").to_owned())),
            ("stasis_commit", commit().map(str::to_owned)),
            ("started_at", Some(utc::text(self.started))),
            ("qemu", qemu),
            ("host_kernel", kernel),
            ("command_line", Some(words::command_line(words::own()))),
        ];
        let known =
            fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
        known.chain(self.repeat.field()).collect()
    }

    /// The section of a page that is of no single run.
    pub fn section(self) -> Option<Section> {
        stasis_report::provenance(&self.fields())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_knows_its_date_and_kernel() {
        let fields = Provenance::begin(false).fields();
        let started_at = fields["started_at"].as_str().unwrap();
        assert!(started_at.ends_with('Z'));
        assert!(time_of(started_at).unwrap().elapsed().unwrap().as_secs() < 3600);
        assert!(fields["host_kernel"].as_str().unwrap().starts_with("Linux "));
        assert!(!fields.contains_key("qemu"));
    }
}
