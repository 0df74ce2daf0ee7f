//! Endurance groups, and the NVM sets in them (NVMe 2.0 sections 3.2.2 and 3.2.3): parts of the drive
//! that wear by themselves.
//!
//! A drive with Flexible Data Placement and no groups of its own has one, of all its namespaces. Else
//! each namespace is made in a group, and in a set if there are any. A set, or a group without sets,
//! is one part of the drive's bytes, which the carrier times by a model of its own and reports by
//! [`Subsystem::set_group_health`](crate::Subsystem::set_group_health).

pub mod config;

use stasis_block::Health;

use crate::condition::{Condition, WARNING_READ_ONLY, WARNING_SPARE};
use crate::config::Config;
use crate::placement::Placement;
use crate::statistics::Statistics;

use config::{has_sets, parts};
pub use config::{EnduranceGroup, MediaPart};

/// The identifier of the group of a drive that has one for Flexible Data Placement alone.
pub const ONLY_GROUP: u16 = 1;
/// Critical warnings that a group can have (NVMe 2.0 section 5.16.1.10): spare capacity, reliability,
/// and a medium that can only be read.
pub const GROUP_WARNINGS: u8 = WARNING_SPARE | 1 << 2 | WARNING_READ_ONLY;

impl Config {
    /// The endurance groups that a drive has, that for Flexible Data Placement alone among them.
    pub(crate) fn groups(&self) -> Vec<EnduranceGroup> {
        match self.placement {
            Placement::Fdp { .. } => {
                vec![EnduranceGroup { id: ONLY_GROUP, placement: self.placement }]
            }
            _ => self.endurance_groups.clone(),
        }
    }

    /// Returns whether it has endurance groups.
    pub(crate) fn has_groups(&self) -> bool {
        !self.endurance_groups.is_empty() || matches!(self.placement, Placement::Fdp { .. })
    }

    /// Returns whether any of its groups has Flexible Data Placement.
    pub(crate) fn has_fdp(&self) -> bool {
        let places = |group: &EnduranceGroup| group.placement != Placement::None;
        matches!(self.placement, Placement::Fdp { .. }) || self.endurance_groups.iter().any(places)
    }

    /// Returns whether it has NVM sets.
    pub(crate) fn has_sets(&self) -> bool {
        has_sets(&self.namespaces)
    }

    /// The parts of the drive that have flash of their own, in the order of their bytes; none of a
    /// drive without endurance groups of its own.
    pub fn media_parts(&self) -> Vec<MediaPart> {
        parts(&self.namespaces)
    }
}

/// The state of an endurance group.
#[derive(Debug)]
pub struct GroupState {
    pub id: u16,
    /// Its health: of the drive's if that has one group only.
    pub condition: Condition,
    /// Counts of its namespaces.
    pub statistics: Statistics,
}

/// The endurance groups of a drive.
#[derive(Debug)]
pub struct Endurance {
    groups: Vec<GroupState>,
    parts: Vec<MediaPart>,
    /// True if the drive's health is that of its group.
    of_drive: bool,
}

impl Endurance {
    /// Creates the groups of a drive with `config`.
    pub fn new(config: &Config) -> Self {
        let mut ids: Vec<u16> = config.groups().iter().map(|group| group.id).collect();
        ids.sort_unstable();
        let state = |id| GroupState {
            id,
            condition: Condition::default(),
            statistics: Statistics::default(),
        };
        Self {
            groups: ids.into_iter().map(state).collect(),
            parts: config.media_parts(),
            of_drive: config.endurance_groups.is_empty(),
        }
    }

    /// Returns the identifiers of the groups, in order.
    pub fn ids(&self) -> impl Iterator<Item = u16> + '_ {
        self.groups.iter().map(|group| group.id)
    }

    /// The parts of the drive with flash of their own, in the order of bytes.
    pub fn parts(&self) -> &[MediaPart] {
        &self.parts
    }

    /// The sets, with their groups, in the order of their identifiers.
    pub fn sets(&self) -> Vec<MediaPart> {
        let mut sets: Vec<_> = self.parts.iter().filter(|part| part.set != 0).copied().collect();
        sets.sort_unstable_by_key(|part| part.set);
        sets
    }

    /// The group of an identifier, if it is one.
    pub fn group(&self, id: u16) -> Option<&GroupState> {
        self.groups.iter().find(|group| group.id == id)
    }

    /// Like [`Self::group`], but mutable.
    pub fn group_mut(&mut self, id: u16) -> Option<&mut GroupState> {
        self.groups.iter_mut().find(|group| group.id == id)
    }

    /// Sets the drive's health: that of the group, if there is one for the whole drive. Returns the
    /// group and its new warnings, if it has any.
    pub fn set_drive_health(&mut self, health: Health) -> Option<(u16, u8)> {
        let id = self.of_drive.then(|| self.groups.first().map(|group| group.id)).flatten()?;
        self.set_health(id, health)
    }

    /// The health of a group was reported. Returns it with the warnings that begin to hold, if any
    /// do.
    pub fn set_health(&mut self, id: u16, health: Health) -> Option<(u16, u8)> {
        let group = self.group_mut(id)?;
        let before = group.condition.warnings();
        group.condition.set_health(health);
        let new = group.condition.warnings() & !before & GROUP_WARNINGS;
        (new != 0).then_some((id, new))
    }

    /// The critical warnings of a group that hold.
    pub fn warnings(&self, id: u16) -> u8 {
        self.group(id).map_or(0, |group| group.condition.warnings() & GROUP_WARNINGS)
    }

    /// Returns the critical warnings that hold for any group.
    pub fn all_warnings(&self) -> u8 {
        self.ids().fold(0, |all, id| all | self.warnings(id))
    }

    /// The size of a group in bytes, of a drive of `total` bytes.
    pub fn capacity(&self, id: u16, total: u64) -> u64 {
        if self.of_drive {
            return total;
        }
        self.parts.iter().filter(|part| part.group == id).map(MediaPart::bytes).sum()
    }
}
