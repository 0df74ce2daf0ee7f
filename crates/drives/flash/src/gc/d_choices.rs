//! d choices: the best of some blocks drawn at random, which needs no order
//! among all of them (Van Houdt, SIGMETRICS 2013).

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Candidates, VictimPolicy, ROUNDS};
use crate::spec::GcSpec;

/// Draws for each choice: a drawn block may be open or free.
const DRAWS_PER_CHOICE: u32 = 4;

#[derive(Debug)]
struct DChoices {
    choices: u32,
    random: Xoshiro256PlusPlus,
}

pub(super) fn build(spec: &GcSpec, seed: u64) -> Box<dyn VictimPolicy> {
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    Box::new(DChoices { choices: spec.choices.max(1), random })
}

impl VictimPolicy for DChoices {
    fn choose(&mut self, blocks: &dyn Candidates) -> Option<u32> {
        for _ in 0..ROUNDS {
            match self.draw(blocks) {
                // A block full of valid data frees nothing, and the drive must make progress.
                Some((valid, block)) if blocks.get(block).is_some_and(|c| valid < c.slots) => {
                    return Some(block);
                }
                Some(_) => {}
                None => break,
            }
        }
        blocks.least_valid()
    }

    fn draws(&self) -> bool {
        true
    }
}

impl DChoices {
    /// The least valid of so many, and its valid slots.
    fn draw(&mut self, blocks: &dyn Candidates) -> Option<(u32, u32)> {
        let (mut best, mut found) = (None, 0);
        for _ in 0..self.choices * DRAWS_PER_CHOICE {
            let wide = u64::from(self.random.next_u32()) * u64::from(blocks.blocks());
            let block = (wide >> 32) as u32;
            let Some(candidate) = blocks.get(block) else { continue };
            if best.is_none_or(|(valid, _)| candidate.valid < valid) {
                best = Some((candidate.valid, block));
            }
            found += 1;
            if found == self.choices {
                break;
            }
        }
        best
    }
}
