//! The words of `stasis reproduce`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use stasis_experiment::Engine;

/// Publications that can be repeated: name on the command line; authors, title and year.
pub const PUBLICATIONS: [(&str, &str); 5] = [
    (
        "freezing-time",
        "Bona et al.: \
         \"Freezing time: emulating new and faster devices with virtual machines\", 2020",
    ),
    (
        "femu",
        "Li et al.: \
         \"The CASE of FEMU: cheap, accurate, scalable and extensible flash emulator\", 2018",
    ),
    ("barrier", "Kim et al.: \"Barrier enabled QEMU\", 2019"),
    ("coordination", "vIrtical, deliverable D3.6: \"I/O Scheduler for virtualized systems\", 2014"),
    (
        "controller",
        "Ben-Yehuda et al.: \"Adding advanced storage controller functionality via \
         low-overhead virtualization\", 2012",
    ),
];

/// Arguments of `stasis reproduce`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each experiment leaves a folder in DIR with the results of `stasis run`; DIR/figures.json has
the figures, DIR/report.html the plots. An experiment that is complete in DIR, from the same
program and settings, is not run again.

Examples:
  stasis reproduce freezing-time
  stasis reproduce freezing-time --quick --results quick
  stasis reproduce femu
  stasis reproduce barrier --full
  stasis reproduce coordination --quick
  stasis reproduce coordination --device mk6006gah,sem16g
  stasis reproduce controller --quick
  stasis reproduce barrier --only flush --results shared
  stasis reproduce femu --on tcp://scheduler:8786

Exit status: 0; 125 if an experiment failed, 130 if it was stopped."
)]
pub struct Arguments {
    /// The publication
    #[arg(value_parser = names())]
    pub publication: String,
    /// Folder for the results [default: reproduce-PUBLICATION]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Fewer experiments and I/Os, as a check
    #[arg(long)]
    pub quick: bool,
    /// As large as the publication; barrier and coordination only, hours
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Run experiments again that are complete
    #[arg(long)]
    pub force: bool,
    /// Drives to measure; coordination only
    #[arg(long, value_delimiter = ',', value_name = "MODEL,...")]
    pub device: Vec<String>,
    /// Experiments at a time, but those whose wall-clock time is a figure; all but controller
    /// [default: one for each core, and one where machines run in real time]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Where the machines run: auto, kvm, softkvm or exact [default: auto]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,
    /// Print the experiments in place of running them: name and description, a line each
    #[arg(long)]
    pub list: bool,
    /// With --list: print JSON, with all that is needed to run the experiments elsewhere
    #[arg(long)]
    pub json: bool,
    /// Run only these experiments, without figures or page, such as on one machine of several that
    /// share DIR; the same without --only makes the figures of all complete experiments
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", conflicts_with = "list")]
    pub only: Vec<String>,
    /// Run nothing: make figures and page of the complete experiments in DIR
    #[arg(long, conflicts_with_all = ["list", "only", "force", "jobs"])]
    pub gather: bool,
    /// Run the experiments as a study, by the Python package: local, tcp://HOST:PORT of a Dask
    /// scheduler, or slurm
    #[arg(long, value_name = "WHERE", conflicts_with_all = ["list", "only", "force", "jobs", "gather"])]
    pub on: Option<String>,
    /// With --on: number of workers [default: one for each core]
    #[arg(long, value_name = "N", requires = "on")]
    pub workers: Option<usize>,
    /// With --on: compute N experiments again on another worker, and compare the bytes
    #[arg(long, value_name = "N", requires = "on")]
    pub verify: Option<usize>,
}

fn names() -> PossibleValuesParser {
    PUBLICATIONS.map(|(name, citation)| PossibleValue::new(name).help(citation)).into()
}

impl Arguments {
    /// Returns whether the experiments are points of a study, which the Python package runs.
    pub fn is_study(&self) -> bool {
        self.on.is_some()
    }
}
