//! How a publication is to be repeated, and what comes of it.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use serde::Serialize;
use stasis_experiment::{Engine, GuestSpec};
use stasis_report::figures::Figure;
use stasis_report::page::Section;

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
    /// Run nothing: what is not complete counts as failed.
    pub gather: bool,
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

/// An experiment of a publication, as `--list --json` has it: what whoever runs it elsewhere has
/// to know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Its name and that of its folder.
    pub name: String,
    /// What it is, in a line.
    pub what: String,
    /// SHA-256 of all that decides its results, beside the program and its guests.
    pub digest: String,
    /// The guests that it runs, as tables `[guest]`.
    pub guests: Vec<GuestSpec>,
    /// Memory that its machines and media take (bytes).
    pub memory: u64,
    /// Where its wall-clock time is a figure: with which others it is compared. Those run on one
    /// computer, one after another, and nothing else beside them.
    pub timed: Option<&'static str>,
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
