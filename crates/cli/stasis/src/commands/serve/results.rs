//! The results of a server: each I/O with its times while it serves, a summary
//! and a page at its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use stasis_block::inside::Inside;
use stasis_report::ResultsWriter;
use stasis_results::sink::Records;
use stasis_results::{Drive, Ios, PlannedFault, ResultsError, ResultsFolder};
use stasis_run_events::{Ending, FaultRecord, IoRecord};
use stasis_runner::engine;
use stasis_runner::provenance::Provenance;
use stasis_serve::{confine, DriveReport, IoRecordSender, IoRecords, NewDrive};

/// The engine that the results name.
const ENGINE: &str = "serve";
/// Interval at which what has come is written down.
const INTERVAL: Duration = Duration::from_millis(20);

/// Results that are being written.
pub struct Results {
    folder: PathBuf,
    begun: Instant,
    provenance: Provenance,
    writing: Writing,
    /// Ends the thread when it is dropped.
    go_on: Sender<()>,
    thread: JoinHandle<Result<(), ResultsError>>,
}

/// The part of the results that is open while drives are served, as drives may be added.
#[derive(Clone)]
pub struct Writing(Arc<Mutex<Open>>);

struct Open {
    records: IoRecords,
    /// None once they are over.
    writer: Option<ResultsWriter>,
    /// The drives' names, in the writer's order.
    names: Vec<String>,
    /// Happenings of faults on their way.
    faults: Vec<FaultRecord>,
}

impl Writing {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The I/Os of `new`, described as `drive`, are written down as well, once it is served.
    pub fn add(&self, new: &mut NewDrive, drive: Drive) {
        let open = self.clone();
        new.record = Some(Box::new(move || open.lock().add(drive)));
    }
}

impl Writing {
    /// One more fault, whose happenings are written down.
    pub fn add_fault(&self, fault: PlannedFault) -> Result<()> {
        let mut open = self.lock();
        Ok(open.writer.as_mut().map_or(Ok(()), |writer| writer.add_fault(fault))?)
    }
}

impl Open {
    fn add(&mut self, drive: Drive) -> Option<IoRecordSender> {
        let writer = self.writer.as_mut()?;
        self.names.push(drive.name.clone());
        Some(self.records.of(writer.add_drive(drive)))
    }

    /// Writes down what has come.
    fn write(&mut self, records: &mut Vec<IoRecord>) -> Result<(), ResultsError> {
        self.records.take(records);
        let written = match &mut self.writer {
            Some(writer) => writer.record(records),
            None => Ok(()),
        };
        records.clear();
        self.records.take_faults(&mut self.faults);
        let taken = match &mut self.writer {
            Some(writer) if !self.faults.is_empty() => writer.take(Records::Faults(&self.faults)),
            _ => Ok(()),
        };
        self.faults.clear();
        written.and(taken)
    }
}

impl Results {
    /// Begins results in `folder`, where another run's are replaced.
    /// None of them may be one of `inputs`: the media.
    pub fn begin(folder: &Path, inputs: &[PathBuf]) -> Result<Self> {
        let claimed = ResultsFolder::claim(folder, inputs)?;
        let writer = Some(ResultsWriter::within(claimed, Vec::new(), Ios::Csv)?);
        let (names, faults) = (Vec::new(), Vec::new());
        let open = Open { records: IoRecords::default(), writer, names, faults };
        let writing = Writing(Arc::new(Mutex::new(open)));
        let (go_on, end) = channel();
        // A folder that nobody else has any more, as where the server does not begin, is given up.
        let writer = Arc::downgrade(&writing.0);
        let thread = std::thread::Builder::new()
            .name("results".into())
            .spawn(move || {
                let mut records = Vec::new();
                loop {
                    // The write after the end takes the records that came before the end.
                    let over = end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected);
                    let Some(open) = writer.upgrade().map(Writing) else { return Ok(()) };
                    open.lock().write(&mut records).inspect_err(|error| {
                        let message = format!("{error}; no more I/Os are written down");
                        stasis_serve::log::warn("results", &message);
                    })?;
                    if over {
                        return Ok(());
                    }
                }
            })
            .context("cannot start the thread that writes results")?;
        let (begun, provenance) = (Instant::now(), Provenance::begin(false));
        Ok(Self { folder: folder.to_owned(), begun, provenance, writing, go_on, thread })
    }

    /// The server has begun: what it writes replaces an earlier run's results.
    pub fn begun(&self) -> Result<()> {
        let mut open = self.writing.lock();
        open.writer.as_mut().map_or(Ok(()), |writer| writer.folder().finished())?;
        Ok(())
    }

    /// For drives that come while it serves.
    pub fn writing(&self) -> Writing {
        self.writing.clone()
    }

    /// Returns whether the summary can still be written by the user that this has become.
    pub fn check(&self) -> Result<()> {
        if !confine::may_write(&self.folder) {
            let folder = self.folder.display();
            bail!("the server's user may not write results: make the folder {folder} theirs");
        }
        Ok(())
    }

    /// Writes the summary and the page, once all drives are over; `report`: of each; `inside` is
    /// what their models did, by their names.
    pub fn finish(self, report: &[DriveReport], inside: &BTreeMap<String, Inside>) -> Result<()> {
        let Self { folder, begun, provenance, writing, go_on, thread } = self;
        drop(go_on);
        thread.join().map_err(|_| anyhow!("a bug ended the thread that writes results"))??;
        let mut open = writing.lock();
        let Some(mut writer) = open.writer.take() else { return Ok(()) };
        for drive in report {
            let number = open.names.iter().position(|name| *name == drive.name);
            if let (Some(number), Some(way)) = (number, drive.way_ns) {
                writer.set_way(u16::try_from(number)?, way);
            }
        }
        let wall = begun.elapsed();
        let nanos = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        let mut outcome = engine::unfinished(Ending::Exited(0), nanos, wall);
        outcome.inside = open.names.iter().map(|name| inside.get(name).cloned()).collect();
        let lost = open.records.lost();
        let mut extra = provenance.fields();
        extra.insert("title".into(), "Drives in real time".into());
        extra.insert("lost_ios".into(), lost.into());
        // Whatever it has served: the results are those of this server now.
        writer.folder().begun();
        writer.finish(&outcome, ENGINE, wall, extra)?;
        if lost > 0 {
            let message = format!("{lost} I/Os are not in ios.csv: it was not written fast enough");
            stasis_serve::log::warn("results", &message);
        }
        eprintln!("stasis serve: results in {}", folder.display());
        Ok(())
    }
}
