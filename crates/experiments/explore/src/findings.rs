//! A finding: the first run of a failure, and what of its scenario is enough.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stasis_experiment::Scenario;

use crate::inevitable::Inevitable;
use crate::verdict::Failure;
use crate::words;

/// A failure, shortened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its number, from 1 on.
    pub number: u64,
    /// Its signature, by which its runs are known.
    pub signature: String,
    /// The failure of the shortened scenario.
    pub failure: Failure,
    /// Number of the run that was shortened.
    pub run: u64,
    /// Number of faults of that run.
    pub faults_before: usize,
    /// Number of runs that shortening took.
    pub tries: u64,
    /// The scenario that is enough.
    #[serde(with = "as_file")]
    pub scenario: Scenario,
    /// Its point of no return, where that was looked for.
    #[serde(default)]
    pub inevitable: Option<Inevitable>,
    /// Its file.
    pub file: PathBuf,
    /// Folder with the results of a run with it.
    pub results: PathBuf,
    /// True if that run failed in the same way.
    pub repeats: bool,
    /// The command line that repeats it.
    pub repeat: String,
    /// The command line that stops it just before its first fault.
    pub debug: String,
}

impl Finding {
    /// The faults in a line.
    pub fn faults(&self) -> String {
        words::faults(&self.scenario.faults)
    }

    /// The failure in a line.
    pub fn title(&self) -> String {
        match self.failure.line.is_empty() {
            true => self.failure.oracle.name().to_owned(),
            false => format!("{}: {}", self.failure.oracle.name(), self.failure.line),
        }
    }

    /// The finding as a report of a bug, in Markdown; `experiment`: the text of the experiment's file,
    /// `message`: words about the run's end.
    pub fn to_markdown(&self, experiment: &str, message: &str) -> String {
        let version = stasis_runner::provenance::version();
        let repeats = match self.repeats {
            true => "It repeats, to the byte",
            false => "It did not repeat when it was run once more",
        };
        let faults: Vec<_> = self
            .scenario
            .faults
            .iter()
            .map(|fault| format!("- {}\n", words::fault(fault)))
            .collect();
        let message = match message.is_empty() {
            true => String::new(),
            false => format!("\n{message}\n"),
        };
        let inevitable = match &self.inevitable {
            Some(inevitable) => {
                format!("By branches with other seeds, {}.\n\n", inevitable.sentence())
            }
            None => String::new(),
        };
        format!(
            "# {}\n{message}\nFaults that are enough for it:\n\n{}\n{inevitable}{repeats}, with Stasis {version}:\n\n    {}\n\n\
             Just before the first fault, with gdb:\n\n    {}\n\nThe scenario:\n\n```toml\n{}```\n\n\
             The experiment:\n\n```toml\n{}\n```\n",
            self.title(),
            faults.concat(),
            self.repeat,
            self.debug,
            self.scenario.to_toml(""),
            experiment.trim_end()
        )
    }
}

/// A scenario as its file has it.
mod as_file {
    use super::{Deserialize, Deserializer, Scenario, Serializer};

    pub fn serialize<S: Serializer>(scenario: &Scenario, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&scenario.to_toml(""))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scenario, D::Error> {
        let text = String::deserialize(deserializer)?;
        Scenario::of_text(&text).map_err(serde::de::Error::custom)
    }
}
