//! Endurance groups and NVM sets that a drive is made with.

use serde::{Deserialize, Serialize};

use crate::config::Namespace;
use crate::placement::Placement;

/// The highest identifier of a group, and of a set: FFFFh is none (NVMe 2.0 figure 276).
const MAX_IDENTIFIER: u16 = 0xfffe;

/// An endurance group that a drive is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnduranceGroup {
    /// Its identifier, from 1 on.
    pub id: u16,
    /// Placement of data in it: none, or Flexible Data Placement.
    pub placement: Placement,
}

/// Bytes of a drive that have flash of their own: an NVM set, or an endurance group without sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaPart {
    /// The endurance group.
    pub group: u16,
    /// The NVM set; 0 where there are none.
    pub set: u16,
    /// Its first byte on the drive.
    pub start: u64,
    /// Its end on the drive.
    pub end: u64,
}

impl MediaPart {
    /// Returns the part's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    fn is_of(&self, namespace: &Namespace) -> bool {
        (self.group, self.set) == (namespace.endurance_group, namespace.nvm_set)
    }
}

/// Returns the parts of a drive with these namespaces, in order: none if it has no endurance
/// groups.
pub fn parts(namespaces: &[Namespace]) -> Vec<MediaPart> {
    let mut parts: Vec<MediaPart> = Vec::new();
    for namespace in namespaces.iter().filter(|namespace| namespace.endurance_group != 0) {
        let end = namespace.start.saturating_add(namespace.bytes());
        match parts.last_mut().filter(|part| part.is_of(namespace)) {
            Some(part) => part.end = end,
            None => {
                let (group, set) = (namespace.endurance_group, namespace.nvm_set);
                parts.push(MediaPart { group, set, start: namespace.start, end });
            }
        }
    }
    parts
}

/// Returns whether any of the namespaces is in an NVM set.
pub fn has_sets(namespaces: &[Namespace]) -> bool {
    namespaces.iter().any(|namespace| namespace.nvm_set != 0)
}

/// Checks the endurance groups and NVM sets of a drive with these namespaces; `drive`: the
/// placement of its data where it has no groups.
///
/// # Errors
/// Returns the fault.
pub fn check_groups(
    groups: &[EnduranceGroup],
    namespaces: &[Namespace],
    drive: Placement,
) -> Result<(), String> {
    let wrong = |reason: String| Err(reason);
    for (index, &EnduranceGroup { id, placement }) in groups.iter().enumerate() {
        if !(1..=MAX_IDENTIFIER).contains(&id) {
            return wrong(format!("endurance group {id} must have a number from 1 to 65534"));
        }
        if groups[..index].iter().any(|other| other.id == id) {
            return wrong(format!("endurance group {id} is given twice"));
        }
        if matches!(placement, Placement::Streams { .. }) {
            return wrong(format!("endurance group {id} has streams, which are of the drive"));
        }
        if placement != Placement::None && drive != Placement::None {
            return wrong(format!(
                "endurance group {id} places data, and so does the drive: leave one"
            ));
        }
        if !namespaces.iter().any(|namespace| namespace.endurance_group == id) {
            return wrong(format!("no namespace is in endurance group {id}"));
        }
    }
    if matches!(drive, Placement::Fdp { .. }) && !groups.is_empty() {
        return wrong("data placement is of each endurance group where there are some".into());
    }
    let has_sets = has_sets(namespaces);
    for (index, namespace) in namespaces.iter().enumerate() {
        let Namespace { endurance_group, nvm_set, .. } = *namespace;
        let known = groups.iter().any(|group| group.id == endurance_group);
        if known == groups.is_empty() || !known && endurance_group != 0 {
            return wrong(format!(
                "namespace {} is in endurance group {endurance_group}, which is none",
                index + 1
            ));
        }
        if has_sets && !(1..=MAX_IDENTIFIER).contains(&nvm_set) || nvm_set != 0 && !known {
            return wrong(format!(
                "namespace {} is in NVM set {nvm_set}, but must be in one from 1 to 65534, as \
                     the others are, and in an endurance group",
                index + 1
            ));
        }
        if known && namespace.ocssd.is_some() {
            return wrong("a drive with chunks has no endurance groups".into());
        }
    }
    let parts = parts(namespaces);
    for (index, part) in parts.iter().enumerate() {
        let again = |other: &&MediaPart| match has_sets {
            true => other.set == part.set,
            false => other.group == part.group,
        };
        if parts[..index].iter().any(|other| again(&other)) {
            let MediaPart { group, set, .. } = part;
            let kind = if has_sets { "NVM set" } else { "endurance group" };
            let number = if has_sets { set } else { group };
            return wrong(format!(
                "the namespaces of {kind} {number} must lie one behind the other, in one \
                     endurance group"
            ));
        }
        if parts[..index].iter().any(|other| other.end > part.start) {
            return wrong("namespaces in groups must be given in the order of bytes".into());
        }
    }
    Ok(())
}
