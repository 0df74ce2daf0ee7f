//! What an exploration looks for beside the commands' statuses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_config::Mistake;

use crate::triggers::check_pattern;

/// What `stasis explore` takes for a failure beside a command's status, a kernel's own complaints and
/// a run that comes to no end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ExploreSpec {
    /// Regular expressions that no line of the commands' output or of a kernel's log may match.
    pub never: Vec<String>,
    /// Regular expressions that one line of the commands' output matches, and no second one.
    pub once: Vec<String>,
}

impl ExploreSpec {
    /// Refuses what is no regular expression.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        for (key, patterns) in [("never", &self.never), ("once", &self.once)] {
            for (index, pattern) in patterns.iter().enumerate() {
                check_pattern(pattern)
                    .map_err(|message| Mistake::at(index, message).inside(key))?;
            }
        }
        Ok(())
    }
}
