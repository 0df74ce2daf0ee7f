//! Greedy: the block that frees the most is collected first.

use super::{Candidates, VictimPolicy};
use crate::spec::GcSpec;

#[derive(Debug)]
struct Greedy;

pub(super) fn build(_spec: &GcSpec, _seed: u64) -> Box<dyn VictimPolicy> {
    Box::new(Greedy)
}

impl VictimPolicy for Greedy {
    fn choose(&mut self, blocks: &dyn Candidates) -> Option<u32> {
        blocks.least_valid()
    }
}
