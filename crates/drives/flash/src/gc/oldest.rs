//! Oldest first: blocks are collected in the order in which they were filled
//! (a circular log), of some that are drawn at random.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Candidates, VictimPolicy, ROUNDS};
use crate::spec::GcSpec;

#[derive(Debug)]
struct Oldest {
    choices: u32,
    random: Xoshiro256PlusPlus,
}

pub(super) fn build(spec: &GcSpec, seed: u64) -> Box<dyn VictimPolicy> {
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    Box::new(Oldest { choices: spec.choices, random })
}

impl VictimPolicy for Oldest {
    fn choose(&mut self, blocks: &dyn Candidates) -> Option<u32> {
        for _ in 0..ROUNDS {
            let drawn = (0..self.choices).filter_map(|_| {
                let block = self.random.next_u32() % blocks.blocks();
                Some((blocks.get(block)?, block))
            });
            let oldest = drawn.max_by_key(|(candidate, _)| candidate.age);
            // A block full of valid data frees nothing: the drive must go on.
            let gains = oldest.filter(|(candidate, _)| candidate.valid < candidate.slots);
            if let Some((_, block)) = gains {
                return Some(block);
            }
        }
        blocks.least_valid()
    }

    fn draws(&self) -> bool {
        true
    }
}
