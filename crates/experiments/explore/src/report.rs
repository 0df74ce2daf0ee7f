//! The report of an exploration: JSON for programs, text for the terminal, tests in JUnit's XML.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use stasis_report::junit::{Case, Failure as Failed, Suite};
use stasis_report::verdict::Explored;
use stasis_report::Repeat;

use crate::findings::Finding;
use crate::tally::{Counts, Group, Landed};

/// The report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The experiment's file.
    pub experiment: PathBuf,
    /// Seed of the exploration.
    pub seed: u64,
    /// Number of runs with one fault, which come first.
    pub singles: u64,
    /// Runs by verdict.
    #[serde(flatten)]
    pub counts: Counts,
    /// Failures by signature.
    pub groups: Vec<Group>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Faults that happened, by phase.
    pub landed: Vec<Landed>,
    /// Why the first run that could not be made was not made.
    pub broken_reason: Option<String>,
    /// True if no further scenario could be drawn.
    pub exhausted: bool,
    /// True if it was stopped before its end.
    pub stopped: bool,
    /// Wall-clock time of this command.
    pub seconds: f64,
    /// Runs of this command an hour.
    pub runs_per_hour: f64,
    /// The command line that repeats the exploration, and the files that it read.
    pub repeat_exploration: Option<Repeat>,
    /// Provenance of the report.
    #[serde(flatten)]
    pub provenance: Map<String, Value>,
}

impl Report {
    /// Facts of the page's answer.
    pub(crate) fn explored(&self) -> Explored {
        let example = self
            .findings
            .first()
            .map_or(String::new(), |finding| format!("{} ({})", finding.title(), finding.faults()));
        Explored {
            runs: self.counts.runs,
            vacuous: self.counts.no_fault + self.counts.no_work + self.counts.undecided,
            failed: self.counts.failed,
            broken: self.counts.broken,
            findings: self.groups.len() as u64,
            example,
            is_stopped: self.stopped,
        }
    }

    /// The group of a finding.
    pub(crate) fn group(&self, finding: &Finding) -> Option<&Group> {
        self.groups.iter().find(|group| group.signature == finding.signature)
    }

    /// The report for a terminal.
    pub fn text(&self, page: &Path) -> String {
        let mut out = String::new();
        // Nothing is written to a string in vain.
        let _ = writeln!(out, "{}", self.explored().verdict().sentence);
        if let Some(why) = &self.broken_reason {
            let _ = writeln!(out, "{} runs could not be made: {why}", self.counts.broken);
        }
        if self.exhausted {
            let _ = writeln!(out, "No other scenario can be drawn from this space.");
        }
        for finding in &self.findings {
            let _ = writeln!(out, "\nfinding {}: {}", finding.number, finding.title());
            let _ = writeln!(out, "  enough for it: {}", finding.faults());
            if let Some(inevitable) = &finding.inevitable {
                let _ = writeln!(out, "  {}", inevitable.sentence());
            }
            if let Some(group) = self.group(finding) {
                let believed = group.runs_to_believe(self.counts.runs);
                let _ = writeln!(
                    out,
                    "  in {} of {} runs; after {believed} without it a correction is believed (95 %)",
                    group.count, self.counts.runs
                );
            }
            if !finding.repeats {
                let _ = writeln!(out, "  it did not repeat");
            }
            let _ = writeln!(out, "  {}\n  {}", finding.repeat, finding.debug);
        }
        let _ = writeln!(out, "\npage: {}", page.display());
        out
    }

    /// The findings as tests.
    pub fn to_junit(&self) -> Suite {
        let case = |name: String, failure, output| Case {
            class: "explore".to_owned(),
            name,
            failure,
            output,
        };
        let mut cases: Vec<_> = self
            .findings
            .iter()
            .map(|finding| {
                let text = format!(
                    "enough for it: {}\nto repeat it:\n{}\n",
                    finding.faults(),
                    finding.repeat
                );
                let failure = Failed { message: finding.title(), text };
                case(finding.signature.clone(), Some(failure), String::new())
            })
            .collect();
        if cases.is_empty() {
            let output = self.explored().verdict().sentence;
            cases.push(case("no run with faults fails".to_owned(), None, output));
        }
        Suite {
            name: format!("exploration of {}", self.experiment.display()),
            seconds: self.seconds,
            error: self.stopped.then(|| "it was stopped before its end".to_owned()),
            cases,
        }
    }
}
