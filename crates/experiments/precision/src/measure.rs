//! Some experiments on the engine at hand, of which the right result is known, and by how much
//! it was missed.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use stasis_experiment::{DriveSpec, Engine, Experiment};
use stasis_layout::{u16_at, u64_at};
use stasis_results::Ios;
use stasis_run_events::Stage;
use stasis_runner::self_check::{Answer, Keeper};
use stasis_runner::{Event, Results, Runner};
use stasis_terminal::progress::Steps;

use crate::clock::Clocks;
use crate::delivered::{Precision, MODELS};
use crate::load::HostLoad;
use crate::measured::Measured;
use crate::verdict::Verdict;

/// Time limit of all checks together, without the making of a guest.
const BUDGET: Duration = Duration::from_secs(120);
/// Bytes of each; the reads go through them from the start.
const SIZE: u64 = 32 << 20;
const BLOCK: u64 = 4096;
/// Processors whose clocks are compared.
const PROCESSORS: u32 = 4;
/// Reads of each drive, and of the clocks.
struct Amounts {
    ios: u64,
    clock_reads: u64,
}

/// Runs the checks on `engine`, which is not `auto`.
pub fn measure(engine: Engine, stop: &Arc<AtomicBool>) -> Result<Measured> {
    let checks = Checks::new(engine, stop)?;
    let mut not_measured = Vec::new();
    let mut steps = Steps::new();
    let mut note = |check: &str, error: &anyhow::Error| {
        not_measured.push(format!("{check}: {}", stasis_runner::failure::told(error)));
    };
    let quiet = checks.precision("drives of known latency", &mut steps);
    let quiet = quiet.map_err(|error| note("drives of known latency", &error)).ok();
    let load = HostLoad::start();
    let loaded = checks.precision("the same on a busy host", &mut steps);
    let loaded = loaded.map_err(|error| note("drives on a busy host", &error)).ok();
    drop(load);
    let clocks = checks.clocks(&mut steps).map_err(|error| note("clocks", &error)).ok();
    steps.done();
    ensure!(!stop.load(Ordering::Relaxed), "stopped");
    let verdict = Verdict::of(quiet.as_ref(), loaded.as_ref(), clocks.as_ref());
    if let (Engine::Kvm, true, Some(keeper)) = (engine, not_measured.is_empty(), Keeper::here()) {
        keeper.keep(&answer(&verdict))?;
    }
    Ok(Measured {
        engine: engine.name(),
        seconds: checks.began.elapsed().as_secs_f64(),
        quiet,
        loaded,
        clocks,
        not_measured,
        verdict,
    })
}

/// The check of the first run under KVM on a machine, which takes some seconds: delivered times and
/// overshoot on the host as it is, and the clocks of several processors.
///
/// # Errors
/// If the check is stopped, or cannot run.
pub fn first_check(stop: &Arc<AtomicBool>) -> Result<Answer> {
    let mut checks = Checks::new(Engine::Kvm, stop)?;
    checks.amounts = Amounts { ios: 1_000, clock_reads: 400_000 };
    let mut steps = Steps::new();
    let quiet = checks.precision("the first check of this machine's KVM: drives", &mut steps)?;
    let clocks = checks.clocks(&mut steps)?;
    steps.done();
    ensure!(!stop.load(Ordering::Relaxed), "stopped");
    Ok(answer(&Verdict::of(Some(&quiet), None, Some(&clocks))))
}

/// The part of `verdict` that is kept for later runs.
fn answer(verdict: &Verdict) -> Answer {
    Answer { usable: verdict.is_usable(), text: verdict.text().to_owned() }
}

struct Checks<'a> {
    engine: Engine,
    stop: &'a Arc<AtomicBool>,
    folder: tempfile::TempDir,
    amounts: Amounts,
    began: Instant,
}

impl<'a> Checks<'a> {
    fn new(engine: Engine, stop: &'a Arc<AtomicBool>) -> Result<Self> {
        stasis_terminal::ensure_guest(&stasis_runner::guest::recipe(&Default::default()), stop)?;
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let amounts = match engine {
            // Real processors: p99.9 takes thousands.
            Engine::Kvm => Amounts { ios: 5_000, clock_reads: 4_000_000 },
            // Two runs are the same, so that more of the same shows nothing.
            Engine::Exact => Amounts { ios: 200, clock_reads: 200_000 },
            _ => Amounts { ios: 100, clock_reads: 20_000 },
        };
        Ok(Self { engine, stop, folder, amounts, began: Instant::now() })
    }

    fn experiment(&self, name: &str, command: String) -> Result<Experiment> {
        let remaining = BUDGET.saturating_sub(self.began.elapsed()).as_secs();
        ensure!(remaining > 0, "the {} s were over", BUDGET.as_secs());
        Ok(Experiment {
            engine: self.engine,
            command: vec!["sh".into(), "-c".into(), command],
            results: Some(self.folder.path().join(name)),
            wall_limit: Some(remaining * 1_000_000_000),
            ..Experiment::default()
        })
    }

    /// Runs `experiment`; returns its command's output, too.
    fn run(
        &self,
        mut experiment: Experiment,
        title: &str,
        steps: &mut Steps,
    ) -> Result<(Results, String)> {
        experiment.finish()?;
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut observer = |event: Event<'_>| -> io::Result<()> {
            match event {
                Event::Step { name: step, fraction } => {
                    steps.step(&format!("{title}: {step}"), fraction)
                }
                Event::Stage(Stage::Booting) => steps.step(&format!("{title}: booting"), None),
                Event::Stage(Stage::Running) => steps.step(title, None),
                Event::Output(bytes) => output.extend_from_slice(bytes),
                Event::ErrorOutput(bytes) => errors.extend_from_slice(bytes),
                _ => {}
            }
            Ok(())
        };
        let runner = Runner::new(&experiment)
            .base(Path::new("."))
            .stop(self.stop)
            .ios(Ios::None)
            .unchecked();
        let results = runner.run(&mut observer)?;
        if results.status != 0 {
            let stderr = String::from_utf8_lossy(&errors);
            let message = results.message.as_deref().unwrap_or_else(|| stderr.trim());
            bail!("status {}: {message}", results.status);
        }
        Ok((results, String::from_utf8_lossy(&output).into_owned()))
    }

    /// One guest that reads each of the drives, one after the other.
    fn precision(&self, title: &str, steps: &mut Steps) -> Result<Precision> {
        let ios = self.amounts.ios;
        let command = format!(
            "for drive in $(seq 0 {}); do
                dd if=/dev/nvme${{drive}}n1 of=/dev/null bs={BLOCK} count={ios} iflag=direct || exit
            done",
            MODELS.len() - 1
        );
        let mut experiment = self.experiment("drives", command)?;
        for (model, _) in MODELS {
            experiment.drives.push(DriveSpec::parse(&format!("model={model},medium=ram:{SIZE}"))?);
        }
        let (results, _) = self.run(experiment, title, steps)?;
        Precision::of(&results, ios)
    }

    /// The clock on several processors, while a drive is read.
    fn clocks(&self, steps: &mut Steps) -> Result<Clocks> {
        let command = format!(
            "while :; do dd if=/dev/nvme0n1 of=/dev/null bs={BLOCK} iflag=direct 2>/dev/null; done &
            /root/stasis guest-clock {PROCESSORS} {}; status=$?; kill $!; exit $status",
            self.amounts.clock_reads
        );
        let mut experiment = self.experiment("clocks", command)?;
        experiment.machine.vcpus = PROCESSORS;
        let program = self.folder.path().join("stasis");
        loadable_part(&stasis_runner::program::for_guests()?, &program)?;
        experiment.guest.files.push(format!("{}:stasis", program.display()));
        experiment.drives.push(DriveSpec::parse(&format!("model=fixed:50us,medium=ram:{SIZE}"))?);
        let (_, output) = self.run(experiment, "clocks of several processors", steps)?;
        serde_json::from_str(output.trim()).context("the guest did not say what its clocks do")
    }
}

/// Writes `to` what a kernel loads of the executable `from`, up to the end of its last segment: a
/// guest need not copy sections for debuggers.
fn loadable_part(from: &Path, to: &Path) -> Result<()> {
    let read = || format!("cannot read {}", from.display());
    let bytes = std::fs::read(from).with_context(read)?;
    let part = &bytes[..end_of_segments(&bytes).unwrap_or(bytes.len())];
    let write = || format!("cannot write {}", to.display());
    std::fs::write(to, part).with_context(write)?;
    std::fs::set_permissions(to, Permissions::from_mode(0o755)).with_context(write)
}

/// End of the last segment of an ELF-64 file (bytes; ELF-64 object file format, figures 2 and 6).
fn end_of_segments(elf: &[u8]) -> Option<usize> {
    let word = |at: usize| usize::try_from(u64_at(elf, at)?).ok();
    let half = |at: usize| u16_at(elf, at).map(usize::from);
    let (table, size, count) = (word(0x20)?, half(0x36)?, half(0x38)?);
    let ends = (0..count).map(|index| {
        let segment = table.checked_add(index * size)?;
        word(segment.checked_add(0x08)?)?.checked_add(word(segment.checked_add(0x20)?)?)
    });
    ends.collect::<Option<Vec<_>>>()?.into_iter().max().filter(|end| *end <= elf.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_still_runs_without_what_debuggers_read() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("part");
        let own = std::env::current_exe().unwrap();
        loadable_part(&own, &part).unwrap();
        let length = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(length(&part) < length(&own));
        let output = std::process::Command::new(&part).arg("--help").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn what_is_no_executable_has_no_segments() {
        assert_eq!(end_of_segments(b"#!/bin/sh"), None);
        assert_eq!(end_of_segments(&[0xff; 0x100]), None);
    }
}
