//! A threshold beside what the run had.

use serde::{Deserialize, Serialize};

use super::unit::Unit;

/// Exit status of a run whose command succeeded, and one of whose thresholds was not met: that of
/// k6.
pub const UNMET: i32 = 99;

/// Whether a threshold was met, as `summary.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The threshold.
    pub that: String,
    /// The name that the experiment gives it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// True if it was met.
    pub met: bool,
    /// The figure that decided: of several the furthest to the wrong side.
    pub figure: String,
    /// Its value; none where it has none, so that the threshold is not met.
    pub value: Option<f64>,
    /// The value that it was compared with.
    pub limit: f64,
    /// The unit of both.
    pub unit: Unit,
}

impl Judgement {
    /// Returns the threshold's name for a reader: its own name, or its text.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.that)
    }

    /// The figure's value for a reader: to the last digit, where it would look like the limit.
    pub fn shown(&self) -> String {
        let Some(value) = self.value else { return "no value".to_owned() };
        let [shown, limit] = [value, self.limit].map(|value| self.unit.shown(value));
        match shown == limit && value != self.limit {
            true => self.unit.exact(value),
            false => shown,
        }
    }

    /// The threshold and the figure that decided, in a clause.
    pub fn line(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let that = &self.that;
        match self.value {
            Some(_) => format!("{name}{that}: {} is {}", self.figure, self.shown()),
            None => format!("{name}{that}: the run has no {}", self.figure),
        }
    }
}
