//! Multi-plane operations: operations of several planes of a LUN that begin together.

use stasis_block::clock::Nanos;

/// Groups operations of one LUN at one time, of each of its planes one.
///
/// Invariant: a plane is in a group once at most, and numbers of groups do not repeat one another.
#[derive(Debug)]
pub(super) struct Lockstep {
    enabled: bool,
    // Planes of a LUN.
    planes: u32,
    last: u32,
    // The last group's time, LUN and planes.
    current: Option<(Nanos, u32, u32)>,
}

impl Lockstep {
    /// For LUNs of `planes` planes; where it is not `enabled`, every operation is alone.
    pub fn new(enabled: bool, planes: u32) -> Self {
        Self { enabled, planes, last: 0, current: None }
    }

    /// The number of the multi-plane operation that an operation of a plane at
    /// `now` is a part of; 0 for none.
    #[inline]
    pub fn group(&mut self, now: Nanos, plane: u32) -> u32 {
        if !self.enabled {
            return 0;
        }
        let (lun, bit) = (plane / self.planes, 1 << (plane % self.planes));
        match &mut self.current {
            Some((at, last, used)) if (*at, *last) == (now, lun) && *used & bit == 0 => {
                *used |= bit;
            }
            _ => {
                self.current = Some((now, lun, bit));
                self.last = self.last.wrapping_add(1).max(1);
            }
        }
        self.last
    }

    /// The power failed: later operations join no group from before.
    pub fn power_cut(&mut self) {
        self.current = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_each_plane_of_a_lun_once_at_one_time() {
        let mut lockstep = Lockstep::new(true, 2);
        let groups = [(5, 0), (5, 1), (5, 1), (5, 2), (5, 3), (6, 2)];
        let groups = groups.map(|(now, plane)| lockstep.group(now, plane));
        assert_eq!(groups, [1, 1, 2, 3, 3, 4]);
        lockstep.power_cut();
        assert_eq!(lockstep.group(6, 3), 5);
        assert_eq!(Lockstep::new(false, 2).group(5, 0), 0);
    }
}
