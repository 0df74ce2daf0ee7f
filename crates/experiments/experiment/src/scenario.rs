//! A scenario: the faults and the seed of one run of an experiment, in a file of their own. An
//! exploration leaves one for each finding.

use std::fmt::Write;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_config::{Mistake, TextError};

use crate::{Experiment, ExperimentError, ScheduledFault};

/// The seed and the faults of one run of an experiment, in place of the experiment's own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Scenario {
    /// Seed of everything random.
    pub seed: u64,
    /// `log-level` of each machine that has none.
    #[schemars(range(min = 1, max = 8))]
    pub log_level: Option<u8>,
    /// Limit on the commands' virtual time, where the experiment has none.
    #[serde(with = "units::duration_option")]
    pub virtual_limit: Option<Nanos>,
    /// Faults in place of the experiment's and its space's.
    #[serde(rename = "fault")]
    pub faults: Vec<ScheduledFault>,
}

impl Scenario {
    /// Reads a scenario's file.
    ///
    /// # Errors
    /// Returns the place, the value found and the allowed ones.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ExperimentError::Read { path: path.to_owned(), source })?;
        Self::of_text(&text).map_err(|error| ExperimentError::File { path: path.to_owned(), error })
    }

    /// Reads a scenario's text.
    ///
    /// # Errors
    /// Returns the place, the value found and the allowed ones.
    pub fn of_text(text: &str) -> Result<Self, TextError> {
        stasis_config::read_text(text)
    }

    /// Gives an experiment that is not finished yet the scenario's seed and faults.
    pub fn apply(&self, experiment: &mut Experiment) {
        experiment.seed = self.seed;
        experiment.fault_space = None;
        experiment.faults.clone_from(&self.faults);
        experiment.virtual_limit = experiment.virtual_limit.or(self.virtual_limit);
        for machine in experiment.machine.each_mut() {
            machine.log_level = machine.log_level.or(self.log_level);
        }
    }

    /// Returns a finished experiment's run with this scenario.
    ///
    /// # Errors
    /// Returns the fault that cannot be.
    pub fn of(&self, experiment: &Experiment) -> Result<Experiment, Mistake> {
        let mut changed = experiment.clone();
        self.apply(&mut changed);
        changed.settle_faults();
        changed.check_faults()?;
        Ok(changed)
    }

    /// The text of the scenario's file, each line of `heading` as a comment.
    pub fn to_toml(&self, heading: &str) -> String {
        let mut text = String::new();
        for line in heading.lines() {
            text.push_str("# ");
            text.push_str(line);
            text.push('\n');
        }
        // Nothing is written to a string in vain.
        let _ = writeln!(text, "seed = {}", self.seed);
        if let Some(level) = self.log_level {
            let _ = writeln!(text, "log-level = {level}");
        }
        if let Some(limit) = self.virtual_limit {
            let limit = units::format_duration(limit);
            let _ = writeln!(text, "virtual-limit = {}", value(&limit.into()));
        }
        for fault in &self.faults {
            text.push_str("\n[[fault]]\n");
            for (key, set) in fault.keys() {
                let _ = writeln!(text, "{key} = {}", value(&set));
            }
        }
        text
    }
}

/// A value in TOML, whose strings, numbers, truth values and arrays are as in JSON.
fn value(value: &serde_json::Value) -> String {
    value.to_string()
}

impl ScheduledFault {
    /// The keys that say something, with their values, the kind first.
    pub fn keys(&self) -> Vec<(String, serde_json::Value)> {
        let Ok(serde_json::Value::Object(all)) = serde_json::to_value(self) else {
            return Vec::new();
        };
        let is_said = |value: &serde_json::Value| match value {
            serde_json::Value::Null | serde_json::Value::Bool(false) => false,
            serde_json::Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        let mut keys: Vec<_> = all.into_iter().filter(|(_, value)| is_said(value)).collect();
        keys.sort_by_key(|(key, _)| (key != "kind", key.clone()));
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_as_it_is_written() {
        let fault = ScheduledFault {
            kind: "partition".into(),
            machines: vec!["a\"b".into(), "c".into()],
            begin: Some(1_234_567_891),
            end: Some(2_000_000_000),
            rate: Some(0.25),
            one_way: true,
            ..ScheduledFault::default()
        };
        let cut = ScheduledFault {
            kind: "power-cut".into(),
            at_output: Some("^half \\d$".into()),
            restart: Some(1),
            ..ScheduledFault::default()
        };
        let scenario = Scenario {
            seed: 7,
            log_level: Some(5),
            virtual_limit: Some(1_500_000_001),
            faults: vec![fault, cut],
        };
        let text = scenario.to_toml("two lines\nof a heading");
        assert!(text.starts_with("# two lines\n# of a heading\nseed = 7\n"), "{text}");
        assert_eq!(stasis_config::read_text::<Scenario>(&text).unwrap(), scenario, "{text}");
    }

    #[test]
    fn a_scenario_replaces_faults_and_refuses_those_that_cannot_be() {
        let text = "command = [\"true\"]\n[[machine]]\nname = \"a\"\nwait = false\n[[machine]]\nname = \"b\"\n\
                    [[fault]]\nkind = \"pause\"\nmachine = \"a\"\n";
        let mut experiment: Experiment = stasis_config::read_text(text).unwrap();
        experiment.finish().unwrap();
        let on = |machine: &str| Scenario {
            seed: 3,
            log_level: Some(5),
            virtual_limit: None,
            faults: vec![ScheduledFault {
                kind: "pause".into(),
                machine: Some(machine.into()),
                end: Some(1),
                ..ScheduledFault::default()
            }],
        };
        let changed = on("b").of(&experiment).unwrap();
        assert_eq!((changed.seed, changed.faults.len()), (3, 1));
        assert_eq!(changed.faults[0].machine.as_deref(), Some("b"));
        assert!(changed.machine.all().iter().all(|one| one.log_level == Some(5)));
        assert!(on("c").of(&experiment).is_err());
    }
}
