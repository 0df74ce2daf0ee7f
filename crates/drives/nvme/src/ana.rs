//! Asymmetric Namespace Access (NVMe 1.4 section 8.20): which paths to a subsystem reach its
//! namespaces. A path is a port of the subsystem, by its number (PORTID); all namespaces are one ANA
//! group.

use serde::{Deserialize, Serialize};
use stasis_nvme_layout::logs::{AnaGroup, AnaHead};
use stasis_nvme_layout::IntoBytes;

use crate::narrow::count32;
use crate::status::StatusCode;

/// The only ANA group.
pub const GROUP: u32 = 1;
/// ANA Transition Time: seconds after which a host gives up on [`AnaState::Change`].
pub const TRANSITION_TIME: u8 = 10;
/// ANACAP: every state may be reported, and the group of a namespace does not change.
pub const CAPABILITIES: u8 = 0x1f | 1 << 6;

/// The state of the namespaces on a path; its number is that of the ANA log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnaState {
    /// Commands are carried out.
    #[default]
    Optimized = 1,
    /// Commands are carried out, and another path is better.
    NonOptimized = 2,
    /// Commands are refused, for now.
    Inaccessible = 3,
    /// Commands are refused for good.
    PersistentLoss = 4,
    /// Commands are refused, as the state is about to change.
    Change = 15,
}

impl AnaState {
    /// The status of a command on a namespace that is refused.
    pub fn refusal(self) -> Option<StatusCode> {
        match self {
            Self::Optimized | Self::NonOptimized => None,
            Self::Inaccessible => Some(StatusCode::AnaInaccessible),
            Self::PersistentLoss => Some(StatusCode::AnaPersistentLoss),
            Self::Change => Some(StatusCode::AnaTransition),
        }
    }
}

/// The states of the paths, and how often each has changed.
#[derive(Debug, Default)]
pub struct Ana {
    /// By path; those that never changed may be missing.
    paths: Vec<(AnaState, u64)>,
}

impl Ana {
    /// The state on a path.
    pub fn state(&self, path: u16) -> AnaState {
        self.paths.get(usize::from(path)).map_or(AnaState::default(), |&(state, _)| state)
    }

    /// Sets the state on a path; returns whether it is another one.
    pub fn set(&mut self, path: u16, state: AnaState) -> bool {
        let path = usize::from(path);
        if self.paths.len() <= path {
            self.paths.resize(path + 1, Default::default());
        }
        let (current, changes) = &mut self.paths[path];
        let differs = *current != state;
        *current = state;
        *changes += u64::from(differs);
        differs
    }

    /// The Asymmetric Namespace Access log of a path (section 5.14.1.12) that lists
    /// `namespaces`.
    pub fn to_page(&self, path: u16, namespaces: &[u32]) -> Vec<u8> {
        let (state, changes) = self.paths.get(usize::from(path)).copied().unwrap_or_default();
        let head = AnaHead { chgcnt: changes.into(), nagd: 1.into(), ..Default::default() };
        let group = AnaGroup {
            agid: GROUP.into(),
            nnsids: count32(namespaces.len()).into(),
            chgcnt: changes.into(),
            state: state as u8,
            ..Default::default()
        };
        let mut log = [head.as_bytes(), group.as_bytes()].concat();
        log.extend(namespaces.iter().flat_map(|nsid| nsid.to_le_bytes()));
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_of_one_path() {
        let mut ana = Ana::default();
        assert!(!ana.set(2, AnaState::Optimized), "it is so already");
        assert!(ana.set(2, AnaState::Inaccessible));
        let log = ana.to_page(2, &[1, 2, 4]);
        let number = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap());
        assert_eq!((log.len(), log[0], log[8]), (60, 1, 1));
        assert_eq!((number(16), number(20), log[24], log[32]), (GROUP, 3, 1, 3));
        assert_eq!([number(48), number(52), number(56)], [1, 2, 4]);
        assert_eq!(ana.to_page(2, &[]).len(), 48);
        assert_eq!(ana.to_page(1, &[1])[32], 1, "the other path is as it was");
    }
}
