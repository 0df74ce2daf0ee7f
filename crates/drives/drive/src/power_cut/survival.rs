//! Survival of changes at a power cut.

use std::collections::HashMap;

/// Survival of changes, by their indexes.
pub(super) type Left = HashMap<usize, Survival>;

/// Part of a change that survives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Lost,
    /// All.
    Whole,
    /// Some sectors: for each of the change's, in order, whether it is left.
    Torn(Vec<bool>),
}

impl Survival {
    /// Returns whether the sector with this index within the change survives.
    pub fn has(&self, index: usize) -> bool {
        match self {
            Self::Lost => false,
            Self::Whole => true,
            Self::Torn(survivors) => survivors.get(index).copied().unwrap_or(false),
        }
    }

    /// Returns the survival of a change, from that of its sectors.
    pub(super) fn of_sectors(survivors: Vec<bool>) -> Self {
        if survivors.iter().all(|&survives| survives) {
            Self::Whole
        } else if survivors.contains(&true) {
            Self::Torn(survivors)
        } else {
            Self::Lost
        }
    }
}
