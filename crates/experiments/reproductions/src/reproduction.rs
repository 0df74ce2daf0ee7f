//! The request to repeat a publication, and the results.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use serde::Serialize;
use stasis_experiment::{Engine, GuestSpec};
use stasis_report::page::Section;
use stasis_report::published_vs_measured::Figure;

/// A request to repeat a publication.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// The folder of the results.
    pub folder: PathBuf,
    /// Engine that runs the machines.
    pub engine: Engine,
    /// Fewer experiments and I/Os, as a check.
    pub quick: bool,
    /// The publication's size.
    pub full: bool,
    /// Run experiments again that are complete.
    pub force: bool,
    /// Run nothing: experiments that are not complete count as failed.
    pub gather: bool,
    /// Drives to measure; empty for the usual ones.
    pub devices: Vec<String>,
    /// Experiments at a time; none for one on each core.
    pub jobs: Option<usize>,
    /// Ends the work once it is set.
    pub stop: Arc<AtomicBool>,
}

impl Reproduction {
    /// Size of the reproduction, in words.
    pub fn size(&self) -> &'static str {
        match (self.quick, self.full) {
            (true, _) => "the quick form, for checks",
            (_, true) => "the publication's size",
            _ => "the usual size",
        }
    }
}

/// An experiment of a publication, as in `--list --json`: its description for a program that runs
/// it elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Name of the experiment and of its folder.
    pub name: String,
    /// Description in one line.
    pub what: String,
    /// SHA-256 of all that decides its results, beside the program and its guests.
    pub digest: String,
    /// The guests that it runs, as tables `[guest]`.
    pub guests: Vec<GuestSpec>,
    /// Memory that its machines and media take (bytes).
    pub memory: u64,
    /// Set if the experiment's wall-clock time is a figure: the name of the group of experiments
    /// that are compared. These run on one computer, one after another, and nothing else beside
    /// them.
    pub timed: Option<&'static str>,
}

/// Findings of a publication's experiments.
#[derive(Debug)]
pub struct Findings {
    /// The publication's title.
    pub title: &'static str,
    /// Place and conditions of the measurements.
    pub subtitle: String,
    /// The page's sections.
    pub sections: Vec<Section>,
    /// Every figure beside the published one.
    pub figures: Vec<Figure>,
    /// Experiments that failed, and why.
    pub failed: Vec<(String, String)>,
}
