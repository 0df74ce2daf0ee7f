//! Failures that an exploration looks for beside the commands' statuses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_config::Mistake;
use stasis_history::checkers::{Checker, Isolation};

use crate::triggers::check_pattern;

/// Failures that `stasis explore` looks for beside a command's status, a kernel's own complaints and a run
/// that comes to no end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ExploreSpec {
    /// Regular expressions that no line of the commands' output or of a kernel's log may match.
    pub never: Vec<String>,
    /// Regular expressions that one line of the commands' output matches, and no second one.
    pub once: Vec<String>,
    /// Checkers of the operations of clients, where `history = true`.
    pub history: Vec<Checker>,
    /// Isolation of the transactions of `append`.
    pub isolation: Isolation,
    /// Time after the last fault's end within which an operation has to be acknowledged, if clients ask
    /// for one.
    #[serde(with = "units::duration_option")]
    pub progress: Option<Nanos>,
}

impl ExploreSpec {
    /// Refuses what is no regular expression.
    pub(crate) fn check(&self, has_history: bool) -> Result<(), Mistake> {
        let needs = [("history", !self.history.is_empty()), ("progress", self.progress.is_some())];
        if let Some((key, _)) = needs.iter().find(|(_, is_given)| *is_given && !has_history) {
            let message = format!(
                "{key} looks at operations of clients: give the experiment `history = true`, with commands \
                 that write them"
            );
            return Err(Mistake::at(*key, message));
        }
        for (key, patterns) in [("never", &self.never), ("once", &self.once)] {
            for (index, pattern) in patterns.iter().enumerate() {
                check_pattern(pattern)
                    .map_err(|message| Mistake::at(index, message).inside(key))?;
            }
        }
        Ok(())
    }
}
