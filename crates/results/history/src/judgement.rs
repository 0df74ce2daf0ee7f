//! Results of checkers.

use serde::Serialize;

/// Limit on the contradictions that a checker names; others are counted.
pub const MAX_CONTRADICTIONS: usize = 100;
/// Limit on the reasons for which a checker cannot decide.
const MAX_REASONS: usize = 20;

/// Operations that cannot all have ended as they did, if the system keeps what is expected of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// A short name, such as `lost`.
    pub kind: &'static str,
    /// The contradiction in a sentence, which names operations by the `index` of their first line.
    pub message: String,
    /// The operations concerned, by their places in [`crate::History::operations`].
    pub operations: Vec<usize>,
}

/// The result of a checker. A history without contradictions is valid only if everything was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[must_use]
pub struct Judgement {
    /// The contradictions, at most [`MAX_CONTRADICTIONS`].
    pub contradictions: Vec<Contradiction>,
    /// The number of contradictions beyond those.
    pub omitted: usize,
    /// Reasons for which something could not be decided.
    pub undecided: Vec<String>,
}

impl Judgement {
    /// Returns whether everything was decided and no contradiction was found.
    pub fn is_valid(&self) -> bool {
        self.contradictions.is_empty() && self.undecided.is_empty()
    }

    pub(crate) fn contradict(
        &mut self,
        kind: &'static str,
        operations: impl Into<Vec<usize>>,
        message: String,
    ) {
        if self.contradictions.len() == MAX_CONTRADICTIONS {
            self.omitted += 1;
            return;
        }
        let operations = operations.into();
        self.contradictions.push(Contradiction { kind, message, operations });
    }

    pub(crate) fn undecide(&mut self, reason: String) {
        if self.undecided.len() < MAX_REASONS {
            self.undecided.push(reason);
        }
    }
}
