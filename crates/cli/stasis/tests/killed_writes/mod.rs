//! Writes while their server is killed again and again: what was acknowledged is there afterwards.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::server::Process;

/// Blocks of 4 KiB that are written.
pub const BLOCKS: u64 = 256;
/// Writes under way at a time.
const DEPTH: usize = 16;

/// A host of a drive.
pub trait Host {
    /// Begins a write of a block.
    fn begin(&mut self, slot: u16, block: u64, data: &[u8]);

    /// Waits for the end of a write: its slot; `None` if it failed, or the server has ended.
    fn ended(&mut self) -> Option<u16>;

    /// Reads a block.
    fn read(&mut self, block: u64) -> Vec<u8>;
}

/// The stamps that a block may hold: the last that was acknowledged, or those written since.
#[derive(Clone, Default)]
struct Known {
    acknowledged: u64,
    asked: Vec<u64>,
}

/// Kills the server as often as `KILLS` says, 20 times by default. `start` starts it, and connects.
pub fn survive<H: Host>(mut start: impl FnMut() -> (Process, H)) {
    let kills = std::env::var("KILLS").map_or(20, |count| count.parse().expect("a number"));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut blocks = vec![Known::default(); BLOCKS as usize];
    let (mut stamp, mut lost, mut done) = (0u64, 0, 0u64);
    let (mut server, mut host) = start();
    for _ in 0..kills {
        let mut slots = [None; DEPTH];
        for _ in 0..random.next_u64() % 60 {
            while slots.iter().all(Option::is_some) {
                let slot = host.ended().expect("a write fails");
                note(slot, &mut slots, &mut blocks);
                done += 1;
            }
            let free = slots.iter().position(Option::is_none).expect("one is free");
            let block = random.next_u64() % BLOCKS;
            // One write to a block at a time, so that its order is known.
            if slots.iter().flatten().any(|&(other, _)| other == block) {
                continue;
            }
            stamp += 1;
            host.begin(free as u16, block, &stamp.to_le_bytes().repeat(512));
            blocks[block as usize].asked.push(stamp);
            slots[free] = Some((block, stamp));
        }
        lost += slots.iter().flatten().count();
        server.kill();
        // Writes that were acknowledged before the end count.
        while let Some(slot) = host.ended() {
            note(slot, &mut slots, &mut blocks);
            done += 1;
        }
        (server, host) = start();
        for (block, known) in blocks.iter_mut().enumerate() {
            let data = host.read(block as u64);
            let mut stamps =
                data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            let first = stamps.next().unwrap();
            assert!(stamps.all(|stamp| stamp == first), "block {block} is whole");
            let possible = first == known.acknowledged || known.asked.contains(&first);
            assert!(possible, "block {block} holds {first}, not {}", known.acknowledged);
            *known = Known { acknowledged: first, asked: Vec::new() };
        }
    }
    println!("{kills} kills: {done} writes acknowledged, {lost} under way at a kill, none lost");
    assert!(kills < 20 || lost > 0, "none was under way");
}

fn note(slot: u16, slots: &mut [Option<(u64, u64)>], blocks: &mut [Known]) {
    let (block, stamp) = slots[usize::from(slot)].take().expect("it was asked for");
    blocks[block as usize] = Known { acknowledged: stamp, asked: Vec::new() };
}
