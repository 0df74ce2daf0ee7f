//! Takes a run's journal: output to the terminal, I/Os to the recorder,
//! results to their folder.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use stasis_crash::{Frame, RecordWriter};
use stasis_journal::{Entry, IoRecord, Journal, Outcome, Stage};
use stasis_report::{Recorder, ResultsFolder};

use super::progress::RunProgress;
use super::{Show, OUTPUT_FILE};

/// How many bytes of the kernel's console are kept for a failure's message.
const LAST_WORDS: usize = 4096;

/// The outer end of a journal.
pub struct Relay {
    recorder: Recorder,
    progress: RunProgress,
    show_console: bool,
    /// Where the command's output goes instead of the terminal.
    output: Option<File>,
    console: Vec<u8>,
    /// Names of several machines, and the rest of each one's lines.
    machines: Vec<Speaker>,
    /// Whose entries come now.
    from: usize,
    results: Vec<Option<File>>,
    /// Where what the drives are asked goes.
    pub record: Option<RecordWriter<BufWriter<File>>>,
    /// How the run ended, once it has.
    pub outcome: Option<Outcome>,
    /// Why it could not go on, if so.
    pub failed: Option<String>,
    /// The last stage that was reached.
    pub stage: Stage,
    /// Virtual time as last heard of (ns).
    pub virtual_ns: u64,
    /// Virtual time when the command began (ns).
    pub started: Option<u64>,
    /// Since when the command runs.
    running: Option<Instant>,
    /// Wall-clock time of the command, by this machine's clock, once it has ended.
    pub command_wall: Option<Duration>,
}

impl Relay {
    /// Writes into the recorder's folder. `machines`: the names of several, none for one.
    pub fn new(mut recorder: Recorder, show: Show, machines: Vec<String>) -> Result<Self> {
        let output = if show.output {
            None
        } else {
            let path = recorder.folder().file(OUTPUT_FILE)?;
            let file = File::create(&path);
            Some(file.with_context(|| format!("cannot write {}", path.display()))?)
        };
        Ok(Self {
            recorder,
            progress: RunProgress::new(),
            show_console: show.console,
            output,
            console: Vec::new(),
            results: (0..machines.len().max(1)).map(|_| None).collect(),
            machines: machines.into_iter().map(Speaker::new).collect(),
            from: 0,
            record: None,
            outcome: None,
            failed: None,
            stage: Stage::Preparing,
            virtual_ns: 0,
            started: None,
            running: None,
            command_wall: None,
        })
    }

    /// The last lines of the kernel's console.
    pub fn last_words(&self) -> String {
        String::from_utf8_lossy(&self.console).trim_end().to_owned()
    }

    /// Unpacks the results and gives the recorder back.
    pub fn finish(mut self) -> io::Result<(Recorder, Option<Outcome>)> {
        self.progress.clear();
        for from in 0..self.machines.len() {
            self.from = from;
            let (rest, errors) = self.machines[from].rest();
            self.say(&rest, false)?;
            self.say(&errors, true)?;
        }
        for (from, file) in self.results.iter_mut().enumerate() {
            let Some(mut file) = file.take() else { continue };
            file.rewind()?;
            let machine = self.machines.get(from).map(|machine| machine.name.as_str());
            unpack(file, machine, self.recorder.folder())?;
        }
        Ok((self.recorder, self.outcome))
    }

    /// What the record has of an entry that is not only for it.
    fn note(&mut self, entry: &Entry) -> io::Result<()> {
        let at = self.virtual_ns;
        let frame = match entry {
            Entry::Output(bytes) => Frame::Output { at, bytes },
            Entry::Stage(Stage::Running) => Frame::Began { at },
            Entry::Stage(Stage::Collecting) => Frame::Over { at },
            _ => return Ok(()),
        };
        self.record.as_mut().map_or(Ok(()), |record| record.frame(&frame))
    }

    /// Where there are several machines: the whole lines, each with its
    /// machine's name.
    fn marked(&mut self, bytes: Vec<u8>, error: bool) -> Vec<u8> {
        match self.machines.get_mut(self.from) {
            Some(machine) => machine.lines(&bytes, error),
            None => bytes,
        }
    }

    fn say(&mut self, bytes: &[u8], error: bool) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(file) = &mut self.output {
            return file.write_all(bytes);
        }
        self.progress.clear();
        heard(if error {
            io::stderr().lock().write_all(bytes)
        } else {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        })
    }

    fn ios(&mut self, records: &[IoRecord]) -> io::Result<()> {
        self.recorder.record(records).map_err(io::Error::other)
    }
}

/// Puts what a guest left in `/results` into the folder, below `machine` where there are
/// several. A name that the run or somebody else has there already is told and left out.
fn unpack(archive: File, machine: Option<&str>, folder: &mut ResultsFolder) -> io::Result<()> {
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
        if path.as_os_str().is_empty() {
            continue;
        }
        let name = below.join(path);
        let to = folder.path().join(&name);
        if entry.header().entry_type().is_dir() && to.is_dir() {
            continue;
        }
        match folder.file(&name.to_string_lossy()) {
            Ok(to) if std::fs::symlink_metadata(&to).is_err() => {
                entry.unpack_in(folder.path().join(below))?;
            }
            Ok(to) => eprintln!("the guest's /results: {} is the run's own", to.display()),
            Err(error) => eprintln!("the guest's /results: {error}"),
        }
    }
    Ok(())
}

/// Nobody need hear the output to its end, as in `stasis run ... | head`: the results do
/// not depend on it.
fn heard(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

impl Journal for Relay {
    fn entry(&mut self, entry: Entry) -> io::Result<()> {
        self.note(&entry)?;
        match entry {
            Entry::Record(bytes) => {
                if let Some(record) = &mut self.record {
                    record.piece(&bytes)?;
                }
            }
            Entry::From(machine) => {
                self.from = usize::from(machine).min(self.results.len() - 1);
            }
            Entry::Output(bytes) => {
                let bytes = self.marked(bytes, false);
                self.say(&bytes, false)?;
            }
            Entry::ErrorOutput(bytes) => {
                let bytes = self.marked(bytes, true);
                self.say(&bytes, true)?;
            }
            Entry::Console(bytes) => {
                if self.show_console {
                    self.progress.clear();
                    heard(io::stderr().lock().write_all(&bytes))?;
                }
                self.console.extend_from_slice(&bytes);
                let excess = self.console.len().saturating_sub(LAST_WORDS);
                self.console.drain(..excess);
            }
            Entry::Stage(stage) => {
                match stage {
                    Stage::Running => self.running = Some(Instant::now()),
                    Stage::Collecting => {
                        self.command_wall = self.running.map(|since| since.elapsed());
                    }
                    Stage::Preparing | Stage::Calibrating | Stage::Booting => {}
                }
                self.stage = stage;
                self.progress.stage(stage);
            }
            Entry::Progress(now) => {
                self.virtual_ns = now;
                if self.stage == Stage::Running {
                    self.started.get_or_insert(now);
                }
                self.progress.virtual_time(now);
            }
            Entry::Ios(records) => self.ios(&records)?,
            Entry::Results(bytes) => {
                let results = &mut self.results[self.from];
                if results.is_none() {
                    *results = Some(tempfile::tempfile()?);
                }
                if let Some(file) = results {
                    file.write_all(&bytes)?;
                }
            }
            Entry::Outcome(outcome) => self.outcome = Some(*outcome),
            Entry::Failed(message) => self.failed = Some(message),
        }
        Ok(())
    }
}

/// The longest line that is kept until its end comes (bytes).
const LONGEST_LINE: usize = 64 << 10;

/// One of several machines, whose lines are marked.
struct Speaker {
    name: String,
    /// What has no end of line yet, of output and of errors.
    begun: [Vec<u8>; 2],
}

impl Speaker {
    fn new(name: String) -> Self {
        Self { name, begun: [Vec::new(), Vec::new()] }
    }

    /// The lines that are whole with these bytes.
    fn lines(&mut self, bytes: &[u8], error: bool) -> Vec<u8> {
        let begun = &mut self.begun[usize::from(error)];
        begun.extend_from_slice(bytes);
        let end = match begun.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if begun.len() > LONGEST_LINE => begun.len(),
            None => return Vec::new(),
        };
        let rest = begun.split_off(end);
        mark(&self.name, &std::mem::replace(begun, rest))
    }

    /// What is left at the end.
    fn rest(&mut self) -> (Vec<u8>, Vec<u8>) {
        let [output, errors] = std::mem::take(&mut self.begun);
        (mark(&self.name, &output), mark(&self.name, &errors))
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
    use super::Speaker;

    #[test]
    fn lines_are_marked_when_they_are_whole() {
        let mut web = Speaker::new("web".into());
        assert_eq!(web.lines(b"a", false), b"");
        assert_eq!(web.lines(b"E\n", true), b"[web] E\n");
        assert_eq!(web.lines(b"b\nc\n\nd", false), b"[web] ab\n[web] c\n[web] \n");
        assert_eq!(web.rest(), (b"[web] d\n".to_vec(), Vec::new()));
    }
}
