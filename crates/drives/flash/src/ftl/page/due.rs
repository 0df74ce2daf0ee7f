//! Blocks of a plane whose data has to move for another reason than their space, and whose turn it is.
//!
//! A plane empties one block at a time. While it needs space and data has to move as well, blocks for
//! the one and the other take turns, and so do the reasons of the others. So each has its share
//! whatever the host does: of six blocks one is emptied for each reason that has any. A block begins
//! to move after at most six others, and six for each that had to move before it for its reason; what
//! begins while the plane has no free block to spare, or because a program failed, is not counted.

use std::collections::VecDeque;

/// Turns for one block that has to move for a reason: as many for space as for all three together.
#[cfg(test)]
const SHARE: u64 = 2 * 3;

/// Why data has to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The block is little worn.
    Wear,
    /// It was read too often.
    Reads,
    /// It is old, or its errors are many.
    Age,
}

/// The reasons, in the order of their turns.
const REASONS: [Reason; 3] = [Reason::Reads, Reason::Age, Reason::Wear];

/// The blocks of a plane that have to move; see the [module](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Due {
    // Those that were read too often, and those that a visit found old or with many errors.
    disturbed: VecDeque<u32>,
    aged: VecDeque<u32>,
    // The last block was emptied for its space.
    owed: bool,
    // Place of the reason that is next.
    next: usize,
    #[cfg(test)]
    kept: Kept,
}

/// The promise of the [module](self), for tests: how many blocks began to move, and of each that
/// waits how many had when it came, and how many were before it.
#[cfg(test)]
#[derive(Debug, Clone, Default)]
struct Kept {
    begun: u64,
    since: Vec<(bool, u32, u64, u64)>,
}

impl Due {
    /// Returns whether blocks were read too often.
    #[inline]
    pub fn is_disturbed(&self) -> bool {
        !self.disturbed.is_empty()
    }

    /// Returns whether the turn is that of a block that has to move.
    #[inline]
    pub fn is_owed(&self) -> bool {
        self.owed
    }

    /// A block is emptied, for its space or not; `counts` says whether it has a turn.
    pub fn begin(&mut self, space: bool, counts: bool) {
        self.owed = space;
        let _ = counts;
        #[cfg(test)]
        {
            let Self { disturbed, aged, kept: Kept { begun, since }, .. } = self;
            *begun += u64::from(counts);
            since.retain(|&(age, block, ..)| {
                if age { &*aged } else { &*disturbed }.contains(&block)
            });
            for (age, block, at, before) in since {
                let turns = *begun - *at;
                assert!(turns <= SHARE * (*before + 2), "{block} {age} {turns} {before}");
            }
        }
    }

    /// Returns the reasons in the order of their turns.
    pub fn order(&self) -> [Reason; 3] {
        let at = |place: usize| REASONS[(self.next + place) % REASONS.len()];
        [at(0), at(1), at(2)]
    }

    /// A block is emptied for a reason: the others come before it.
    pub fn served(&mut self, reason: Reason) {
        let place = REASONS.iter().position(|&other| other == reason).unwrap_or(0);
        self.next = (place + 1) % REASONS.len();
    }

    /// A block has to move.
    pub fn add(&mut self, reason: Reason, block: u32) {
        let queue = self.queue(reason);
        if !queue.contains(&block) {
            queue.push_back(block);
            #[cfg(test)]
            {
                let before = queue.len() as u64 - 1;
                let begun = self.kept.begun;
                self.kept
                    .since
                    .retain(|since| since.1 != block || since.0 != (reason == Reason::Age));
                self.kept.since.push((reason == Reason::Age, block, begun, before));
            }
        }
    }

    /// A block that has to move, in the order in which it had to: `can` says whether it is moved now
    /// (`Some(true)`), later, or not at all (`None`).
    pub fn take(
        &mut self,
        reason: Reason,
        mut can: impl FnMut(u32) -> Option<bool>,
    ) -> Option<u32> {
        let queue = self.queue(reason);
        let mut place = 0;
        while let Some(&block) = queue.get(place) {
            match can(block) {
                Some(true) => return queue.remove(place),
                Some(false) => place += 1,
                None => {
                    queue.remove(place);
                }
            }
        }
        None
    }

    /// A block was erased.
    pub fn erased(&mut self, block: u32) {
        self.aged.retain(|&other| other != block);
    }

    /// The power comes back: ages are visited anew, and turns begin anew.
    pub fn power_on(&mut self) {
        self.aged.clear();
        (self.owed, self.next) = (false, 0);
    }

    /// Blocks that have to move, with the reason.
    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = (Reason, u32)> + '_ {
        let disturbed = self.disturbed.iter().map(|&block| (Reason::Reads, block));
        disturbed.chain(self.aged.iter().map(|&block| (Reason::Age, block)))
    }

    fn queue(&mut self, reason: Reason) -> &mut VecDeque<u32> {
        match reason {
            Reason::Age => &mut self.aged,
            Reason::Reads | Reason::Wear => &mut self.disturbed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_move_in_order_and_reasons_take_turns() {
        let mut due = Due::default();
        [4, 5, 6, 5].into_iter().for_each(|block| due.add(Reason::Reads, block));
        due.add(Reason::Age, 9);
        let can = |block| [None, Some(false), Some(true)][block as usize - 4];
        assert_eq!(due.take(Reason::Reads, can), Some(6));
        assert_eq!(due.take(Reason::Reads, |_| Some(true)), Some(5), "4 is not moved at all");
        assert!(!due.is_disturbed());
        due.served(Reason::Reads);
        assert_eq!(due.order(), [Reason::Age, Reason::Wear, Reason::Reads]);
        due.served(Reason::Wear);
        assert_eq!(due.order()[0], Reason::Reads);
        due.erased(9);
        assert_eq!(due.all().count(), 0);
        due.begin(true, true);
        assert!(due.is_owed());
    }
}
