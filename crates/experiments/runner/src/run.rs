//! One experiment from its media to its results.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use serde_json::{Map, Value};
use stasis_block::units;
use stasis_crash::TraceWriter;
use stasis_experiment::{Engine, Experiment, Schedule};
use stasis_guest_image::Guest;
use stasis_report::ResultsWriter;
use stasis_results::{Ios, ResultsFolder, Summary, STDIN_FILE, TRACE_FILE};
use stasis_run_events::{Ending, Outcome, Stage};

use crate::attended::Attended;
use crate::branched::Branched;
use crate::changed::Changed;
use crate::container;
use crate::debugged::Debugged;
use crate::engine;
use crate::event::{Observer, SharedObserver};
use crate::input::{self, Input};
use crate::keep::Keep;
use crate::live::LivePage;
use crate::prepare::look_at_drives;
use crate::profiled::Profiled;
use crate::provenance::Provenance;
use crate::relay::{few, Live, Relay};
use crate::run_error::RunError;
use crate::run_setup::RunSetup;
use crate::snapshotted::Snapshotted;
use crate::trace::{check_followed, TraceOptions};
use crate::{free_space, guest, Event};
#[cfg(doc)]
use stasis_results::OUTPUT_FILE;

/// An experiment that is to be run.
pub struct Runner<'a> {
    experiment: &'a Experiment,
    base: &'a Path,
    stop: Arc<AtomicBool>,
    ios: Ios,
    keeps_output: bool,
    timeline: bool,
    trace: Option<&'a TraceOptions>,
    terminal: Option<&'a Attended>,
    debugged: Option<&'a Debugged>,
    branched: Option<&'a Branched>,
    changed: Option<&'a Changed<'a>>,
    profiled: Option<&'a Profiled>,
    snapshots: Option<Snapshotted>,
    live: Option<Arc<LivePage>>,
    checked: bool,
    is_one_of_many: bool,
    inputs: Vec<PathBuf>,
    given: Option<PathBuf>,
    repeated_by: Option<Vec<String>>,
    title: Option<String>,
}

/// A run that has ended, one way or another.
#[derive(Debug)]
pub struct Results {
    /// The measurements.
    pub summary: Summary,
    /// The results' folder.
    pub folder: PathBuf,
    /// The exit status for the run: the command's, or one that identifies why the command did not
    /// end, or that a threshold was not met.
    pub status: u8,
    /// A message for the user beside the command's output.
    pub message: Option<String>,
    /// True if the folder has them: a run that its user stopped before its command began leaves an
    /// earlier run's results as they were.
    pub are_written: bool,
    /// Wall-clock time of the command alone, by this machine's clock.
    pub command_wall: Option<Duration>,
}

impl<'a> Runner<'a> {
    /// A runner for an experiment that is finished ([`Experiment::finish`]). Relative paths start
    /// at the current folder, I/Os are kept as `ios.parquet`.
    pub fn new(experiment: &'a Experiment) -> Self {
        Self {
            experiment,
            base: Path::new("."),
            stop: Arc::default(),
            ios: Ios::Parquet,
            keeps_output: false,
            timeline: false,
            trace: None,
            terminal: None,
            debugged: None,
            branched: None,
            changed: None,
            profiled: None,
            snapshots: None,
            live: None,
            checked: true,
            is_one_of_many: false,
            inputs: Vec::new(),
            given: None,
            repeated_by: None,
            title: None,
        }
    }

    /// Names files that the run rests on beside those of the experiment, such as the experiment's
    /// own: its results have their hashes.
    pub fn reading(self, inputs: Vec<PathBuf>) -> Self {
        Self { inputs, ..self }
    }

    /// Names the experiment's standard input where it is no file of the user's, but what a program
    /// was given: the results keep it as [`STDIN_FILE`], for a repetition.
    pub fn given(self, stdin: Option<PathBuf>) -> Self {
        Self { given: stdin, ..self }
    }

    /// Sets the words that repeat this run alone, where it is one of several of a command; by default
    /// this program's own.
    pub fn repeated_by(self, words: Vec<String>) -> Self {
        Self { repeated_by: Some(words), ..self }
    }

    /// Sets the title of the page, which is the command by default.
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Skips KVM's check ([`crate::self_check`]), for a run that is itself part of that check.
    pub fn unchecked(self) -> Self {
        Self { checked: false, ..self }
    }

    /// The run is one of many whose machines differ from each other: where a first boot serves all of them,
    /// no machine is kept for this one alone.
    pub fn one_of_many(self) -> Self {
        Self { is_one_of_many: true, ..self }
    }

    /// Sets the folder at which the experiment's relative paths start.
    pub fn base(self, base: &'a Path) -> Self {
        Self { base, ..self }
    }

    /// Sets a flag that ends the run once it is raised; results up to then are kept.
    pub fn stop(self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..self }
    }

    /// Sets the format in which I/Os are kept.
    pub fn ios(self, ios: Ios) -> Self {
        Self { ios, ..self }
    }

    /// Writes a timeline to [`stasis_results::TIMELINE_FILE`]: the activity of processors, flash
    /// drives and the schedulers of shared drives.
    pub fn timeline(self, timeline: bool) -> Self {
        Self { timeline, ..self }
    }

    /// Writes the command's output to [`OUTPUT_FILE`] in place of the observer.
    pub fn keep_output(self) -> Self {
        Self { keeps_output: true, ..self }
    }

    /// Traces the requests to the drives, which then work on copies of their media.
    pub fn trace(self, trace: &'a TraceOptions) -> Self {
        Self { trace: Some(trace), ..self }
    }

    /// The command runs on this terminal, and virtual time is no faster than the wall clock
    /// while it only waits for a person.
    pub fn terminal(self, terminal: &'a Attended) -> Self {
        Self { terminal: Some(terminal), ..self }
    }

    /// The run's processors are sampled.
    pub fn profiled(self, profiled: Option<&'a Profiled>) -> Self {
        Self { profiled, ..self }
    }

    /// The run takes snapshots, or begins at one.
    pub fn snapshots(self, snapshots: Option<Snapshotted>) -> Self {
        Self { snapshots, ..self }
    }

    /// The run is shown on a page while it goes on, which is its report at the end.
    pub fn live(self, live: Option<Arc<LivePage>>) -> Self {
        Self { live, ..self }
    }

    /// A debugger takes hold of the run.
    pub fn debugged(self, debugged: &'a Debugged) -> Self {
        Self { debugged: Some(debugged), ..self }
    }

    /// The run is another one's branch: that run up to a moment, and this experiment from there on.
    pub fn changed(self, changed: Option<&'a Changed<'a>>) -> Self {
        Self { changed, ..self }
    }

    /// The run becomes another at a moment: the branch's command runs from there on, and the run
    /// ends with it. [`stasis_run_events::Stage::Branching`] is reported as it begins.
    pub fn branched(self, branched: &'a Branched) -> Self {
        Self { branched: Some(branched), ..self }
    }

    /// Runs the experiment to its end.
    ///
    /// # Errors
    /// If the run cannot begin or fails on its way. A command's failure is no error: see
    /// [`Results`].
    pub fn run(self, observer: &mut dyn Observer) -> Result<Results> {
        let folder = self.experiment.results.clone().unwrap_or_else(|| PathBuf::from("results"));
        let results = self.run_in(&folder, observer);
        if let (Err(_), Some(note)) = (&results, stasis_results::earlier_results(&folder)) {
            observer.event(Event::Warning(&note))?;
        }
        results
    }

    fn run_in(&self, folder: &Path, observer: &mut dyn Observer) -> Result<Results> {
        let begun = Instant::now();
        let observer = SharedObserver::new(observer);
        let numbered = self.changed.map(|changed| self.numbered(changed)).transpose()?;
        let experiment = numbered.as_ref().unwrap_or(self.experiment);
        // Before a guest is built for nothing.
        ResultsFolder::check(folder, &input::paths(experiment, self.base))?;
        free_space::check_results(folder, 0)?;
        let input = Input::pack(experiment, self.base)?;
        if let Some(changed) = self.changed {
            ensure!(
                Input::pack(changed.run, changed.base)? == input,
                "a branch cannot change guest.files: what they hold is another thing than in the run"
            );
        }
        if let Some(list) = few(input.left_out.iter().map(String::as_str)) {
            observer.warning(&format!("files: the guest does not get {list}"))?;
        }
        experiment.notes.iter().try_for_each(|note| observer.warning(note))?;
        look_at_drives(experiment, self.base, self.snapshots.is_some())?;
        let engine = match (self.checked, experiment.engine) {
            (false, Engine::Kvm) => {
                engine::usable(Engine::Kvm)?;
                Engine::Kvm
            }
            (_, engine) => {
                let (engine, line) = engine::choose_checked(engine, &self.stop)?;
                line.map_or(Ok(()), |line| observer.warning(&line))?;
                engine
            }
        };
        let guest = self.guest(&observer)?;
        // A guest's building, which happens once, is no part of the limit.
        let limit = experiment.wall_limit.map(Duration::from_nanos);
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut provenance = Provenance::begin(engine != Engine::Kvm);
        if let Some(words) = &self.repeated_by {
            provenance = provenance.repeated_by(words.clone());
        }
        let mut inputs = self.inputs.clone();
        inputs.extend(input::paths(experiment, self.base));
        inputs.retain(|path| Some(path) != self.given.as_ref());
        let mut provenance = provenance.reading(&inputs);
        let mut claimed = self.claim(folder)?;
        if let Some(given) = &self.given {
            let kept = claimed.file(STDIN_FILE)?;
            std::fs::copy(given, &kept)
                .with_context(|| format!("cannot write {}", kept.display()))?;
            provenance = provenance.given(&kept);
        }
        let setup = RunSetup {
            experiment,
            base: self.base,
            guest: &guest,
            input: &input,
            engine,
            terminal: self.terminal,
            debugged: self.debugged,
            branched: self.branched,
            changed: self.changed,
            profiled: self.profiled,
            snapshots: self.snapshots.as_ref(),
            trace: self.trace,
            timeline: self.timeline,
            is_one_of_many: self.is_one_of_many,
            observer: &observer,
        };
        let mut prepared = setup.prepare()?;
        let (keeps, randomizes) = (prepared.take_keeps(), prepared.randomizes());
        let mut writer = ResultsWriter::within(claimed, prepared.drives(), self.ios)?;
        let quantum = experiment.machine.all().iter().map(|machine| match machine.schedule {
            Schedule::InTurn => machine.quantum,
            Schedule::Random => stasis_machine::MAX_WINDOW,
        });
        writer.of_guest(quantum.max().unwrap_or_default());
        writer.expect(experiment.thresholds().map_err(anyhow::Error::msg)?);
        if self.timeline {
            writer.keep_timeline()?;
        }
        if let Some(profiled) = self.profiled {
            let processors = prepared.processors();
            if let Some(interval) = profiled.interval {
                writer.keep_profile(profiled.symbols.clone(), interval, &processors)?;
            }
            if profiled.places.is_some() {
                writer.keep_guest_ios(profiled.symbols.clone())?;
            }
        }
        if !experiment.machine.several().is_empty() {
            writer.of_machines(prepared.machines(), prepared.owners())?;
            if experiment.history {
                writer.keep_history()?;
            }
        }
        for network in &experiment.networks {
            let name = network.name.as_deref().unwrap_or_default();
            let ports: Vec<String> = network.ports().into_iter().map(str::to_owned).collect();
            writer.add_network(name, &ports, network.capture != Some(0))?;
        }
        if !experiment.faults.is_empty() {
            writer.keep_faults(experiment.planned_faults())?;
        }
        let paths = prepared.paths();
        let files = prepared.model_files();
        let mut relay = Relay::new(writer, &observer, self.keeps_output, prepared.machines())?;
        relay.history = experiment.history;
        relay.live = self.live.as_ref().map(|page| Live {
            page: Arc::clone(page),
            engine: engine.name().to_owned(),
            fields: Map::from_iter([("command".to_owned(), experiment.command.clone().into())]),
            begun,
            reported: None,
            limit: experiment.virtual_limit,
            commands: None,
        });
        if let Some(trace) = self.trace {
            let path = trace.file();
            let begun = File::create(&path)
                .and_then(|file| TraceWriter::new(BufWriter::new(file), &prepared.trace_header()));
            relay.trace = Some(begun.with_context(|| format!("cannot write {}", path.display()))?);
        }
        for keep in keeps.iter().flatten() {
            keep.begin()?;
        }
        let result = prepared.run(&mut relay, &self.stop, deadline);
        let kept = keep(&keeps, &files, &mut relay, self.trace.is_some());
        let ended = relay.end(result)?;
        let mut outcome = match ended.outcome {
            Ok(outcome) => outcome,
            // Stopped or out of time before the machine existed, or no answer: results up to then
            // are kept.
            Err(RunError::Ended(ending)) => {
                engine::unfinished(ending, ended.virtual_ns, begun.elapsed())
            }
            Err(RunError::Failed(error)) => {
                // The results up to here can be read; a writer that fails as well adds nothing to why.
                let _ = ended.writer.abandon();
                return Err(error);
            }
        };
        let are_written = ended.writer.leaves_results();
        let mut message = describe(&outcome, experiment, ended.stage, &ended.words);
        if !are_written {
            let folder = folder.display();
            message = message.map(|it| format!("{it}; {folder} has the results of the run before"));
        }
        for (error, path) in outcome.medium_errors.iter_mut().zip(&paths) {
            // The most frequent reason, which is not reported by a software host.
            if let (Some(error), Some(full)) = (error, path.as_deref().and_then(free_space::full)) {
                *error = format!("{error}; {full}");
            }
        }
        let mut extra = self.extra(&guest, provenance)?;
        extra.insert("address_randomization".into(), randomizes.into());
        if outcome.restarts.iter().any(|restarts| restarts.kept + restarts.whole > 0) {
            extra.insert("restarts".into(), serde_json::to_value(&outcome.restarts)?);
        }
        if let Some(changed) = self.changed {
            extra.insert("branch".into(), changed.described(self.experiment, ended.changed_ns)?);
        }
        let summary = ended.writer.finish(&outcome, engine.name(), begun.elapsed(), extra)?;
        kept?;
        if let Some(live) = self.live.as_ref().filter(|_| are_written) {
            let report = folder.join(stasis_results::REPORT_FILE);
            live.end(std::fs::read_to_string(&report)?);
        }
        let status = summary.status();
        let (folder, command_wall) = (folder.to_owned(), ended.command_wall);
        Ok(Results { summary, folder, status, message, are_written, command_wall })
    }

    /// The experiment of a branch, with the faults of the run that it is one of before its own.
    fn numbered(&self, changed: &Changed<'_>) -> Result<Experiment> {
        changed.differences(self.experiment)?;
        let mut experiment = self.experiment.clone();
        experiment.number_faults_after(changed.run)?;
        Ok(experiment)
    }

    fn guest(&self, observer: &SharedObserver<'_>) -> Result<Guest> {
        let mut observed = Ok(());
        let recipe = guest::recipe_of(self.experiment);
        let guest = guest::ensure(&recipe, &self.stop, &mut |step, fraction| {
            if let Err(error) = observer.step(step, fraction) {
                observed = Err(error);
            }
        })?;
        observed?;
        if guest.left_out > 0 {
            observer.warning(&format!(
                "the root leaves out {} files that you may not read",
                guest.left_out
            ))?;
        }
        observer.event(Event::Prepared)?;
        Ok(guest)
    }

    /// The command of the run: that of its only machine's image, where the experiment has none.
    fn command(&self, guest: &Guest) -> Vec<String> {
        let experiment = self.experiment;
        let is_given = !experiment.command.is_empty() || !experiment.machine.several().is_empty();
        match container::image(experiment, &experiment.machine, guest) {
            Ok(Some((_, image))) if !is_given => {
                let container = &experiment.machine.container;
                container::command(container, &image.config, Vec::new()).unwrap_or_default()
            }
            _ => experiment.command.clone(),
        }
    }

    /// The results' folder, with the files that a traced run writes.
    fn claim(&self, folder: &Path) -> Result<ResultsFolder> {
        let mut claimed = ResultsFolder::claim(folder, &input::paths(self.experiment, self.base))?;
        if self.trace.is_some() {
            claimed.file(TRACE_FILE)?;
            for index in 0..self.experiment.drives.len() {
                claimed.file(&TraceOptions::before(index))?;
            }
        }
        Ok(claimed)
    }

    /// Fields of `summary.json` that describe the command, machine and guest of the run.
    fn extra(&self, guest: &Guest, provenance: Provenance) -> Result<Map<String, Value>> {
        let experiment = self.experiment;
        let mut extra = provenance.fields();
        extra.insert("command".into(), self.command(guest).into());
        if let Some(title) = &self.title {
            extra.insert("title".into(), title.clone().into());
        }
        // Its results are elsewhere each time.
        let described = Experiment { results: None, ..experiment.clone() };
        extra.insert("experiment".into(), serde_json::to_value(described)?);
        extra.insert("seed".into(), experiment.seed.into());
        if experiment.machine.several().is_empty() {
            extra.insert("vcpus".into(), experiment.machine.vcpus.into());
            extra.insert("memory".into(), experiment.machine.memory.into());
        }
        extra.insert("kernel".into(), Value::String(guest.kernel_release.clone()));
        extra.insert("guest_date".into(), guest.date.into());
        extra.insert("guest".into(), guest.digest.clone().into());
        extra.insert("guest_recipe".into(), serde_json::to_value(&guest.recipe)?);
        Ok(extra)
    }
}

/// Writes the kept state of the drives. If the machine ended without a report of it, the files stay
/// marked as in use.
fn keep(
    keeps: &[Option<Keep>],
    files: &[Option<PathBuf>],
    relay: &mut Relay<'_>,
    traced: bool,
) -> Result<()> {
    if !relay.has_begun() {
        return keeps.iter().flatten().try_for_each(Keep::revert);
    }
    let (states, models) = relay.take_states()?;
    if traced {
        states.iter().flatten().try_for_each(check_followed)?;
    }
    // A traced run leaves them alone.
    for (file, state) in files.iter().zip(models).filter(|_| !traced) {
        if let (Some(file), Some(state)) = (file, state) {
            keep_model(file, &state)?;
        }
    }
    for (keep, state) in keeps.iter().zip(states) {
        if let (Some(keep), Some(state)) = (keep, state) {
            keep.end(state)?;
        }
    }
    Ok(())
}

/// Writes the state of a drive's model, as a whole or not at all.
///
/// # Errors
/// Names the file.
pub fn keep_model(file: &Path, state: &str) -> Result<()> {
    let new = file.with_extension("new");
    let written = std::fs::write(&new, state).and_then(|()| std::fs::rename(&new, file));
    if written.is_err() {
        // Half of it, on a full disk.
        let _ = std::fs::remove_file(&new);
    }
    written.with_context(|| format!("cannot keep the state of the drive in {}", file.display()))
}

/// End of the agent's message about a command that is in no folder of `PATH`.
const NOT_FOUND: &str = "command not found in the guest";

/// Message for the user about an end that was not a regular exit of the command.
fn describe(
    outcome: &Outcome,
    experiment: &Experiment,
    stage: Stage,
    words: &str,
) -> Option<String> {
    let before = match stage {
        Stage::Preparing | Stage::Calibrating | Stage::Booting => " before the command began",
        _ => "",
    };
    let limit = |limit: Option<u64>| units::format_duration(limit.unwrap_or(0));
    let console = |text: &str| {
        if words.is_empty() {
            format!("{text}; --console shows what its kernel says")
        } else {
            format!("{text}. Its kernel's last words:\n{words}")
        }
    };
    Some(match &outcome.ending {
        // 128 + SIGKILL, which only the kernel sends without a request.
        Ending::Exited(137) => format!(
            "the command was killed (status 137), as a guest without free memory does it: it has {}; \
             --memory 2GiB, say, gives it more",
            units::format_size(experiment.machine.memory)
        ),
        Ending::Exited(_) => return None,
        Ending::NotStarted { status: 127, message } if message.ends_with(NOT_FOUND) => {
            match experiment.guest.root.as_ref().or(experiment.guest.image.as_ref()) {
                Some(root) => format!("{message}; its root is {root}: install the command there"),
                None => format!("{message}; `--packages` adds Debian packages to it"),
            }
        }
        Ending::NotStarted { message, .. } => message.clone(),
        Ending::Panicked => console("the guest's kernel panicked or reset the machine"),
        Ending::Hung => {
            console("the guest hangs: every processor is idle and nothing can wake one")
        }
        Ending::VirtualLimit => {
            format!("the limit of {} of virtual time was reached", limit(experiment.virtual_limit))
        }
        Ending::WallLimit => {
            format!(
                "the limit of {} of wall-clock time was reached{before}",
                limit(experiment.wall_limit)
            )
        }
        Ending::Cancelled if before.is_empty() => "stopped; the results so far are kept".into(),
        Ending::Cancelled => format!("stopped{before}"),
    })
}
