//! `stasis serve` is killed, or its client is, or another server takes its place, in the midst of
//! writes; acknowledged data is there afterwards.
//! `KILLS=1000 cargo test --release -p stasis --test served kills:: -- --nocapture`

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::server::{serve, Process};
use crate::support::{Guest, DATA, IN, OUT};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const BLOCKS: u64 = 256;
const BLOCK: u64 = 4096;
/// Requests under way at a time.
const DEPTH: u16 = 16;

fn start(folder: &Path, medium: &str, more: &[&str]) -> Process {
    let drive = format!("name=d,model=fixed:300us,medium={medium}");
    serve(folder, &[&["--drive", &drive], more].concat())
}

/// The stamps that a block may hold: the last that was acknowledged, or those written since.
#[derive(Clone, Default)]
struct Known {
    acknowledged: u64,
    asked: Vec<u64>,
}

struct Load {
    random: Xoshiro256PlusPlus,
    blocks: Vec<Known>,
    /// The write under way in each slot: its block and what it writes.
    slots: [Option<(usize, u64)>; DEPTH as usize],
    next: u64,
}

impl Load {
    /// Writes until so many were begun.
    fn write(&mut self, guest: &mut Guest, count: u64) {
        let end = self.next + count;
        while self.next < end {
            self.reap(guest);
            let Some(slot) = self.slots.iter().position(Option::is_none) else { continue };
            let block = (self.random.next_u64() % BLOCKS) as usize;
            // One write to a block at a time, so that its order is known.
            if self.slots.iter().flatten().any(|(other, _)| *other == block) {
                continue;
            }
            self.next += 1;
            let stamp = self.next;
            let data = stamp.to_le_bytes().repeat(BLOCK as usize / 8);
            guest.put(DATA + BLOCK * slot as u64, &data);
            guest.request(slot as u16, OUT, block as u64 * BLOCK / 512);
            self.blocks[block].asked.push(stamp);
            self.slots[slot] = Some((block, stamp));
        }
    }

    fn reap(&mut self, guest: &mut Guest) {
        for slot in guest.take_given() {
            assert_eq!(guest.status(slot), 0, "no write fails");
            let (block, stamp) = self.slots[usize::from(slot)].take().expect("it was asked for");
            self.blocks[block] = Known { acknowledged: stamp, asked: Vec::new() };
        }
    }

    /// Waits for all that is under way.
    fn settle(&mut self, guest: &mut Guest) {
        let limit = Instant::now() + Duration::from_secs(30);
        while self.slots.iter().any(Option::is_some) {
            assert!(Instant::now() < limit, "what was under way is done by the next server");
            self.reap(guest);
        }
    }

    /// Checks that a read of a block finds one of the stamps that the block may hold.
    fn check(&mut self, block: usize, data: &[u8]) {
        let mut stamps =
            data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let first = stamps.next().unwrap();
        assert!(stamps.all(|stamp| stamp == first), "block {block} is whole");
        let known = &mut self.blocks[block];
        let possible = first == known.acknowledged || known.asked.contains(&first);
        assert!(possible, "block {block} holds {first}, not {}", known.acknowledged);
        *known = Known { acknowledged: first, asked: Vec::new() };
    }
}

/// One test at a time: a server that one starts has the other's connections until
/// it is its program, so that a client that went seems to be there.
static TURN: Mutex<()> = Mutex::new(());

fn kills() -> u64 {
    std::env::var("KILLS").map_or(20, |count| count.parse().expect("a number"))
}

/// Kills and replacements of a server whose drive is on `medium`.
fn kill(medium: &str, prepare: impl Fn(&Path), seed: u64, kills: u64) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let socket = folder.path().join("d.sock");
    let mut load = Load {
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        blocks: vec![Known::default(); BLOCKS as usize],
        slots: [None; DEPTH as usize],
        next: 0,
    };
    let mut server = start(folder.path(), medium, &[]);
    let mut guest = Guest::connect(&socket);
    let (mut again, mut of_clients, mut replaced) = (0, 0, 0);
    for _ in 0..kills {
        let count = load.random.next_u64() % 60;
        load.write(&mut guest, count);
        match load.random.next_u64() % 6 {
            0 => {
                // The client is killed: its connection ends, and nobody waits.
                of_clients += 1;
                drop(guest);
                load.slots = Default::default();
                guest = Guest::connect(&socket);
            }
            1 => {
                replaced += 1;
                let next = start(folder.path(), medium, &["--replace"]);
                let mut old = std::mem::replace(&mut server, next);
                assert!(old.0.wait().unwrap().success(), "the old server ends well");
                guest = guest.reconnect(&socket);
                load.settle(&mut guest);
            }
            _ => {
                server.kill();
                load.reap(&mut guest);
                again += load.slots.iter().flatten().count();
                server = start(folder.path(), medium, &[]);
                guest = guest.reconnect(&socket);
                load.settle(&mut guest);
            }
        }
        for block in 0..BLOCKS as usize {
            guest.request(0, IN, block as u64 * BLOCK / 512);
            assert!(guest.wait(1));
            assert_eq!(guest.status(0), 0);
            load.check(block, &guest.data(0));
        }
    }
    drop(server);
    println!(
        "{medium}: {} kills of the server, {of_clients} of its client, {replaced} replacements: \
         {} writes, {again} of them done again, none lost",
        kills - of_clients - replaced,
        load.next
    );
    assert!(kills < 10 || again > 0, "servers were killed in the midst of writes");
}

fn file(folder: &Path) {
    let disk = std::fs::File::create_new(folder.join("disk")).unwrap();
    disk.set_len(BLOCKS * BLOCK).unwrap();
}

#[test]
fn nothing_acknowledged_is_lost_on_a_file() {
    kill("file:disk", file, 1, kills());
}

#[test]
fn nothing_acknowledged_is_lost_on_an_image() {
    let create = |folder: &Path| {
        let made = Command::new(env!("CARGO_BIN_EXE_stasis"))
            .args(["image", "create", "--cluster-size", "4096", "disk.qcow2", "1MiB"])
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    // A new one every few kills, for there to be something to allocate.
    for (seed, _) in (0..kills()).step_by(10).enumerate() {
        kill("qcow2:disk.qcow2", create, seed as u64, 10);
    }
}
