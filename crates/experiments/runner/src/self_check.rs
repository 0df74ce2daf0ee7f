//! A check of this machine's KVM, whether runs under it have the promised precision: made by the
//! first run, with an answer that is kept.
//!
//! The check itself is in another crate (`stasis_precision::first_check`): a program hands it over
//! by [`provide`]. The answer is kept for a machine, its kernel and a build of the program.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use stasis_experiment::Engine;
use stasis_qemu_vm::probe::KvmState;

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// True if results can be trusted.
    pub usable: bool,
    /// The result in a sentence.
    pub text: String,
}

/// Runs the check, until the flag is set.
pub type Check = fn(&Arc<AtomicBool>) -> Result<Answer>;

static CHECK: OnceLock<Check> = OnceLock::new();

/// Has `check` run before the first experiment under KVM. A program that provides none uses KVM
/// unchecked. The first call counts.
pub fn provide(check: Check) {
    let _ = CHECK.set(check);
}

/// The check that was provided.
pub(crate) fn provided() -> Option<Check> {
    CHECK.get().copied()
}

/// The file of a kept answer, and the conditions under which the answer is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeper {
    file: PathBuf,
    depends: String,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    depends: String,
    answer: Answer,
}

impl Keeper {
    /// The keeper for this machine, kernel and program; `None` if there is no cache.
    pub fn here() -> Option<Self> {
        let system = rustix::system::uname();
        let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = ["model name", "stepping", "microcode"];
        let processor: Vec<&str> = (processor.lines().take_while(|line| !line.is_empty()))
            .filter(|line| named.iter().any(|name| line.starts_with(name)))
            .collect();
        let path = crate::program::own().ok();
        let program = path.as_deref().and_then(|path| fs::metadata(path).ok());
        let program = program.map(|file| (file.len(), file.mtime(), file.mtime_nsec(), file.ino()));
        let depends = format!(
            "{} {} {}; {}; {program:?}",
            word(system.nodename()),
            word(system.release()),
            word(system.version()),
            processor.join(", "),
        );
        // One program's answer does not take the place of another's.
        let path = path.as_deref().and_then(Path::file_name).unwrap_or_default();
        let name = format!("{}-{}", word(system.nodename()), path.to_string_lossy());
        let name = name.replace(['/', '.'], "-");
        let file = crate::software_host::cache()?.join("kvm-check").join(format!("{name}.json"));
        Some(Self { file, depends })
    }

    /// The answer that is kept, if it still holds.
    pub fn kept(&self) -> Option<Answer> {
        let kept: Kept = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        (kept.depends == self.depends).then_some(kept.answer)
    }

    /// Keeps `answer` for later runs.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self, answer: &Answer) -> Result<()> {
        let kept = Kept { depends: self.depends.clone(), answer: answer.clone() };
        let failed = || format!("cannot write {}", self.file.display());
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(failed)?;
        let new = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
        fs::write(new.path(), serde_json::to_vec_pretty(&kept)?).with_context(failed)?;
        new.persist(&self.file).with_context(failed)?;
        Ok(())
    }
}

/// Returns the engine for a run under `engine`, `auto` or `kvm`, with KVM in `state`, and a line
/// for the user. `check` runs where no answer is kept.
pub(crate) fn decide(
    engine: Engine,
    state: &KvmState,
    keeper: Option<&Keeper>,
    check: Option<&mut dyn FnMut() -> Result<Answer>>,
) -> (Engine, Option<String>) {
    if *state != KvmState::Usable {
        return (if engine == Engine::Auto { Engine::Exact } else { engine }, None);
    }
    let kept = keeper.and_then(Keeper::kept);
    let answer = match (kept, check) {
        (Some(answer), _) => answer,
        (None, None) => return (Engine::Kvm, None),
        (None, Some(check)) => match check() {
            Ok(answer) => {
                // An answer that cannot be kept is measured again by the next run.
                let _ = keeper.map(|keeper| keeper.keep(&answer));
                answer
            }
            Err(error) => {
                let why = crate::failure::told(&error);
                Answer { usable: false, text: format!("its first check could not run: {why}") }
            }
        },
    };
    let text = answer.text;
    match (answer.usable, engine) {
        (true, _) => (Engine::Kvm, None),
        (false, Engine::Auto) => (
            Engine::Exact,
            Some(format!(
                "this machine's KVM is not to be trusted, so --engine exact is taken: {text}"
            )),
        ),
        (false, _) => (
            Engine::Kvm,
            Some(format!("this machine's KVM is not to be trusted; --engine exact is: {text}")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(folder: &Path, depends: &str) -> Keeper {
        Keeper { file: folder.join("kvm-check/host.json"), depends: depends.into() }
    }

    fn answer(usable: bool) -> Answer {
        Answer { usable, text: "clocks went back 3 times".into() }
    }

    #[test]
    fn a_machine_that_fails_its_check_is_left_for_exact_and_not_checked_again() {
        let folder = tempfile::tempdir().unwrap();
        let here = keeper(folder.path(), "a machine, a kernel, a program");
        let mut checks = 0;
        let mut decide = |engine, keeper: &Keeper, usable| {
            let mut check = || {
                checks += 1;
                Ok(answer(usable))
            };
            let decided = super::decide(engine, &KvmState::Usable, Some(keeper), Some(&mut check));
            (decided.0, decided.1, checks)
        };
        for round in 0..2 {
            let (engine, line, checks) = decide(Engine::Auto, &here, false);
            assert_eq!((engine, checks), (Engine::Exact, 1), "round {round}");
            let line = line.unwrap();
            assert!(line.contains("clocks went back 3 times") && !line.contains('\n'), "{line}");
        }
        // A request for KVM is met, with the same line.
        let (engine, line, checks) = decide(Engine::Kvm, &here, false);
        assert_eq!((engine, line.is_some(), checks), (Engine::Kvm, true, 1));
        // Another kernel or program is another answer.
        let other = keeper(folder.path(), "a machine, another kernel, a program");
        let (engine, line, checks) = decide(Engine::Auto, &other, true);
        assert_eq!((engine, line, checks), (Engine::Kvm, None, 2));
        assert_eq!(decide(Engine::Auto, &other, false).0, Engine::Kvm, "kept");
        assert_eq!(here.kept(), None);
    }

    #[test]
    fn a_check_that_cannot_run_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let here = keeper(folder.path(), "x");
        let mut failing = || Err(anyhow::anyhow!("no memory"));
        let (engine, line) =
            decide(Engine::Auto, &KvmState::Usable, Some(&here), Some(&mut failing));
        assert_eq!(engine, Engine::Exact);
        assert!(line.unwrap().contains("could not run: no memory"));
        assert_eq!(here.kept(), None);
    }

    #[test]
    fn nothing_is_checked_without_kvm() {
        let mut check = || -> Result<Answer> { panic!("there is nothing to check") };
        let (engine, line) = decide(Engine::Auto, &KvmState::NoDevice, None, Some(&mut check));
        assert_eq!((engine, line), (Engine::Exact, None));
    }

    #[test]
    fn here_is_the_same_from_one_call_to_the_next() {
        assert_eq!(Keeper::here(), Keeper::here());
    }
}
