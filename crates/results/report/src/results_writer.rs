//! From a run's records to its results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use stasis_block::clock::Nanos;
use stasis_run_events::{Ending, IoRecord, Outcome};

use crate::cluster::Cluster;
use crate::page::{self, Page};
use crate::profile::{Profile, ProfileFiles};
use crate::{late, run_page};
use stasis_results::distribution::EXACT_BOUND;
use stasis_results::faults::{FaultFile, PlannedFault, Returns};
use stasis_results::files::write_whole;
use stasis_results::folder::ResultsFolder;
use stasis_results::guest_ios::{self, GuestIoFile};
use stasis_results::ios::Ios;
use stasis_results::jobs::Jobs;
use stasis_results::pcapng::PacketFile;
use stasis_results::sample_file::{KeptSamples, SampleFile};
use stasis_results::sink::{Footer, Records, Sink, Sinks};
use stasis_results::so_far::{SoFar, RUNNING};
use stasis_results::spans::SpanFile;
use stasis_results::statistics::DriveStatistics;
use stasis_results::summary::{DriveSummary, Summary};
use stasis_results::symbols::Symbols;
use stasis_results::thresholds::Threshold;
use stasis_results::waits::WaitFile;
use stasis_results::{trust, units, Drive, ResultsError, REPORT_FILE, SUMMARY_FILE};

/// Facts about its origin that `ios.parquet` leaves out: they would differ from one run to the
/// next.
const SURROUNDINGS: [&str; 6] =
    ["started_at", "command_line", crate::repeat::FIELD, "qemu", "host_kernel", "experiment"];

/// Takes a run's I/Os as they complete, and writes its results.
pub struct ResultsWriter {
    folder: ResultsFolder,
    /// The files of records that are kept, and the figures that come with them.
    sinks: Sinks,
    /// I/Os of a drive that are kept one by one, see [`EXACT_BOUND`].
    bound: usize,
    drives: Vec<DriveStatistics>,
    jobs: Option<Jobs>,
    /// Shortest times of the ways to the hosts of drives, by the drives' numbers (ns).
    ways: BTreeMap<usize, Nanos>,
    /// Largest distance by which one of a guest's processors may be ahead of another (ns), where a
    /// guest ran.
    quantum: Option<Nanos>,
    /// Number of networks.
    networks: u16,
    thresholds: Vec<Threshold>,
    /// The run as it was when it was last asked for.
    before: Option<SoFar>,
}

impl std::fmt::Debug for ResultsWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultsWriter").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl ResultsWriter {
    /// Makes `folder` if it is not there, begins `ios.csv` in it, and removes
    /// what an earlier run left that would not belong to it.
    ///
    /// `drives` are in the order of the experiment: a record's
    /// [`IoRecord::drive`] is an index into them.
    ///
    /// # Errors
    /// Where the folder or the file cannot be written.
    pub fn create(folder: &Path, drives: Vec<Drive>) -> Result<Self, ResultsError> {
        Self::with_exact_bound(folder, drives, EXACT_BOUND)
    }

    /// Like [`Self::create`], in a folder that is this run's already.
    ///
    /// # Errors
    /// Likewise.
    pub fn within(
        folder: ResultsFolder,
        drives: Vec<Drive>,
        ios: Ios,
    ) -> Result<Self, ResultsError> {
        Self::begin(folder, drives, EXACT_BOUND, ios)
    }

    /// The run's folder.
    pub fn folder(&mut self) -> &mut ResultsFolder {
        &mut self.folder
    }

    /// Like [`Self::create`], with another bound than [`EXACT_BOUND`].
    ///
    /// # Errors
    /// Likewise.
    pub fn with_exact_bound(
        folder: &Path,
        drives: Vec<Drive>,
        bound: usize,
    ) -> Result<Self, ResultsError> {
        Self::begin(ResultsFolder::claim(folder, &[])?, drives, bound, Ios::Csv)
    }

    fn begin(
        mut folder: ResultsFolder,
        drives: Vec<Drive>,
        bound: usize,
        ios: Ios,
    ) -> Result<Self, ResultsError> {
        let mut sinks = Sinks::default();
        ios.begin(&mut folder)?.into_iter().for_each(|rows| sinks.add(rows));
        // The files of the end are claimed now, so that this cannot fail then.
        folder.file(SUMMARY_FILE)?;
        folder.file(REPORT_FILE)?;
        let mut writer = Self {
            folder,
            sinks,
            bound,
            drives: Vec::new(),
            jobs: None,
            ways: BTreeMap::new(),
            quantum: None,
            networks: 0,
            thresholds: Vec::new(),
            before: None,
        };
        for drive in drives {
            writer.add_drive(drive);
        }
        Ok(writer)
    }

    /// One more drive; a record's [`IoRecord::drive`] of it is what this returns.
    pub fn add_drive(&mut self, drive: Drive) -> u16 {
        // No file has a row for it.
        let _ = self.sinks.take(Records::Drive(&drive));
        self.drives.push(DriveStatistics::new(drive, self.bound));
        u16::try_from(self.drives.len() - 1).unwrap_or(u16::MAX)
    }

    /// The way from the server to the host of drive number `drive` takes so much at least (ns).
    pub fn set_way(&mut self, drive: u16, way: Nanos) {
        self.ways.insert(drive.into(), way);
    }

    /// Keeps the figures of each job of a job file as well: jobs by name, each with so
    /// many threads, which are numbered through. An I/O's queue is its thread's number.
    pub fn by_job(&mut self, jobs: Vec<(String, usize)>) {
        self.jobs = Some(Jobs::new(jobs, self.bound));
    }

    /// The run is expected to keep these.
    pub fn expect(&mut self, thresholds: Vec<Threshold>) {
        self.thresholds = thresholds;
    }

    /// The I/Os are those of a guest: its figures are looked through for what is not to be trusted
    /// ([`stasis_results::trust`]). `quantum`: how far one of its processors may be ahead of another (ns).
    pub fn of_guest(&mut self, quantum: Nanos) {
        self.quantum = Some(quantum);
    }

    /// One more sink, which knows the drives.
    fn keep(&mut self, mut sink: impl Sink) -> Result<(), ResultsError> {
        self.drives.iter().try_for_each(|drive| sink.take(Records::Drive(&drive.drive)))?;
        self.sinks.add(Box::new(sink));
        Ok(())
    }

    /// The run has several machines of these names, and each drive belongs to one of them, by its
    /// index, or to none: the page shows what each did when. To be called before networks and
    /// faults are added.
    ///
    /// # Errors
    /// The failure to write [`stasis_results::CLUSTER_FILE`].
    pub fn of_machines(
        &mut self,
        names: Vec<String>,
        drives: Vec<Option<usize>>,
    ) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::CLUSTER_FILE)?;
        self.keep(Cluster::new(names, drives, path)?)
    }

    /// Commands of [several machines](Self::of_machines) write operations of clients, which are kept in
    /// [`stasis_results::HISTORY_FILE`].
    ///
    /// # Errors
    /// Where the folder has a file of that name that is not a run's.
    pub fn keep_history(&mut self) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::HISTORY_FILE)?;
        if let Some(cluster) = self.sinks.get_mut::<Cluster>() {
            cluster.keep_history(path);
        }
        Ok(())
    }

    /// Takes I/Os. They are in the file when this returns, where its format allows that ([`Ios`]).
    ///
    /// # Errors
    /// Where the file cannot be written, or a record names a drive that is not
    /// there; the records before it are kept.
    pub fn record(&mut self, records: &[IoRecord]) -> Result<(), ResultsError> {
        let mut known = 0;
        for record in records {
            let Some(drive) = self.drives.get_mut(usize::from(record.drive)) else { break };
            drive.record(record);
            if let Some(jobs) = &mut self.jobs {
                jobs.record(record);
            }
            known += 1;
        }
        let (known, unknown) = records.split_at(known);
        self.sinks.take(Records::Ios(known))?;
        let Some(unknown) = unknown.first() else { return Ok(()) };
        Err(ResultsError::NoSuchDrive { index: unknown.drive, drives: self.drives.len() })
    }

    /// Takes records of what the run keeps; others are passed over.
    ///
    /// # Errors
    /// A file cannot be written, or a record names something that is not there.
    pub fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        match records {
            Records::Ios(records) => self.record(records),
            records => self.sinks.take(records),
        }
    }

    /// One more network, with these machines at its ports; `kept`: whether its frames are kept, in
    /// `NAME.pcapng`.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn add_network(
        &mut self,
        name: &str,
        machines: &[String],
        kept: bool,
    ) -> Result<(), ResultsError> {
        if kept {
            let path = self.folder.file(&format!("{name}.pcapng"))?;
            self.keep(PacketFile::create(path, self.networks, machines)?)?;
        }
        self.networks += 1;
        if let Some(cluster) = self.sinks.get_mut::<Cluster>() {
            cluster.network(machines);
        }
        Ok(())
    }

    /// The run can have these faults: those that happen are kept in [`stasis_results::FAULTS_FILE`].
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn keep_faults(&mut self, faults: Vec<PlannedFault>) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::FAULTS_FILE)?;
        if let Some(cluster) = self.sinks.get_mut::<Cluster>() {
            let drives = self.drives.iter().map(|drive| drive.drive.name.clone());
            cluster.faults(&faults, &drives.collect::<Vec<_>>());
        }
        self.keep(FaultFile::create(path, faults)?)
    }

    /// One more fault can happen, whose number is that of those before.
    ///
    /// # Errors
    /// As [`Self::keep_faults`], of the first one.
    pub fn add_fault(&mut self, fault: PlannedFault) -> Result<(), ResultsError> {
        match self.sinks.get_mut::<FaultFile>() {
            Some(file) => file.add(fault),
            None => self.keep_faults(vec![fault])?,
        }
        Ok(())
    }

    /// Keeps what happens inside as well, in [`stasis_results::TIMELINE_FILE`].
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn keep_timeline(&mut self) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::TIMELINE_FILE)?;
        self.keep(SpanFile::create(path)?)
    }

    /// Keeps a profile as well, in [`stasis_results::PROFILE_FILE`] and
    /// [`stasis_results::SAMPLES_FILE`], of processors of these names that are sampled at an interval
    /// (ns).
    ///
    /// # Errors
    /// Where the folder has a file of that name that is not a run's, or it cannot be written.
    pub fn keep_profile(
        &mut self,
        symbols: Symbols,
        interval: Nanos,
        processors: &[String],
    ) -> Result<(), ResultsError> {
        let stacks = self.folder.file(stasis_results::PROFILE_FILE)?;
        let samples = self.folder.file(stasis_results::SAMPLES_FILE)?;
        let samples = SampleFile::create(samples, interval)?;
        let profile = Profile::new(symbols, interval, processors);
        self.keep(ProfileFiles { profile, samples, stacks })
    }

    /// Keeps the time of I/Os in the guest as well, in [`stasis_results::GUEST_IOS_FILE`], and the waits of its
    /// threads, in [`stasis_results::WAITS_FILE`]; `symbols` are its kernel's.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn keep_guest_ios(&mut self, symbols: Symbols) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::GUEST_IOS_FILE)?;
        self.keep(GuestIoFile::create(path, symbols.clone())?)?;
        let path = self.folder.file(stasis_results::WAITS_FILE)?;
        self.keep(WaitFile::create(path, symbols)?)
    }

    /// Figures of a run that goes on, whose commands began at `begin`, at the time `now` (ns).
    pub fn so_far(&mut self, begin: Nanos, now: Nanos) -> SoFar {
        let mut so_far = self.figures(now.saturating_sub(begin));
        if let Some(before) = &self.before {
            so_far = so_far.after(before);
        }
        self.before = Some(so_far.clone());
        so_far
    }

    /// Figures after so much virtual time (ns), without the difference from those before.
    fn figures(&self, virtual_ns: Nanos) -> SoFar {
        let happened = self.sinks.get().map_or(0, FaultFile::happened);
        SoFar::of(&self.drives, happened, virtual_ns)
    }

    /// The page of a run that goes on, whose commands began at the first of two times, at the second
    /// (ns). `took` and how long it will at most, if that is known; the others as [`Self::finish`] has them.
    pub fn page_so_far(
        &mut self,
        engine: &str,
        (begin, now): (Nanos, Nanos),
        (took, remaining): (Duration, Option<Duration>),
        extra: Map<String, Value>,
    ) -> String {
        let outcome = Outcome {
            boot_virtual_ns: begin,
            virtual_ns: now.saturating_sub(begin),
            ..Outcome::of(Ending::Exited(0))
        };
        let so_far = self.figures(outcome.virtual_ns);
        let so_far = self.before.as_ref().map_or(so_far.clone(), |before| match before.lately {
            // The last report is newer than a page is old.
            Some(_) if before.ios == so_far.ios => before.clone(),
            _ => so_far.after(before),
        });
        let mut summary = self.sum_up(&outcome, engine, took, extra);
        summary.ending = RUNNING.to_owned();
        let remaining = remaining.map(|time| {
            format!("{} left at most, at this speed", units::short(time.as_nanos() as f64))
        });
        summary.message =
            Some(so_far.lines().into_iter().chain(remaining).collect::<Vec<_>>().join("; "));
        self.judge(&mut summary);
        self.page(&summary, begin, None)
    }

    /// The summary of a run, which may go on: the figures of its drives, and of its faults with what
    /// clients saw. A run tells at its end when machines came back.
    fn sum_up(
        &mut self,
        outcome: &Outcome,
        engine: &str,
        wall: Duration,
        extra: Map<String, Value>,
    ) -> Summary {
        let (span, returns) = (commands(outcome), Returns::of(outcome));
        let mut faults = self.sinks.get().map(|file: &FaultFile| file.summaries(span, &returns));
        let cluster = self.sinks.get_mut::<Cluster>();
        let befallen = faults.as_deref_mut().unwrap_or_default();
        let witnessed = cluster.and_then(|cluster| cluster.settle(befallen, span.1));
        self.drives.iter_mut().for_each(DriveStatistics::sort);
        let drives = self.drives.iter().map(DriveStatistics::summary).collect();
        let mut summary = Summary::new(outcome, engine, wall, drives, extra);
        faults.iter().flatten().for_each(|fault| summary.blame(fault));
        if let Some(Ok(faults)) = faults.map(serde_json::to_value) {
            summary.extra.insert("faults".into(), faults);
        }
        if let Some(Ok(history)) = witnessed.map(serde_json::to_value) {
            summary.extra.insert("history".into(), history);
        }
        summary
    }

    /// Judges the figures by the thresholds.
    fn judge(&self, summary: &mut Summary) {
        summary.thresholds = self.thresholds.iter().map(|one| one.judge(summary)).collect();
    }

    /// The page of a run whose commands began at `begin` (ns).
    fn page(&self, summary: &Summary, begin: Nanos, profile: Option<&Profile>) -> String {
        Page::within_limit(|resolution| {
            run_page::page(summary, &self.drives, (self.sinks.get(), profile), begin, resolution)
        })
    }

    /// Ends the files of a run that has failed, so that what they have can be read.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn abandon(mut self) -> Result<(), ResultsError> {
        self.sinks.end(&Footer::new(), None).map(drop)
    }

    /// Writes `summary.json` and `report.html`, and returns the summary.
    ///
    /// `wall` is the wall-clock time of the command by this machine's clock. `extra` are further
    /// fields for the summary, such as the command and the seed; fields that depend on the wall
    /// clock must be named in [`stasis_results::INCIDENTAL_FIELDS`]. The summary's own fields win over them.
    /// The page names the run by the fields `title` or `command`.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn finish(
        mut self,
        outcome: &Outcome,
        engine: &str,
        wall: Duration,
        extra: Map<String, Value>,
    ) -> Result<Summary, ResultsError> {
        // The same I/Os are the same bytes: when and where they were made stands in the summary.
        let repeats = |name: &String| !SURROUNDINGS.contains(&name.as_str());
        let footer: Footer = extra.clone().into_iter().filter(|(name, _)| repeats(name)).collect();
        let entries = self.sinks.end(&footer, Some(outcome))?;
        let mut summary = self.sum_up(outcome, engine, wall, extra);
        summary.extra.extend(entries);
        let folder = self.folder.path();
        if self.sinks.get::<GuestIoFile>().is_some() {
            join(folder, &mut summary.drives)?;
        }
        if let Some(ProfileFiles { profile, .. }) = self.sinks.get_mut() {
            if let Some(samples) = KeptSamples::open(folder)? {
                profile.add_views(samples, late::of(folder, &summary)?)?;
            }
        }
        summary.jobs = self.jobs.as_mut().map(Jobs::summaries).unwrap_or_default();
        for (number, &way) in &self.ways {
            summary.drives.get_mut(*number).into_iter().for_each(|drive| drive.set_way(way));
        }
        summary.warnings = trust::short_ways(&summary).collect();
        if let Some(quantum) = self.quantum {
            summary.warnings = trust::warnings(&summary, quantum);
        }
        self.judge(&mut summary);
        if !self.leaves_results() {
            return Ok(summary);
        }
        let path = self.folder.path().join(SUMMARY_FILE);
        let mut json = serde_json::to_vec_pretty(&summary)
            .map_err(|error| ResultsError::Write { path: path.clone(), source: error.into() })?;
        json.push(b'\n');
        write_whole(&path, &json)?;
        let profile = self.sinks.get().map(|ProfileFiles { profile, .. }| profile);
        let html = self.page(&summary, commands(outcome).0, profile);
        page::write(self.folder.path(), REPORT_FILE, &html)?;
        self.folder.finished()?;
        Ok(summary)
    }

    /// Returns whether [`Self::finish`] writes results: those of an earlier run are worth more than
    /// those of one that ended before its command began.
    pub fn leaves_results(&self) -> bool {
        self.folder.has_begun() || self.folder.earlier().is_none()
    }
}

/// When the run's commands began and ended (ns).
fn commands(outcome: &Outcome) -> (Nanos, Nanos) {
    let begin = outcome.boot_virtual_ns;
    (begin, begin.saturating_add(outcome.virtual_ns))
}

/// Gives the slowest I/Os of drives their times in the guest, from a folder of results.
fn join(folder: &Path, drives: &mut [DriveSummary]) -> Result<(), ResultsError> {
    let ios = drives
        .iter()
        .flat_map(|drive| drive.slowest.iter().map(|io| (drive.described.name.clone(), io.order)));
    let slowest: BTreeSet<(String, u64)> = ios.collect();
    let wanted = |drive: &str, order| slowest.contains(&(drive.to_owned(), order));
    let Some(mut all) = guest_ios::read(folder, wanted)? else { return Ok(()) };
    for drive in drives {
        for io in &mut drive.slowest {
            io.guest = all.remove(&(drive.described.name.clone(), io.order));
        }
    }
    Ok(())
}
