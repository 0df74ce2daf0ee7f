//! Which block of a plane is emptied next, and why.
//!
//! Invariant: a block chosen for its space takes fewer pages after the move than before.

use stasis_block::clock::Nanos;
use stasis_nand::hash::mix;

use super::blocks::Blocks;
use crate::gc::{self, VictimPolicy, ROUNDS};
use crate::spec::{GcSpec, Spec, WearLevelling, RESERVE};

/// Erases by which a plane's blocks may differ before data is moved out of the
/// least worn: static wear levelling.
const WEAR_GAP: u32 = 16;

/// Why a block is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// For the space.
    Space,
    /// Because it is little worn.
    Wear,
    /// Because it was read too often.
    Disturb,
    /// Because it was written long ago, or its errors are many.
    Age,
    /// The block is in SLC mode, and its data is folded into blocks that are not.
    Fold,
    /// Because a program failed in it: it is not erased.
    Bad,
}

/// The need of a plane that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// The plane has enough free blocks.
    Nothing,
    /// This block is emptied.
    Empty(u32, Why),
    /// The plane needs space, and no block would gain any.
    Starved,
}

/// Chooses blocks by a policy, and by wear; see the [module](self).
#[derive(Debug)]
pub(super) struct Victims {
    policy: Box<dyn VictimPolicy>,
    gc: GcSpec,
    seed: u64,
    levelling: WearLevelling,
    // Time at which the host fell silent.
    idle_since: Option<Nanos>,
    // By plane: erases since wear was last looked at.
    erases: Vec<u32>,
    // Erases after which it is looked at.
    interval: u32,
    // An idle drive folds its SLC cache.
    folds: bool,
}

impl Victims {
    /// Creates the choice of victims for `planes` planes of `blocks` blocks each.
    pub fn new(spec: &Spec, planes: u32, blocks: u32, seed: u64) -> Self {
        Self {
            policy: gc::build(&spec.gc, seed),
            gc: spec.gc.clone(),
            seed,
            levelling: spec.wear_levelling,
            idle_since: Some(0),
            erases: vec![0; planes as usize],
            interval: blocks / 8,
            folds: spec.slc_cache.is_some(),
        }
    }

    /// The power comes back after so many erases: what is drawn, and what is counted in memory,
    /// begins anew.
    pub fn power_on(&mut self, erases: u64) {
        self.policy = gc::build(&self.gc, self.seed ^ mix(erases));
        self.erases.fill(0);
        self.idle_since = Some(0);
    }

    /// Blocks are drawn by `seed` from now on.
    pub fn reseed(&mut self, seed: u64) {
        self.seed = seed;
        self.policy = gc::build(&self.gc, seed);
    }

    /// Blocks are chosen by the policy of `gc` from now on.
    pub fn set_policy(&mut self, gc: &GcSpec) {
        (self.gc.policy, self.gc.choices) = (gc.policy.clone(), gc.choices);
        self.policy = gc::build(&self.gc, self.seed);
    }

    /// Notes that the host has a command in flight, or has none since `now`. Returns the time at
    /// which background collection begins, if it does.
    pub fn host_active(&mut self, now: Nanos, active: bool) -> Option<Nanos> {
        self.idle_since = (!active).then_some(now);
        let waits = !active && (self.gc.background > 0 || self.folds);
        waits.then(|| now.saturating_add(self.gc.idle))
    }

    /// A block of a plane was erased.
    pub fn erased(&mut self, plane: u32) {
        self.erases[plane as usize] += 1;
    }

    /// Looks at a plane, of which `emptied` blocks are free as soon as a page of what was in them is
    /// full. Free blocks are kept for the host's writes, and more while it is silent.
    pub fn choose(&mut self, now: Nanos, plane: u32, emptied: u32, blocks: &mut Blocks) -> Need {
        let idle = self.idle_since.is_some_and(|since| since + self.gc.idle <= now);
        let target = if idle { self.gc.background } else { 0 }.max(self.gc.foreground);
        let free = blocks.free_in(plane);
        // The host opens none of the last blocks, and the SLC cache none beyond the target.
        let soon = if free > RESERVE && !self.folds { emptied } else { 0 };
        if free + soon < target {
            let victim = self.draw(plane, blocks);
            // The one of the two that moves less.
            let fold = if self.folds { blocks.oldest_cached(plane, true) } else { None };
            let least = victim.map_or(u32::MAX, |block| blocks.valid_in(block));
            if let Some(fold) = fold.filter(|&fold| blocks.valid_in(fold) <= least) {
                return Need::Empty(fold, Why::Fold);
            }
            return victim.map_or(Need::Starved, |block| Need::Empty(block, Why::Space));
        }
        if self.folds && (idle || blocks.folds_now(plane)) {
            if let Some(block) = blocks.oldest_cached(plane, false) {
                return Need::Empty(block, Why::Fold);
            }
            // Blocks that hold nothing are room for the cache, once they are erased.
            let empty = blocks.least_valid(plane).filter(|&block| blocks.valid_in(block) == 0);
            if let Some(block) = empty {
                return Need::Empty(block, Why::Space);
            }
        }
        Need::Nothing
    }

    /// The block that the policy chooses, of those that gain; if it finds none, the least valid.
    fn draw(&mut self, plane: u32, blocks: &mut Blocks) -> Option<u32> {
        let least = blocks.least_valid(plane).filter(|&block| blocks.gains(block));
        let rounds = if self.policy.draws() { ROUNDS } else { 1 };
        for _ in 0..rounds {
            let chosen = self.policy.choose(&blocks.candidates(plane));
            let chosen = chosen.map(|at| blocks.in_plane(plane, at));
            if chosen.is_some_and(|block| blocks.gains(block)) {
                return chosen;
            }
            if least.is_none() {
                break;
            }
        }
        least
    }

    /// A block whose data should move so that others rest. After one was found the next erase looks
    /// again; else an eighth as many erases as a plane has blocks, which keeps the cost of an
    /// erase from growing with the plane.
    pub fn little_worn(&mut self, plane: u32, blocks: &Blocks) -> Option<u32> {
        let erases = &mut self.erases[plane as usize];
        if self.levelling != WearLevelling::Static || *erases < self.interval {
            return None;
        }
        let found = blocks.little_worn(plane, WEAR_GAP);
        *erases = if found.is_some() { self.interval.saturating_sub(1) } else { 0 };
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::drive;
    use super::*;

    /// A plane of blocks of two pages of one slot, of which all but `free` are full of `valid`.
    fn plane(spec: &Spec, free: u32, valid: u32) -> (Victims, Blocks) {
        let (spec, shape) = drive(spec.clone(), 1, 2, 256);
        let mut blocks = Blocks::new(shape, spec.wear_levelling, 0, 1);
        while blocks.free_in(0) > free {
            let block = blocks.open(0).unwrap();
            blocks.add_valid(block, valid);
            assert!(blocks.begin(block, 2));
        }
        (Victims::new(&spec, 1, shape.geometry.blocks, 1), blocks)
    }

    fn spec(foreground: u32, background: u32) -> Spec {
        let gc = GcSpec { foreground, background, idle: 100, ..GcSpec::default() };
        Spec { gc, ..Spec::default() }
    }

    #[test]
    fn space_is_made_below_the_target_where_a_block_gains() {
        let (mut victims, mut blocks) = plane(&spec(3, 0), 2, 1);
        let first = blocks.in_plane(0, 0);
        assert_eq!(victims.choose(0, 0, 0, &mut blocks), Need::Empty(first, Why::Space));
        let (mut victims, mut blocks) = plane(&spec(3, 0), 2, 2);
        assert_eq!(victims.choose(0, 0, 0, &mut blocks), Need::Starved);
        let (mut victims, mut blocks) = plane(&spec(3, 0), 3, 1);
        assert_eq!(victims.choose(0, 0, 0, &mut blocks), Need::Nothing);
    }

    #[test]
    fn more_is_free_while_the_host_is_silent() {
        let (mut victims, mut blocks) = plane(&spec(3, 5), 4, 1);
        assert_eq!(victims.host_active(50, true), None);
        assert_eq!(victims.choose(500, 0, 0, &mut blocks), Need::Nothing);
        assert_eq!(victims.host_active(600, false), Some(700));
        assert_eq!(victims.choose(699, 0, 0, &mut blocks), Need::Nothing);
        assert!(matches!(victims.choose(700, 0, 0, &mut blocks), Need::Empty(_, Why::Space)));
    }

    #[test]
    fn data_leaves_a_little_worn_block_after_enough_erases() {
        let levelled = Spec { wear_levelling: WearLevelling::Static, ..spec(1, 0) };
        let (mut victims, mut blocks) = plane(&levelled, 2, 2);
        let [_, worn] = [0, 0].map(|plane| blocks.open(plane).unwrap());
        // It is filled as often as the plane has blocks: what the others hold stays there.
        (0..victims.interval * 9).for_each(|_| {
            assert!(blocks.begin(worn, 2));
            blocks.collect(worn);
            blocks.erased(worn);
            assert_eq!(blocks.open(0), Some(worn), "one block is worn");
        });
        blocks.erased(worn);
        assert_eq!(victims.choose(0, 0, 0, &mut blocks), Need::Nothing);
        assert_eq!(victims.little_worn(0, &blocks), None);
        (0..victims.interval).for_each(|_| victims.erased(0));
        let little = blocks.in_plane(0, 0);
        assert_eq!(victims.little_worn(0, &blocks), Some(little));
        assert_eq!(victims.little_worn(0, &blocks), None, "not at once again");
        victims.erased(0);
        assert_eq!(victims.little_worn(0, &blocks), Some(little), "there may be more");
    }
}
