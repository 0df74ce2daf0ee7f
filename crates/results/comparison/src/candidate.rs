//! One side of a comparison: the I/Os of one run, or of several that differ in their seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stasis_report::{KeptIos, ReportError, IOS_FILES};

/// Delivered latencies (ns), rising, by drive and operation.
pub type Latencies = BTreeMap<(String, String), Vec<u64>>;

/// Something that is compared.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name: its path as it was given.
    pub name: String,
    /// The latencies of each of its runs.
    pub runs: Vec<Latencies>,
}

impl Candidate {
    /// All that [`Candidate::read`] reads for `path`.
    pub fn inputs(path: &Path) -> Vec<PathBuf> {
        let mut inputs = folders(path);
        inputs.push(path.to_owned());
        inputs
    }

    /// Reads the results at `path`, or in the folders that it has: one run each. I/Os of the
    /// guest's boot, and those that failed, are left out.
    ///
    /// # Errors
    /// If there are no results, or they cannot be read.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let runs =
            folders(path).iter().map(|folder| latencies(folder)).collect::<Result<_, _>>()?;
        Ok(Self { name: path.display().to_string(), runs })
    }

    /// The drives and operations that any run has.
    pub fn subjects(&self) -> impl Iterator<Item = &(String, String)> {
        self.runs.iter().flat_map(BTreeMap::keys)
    }

    /// The names of its drives.
    pub fn drives(&self) -> BTreeSet<String> {
        self.subjects().map(|(drive, _)| drive.clone()).collect()
    }

    /// Calls its drives `name`; it has one.
    pub(crate) fn rename(&mut self, name: &str) {
        for run in &mut self.runs {
            let old = std::mem::take(run);
            *run = old.into_iter().map(|((_, op), all)| ((name.to_owned(), op), all)).collect();
        }
    }

    /// The latencies of all runs together, rising.
    pub fn together(&self, subject: &(String, String)) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.runs.iter().filter_map(|run| run.get(subject)).flatten().copied().collect();
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

fn latencies(path: &Path) -> Result<Latencies, ReportError> {
    let mut kept = KeptIos::open(path)?;
    let mut found: BTreeMap<(u16, &'static str), Vec<u64>> = BTreeMap::new();
    for record in kept.by_ref() {
        let record = record?;
        if record.boot || record.failed() {
            continue;
        }
        let latency = record.delivered.saturating_sub(record.submit);
        found.entry((record.drive, record.operation.name())).or_default().push(latency);
    }
    let drives = kept.drives();
    let named = found.into_iter().map(|((drive, operation), mut values)| {
        values.sort_unstable();
        ((drives[usize::from(drive)].clone(), operation.to_owned()), values)
    });
    Ok(named.collect())
}
