//! `stasis serve --nvme-tcp` is killed in the midst of writes; acknowledged data is there
//! afterwards.
//! `KILLS=1000 cargo test --release -p stasis --test kills_tcp -- --nocapture`

mod server;
#[path = "../../../realtime/serve/tests/support/tcp_host.rs"]
mod tcp_host;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use server::{serve, Process};
use stasis_nvme::Config;
use tcp_host::{Event, TcpHost};

const BLOCKS: u64 = 256;
/// Writes under way at a time.
const DEPTH: usize = 16;

/// The stamps that a block may hold: the last that was acknowledged, or those written since.
#[derive(Clone, Default)]
struct Known {
    acknowledged: u64,
    asked: Vec<u64>,
}

fn start(folder: &Path, address: SocketAddr) -> Process {
    let drive = "name=d,model=fixed:300us,medium=file:disk.img,serial=K";
    serve(folder, &["--drive", drive, "--nvme-tcp", &address.to_string()])
}

#[test]
fn acknowledged_writes_survive_kills_of_the_server() {
    let kills = std::env::var("KILLS").map_or(20, |count| count.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let disk = std::fs::File::create(folder.path().join("disk.img")).unwrap();
    disk.set_len(BLOCKS * 4096).unwrap();
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nqn = Config { serial: "K".into(), ..Config::default() }.nqn();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut blocks = vec![Known::default(); BLOCKS as usize];
    let (mut stamp, mut lost, mut done) = (0u64, 0, 0u64);
    let mut server = start(folder.path(), address);
    let mut host = TcpHost::reconnect(address, &nqn, 1);
    for _ in 0..kills {
        let mut slots = [None; DEPTH];
        for _ in 0..random.next_u64() % 60 {
            while slots.iter().all(Option::is_some) {
                acknowledge(&mut host, &mut slots, &mut blocks);
                done += 1;
            }
            let free = slots.iter().position(Option::is_none).expect("one is free");
            let block = random.next_u64() % BLOCKS;
            // One write to a block at a time, so that its order is known.
            if slots.iter().flatten().any(|&(other, _)| other == block) {
                continue;
            }
            stamp += 1;
            let data = stamp.to_le_bytes().repeat(512);
            host.io.write(free as u16, block, &data).unwrap();
            blocks[block as usize].asked.push(stamp);
            slots[free] = Some((block, stamp));
        }
        lost += slots.iter().flatten().count();
        server.kill();
        // Writes that were acknowledged before the end count.
        while let Ok(Event::Done(cid, _, 0)) = host.io.next() {
            note(cid, &mut slots, &mut blocks);
            done += 1;
        }
        server = start(folder.path(), address);
        host = TcpHost::reconnect(address, &nqn, 1);
        for (block, known) in blocks.iter_mut().enumerate() {
            let data = host.read(block as u64).unwrap();
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

/// Waits for the end of one write.
fn acknowledge(host: &mut TcpHost, slots: &mut [Option<(u64, u64)>], blocks: &mut [Known]) {
    let Event::Done(cid, _, 0) = host.io.next().unwrap() else { panic!("a write failed") };
    note(cid, slots, blocks);
}

fn note(cid: u16, slots: &mut [Option<(u64, u64)>], blocks: &mut [Known]) {
    let (block, stamp) = slots[usize::from(cid)].take().expect("it was asked for");
    blocks[block as usize] = Known { acknowledged: stamp, asked: Vec::new() };
}
