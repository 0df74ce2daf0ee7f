//! What a publication is to `stasis reproduce`, and which there are.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::Result;
use serde::de::DeserializeOwned;
use stasis_experiment::Engine;
use stasis_report::figures::Figure;
use stasis_report::page::Section;

use crate::{barrier, controller, coordination, femu, freezing_time};

/// A publication whose experiments can be repeated: a folder of this crate, which has the
/// experiments, the published figures, and what is made of ours.
pub trait Publication: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Authors, title and year.
    fn citation(&self) -> &'static str;

    /// Options that it takes beside those that all take.
    fn takes(&self) -> &'static [Extra] {
        &[]
    }

    /// The experiments that each run on their own, by name and in a line. None where the
    /// publication's are not a list.
    ///
    /// # Errors
    /// If the request's settings make no sense.
    fn experiments(&self, _request: &Request) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// Runs those of [`Publication::experiments`] that are named, and makes nothing of them:
    /// [`Publication::measure`] finds them complete. What failed, and why.
    ///
    /// # Errors
    /// As [`Publication::measure`].
    fn run(&self, _request: &Request, _names: &[String]) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    /// Repeats the experiments.
    ///
    /// # Errors
    /// [`Stopped`](crate::bench::Stopped); and where nothing can be measured at all. What a
    /// single experiment lacks is in [`Findings::failed`].
    fn measure(&self, request: &Request) -> Result<Findings>;
}

/// An option that not all publications take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// `--full`: as large as the publication.
    Full,
    /// `--device`: the drives to measure.
    Device,
    /// `--jobs`: experiments at a time.
    Jobs,
}

/// How a publication is to be repeated.
#[derive(Debug)]
pub struct Request {
    /// The folder of the results.
    pub folder: PathBuf,
    /// Where the machines run.
    pub engine: Engine,
    /// Fewer experiments and I/Os, as a check.
    pub quick: bool,
    /// As large as the publication.
    pub full: bool,
    /// Run what is complete, too.
    pub force: bool,
    /// Drives to measure; empty for the usual ones.
    pub devices: Vec<String>,
    /// Experiments at a time; none for one on each core.
    pub jobs: Option<usize>,
    /// Ends the work once it is set.
    pub stop: Arc<AtomicBool>,
}

impl Request {
    /// How large it is, in words.
    pub fn size(&self) -> &'static str {
        match (self.quick, self.full) {
            (true, _) => "the quick form, for checks",
            (_, true) => "the publication's size",
            _ => "the usual size",
        }
    }
}

/// What a publication's experiments say.
#[derive(Debug)]
pub struct Findings {
    /// The publication's title.
    pub title: &'static str,
    /// Where and how it was measured.
    pub subtitle: String,
    /// The page's sections.
    pub sections: Vec<Section>,
    /// Every figure beside the published one.
    pub figures: Vec<Figure>,
    /// Experiments that failed, and why.
    pub failed: Vec<(String, String)>,
}

/// The figures of a publication, from the data file in its folder.
///
/// # Panics
/// If the file, which is part of the program, is not one; each has a test that reads it.
pub(crate) fn published<T: DeserializeOwned>(file: &str) -> T {
    toml::from_str(file).expect("a data file of the program's own is as its test has read it")
}

/// Every publication.
pub const PUBLICATIONS: [&dyn Publication; 5] = [
    &freezing_time::FreezingTime,
    &femu::Femu,
    &barrier::Barrier,
    &coordination::Coordination,
    &controller::Controller,
];

/// The publication of that name.
pub fn named(name: &str) -> Option<&'static dyn Publication> {
    PUBLICATIONS.into_iter().find(|publication| publication.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_publication_is_found_by_its_name() {
        for publication in PUBLICATIONS {
            assert_eq!(named(publication.name()).unwrap().citation(), publication.citation());
        }
        assert!(named("nonsense").is_none());
    }
}
