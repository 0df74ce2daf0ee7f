//! A log-structured store as simple as can be: what it writes for each byte that hosts store.

use std::collections::VecDeque;

use stasis_block::Random;

/// Bytes that values are rounded up to.
pub const UNIT: u64 = 512;

/// The lengths of values in units.
#[derive(Clone, Copy, Debug)]
pub enum Lengths {
    Fixed(u64),
    /// From 1 on, each with the same probability.
    UpTo(u64),
}

impl Lengths {
    /// The next length, in units.
    pub fn next(self, random: &mut Random) -> u64 {
        match self {
            Self::Fixed(units) => units,
            Self::UpTo(most) => 1 + random.below(most),
        }
    }
}

/// A load: as many keys, written once in order and then at random.
#[derive(Clone, Copy)]
pub struct Load {
    pub segments: u64,
    /// Bytes of a segment.
    pub segment: u64,
    pub keys: u64,
    pub overwrites: u64,
    pub lengths: Lengths,
}

/// The simplest: blocks as lists of pages, greedy, two open blocks.
pub fn reference(load: Load) -> f64 {
    let mut random = Random::new(5);
    let blocks = load.segments as usize;
    let mut pages: Vec<Vec<(u64, u64, u64)>> = vec![Vec::new(); blocks];
    let mut live = vec![0u64; blocks];
    let mut free: VecDeque<usize> = (0..blocks).collect();
    let mut full = vec![false; blocks];
    let mut open = [usize::MAX; 2];
    let mut filled = [u64::MAX; 2];
    // Block, version and length of each key.
    let mut newest = vec![(usize::MAX, 0u64, 0u64); load.keys as usize];
    let (mut host, mut all) = (0u64, 0u64);
    for step in 0..load.keys + load.overwrites {
        let key = if step < load.keys { step } else { random.below(load.keys) };
        let length = load.lengths.next(&mut random) * UNIT;
        let mut queue = VecDeque::from([(0, key, step + 1, length)]);
        while let Some((end, key, version, length)) = queue.pop_front() {
            if filled[end] > load.segment - length {
                if open[end] != usize::MAX {
                    full[open[end]] = true;
                }
                open[end] = free.pop_front().unwrap();
                filled[end] = 0;
            }
            let block = open[end];
            filled[end] += length;
            pages[block].push((key, version, length));
            all += length;
            host += if end == 0 { length } else { 0 };
            let (old, _, old_length) = newest[key as usize];
            if old != usize::MAX {
                live[old] -= old_length;
            }
            newest[key as usize] = (block, version, length);
            live[block] += length;
            if queue.is_empty() && free.len() <= 2 {
                let victim =
                    (0..blocks).filter(|&block| full[block]).min_by_key(|&block| live[block]);
                let victim = victim.unwrap();
                for (key, version, length) in std::mem::take(&mut pages[victim]) {
                    if newest[key as usize].1 == version {
                        queue.push_back((1, key, version, length));
                    }
                }
                full[victim] = false;
                free.push_back(victim);
            }
        }
        // The reference counts from the first overwrite on.
        if step + 1 == load.keys {
            (host, all) = (0, 0);
        }
    }
    all as f64 / host as f64
}
