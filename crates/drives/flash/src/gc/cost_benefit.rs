//! Cost-benefit: `(1 - u) * age / 2u`, where a share u of the block is valid
//! (Kawaguchi et al., USENIX 1995, after the LFS cleaner of Rosenblum and
//! Ousterhout): an old block, which will hardly empty further, goes before a young one, which will.

use super::{Candidates, VictimPolicy};
use crate::spec::GcSpec;

/// Blocks that are looked at, one after another from where the last choice
/// ended: the cost must not grow with the plane.
const WINDOW: u32 = 512;

#[derive(Debug, Default)]
struct CostBenefit {
    next: u32,
}

pub(super) fn build(_spec: &GcSpec, _seed: u64) -> Box<dyn VictimPolicy> {
    Box::new(CostBenefit::default())
}

impl VictimPolicy for CostBenefit {
    fn choose(&mut self, blocks: &dyn Candidates) -> Option<u32> {
        let all = blocks.blocks();
        let mut best: Option<(f64, u32)> = None;
        let mut consider = |block: u32| {
            let Some(candidate) = blocks.get(block) else { return };
            if candidate.valid == candidate.slots {
                return;
            }
            let used = f64::from(candidate.valid) / f64::from(candidate.slots);
            let score = (1.0 - used) * (f64::from(candidate.age) + 1.0) / (2.0 * used);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, block));
            }
        };
        // The greedy choice is always one of those, so that there is a gain.
        blocks.least_valid().into_iter().for_each(&mut consider);
        let window = WINDOW.min(all);
        for step in 0..window {
            consider((self.next + step) % all);
        }
        self.next = (self.next + window) % all.max(1);
        best.map(|(_, block)| block)
    }
}
