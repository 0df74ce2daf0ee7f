//! Takes a run's events: output to the observer or to its file, I/Os to the results' writer,
//! results to their folder.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Context, Result};
use serde_json::{Map, Value};
use stasis_block::clock::Nanos;
use stasis_channel::LEFT_OUT;
use stasis_crash::{Frame, TraceWriter};
use stasis_nvme::KeptState;
use stasis_report::ResultsWriter;
use stasis_results::sink::Records;
use stasis_results::{ResultsFolder, OUTPUT_FILE};
use stasis_run_events::{EventSink, Outcome, RunEvent, Stage};

use crate::event::{Event, SharedObserver};
use crate::free_space;
use crate::live::LivePage;
use crate::run_error::RunError;

/// Length of the output that is kept beside the observer's (bytes).
const MAX_KEPT_OUTPUT: usize = 1 << 20;
/// Number of bytes of the kernel's console that are kept for a failure's message.
const LAST_WORDS: usize = 4096;

/// The outer end of a run's events.
pub struct Relay<'a> {
    writer: ResultsWriter,
    observer: &'a SharedObserver<'a>,
    /// File for the command's output: for all of it, in place of the observer, or for its begin.
    output: File,
    keeps_output: bool,
    /// Written length (bytes).
    kept_output: usize,
    console: Vec<u8>,
    /// Names of several machines, and the unfinished lines of each.
    machines: Vec<Speaker>,
    /// Index of the machine that the current entries come from.
    from: usize,
    results: Vec<Option<File>>,
    /// True if lines of output that are a history's are kept, and not shown.
    pub history: bool,
    /// The page of the run while it goes on.
    pub live: Option<Live>,
    /// Writer of the trace of requests to the drives.
    pub trace: Option<TraceWriter<BufWriter<File>>>,
    /// The kept state of the drives, as JSON.
    states: Vec<u8>,
    /// The outcome of the run, once it has ended.
    outcome: Option<Outcome>,
    /// Reason for the run's failure, if it failed.
    failed: Option<String>,
    /// The last stage that was reached.
    stage: Stage,
    /// Virtual time as last reported.
    virtual_ns: Nanos,
    /// Virtual time when the command began.
    started: Option<Nanos>,
    /// Time at which the run became another one's branch, after the commands had begun.
    changed_ns: Option<Nanos>,
    /// Wall-clock instant at which the command began.
    running: Option<Instant>,
    /// Wall-clock time of the command, by this machine's clock, once it has ended.
    command_wall: Option<Duration>,
}

/// Interval between two reports of the run so far.
const TOLD: Duration = Duration::from_millis(500);
/// Multiple of the time so far that is told as left, at most.
const MAX_LEFT: f64 = 1e6;

/// A page of the run while it goes on.
pub struct Live {
    /// The page.
    pub page: Arc<LivePage>,
    /// The engine's name.
    pub engine: String,
    /// Further fields of the summary.
    pub fields: Map<String, Value>,
    /// Beginning of the run.
    pub begun: Instant,
    /// Time of the last report.
    pub reported: Option<Instant>,
    /// Limit on the virtual time of the commands (ns).
    pub limit: Option<Nanos>,
    /// Beginning of the commands.
    pub commands: Option<Instant>,
}

/// The time until a run reaches its limit at its speed so far: of commands that have run for `ran` (ns of virtual
/// time) in `passed`. None where nothing has run, or nothing is left.
fn time_left(ran: Nanos, limit: Nanos, passed: Duration) -> Option<Duration> {
    let share = ran as f64 / limit.max(1) as f64;
    (share > 0.0 && share < 1.0).then(|| passed.mul_f64((1.0 / share - 1.0).min(MAX_LEFT)))
}

/// The facts known about a run at its end.
pub struct Ended {
    /// The writer that holds the I/Os.
    pub writer: ResultsWriter,
    /// The end of the run.
    pub outcome: Result<Outcome, RunError>,
    /// The last stage that was reached.
    pub stage: Stage,
    /// Virtual time of the command as last reported (ns).
    pub virtual_ns: Nanos,
    /// Time at which the run became another, after the commands had begun (ns), if it did.
    pub changed_ns: Option<Nanos>,
    /// The last lines of the kernel's console.
    pub words: String,
    /// Wall-clock time of the command, by this machine's clock.
    pub command_wall: Option<Duration>,
}

impl<'a> Relay<'a> {
    /// Writes into the results' folder; with `keeps_output` the command's output goes to a file
    /// there only, else its begin does too. `machines`: the names of several, none for one.
    pub fn new(
        mut writer: ResultsWriter,
        observer: &'a SharedObserver<'a>,
        keeps_output: bool,
        machines: Vec<String>,
    ) -> Result<Self> {
        let path = writer.folder().file(OUTPUT_FILE)?;
        let output = File::create(&path);
        let output = output.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            writer,
            observer,
            output,
            keeps_output,
            kept_output: 0,
            console: Vec::new(),
            results: (0..machines.len().max(1)).map(|_| None).collect(),
            machines: machines.into_iter().map(Speaker::new).collect(),
            from: 0,
            history: false,
            live: None,
            trace: None,
            states: Vec::new(),
            outcome: None,
            failed: None,
            stage: Stage::Preparing,
            virtual_ns: 0,
            started: None,
            changed_ns: None,
            running: None,
            command_wall: None,
        })
    }

    /// The observer of the run.
    pub fn observer(&self) -> &'a SharedObserver<'a> {
        self.observer
    }

    /// Returns whether the machine has begun, so that drives may have changed.
    pub fn has_begun(&self) -> bool {
        self.stage >= Stage::Booting
    }

    /// Takes the kept state of each of the machines' drives, of its controller and of its model;
    /// empty if the machine ended without a report of it.
    pub fn take_states(&mut self) -> Result<DriveStates> {
        let bytes = std::mem::take(&mut self.states);
        if bytes.is_empty() {
            return Ok(Default::default());
        }
        serde_json::from_slice(&bytes).context("the machine told no right states of its drives")
    }

    /// Ends the trace, unpacks the results, and returns the facts known about the run, which the
    /// machine's process ended with `result`.
    pub fn end(mut self, result: Result<(), RunError>) -> Result<Ended> {
        if let Some(trace) = self.trace.take() {
            trace.finish().context("cannot write the trace of the run")?;
        }
        self.observer.event(Event::Ended)?;
        let unpacked = self.unpack().context("cannot unpack the guest's /results");
        let outcome = match (self.outcome, self.failed, result) {
            (Some(outcome), _, _) => unpacked.map(|()| outcome).map_err(RunError::Failed),
            (None, Some(failed), _) => Err(RunError::Failed(anyhow!(failed))),
            (None, None, Err(error)) => Err(error),
            (None, None, Ok(())) => {
                Err(RunError::Failed(anyhow!("the machine ended without saying how")))
            }
        };
        Ok(Ended {
            writer: self.writer,
            outcome,
            stage: self.stage,
            virtual_ns: self.started.map_or(0, |started| self.virtual_ns - started),
            changed_ns: self.changed_ns,
            words: String::from_utf8_lossy(&self.console).trim_end().to_owned(),
            command_wall: self.command_wall,
        })
    }

    fn unpack(&mut self) -> io::Result<()> {
        for from in 0..self.machines.len() {
            self.from = from;
            for (rest, error) in self.machines[from].rest().into_iter().zip([false, true]) {
                self.record(Records::Output(from, self.virtual_ns, error, &rest))?;
                let marked = mark(&self.machines[from].name, &self.shown(rest));
                self.output(&marked, error)?;
            }
        }
        for (from, file) in self.results.iter_mut().enumerate() {
            let Some(mut file) = file.take() else { continue };
            file.rewind()?;
            let machine = self.machines.get(from).map(|machine| machine.name.as_str());
            free_space::check_results(self.writer.folder().path(), file.metadata()?.len())?;
            unpack(file, machine, self.writer.folder(), self.observer, self.keeps_output)?;
        }
        Ok(())
    }

    /// Writes an event to the trace if the trace records events of its kind.
    fn trace_event(&mut self, event: &RunEvent) -> io::Result<()> {
        let at = self.virtual_ns;
        let frame = match event {
            RunEvent::Output(bytes) => Frame::Output { at, bytes },
            RunEvent::Stage(Stage::Running) => Frame::Began { at },
            RunEvent::Stage(Stage::Collecting) => Frame::Over { at },
            _ => return Ok(()),
        };
        self.trace.as_mut().map_or(Ok(()), |trace| trace.frame(&frame))
    }

    /// Returns whole lines, each with its machine's name, if there are several machines; else all
    /// bytes.
    fn marked(&mut self, bytes: Vec<u8>, error: bool) -> io::Result<Vec<u8>> {
        let Some(machine) = self.machines.get_mut(self.from) else { return Ok(bytes) };
        let lines = machine.lines(&bytes, error);
        self.record(Records::Output(self.from, self.virtual_ns, error, &lines))?;
        let lines = self.shown(lines);
        Ok(mark(&self.machines[self.from].name, &lines))
    }

    /// The lines of a machine that are for its reader.
    fn shown(&self, lines: Vec<u8>) -> Vec<u8> {
        if !self.history {
            return lines;
        }
        let own = lines.split_inclusive(|byte| *byte == b'\n');
        own.filter(|line| !stasis_results::is_of_history(line)).flatten().copied().collect()
    }

    fn output(&mut self, bytes: &[u8], error: bool) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.keeps_output {
            return self.output.write_all(bytes);
        }
        let room = MAX_KEPT_OUTPUT - self.kept_output;
        let begin = &bytes[..bytes.len().min(room)];
        self.output.write_all(begin)?;
        self.kept_output += begin.len();
        self.observer.event(if error { Event::ErrorOutput(bytes) } else { Event::Output(bytes) })
    }

    /// Shows the run so far.
    fn show_live(&mut self, now: Nanos) -> io::Result<()> {
        let (Some(live), Some(begin)) = (&mut self.live, self.started) else { return Ok(()) };
        let commands = *live.commands.get_or_insert_with(Instant::now);
        if live.reported.is_none_or(|last| last.elapsed() >= TOLD) {
            live.reported = Some(Instant::now());
            self.observer.event(Event::SoFar(&self.writer.so_far(begin, now)))?;
        }
        if live.page.is_due() {
            let wall = live.begun.elapsed();
            let more = live.fields.clone();
            let remaining = live
                .limit
                .and_then(|limit| time_left(now.saturating_sub(begin), limit, commands.elapsed()));
            let page = self.writer.page_so_far(&live.engine, (begin, now), (wall, remaining), more);
            live.page.show(page);
        }
        Ok(())
    }

    fn record(&mut self, records: Records) -> io::Result<()> {
        self.writer.take(records).map_err(io::Error::other)
    }
}

/// Limits on a list of what is left out: names that are shown, and bytes of a guest's list.
const MAX_SHOWN: usize = 5;
const MAX_LIST: u64 = 64 << 10;

/// The first of some lines in one, without characters that control a terminal, and the number of the
/// rest; none of none.
pub(crate) fn few<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let first: Vec<&str> = lines.by_ref().take(MAX_SHOWN).collect();
    let more = match lines.count() {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    let text = first.join("; ").replace(char::is_control, "?");
    (!first.is_empty()).then(|| text + &more)
}

/// Copies the guest's `/results` into the folder, below `machine` where there are several. A name
/// that exists there already is reported and skipped, but for an output's begin; so is what the guest
/// has left out.
fn unpack(
    archive: File,
    machine: Option<&str>,
    folder: &mut ResultsFolder,
    observer: &SharedObserver<'_>,
    keeps_output: bool,
) -> io::Result<()> {
    let below = Path::new(machine.unwrap_or_default());
    if let Some(machine) = machine {
        std::fs::create_dir_all(folder.file(machine).map_err(io::Error::other)?)?;
    }
    let mut archive = tar::Archive::new(archive);
    archive.set_preserve_mtime(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path: PathBuf =
            entry.path()?.components().filter(|part| *part != Component::CurDir).collect();
        if entry.header().entry_type().as_byte() == LEFT_OUT {
            let mut list = Vec::new();
            entry.take(MAX_LIST).read_to_end(&mut list)?;
            if let Some(list) = few(String::from_utf8_lossy(&list).lines()) {
                let of_machine = machine.map_or(String::new(), |name| format!("{name}: "));
                observer.warning(&format!("{of_machine}the guest's {list}"))?;
            }
            continue;
        }
        if path.as_os_str().is_empty() {
            continue;
        }
        let name = below.join(path);
        let to = folder.path().join(&name);
        if entry.header().entry_type().is_dir() && to.is_dir() {
            continue;
        }
        match folder.file(&name.to_string_lossy()) {
            // A file of the guest's stands for the output's begin, which the user has seen.
            Ok(to)
                if std::fs::symlink_metadata(&to).is_err()
                    || (!keeps_output && name == Path::new(OUTPUT_FILE)) =>
            {
                entry.unpack_in(folder.path().join(below))?;
            }
            Ok(to) => {
                observer
                    .warning(&format!("the guest's /results: {} is the run's own", to.display()))?;
            }
            Err(error) => observer.warning(&format!("the guest's /results: {error}"))?,
        }
    }
    Ok(())
}

impl EventSink for Relay<'_> {
    fn event(&mut self, event: RunEvent) -> io::Result<()> {
        if matches!(
            event,
            RunEvent::Trace(_) | RunEvent::Ios(_) | RunEvent::Packets(_) | RunEvent::Spans(_)
        ) {
            free_space::check_results(self.writer.folder().path(), 0)?;
        }
        self.trace_event(&event)?;
        match event {
            RunEvent::Trace(bytes) => {
                if let Some(trace) = &mut self.trace {
                    trace.piece(&bytes)?;
                }
            }
            RunEvent::From(machine) => {
                self.from = usize::from(machine).min(self.results.len() - 1);
            }
            RunEvent::Output(bytes) => {
                let bytes = self.marked(bytes, false)?;
                self.output(&bytes, false)?;
            }
            RunEvent::ErrorOutput(bytes) => {
                let bytes = self.marked(bytes, true)?;
                self.output(&bytes, true)?;
            }
            RunEvent::Console(bytes) => {
                self.observer.event(Event::Console(&bytes))?;
                self.console.extend_from_slice(&bytes);
                let excess = self.console.len().saturating_sub(LAST_WORDS);
                self.console.drain(..excess);
            }
            RunEvent::Stage(stage) => {
                match stage {
                    Stage::Running => self.running = Some(Instant::now()),
                    Stage::Collecting => {
                        self.command_wall = self.running.map(|since| since.elapsed());
                    }
                    Stage::Preparing | Stage::Calibrating | Stage::Booting | Stage::Branching => {}
                }
                if matches!(stage, Stage::Running | Stage::Branching) {
                    self.writer.folder().begun();
                }
                self.stage = stage;
                self.observer.event(Event::Stage(stage))?;
            }
            RunEvent::Progress(now) => {
                self.virtual_ns = now;
                if self.stage == Stage::Running {
                    self.started.get_or_insert(now);
                }
                self.observer.event(Event::VirtualTime(now))?;
                self.show_live(now)?;
            }
            RunEvent::Changed(at) => self.changed_ns = Some(at),
            RunEvent::Ios(records) => self.record(Records::Ios(&records))?,
            RunEvent::Faults(faults) => self.record(Records::Faults(&faults))?,
            RunEvent::Packets(packets) => self.record(Records::Packets(&packets))?,
            RunEvent::Tracks(tracks) => self.record(Records::Tracks(&tracks))?,
            RunEvent::Spans(spans) => self.record(Records::Spans(&spans))?,
            RunEvent::SampleNames(names) => self.record(Records::Names(&names))?,
            RunEvent::Samples(samples) => self.record(Records::Samples(&samples))?,
            RunEvent::GuestIos(ios) => self.record(Records::GuestIos(&ios))?,
            RunEvent::Waits(waits) => self.record(Records::Waits(&waits))?,
            RunEvent::Results(bytes) => {
                let results = &mut self.results[self.from];
                if results.is_none() {
                    *results = Some(tempfile::tempfile()?);
                }
                if let Some(file) = results {
                    file.write_all(&bytes)?;
                }
            }
            RunEvent::DriveStates(bytes) => self.states.extend_from_slice(&bytes),
            RunEvent::Outcome(outcome) => self.outcome = Some(*outcome),
            RunEvent::Failed(message) => self.failed = Some(message),
        }
        Ok(())
    }
}

/// The kept states of drives' controllers, and of their models.
pub type DriveStates = (Vec<Option<KeptState>>, Vec<Option<String>>);

/// The longest line that is kept until its end comes (bytes).
const MAX_LINE: usize = 64 << 10;

/// One of several machines, whose lines are marked.
struct Speaker {
    name: String,
    /// Unfinished lines, of output and of errors.
    begun: [Vec<u8>; 2],
}

impl Speaker {
    fn new(name: String) -> Self {
        Self { name, begun: [Vec::new(), Vec::new()] }
    }

    /// Appends these bytes and returns the lines that are now complete.
    fn lines(&mut self, bytes: &[u8], error: bool) -> Vec<u8> {
        let begun = &mut self.begun[usize::from(error)];
        begun.extend_from_slice(bytes);
        let end = match begun.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if begun.len() > MAX_LINE => begun.len(),
            None => return Vec::new(),
        };
        let rest = begun.split_off(end);
        std::mem::replace(begun, rest)
    }

    /// Returns the unfinished lines at the end.
    fn rest(&mut self) -> [Vec<u8>; 2] {
        std::mem::take(&mut self.begun)
    }
}

fn mark(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut marked = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        marked.extend_from_slice(format!("[{name}] ").as_bytes());
        marked.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            marked.push(b'\n');
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{mark, Speaker};

    #[test]
    fn what_is_left_is_by_the_speed_so_far() {
        let after = |ran, limit| super::time_left(ran, limit, Duration::from_secs(4));
        assert_eq!(after(250, 1000), Some(Duration::from_secs(12)));
        assert_eq!((after(0, 1000), after(1000, 1000), after(7, 0)), (None, None, None));
        assert!(after(1, u64::MAX).unwrap() < Duration::from_secs(1 << 40));
    }

    #[test]
    fn a_list_is_short_and_controls_no_terminal() {
        let list = |count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!("/r/{at}\u{1b}[2J")).collect();
            super::few(all.iter().map(String::as_str))
        };
        assert_eq!(list(0), None);
        assert_eq!(list(2).unwrap(), "/r/0?[2J; /r/1?[2J");
        let long = list(1000).unwrap();
        assert!(long.ends_with("/r/4?[2J; and 995 more"), "{long}");
    }

    #[test]
    fn lines_are_marked_when_they_are_whole() {
        let mut web = Speaker::new("web".into());
        assert_eq!(web.lines(b"a", false), b"");
        assert_eq!(web.lines(b"E\n", true), b"E\n");
        let lines = web.lines(b"b\nc\n\nd", false);
        assert_eq!(mark(&web.name, &lines), b"[web] ab\n[web] c\n[web] \n");
        assert_eq!(web.rest(), [b"d".to_vec(), Vec::new()]);
        assert_eq!(mark(&web.name, b"d"), b"[web] d\n");
    }
}
