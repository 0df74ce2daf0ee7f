//! From a run's records to its results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use stasis_block::clock::Nanos;
use stasis_block::timeline::{Span, Track};
use stasis_run_events::{Ending, FaultRecord, GuestIo, IoRecord, Outcome, PacketRecord, Sample};

use crate::cluster::Cluster;
use crate::page::{self, Page};
use crate::profile::Profile;
use crate::{late, run_page};
use stasis_results::distribution::EXACT_BOUND;
use stasis_results::faults::{FaultFile, FaultSummary, PlannedFault, Returns};
use stasis_results::files::write_whole;
use stasis_results::folder::ResultsFolder;
use stasis_results::guest_ios::{self, GuestIoFile};
use stasis_results::ios::{Footer, Ios, Rows};
use stasis_results::jobs::Jobs;
use stasis_results::pcapng::PacketFile;
use stasis_results::sample_file::{KeptSamples, SampleFile};
use stasis_results::so_far::{SoFar, RUNNING};
use stasis_results::spans::SpanFile;
use stasis_results::statistics::DriveStatistics;
use stasis_results::summary::{DriveSummary, Summary};
use stasis_results::symbols::Symbols;
use stasis_results::thresholds::Threshold;
use stasis_results::{trust, units, Drive, ResultsError, REPORT_FILE, SUMMARY_FILE};

/// Facts about its origin that `ios.parquet` leaves out: they would differ from one run to the
/// next.
const SURROUNDINGS: [&str; 6] =
    ["started_at", "command_line", crate::repeat::FIELD, "qemu", "host_kernel", "experiment"];

/// Takes a run's I/Os as they complete, and writes its results.
pub struct ResultsWriter {
    folder: ResultsFolder,
    /// `None` where the I/Os are not kept.
    rows: Option<Box<dyn Rows>>,
    /// `None` where what happens inside is not kept.
    spans: Option<SpanFile>,
    /// I/Os of a drive that are kept one by one, see [`EXACT_BOUND`].
    bound: usize,
    drives: Vec<DriveStatistics>,
    jobs: Option<Jobs>,
    /// Shortest times of the ways to the hosts of drives, by the drives' numbers (ns).
    ways: BTreeMap<usize, Nanos>,
    /// Largest distance by which one of a guest's processors may be ahead of another (ns), where a
    /// guest ran.
    quantum: Option<Nanos>,
    /// Files of the frames of networks; `None` for one whose frames are not kept.
    packets: Vec<Option<PacketFile>>,
    /// `None` where nothing can fail.
    faults: Option<FaultFile>,
    /// `None` where there is one machine.
    cluster: Option<Cluster>,
    /// `None` where processors are not sampled.
    profile: Option<Profile>,
    /// Likewise.
    samples: Option<SampleFile>,
    /// `None` where the time of I/Os in the guest is not kept.
    guest_ios: Option<GuestIoFile>,
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
        let rows = ios.begin(&mut folder)?;
        // The files of the end are claimed now, so that this cannot fail then.
        folder.file(SUMMARY_FILE)?;
        folder.file(REPORT_FILE)?;
        let mut writer = Self {
            folder,
            rows,
            spans: None,
            bound,
            drives: Vec::new(),
            jobs: None,
            ways: BTreeMap::new(),
            quantum: None,
            packets: Vec::new(),
            faults: None,
            cluster: None,
            profile: None,
            samples: None,
            guest_ios: None,
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
        if let Some(rows) = &mut self.rows {
            rows.add_drive(&drive);
        }
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
        self.cluster = Some(Cluster::new(names, drives, path)?);
        Ok(())
    }

    /// Commands of [several machines](Self::of_machines) write operations of clients, which are kept in
    /// [`stasis_results::HISTORY_FILE`].
    ///
    /// # Errors
    /// Where the folder has a file of that name that is not a run's.
    pub fn keep_history(&mut self) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::HISTORY_FILE)?;
        if let Some(cluster) = &mut self.cluster {
            cluster.keep_history(path);
        }
        Ok(())
    }

    /// A machine's command has written these whole lines by `at` (ns), to its standard error if
    /// `error`. Kept where there are [several](Self::of_machines).
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn record_output(
        &mut self,
        machine: usize,
        at: Nanos,
        error: bool,
        lines: &[u8],
    ) -> io::Result<()> {
        let cluster = self.cluster.as_mut();
        let kept = cluster.map_or(Ok(()), |cluster| cluster.output(machine, at, error, lines));
        kept.map_err(io::Error::other)
    }

    /// Takes I/Os. They are in the file when this returns, where its format allows that ([`Ios`]).
    ///
    /// # Errors
    /// Where the file cannot be written, or a record names a drive that is not
    /// there; the records before it are kept.
    pub fn record(&mut self, records: &[IoRecord]) -> Result<(), ResultsError> {
        let mut result = Ok(());
        for record in records {
            let drives = self.drives.len();
            let Some(drive) = self.drives.get_mut(usize::from(record.drive)) else {
                result = Err(ResultsError::NoSuchDrive { index: record.drive, drives });
                break;
            };
            if let Some(rows) = &mut self.rows {
                result = rows.row(record);
                if result.is_err() {
                    break;
                }
            }
            drive.record(record);
            if let Some(jobs) = &mut self.jobs {
                jobs.record(record);
            }
        }
        if let Some(rows) = &mut self.rows {
            rows.flush()?;
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.ios(records);
        }
        result
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
        let file = if kept {
            let path = self.folder.file(&format!("{name}.pcapng"))?;
            let begun = File::create(&path).and_then(|file| PacketFile::begin(file, machines));
            Some(begun.map_err(|source| ResultsError::Write { path, source })?)
        } else {
            None
        };
        self.packets.push(file);
        if let Some(cluster) = &mut self.cluster {
            cluster.network(machines);
        }
        Ok(())
    }

    /// Takes frames of networks.
    ///
    /// # Errors
    /// Where the file cannot be written, or a frame names a port that is not there.
    pub fn record_packets(&mut self, packets: &[PacketRecord]) -> io::Result<()> {
        if let Some(cluster) = &mut self.cluster {
            cluster.packets(packets).map_err(io::Error::other)?;
        }
        for packet in packets {
            if let Some(Some(file)) = self.packets.get_mut(usize::from(packet.network)) {
                file.packet(packet)?;
            }
        }
        self.packets.iter_mut().flatten().try_for_each(PacketFile::flush)
    }

    /// The run can have these faults: those that happen are kept in [`stasis_results::FAULTS_FILE`].
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn keep_faults(&mut self, faults: Vec<PlannedFault>) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::FAULTS_FILE)?;
        if let Some(cluster) = &mut self.cluster {
            let drives = self.drives.iter().map(|drive| drive.drive.name.clone());
            cluster.faults(&faults, &drives.collect::<Vec<_>>());
        }
        self.faults = Some(FaultFile::create(path, faults)?);
        Ok(())
    }

    /// Takes faults that have happened.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn record_faults(&mut self, faults: &[FaultRecord]) -> io::Result<()> {
        if let Some(cluster) = &mut self.cluster {
            cluster.happened(faults).map_err(io::Error::other)?;
        }
        let Some(file) = &mut self.faults else { return Ok(()) };
        faults.iter().try_for_each(|fault| file.row(fault)).map_err(io::Error::other)
    }

    /// Keeps what happens inside as well, in [`stasis_results::TIMELINE_FILE`].
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn keep_timeline(&mut self) -> Result<(), ResultsError> {
        self.spans = Some(SpanFile::create(self.folder.file(stasis_results::TIMELINE_FILE)?)?);
        Ok(())
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
        self.folder.file(stasis_results::PROFILE_FILE)?;
        let path = self.folder.file(stasis_results::SAMPLES_FILE)?;
        self.samples = Some(SampleFile::create(path, interval)?);
        self.profile = Some(Profile::new(symbols, interval, processors));
        Ok(())
    }

    /// Takes samples of processors.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn record_samples(&mut self, samples: &[Sample]) -> Result<(), ResultsError> {
        let (Some(profile), Some(file)) = (&mut self.profile, &mut self.samples) else {
            return Ok(());
        };
        samples.iter().try_for_each(|sample| profile.keep(sample, file))
    }

    /// Takes further names of programs and modules in samples that follow.
    pub fn add_sample_names(&mut self, names: Vec<String>) {
        if let Some(guest_ios) = &mut self.guest_ios {
            guest_ios.add_names(names.clone());
        }
        if let Some(profile) = &mut self.profile {
            profile.add_names(names);
        }
    }

    /// Keeps the time of I/Os in the guest as well, in [`stasis_results::GUEST_IOS_FILE`]; `symbols` are its
    /// kernel's.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn keep_guest_ios(&mut self, symbols: Symbols) -> Result<(), ResultsError> {
        let path = self.folder.file(stasis_results::GUEST_IOS_FILE)?;
        self.guest_ios = Some(GuestIoFile::create(path, symbols)?);
        Ok(())
    }

    /// Takes the time of I/Os in the guest.
    ///
    /// # Errors
    /// Where the file cannot be written, or one names a drive that is not there.
    pub fn record_guest_ios(&mut self, ios: &[GuestIo]) -> Result<(), ResultsError> {
        let Some(file) = &mut self.guest_ios else { return Ok(()) };
        let drives = &self.drives;
        ios.iter().try_for_each(|io| match drives.get(usize::from(io.drive)) {
            Some(drive) => file.row(&drive.drive.name, io),
            None => Err(ResultsError::NoSuchDrive { index: io.drive, drives: drives.len() }),
        })
    }

    /// More tracks, which spans name by their place among all.
    pub fn add_tracks(&mut self, tracks: Vec<Track>) {
        if let Some(spans) = &mut self.spans {
            tracks.into_iter().for_each(|track| spans.add_track(track));
        }
    }

    /// Takes what tracks did.
    ///
    /// # Errors
    /// Where the file cannot be written, or a span names a track that is not there.
    pub fn record_spans(&mut self, spans: &[Span]) -> Result<(), ResultsError> {
        let Some(file) = &mut self.spans else { return Ok(()) };
        spans.iter().try_for_each(|span| file.row(span))
    }

    /// Figures of a run that goes on, whose commands began at `begin`, at the time `now` (ns).
    pub fn so_far(&mut self, begin: Nanos, now: Nanos) -> SoFar {
        let happened = self.faults.as_ref().map_or(0, FaultFile::happened);
        let mut so_far = SoFar::of(&self.drives, happened, now.saturating_sub(begin));
        if let Some(before) = &self.before {
            so_far = so_far.after(before);
        }
        self.before = Some(so_far.clone());
        so_far
    }

    /// The page of a run that goes on, whose commands began at the first of two times, at the second
    /// (ns). `took` and how long it will at most, if that is known; the others as [`Self::finish`] has them.
    pub fn page_so_far(
        &mut self,
        engine: &str,
        (begin, now): (Nanos, Nanos),
        (took, remaining): (Duration, Option<Duration>),
        mut extra: Map<String, Value>,
    ) -> String {
        let outcome = Outcome {
            boot_virtual_ns: begin,
            virtual_ns: now.saturating_sub(begin),
            ..Outcome::of(Ending::Exited(0))
        };
        // A run tells at its end when machines came back.
        let so_far = |file: &FaultFile| file.so_far((begin, now), &Returns::default());
        let mut faults = self.faults.as_ref().map(so_far).unwrap_or_default();
        let witnessed =
            self.cluster.as_mut().and_then(|cluster| cluster.settle(&mut faults, (begin, now)));
        if let Some(Ok(history)) = witnessed.map(serde_json::to_value) {
            extra.insert("history".into(), history);
        }
        if let (false, Ok(faults)) = (faults.is_empty(), serde_json::to_value(faults)) {
            extra.insert("faults".into(), faults);
        }
        let happened = self.faults.as_ref().map_or(0, FaultFile::happened);
        let so_far = SoFar::of(&self.drives, happened, outcome.virtual_ns);
        let so_far = self.before.as_ref().map_or(so_far.clone(), |before| match before.lately {
            // The last report is newer than a page is old.
            Some(_) if before.ios == so_far.ios => before.clone(),
            _ => so_far.after(before),
        });
        self.drives.iter_mut().for_each(DriveStatistics::sort);
        let drives = self.drives.iter().map(DriveStatistics::summary).collect();
        let mut summary = Summary::new(&outcome, engine, took, drives, extra);
        summary.ending = RUNNING.to_owned();
        let remaining = remaining.map(|time| {
            format!("{} left at most, at this speed", units::short(time.as_nanos() as f64))
        });
        summary.message =
            Some(so_far.lines().into_iter().chain(remaining).collect::<Vec<_>>().join("; "));
        let judged = self.thresholds.iter().map(|one| one.judge(&summary));
        summary.thresholds = judged.collect();
        Page::within_limit(|resolution| {
            let more = (self.cluster.as_ref(), None);
            run_page::page(&summary, &self.drives, more, begin, resolution)
        })
    }

    /// Ends the files of a run that has failed, so that what they have can be read.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn abandon(mut self) -> Result<(), ResultsError> {
        self.end_files(&Footer::new(), None).map(drop)
    }

    /// Ends every file of records with `footer`; `None`: the run has failed. A file that cannot be written
    /// keeps none of the others from its end; the first error is returned.
    fn end_files(
        &mut self,
        footer: &Footer,
        outcome: Option<&Outcome>,
    ) -> Result<Ended, ResultsError> {
        let rows = self.rows.take().map(|rows| rows.finish(footer)).transpose();
        let span = outcome.map_or((0, 0), commands);
        let returns = outcome.map(Returns::of).unwrap_or_default();
        let faults = self.faults.take().map(|file| file.finish(footer, span, &returns)).transpose();
        let cluster = self.cluster.as_mut().map(|file| file.finish_file(footer)).transpose();
        let samples = self.samples.take().map(|file| file.finish(footer)).transpose();
        let guest_ios = self.guest_ios.take().map(|file| file.finish(footer)).transpose();
        let timeline = match (self.spans.take(), outcome) {
            (None, _) => Ok(None),
            (Some(spans), Some(outcome)) => spans.finish(footer.clone(), outcome).map(Some),
            (Some(spans), None) => spans.abandon(footer).map(|()| None),
        };
        rows?;
        cluster?;
        samples?;
        Ok(Ended { faults: faults?, guest_ios: guest_ios?, timeline: timeline? })
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
        let Ended { mut faults, guest_ios, timeline } = self.end_files(&footer, Some(outcome))?;
        let span = commands(outcome);
        let faulty = faults.as_deref_mut().unwrap_or_default();
        let witnessed = self.cluster.as_mut().and_then(|cluster| cluster.settle(faulty, span));
        self.drives.iter_mut().for_each(DriveStatistics::sort);
        let drives = self.drives.iter().map(DriveStatistics::summary).collect();
        let mut summary = Summary::new(outcome, engine, wall, drives, extra);
        for fault in faults.iter().flatten() {
            summary.blame(fault);
        }
        if let Some(Ok(faults)) = faults.map(serde_json::to_value) {
            summary.extra.insert("faults".into(), faults);
        }
        if let Some(Ok(history)) = witnessed.map(serde_json::to_value) {
            summary.extra.insert("history".into(), history);
        }
        if let Some(count) = guest_ios {
            summary.extra.insert("guest_ios".into(), count.into());
            join(self.folder.path(), &mut summary.drives)?;
        }
        if let Some(timeline) = timeline {
            summary.extra.insert("timeline".into(), timeline);
        }
        if let Some(profile) = &mut self.profile {
            if let Some(samples) = KeptSamples::open(self.folder.path())? {
                profile.add_views(samples, late::of(self.folder.path(), &summary)?)?;
            }
            let path = self.folder.path().join(stasis_results::PROFILE_FILE);
            write_whole(&path, profile.folded().as_bytes())?;
            summary.extra.insert("profile".into(), profile.summary());
        }
        summary.jobs = self.jobs.as_mut().map(Jobs::summaries).unwrap_or_default();
        for (number, &way) in &self.ways {
            summary.drives.get_mut(*number).into_iter().for_each(|drive| drive.set_way(way));
        }
        summary.warnings = trust::short_ways(&summary).collect();
        if let Some(quantum) = self.quantum {
            summary.warnings = trust::warnings(&summary, quantum);
        }
        let judged = self.thresholds.iter().map(|one| one.judge(&summary));
        summary.thresholds = judged.collect();
        if !self.leaves_results() {
            return Ok(summary);
        }
        let path = self.folder.path().join(SUMMARY_FILE);
        let mut json = serde_json::to_vec_pretty(&summary)
            .map_err(|error| ResultsError::Write { path: path.clone(), source: error.into() })?;
        json.push(b'\n');
        write_whole(&path, &json)?;
        let html = Page::within_limit(|resolution| {
            let more = (self.cluster.as_ref(), self.profile.as_ref());
            run_page::page(&summary, &self.drives, more, span.0, resolution)
        });
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

/// Findings of the files of records, at their end.
struct Ended {
    /// The faults, where any can happen.
    faults: Option<Vec<FaultSummary>>,
    /// The number of I/Os whose time in the guest is kept.
    guest_ios: Option<u64>,
    /// The summary of the timeline.
    timeline: Option<Value>,
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
