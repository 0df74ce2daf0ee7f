//! One side of a comparison: the I/Os of one run, or of several that differ in their seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stasis_block::inside::{Inside, LatencyMeans};
use stasis_block::Operation;
use stasis_report::verdict::{Alike, Doer, Runs};
use stasis_report::{shell_word, InputFile, Repeat, Waits};
use stasis_results::{
    folder_of, limit_of, own_figure, KeptIos, ResultsError, SlowIo, Summary, IOS_FILES, OUTPUT_FILE,
};

use crate::setup::Setup;

/// The engines of summaries that no guest's command made.
const SERVER: &str = "serve";
const SIMULATION: &str = "sim";

/// A drive's name, and an operation.
pub type Subject = (String, Operation);

/// The I/Os of one operation to one drive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ios {
    /// Delivered latencies (ns), rising.
    pub latencies: Vec<u64>,
    /// I/Os a second, over its `active_seconds`; 0
    /// where that is no time.
    pub iops: f64,
    /// Bytes a second over the same time.
    pub bytes_per_second: f64,
    /// Their lengths together.
    pub bytes: u64,
}

/// One run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Its I/Os by drive and operation.
    pub ios: BTreeMap<Subject, Ios>,
    /// Its set-up, as far as its results tell.
    pub setup: Setup,
    /// The other keys of its experiment, where its results tell it.
    pub experiment: Option<Setup>,
    /// The slowest I/Os by drive, as far as its results tell.
    pub slowest: BTreeMap<String, Vec<SlowIo>>,
    /// The parts of commands' time at the drives, on average, as far as its results tell.
    pub means: BTreeMap<Subject, LatencyMeans>,
    /// The latencies that models by figures have.
    pub own_figures: BTreeMap<Subject, String>,
    /// The limits on the rates of drives and disks, as far as its results tell.
    pub limits: BTreeMap<String, String>,
    /// The command line that repeats it, with results in a folder of the same name, as far as its results
    /// tell.
    pub repeat: Option<String>,
    /// The files that it read.
    pub inputs: Vec<InputFile>,
    /// The time of its command or load (ns), as far as its results tell.
    pub time: Option<f64>,
    /// Who took the time.
    pub is_load: bool,
    /// From its first submission to its last completion (ns), all drives together.
    pub span: f64,
    /// Why it did not succeed, such as `failed with status 1`.
    pub failed: Option<String>,
    /// The begin of what its command printed.
    pub printed: String,
    /// A hash of its I/Os with their times.
    pub digest: u64,
}

/// Something that is compared.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name: its path as it was given.
    pub name: String,
    /// Its runs.
    pub runs: Vec<Run>,
    /// Likeness of its runs: those with the same figures count as one.
    alike: Alike,
}

/// Bytes of a command's output that are looked at.
const MAX_PRINTED: u64 = 256 << 10;

impl Candidate {
    /// Runs under a name.
    pub fn new(name: impl Into<String>, runs: Vec<Run>) -> Self {
        let figures = |run: &Run| (run.ios.clone(), run.time, run.failed.clone());
        let all = |is_same: &dyn Fn(&Run, &Run) -> bool| {
            runs.len() > 1 && runs.windows(2).all(|two| is_same(&two[0], &two[1]))
        };
        let alike = match all(&|one, other| figures(one) == figures(other)) {
            true if all(&|one, other| one.digest == other.digest) => Alike::Whole,
            true => Alike::InFigures,
            false => Alike::No,
        };
        Self { name: name.into(), runs, alike }
    }

    /// Returns the candidate's runs, or only the first if all have the same figures.
    pub fn distinct(&self) -> &[Run] {
        match self.alike {
            Alike::No => &self.runs,
            Alike::InFigures | Alike::Whole => &self.runs[..1],
        }
    }

    /// Number of its runs.
    pub(crate) fn counted(&self) -> Runs {
        Runs { count: self.runs.len(), alike: self.alike }
    }

    /// Who took its time.
    pub(crate) fn doer(&self) -> Doer {
        match self.runs.iter().all(|run| run.is_load) {
            true => Doer::Load,
            false => Doer::Command,
        }
    }

    /// Why the time of some of its runs has no meaning.
    pub(crate) fn failed(&self) -> Option<String> {
        let failed: Vec<_> = self.runs.iter().filter_map(|run| run.failed.as_ref()).collect();
        let first = (*failed.first()?).clone();
        Some(match failed.len() == self.runs.len() {
            true => first,
            false => format!("{first} in {} of {} runs", failed.len(), self.runs.len()),
        })
    }

    /// All that [`Candidate::read`] reads for `path`.
    pub fn inputs(path: &Path) -> Vec<PathBuf> {
        let mut inputs = folders(path);
        inputs.push(path.to_owned());
        inputs
    }

    /// The files that [`Candidate::read`] reads for `path`: of I/Os, and summaries.
    pub fn files(path: &Path) -> Vec<PathBuf> {
        let files = |folder: PathBuf| {
            let of_ios = IOS_FILES.iter().map(|name| folder.join(name)).find(|file| file.exists());
            let summary =
                Some(folder.join(stasis_results::SUMMARY_FILE)).filter(|file| file.exists());
            of_ios.or(Some(folder)).into_iter().chain(summary)
        };
        folders(path).into_iter().flat_map(files).collect()
    }

    /// Reads the results at `path`, or in the folders that it has: one run each. I/Os of the
    /// guest's boot, and those that failed, are left out.
    ///
    /// # Errors
    /// If there are no results, or they cannot be read.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        let runs =
            folders(path).iter().map(|folder| Run::read(folder)).collect::<Result<_, _>>()?;
        Ok(Self::new(path.display().to_string(), runs))
    }

    /// The drives and operations that any run has.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.runs.iter().flat_map(|run| run.ios.keys())
    }

    /// The names of its drives.
    pub fn drives(&self) -> BTreeSet<String> {
        self.subjects().map(|(drive, _)| drive.clone()).collect()
    }

    /// Calls its drives `name`; it has one.
    pub(crate) fn rename(&mut self, name: &str) {
        for run in &mut self.runs {
            rename(&mut run.ios, name);
            rename(&mut run.means, name);
            rename(&mut run.own_figures, name);
            run.setup.rename(name);
            run.experiment.iter_mut().for_each(|one| one.rename(name));
            let slowest = std::mem::take(&mut run.slowest);
            run.slowest = slowest.into_values().map(|ios| (name.to_owned(), ios)).collect();
            let limits = std::mem::take(&mut run.limits);
            run.limits = limits.into_values().map(|limit| (name.to_owned(), limit)).collect();
        }
    }

    /// Returns the I/Os of a drive and operation, one for each distinct run.
    pub fn of<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = &'a Ios> {
        self.distinct().iter().filter_map(|run| run.ios.get(subject))
    }

    /// Returns the places where the slowest I/Os of all its runs spent their time; none where their
    /// results do not say.
    pub fn waits(&self, subject: &Subject) -> Option<Waits> {
        let (drive, operation) = subject;
        let of_drive = self.runs.iter().filter_map(|run| run.slowest.get(drive)).flatten();
        let waits = Waits::of_all(of_drive.filter(|io| io.operation == *operation))?;
        Some(waits.with_figure(self.own_figure(subject)).with_limit(self.limit(drive)))
    }

    /// Returns the places where the I/Os of its runs spent their time on average; none where their results
    /// do not say.
    pub fn mean_waits(&self, subject: &Subject) -> Option<Waits> {
        let means = self.distinct().iter().filter_map(|run| run.means.get(subject));
        Some(Waits::in_the_mean(means)?.with_figure(self.own_figure(subject)))
    }

    /// The latency that its model has for an operation, if that is one by figures.
    fn own_figure(&self, subject: &Subject) -> Option<String> {
        self.runs.iter().find_map(|run| run.own_figures.get(subject)).cloned()
    }

    /// The limits on the rate of a drive.
    fn limit(&self, drive: &str) -> Option<String> {
        self.runs.iter().find_map(|run| run.limits.get(drive)).cloned()
    }

    /// The mean number of I/Os that a drive had at once, and the time from one completion to the next
    /// (ns): by Little's law, of all its operations and runs together. None where they took no time.
    pub fn at_once(&self, drive: &str) -> Option<(f64, f64)> {
        let (mut count, mut latencies, mut span) = (0, 0.0, 0.0);
        for run in self.distinct() {
            span += run.span;
            for (_, ios) in run.ios.iter().filter(|((name, _), _)| name == drive) {
                count += ios.latencies.len();
                latencies += ios.latencies.iter().map(|latency| *latency as f64).sum::<f64>();
            }
        }
        (count > 0 && span > 0.0).then(|| (latencies / span, span / count as f64))
    }

    /// The latencies of all runs together, rising.
    pub fn together(&self, subject: &Subject) -> Vec<u64> {
        let mut all: Vec<u64> = self.of(subject).flat_map(|ios| &ios.latencies).copied().collect();
        all.sort_unstable();
        all
    }
}

/// Calls the one drive of figures `name`.
fn rename<T>(figures: &mut BTreeMap<Subject, T>, name: &str) {
    let old = std::mem::take(figures);
    figures.extend(old.into_iter().map(|((_, op), one)| ((name.to_owned(), op), one)));
}

/// `path` itself where it has I/Os or is a file, else the folders below it that have.
fn folders(path: &Path) -> Vec<PathBuf> {
    let has_ios = |folder: &Path| IOS_FILES.iter().any(|name| folder.join(name).exists());
    if !path.is_dir() || has_ios(path) {
        return vec![path.to_owned()];
    }
    let below = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = below.map(|entry| entry.path()).filter(|path| has_ios(path)).collect();
    found.sort();
    if found.is_empty() {
        // The error of reading it names the missing part.
        found.push(path.to_owned());
    }
    found
}

/// The I/Os of one operation to one drive while they are read.
#[derive(Default)]
struct Found {
    latencies: Vec<u64>,
    bytes: u64,
    /// The first submission and the last completion (ns).
    span: Option<(u64, u64)>,
}

impl Run {
    fn read(path: &Path) -> Result<Self, ResultsError> {
        let mut kept = KeptIos::open(path)?;
        let mut found: BTreeMap<(u16, Operation), Found> = BTreeMap::new();
        let mut digest = DefaultHasher::new();
        for record in kept.by_ref() {
            let record = record?;
            if record.boot || record.refused() {
                continue;
            }
            let place = (record.drive, record.operation.name(), record.offset, record.bytes);
            (place, record.submit, record.delivered, record.code).hash(&mut digest);
            let own = found.entry((record.drive, record.operation)).or_default();
            let (first, last) = own.span.unwrap_or((record.submit, record.delivered));
            own.span = Some((first.min(record.submit), last.max(record.delivered)));
            if record.failed() {
                continue;
            }
            own.latencies.push(record.delivered.saturating_sub(record.submit));
            own.bytes = own.bytes.saturating_add(record.bytes);
        }
        let drives = kept.drives();
        let spans = || found.values().filter_map(|own| own.span);
        let first = spans().map(|(first, _)| first).min().unwrap_or_default();
        let span = spans().map(|(_, last)| last - first).max().unwrap_or_default() as f64;
        let digest = digest.finish();
        // Of an operation of which all failed there are no figures.
        found.retain(|_, own| !own.latencies.is_empty());
        let named = found.into_iter().map(|((drive, operation), own)| {
            let Found { mut latencies, bytes, span } = own;
            let seconds = span.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
            let rate = |amount: u64| match seconds > 0.0 {
                true => amount as f64 / seconds,
                false => 0.0,
            };
            latencies.sort_unstable();
            let (iops, bytes_per_second) = (rate(latencies.len() as u64), rate(bytes));
            let ios = Ios { latencies, iops, bytes_per_second, bytes };
            ((drives[usize::from(drive)].clone(), operation), ios)
        });
        let ios = named.collect();
        let Some(summary) = Summary::beside(path) else {
            return Ok(Self { ios, span, digest, ..Self::default() });
        };
        let repeat = Repeat::of(&summary.extra).unwrap_or_default();
        // Drives that others use in real time have no command.
        let time = (summary.engine != SERVER).then_some(summary.virtual_seconds * 1e9);
        let failed = match (summary.ending.as_str(), summary.exit_status) {
            ("exited", 0) => None,
            ("exited", status) => Some(format!("failed with status {status}")),
            (ending, _) => Some(format!("did not end ({})", ending.replace('-', " "))),
        };
        let is_load = summary.engine == SIMULATION;
        let (setup, experiment) = (Setup::of(&summary), Setup::of_experiment(&summary));
        let figures = summary.drives.iter().flat_map(|drive| {
            let own = |(operation, _)| {
                let figure = own_figure(&drive.described, operation)?;
                Some(((drive.described.name.clone(), operation), figure))
            };
            drive.used().filter_map(own)
        });
        let own_figures = figures.collect();
        let means = summary.drives.iter().flat_map(|drive| {
            let latency = drive.inside.as_ref().and_then(Inside::latency);
            let means = move |operation: Operation| {
                let subject = (drive.described.name.clone(), operation);
                Some((subject, *latency?.get(operation.name())?))
            };
            Operation::ALL.into_iter().filter_map(means)
        });
        let means = means.collect();
        let names = summary.drives.iter().map(|drive| &drive.described.name);
        let limits =
            names.filter_map(|name| Some((name.clone(), limit_of(&summary, name)?))).collect();
        let slowest = summary.drives.into_iter().map(|drive| (drive.described.name, drive.slowest));
        let slowest = slowest.collect();
        let (inputs, command) = (repeat.inputs, repeat.command);
        let repeat = (!command.is_empty()).then(|| into_folder(&command, folder_of(path)));
        let printed = printed(path);
        Ok(Self {
            ios,
            setup,
            experiment,
            slowest,
            means,
            own_figures,
            limits,
            repeat,
            inputs,
            time,
            is_load,
            span,
            failed,
            printed,
            digest,
        })
    }
}

/// A command that repeats a run, with its results in `folder`.
fn into_folder(command: &str, folder: &Path) -> String {
    let folder = shell_word(&folder.display().to_string());
    // Stasis's own words come before the guest's command.
    command.replacen("--results again", &format!("--results {folder}"), 1)
}

/// The begin of what the command of the run printed whose results are at `path`.
fn printed(path: &Path) -> String {
    let mut begin = Vec::new();
    let file = fs::File::open(folder_of(path).join(OUTPUT_FILE));
    if let Ok(file) = file {
        // An output that cannot be read is none.
        let _ = file.take(MAX_PRINTED).read_to_end(&mut begin);
    }
    String::from_utf8_lossy(&begin).into_owned()
}
