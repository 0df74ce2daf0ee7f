//! Write amplification, against the simplest log-structured reference and a closed form.

use std::collections::VecDeque;

use stasis_block::Random;
use stasis_key_value::{Condition, Key, Layout, Store, Task};

const UNIT: u64 = 512;

/// The lengths of values in units.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    Fixed(u64),
    /// From 1 on, each with the same probability.
    UpTo(u64),
}

impl Lengths {
    fn next(self, random: &mut Random) -> u64 {
        match self {
            Self::Fixed(units) => units,
            Self::UpTo(most) => 1 + random.below(most),
        }
    }
}

/// A load: as many keys, written once in order and then at random.
#[derive(Clone, Copy)]
struct Load {
    segments: u64,
    /// Bytes of a segment.
    segment: u64,
    keys: u64,
    overwrites: u64,
    lengths: Lengths,
}

/// The simplest: blocks as lists of pages, greedy, two open blocks.
fn reference(load: Load) -> f64 {
    let mut random = Random::new(5);
    let blocks = load.segments as usize;
    let mut pages: Vec<Vec<(u64, u64, u64)>> = vec![Vec::new(); blocks];
    let mut live = vec![0u64; blocks];
    let mut free: VecDeque<usize> = (0..blocks).collect();
    let mut full = vec![false; blocks];
    let mut open = [usize::MAX; 2];
    let mut filled = [u64::MAX; 2];
    // Of each key: its block, its version and its length.
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
                let victim = (0..blocks).filter(|&of| full[of]).min_by_key(|&of| live[of]);
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

/// The store, with a drive that does everything at once.
fn measured(load: Load) -> f64 {
    let mut random = Random::new(6);
    let most = 8 * UNIT as u32;
    let bytes = load.segments * load.segment;
    let layout = Layout::new(bytes, load.segment, UNIT, (most, u32::MAX), 0).unwrap();
    let mut store = Store::new(layout);
    let mut before = store.statistics();
    for step in 0..load.keys + load.overwrites {
        let key = if step < load.keys { step } else { random.below(load.keys) };
        let length = (load.lengths.next(&mut random) * UNIT) as u32;
        let key = Key::new(&key.to_be_bytes()).unwrap();
        store.check(&key, length, Condition::Always).unwrap();
        let place = store.place(length).unwrap();
        store.store(key, place, Condition::Always).unwrap();
        while let Some(task) = store.next_task() {
            match task {
                Task::Copy { to, .. } => store.copied(to, true),
                Task::Discard { offset, .. } => store.discarded(offset),
            }
        }
        if step + 1 == load.keys {
            before = store.statistics();
        }
    }
    let now = store.statistics();
    let stored = now.stored - before.stored;
    (stored + now.collected - before.collected) as f64 / stored as f64
}

#[test]
fn write_amplification_is_that_of_the_reference() {
    for (share, lengths) in [
        (0.50, Lengths::Fixed(2)),
        (0.70, Lengths::Fixed(2)),
        (0.85, Lengths::Fixed(2)),
        (0.70, Lengths::UpTo(8)),
        (0.80, Lengths::UpTo(8)),
    ] {
        let (segments, segment) = (200, 64 << 10);
        let mean = match lengths {
            Lengths::Fixed(units) => units as f64,
            Lengths::UpTo(most) => (1 + most) as f64 / 2.0,
        };
        let keys = ((segments * segment / UNIT) as f64 * share / mean) as u64;
        let load = Load { segments, segment, keys, overwrites: 4 * keys, lengths };
        let (reference, measured) = (reference(load), measured(load));
        let error = measured / reference - 1.0;
        assert!(error.abs() < 0.05, "{share} {lengths:?}: {measured} for {reference}");
    }
}

/// With large segments, greedy collection of uniform overwrites writes as cyclic does (Menon, HPDC
/// 1995): 1 / (1 - u), where u is the share in use of a victim, as that of all is (u - 1) / ln u.
#[test]
fn write_amplification_is_that_of_the_closed_form() {
    let (segments, segment) = (250, 256 << 10);
    for share in [0.6, 0.75, 0.85] {
        let keys = (segments as f64 * segment as f64 / 1024.0 * share) as u64;
        let lengths = Lengths::Fixed(2);
        let load = Load { segments, segment, keys, overwrites: 6 * keys, lengths };
        // Two segments are open, and two or three are free.
        let in_use = share * segments as f64 / (segments as f64 - 4.5);
        let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
        for _ in 0..100 {
            let u: f64 = (low + high) / 2.0;
            if (u - 1.0) / u.ln() < in_use {
                low = u;
            } else {
                high = u;
            }
        }
        let expected = 1.0 / (1.0 - low);
        let measured = measured(load);
        let error = measured / expected - 1.0;
        assert!(error.abs() < 0.05, "{share}: {measured} for {expected}");
    }
}
