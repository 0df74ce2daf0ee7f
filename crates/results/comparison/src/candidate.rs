//! One side of a comparison: the I/Os of one run, or of several that differ in their seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stasis_block::Operation;
use stasis_report::{KeptIos, Repeat, ReportError, SlowIo, Summary, Waits, IOS_FILES};

use crate::setup::Setup;

/// A drive's name, and an operation.
pub type Subject = (String, Operation);

/// The I/Os of one operation to one drive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ios {
    /// Delivered latencies (ns), rising.
    pub latencies: Vec<u64>,
    /// I/Os a second, over the time from the operation's first submission to its last completion; 0
    /// where that is no time.
    pub iops: f64,
    /// Bytes a second over the same time.
    pub bytes_per_second: f64,
}

/// One run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Its I/Os by drive and operation.
    pub ios: BTreeMap<Subject, Ios>,
    /// Its set-up, as far as its results tell.
    pub setup: Setup,
    /// The slowest I/Os by drive, as far as its results tell.
    pub slowest: BTreeMap<String, Vec<SlowIo>>,
    /// The command line that repeats it, as far as its results tell.
    pub repeat: Option<String>,
}

/// Something that is compared.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name: its path as it was given.
    pub name: String,
    /// Its runs.
    pub runs: Vec<Run>,
}

impl Candidate {
    /// All that [`Candidate::read`] reads for `path`.
    pub fn inputs(path: &Path) -> Vec<PathBuf> {
        let mut inputs = folders(path);
        inputs.push(path.to_owned());
        inputs
    }

    /// The files of I/Os that [`Candidate::read`] reads for `path`.
    pub fn files(path: &Path) -> Vec<PathBuf> {
        let file = |folder: PathBuf| {
            let found = IOS_FILES.iter().map(|name| folder.join(name)).find(|file| file.exists());
            found.unwrap_or(folder)
        };
        folders(path).into_iter().map(file).collect()
    }

    /// Reads the results at `path`, or in the folders that it has: one run each. I/Os of the
    /// guest's boot, and those that failed, are left out.
    ///
    /// # Errors
    /// If there are no results, or they cannot be read.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let runs =
            folders(path).iter().map(|folder| Run::read(folder)).collect::<Result<_, _>>()?;
        Ok(Self { name: path.display().to_string(), runs })
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
            let old = std::mem::take(&mut run.ios);
            run.ios = old.into_iter().map(|((_, op), all)| ((name.to_owned(), op), all)).collect();
            run.setup.rename(name);
            let slowest = std::mem::take(&mut run.slowest);
            run.slowest = slowest.into_values().map(|ios| (name.to_owned(), ios)).collect();
        }
    }

    /// Its runs' I/Os of a drive and operation.
    pub fn of<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = &'a Ios> {
        self.runs.iter().filter_map(|run| run.ios.get(subject))
    }

    /// Where the slowest I/Os of all its runs spent their time; none where their results do not tell.
    pub fn waits(&self, (drive, operation): &Subject) -> Option<Waits> {
        let of_drive = self.runs.iter().filter_map(|run| run.slowest.get(drive)).flatten();
        Waits::of_all(of_drive.filter(|io| io.operation == *operation))
    }

    /// The latencies of all runs together, rising.
    pub fn together(&self, subject: &Subject) -> Vec<u64> {
        let mut all: Vec<u64> = self.of(subject).flat_map(|ios| &ios.latencies).copied().collect();
        all.sort_unstable();
        all
    }
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
    fn read(path: &Path) -> Result<Self, ReportError> {
        let mut kept = KeptIos::open(path)?;
        let mut found: BTreeMap<(u16, Operation), Found> = BTreeMap::new();
        for record in kept.by_ref() {
            let record = record?;
            if record.boot || record.refused() {
                continue;
            }
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
            let ios = Ios { latencies, iops, bytes_per_second };
            ((drives[usize::from(drive)].clone(), operation), ios)
        });
        let ios = named.collect();
        let Some(summary) = Summary::beside(path) else {
            return Ok(Self { ios, ..Self::default() });
        };
        let setup = Setup::of(&summary);
        let slowest = summary.drives.into_iter().map(|drive| (drive.described.name, drive.slowest));
        let repeat = Repeat::of(&summary.extra).map(|repeat| repeat.command);
        Ok(Self { ios, setup, slowest: slowest.collect(), repeat })
    }
}
