//! The identifier of a controller.

use crate::narrow::count16;

/// Limit on the controllers of a subsystem.
pub const MAX_CONTROLLERS: usize = 64;
/// The last identifier that a controller may have (NVMe 2.0 section 3.1.1: those from FFF0h on are
/// reserved).
const LAST: u16 = 0xffef;

/// The identifier of a controller in its subsystem (CNTLID).
///
/// A controller has one of [`MAX_CONTROLLERS`] places, by the remainder of its identifier. On a fabric,
/// where controllers come and go with their hosts, a place has another identifier each time: a host
/// may still know a controller that it has lost, and takes no other one of that identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControllerId(pub u16);

impl ControllerId {
    /// Identifier of the one controller of a drive on PCIe.
    pub const PCIE: Self = Self(0);
    /// Identifier of none.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// The first controller of a place, of which there are [`MAX_CONTROLLERS`].
    pub(crate) fn of_index(index: usize) -> Self {
        Self(count16(index))
    }

    /// The place; of none one that there is not.
    #[inline]
    pub(crate) fn index(self) -> usize {
        match self {
            Self::NONE => MAX_CONTROLLERS,
            Self(id) => usize::from(id) % MAX_CONTROLLERS,
        }
    }

    /// The identifiers for the next controller of a fabric after one with this identifier, each with
    /// another place: none has PCIe's.
    pub(crate) fn following(self) -> impl Iterator<Item = Self> {
        let next = |id: u16| if id >= LAST { 1 } else { id + 1 };
        // Some places come twice, where identifiers begin again.
        let all = std::iter::successors(Some(next(self.0)), move |&id| Some(next(id)));
        all.take(2 * MAX_CONTROLLERS).map(Self).filter(|id| id.index() != Self::PCIE.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_rotate_over_all_that_there_are() {
        let mut id = ControllerId::PCIE;
        let mut used = std::collections::BTreeSet::new();
        while let Some(next) = id.following().next().filter(|next| used.insert(next.0)) {
            id = next;
        }
        assert_eq!(used.len(), 0xffef - 0xffef / 64);
        assert!(!used.contains(&0) && used.iter().all(|id| id % 64 != 0 && *id < 0xfff0));
        // From each one on every place but PCIe's is found.
        for id in [0, 1, 63, 0xffee, 0xffef] {
            let places = ControllerId(id).following().map(ControllerId::index);
            assert_eq!(places.collect::<std::collections::BTreeSet<_>>().len(), 63);
        }
        assert_eq!(ControllerId::NONE.index(), MAX_CONTROLLERS);
    }
}
