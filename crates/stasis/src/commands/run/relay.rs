//! Takes a run's journal: output to the terminal, I/Os to the recorder,
//! results to their folder.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use stasis_crash::{Frame, RecordWriter};
use stasis_journal::{Entry, IoRecord, Journal, Outcome, Stage};
use stasis_report::Recorder;

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
    results: Option<File>,
    folder: PathBuf,
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
    /// Writes into `folder`.
    pub fn new(recorder: Recorder, folder: &Path, show: Show) -> Result<Self> {
        let output = if show.output {
            None
        } else {
            let path = folder.join(OUTPUT_FILE);
            let file = File::create(&path);
            Some(file.with_context(|| format!("cannot write {}", path.display()))?)
        };
        Ok(Self {
            recorder,
            progress: RunProgress::new(),
            show_console: show.console,
            output,
            console: Vec::new(),
            results: None,
            folder: folder.to_owned(),
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
        if let Some(mut file) = self.results.take() {
            file.rewind()?;
            let mut archive = tar::Archive::new(file);
            archive.set_overwrite(true);
            archive.set_preserve_mtime(false);
            archive.unpack(&self.folder)?;
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

    fn ios(&mut self, records: &[IoRecord]) -> io::Result<()> {
        self.recorder.record(records).map_err(io::Error::other)
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
            Entry::Output(bytes) | Entry::ErrorOutput(bytes) if self.output.is_some() => {
                if let Some(file) = &mut self.output {
                    file.write_all(&bytes)?;
                }
            }
            Entry::Output(bytes) => {
                self.progress.clear();
                let mut out = io::stdout().lock();
                out.write_all(&bytes)?;
                out.flush()?;
            }
            Entry::ErrorOutput(bytes) => {
                self.progress.clear();
                io::stderr().lock().write_all(&bytes)?;
            }
            Entry::Console(bytes) => {
                if self.show_console {
                    self.progress.clear();
                    io::stderr().lock().write_all(&bytes)?;
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
                if self.results.is_none() {
                    self.results = Some(tempfile::tempfile()?);
                }
                if let Some(file) = &mut self.results {
                    file.write_all(&bytes)?;
                }
            }
            Entry::Outcome(outcome) => self.outcome = Some(*outcome),
            Entry::Failed(message) => self.failed = Some(message),
        }
        Ok(())
    }
}
