//! `stasis-serve` beside qemu-storage-daemon's vhost-user-blk export, for the same
//! client, without a VMM: the cost of the servers, and nothing else. Both serve memory: a file in
//! /dev/shm for the daemon, which has no other. Needs a core for the client and one for the server:
//! `cargo test --release -p stasis-serve --test peer -- --ignored --nocapture`.

#[allow(dead_code)]
mod support;

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use stasis_serve::{Poll, Server};
use support::{drive, Guest, IN, OUT};

const SIZE: u64 = 64 << 20;
const REQUESTS: u32 = 40_000;
const ROUNDS: usize = 5;

/// Requests a second, `depth` at a time.
fn speed(guest: &mut Guest, kind: u32, depth: u16) -> f64 {
    let start = Instant::now();
    let (mut begun, mut ended) = (0, 0);
    let mut sector = 1u64;
    let mut free: Vec<u16> = (0..depth).collect();
    while ended < REQUESTS {
        while begun < REQUESTS && !free.is_empty() {
            // A step that is odd against the blocks' number visits all of them.
            sector = (sector + 8 * 7919) % (SIZE / 512);
            guest.request(free.pop().unwrap(), kind, sector / 8 * 8);
            begun += 1;
        }
        for slot in guest.take_given() {
            assert_eq!(guest.status(slot), 0);
            free.push(slot);
            ended += 1;
        }
    }
    f64::from(REQUESTS) / start.elapsed().as_secs_f64()
}

/// A process that ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn daemon(folder: &Path) -> Daemon {
    let file = folder.join("bytes");
    std::fs::write(&file, vec![1; SIZE as usize]).unwrap();
    let socket = folder.join("daemon.sock");
    let child = Command::new("qemu-storage-daemon")
        .args(["--object", "iothread,id=t", "--blockdev"])
        .arg(format!("file,node-name=f,filename={},aio=threads", file.display()))
        .arg("--export")
        .arg(format!(
            "vhost-user-blk,id=e,node-name=f,addr.type=unix,addr.path={},writable=on,iothread=t,num-queues=2",
            socket.display()
        ))
        .spawn()
        .expect("qemu-storage-daemon is installed");
    let daemon = Daemon(child);
    let limit = Instant::now() + Duration::from_secs(20);
    while !socket.exists() {
        assert!(Instant::now() < limit, "the daemon listens");
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon
}

#[test]
#[ignore = "a measurement, which needs two cores: make slow-test"]
fn ahead_of_the_storage_daemon() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let server = Server::new(1, Poll::Adaptive).unwrap();
    server.attach(drive("d", folder.path(), &format!("ram:{}MiB", SIZE >> 20), None)).unwrap();
    let _daemon = daemon(folder.path());
    let mut ours = Guest::connect(&support::socket(folder.path()));
    let mut theirs = Guest::connect(&folder.path().join("daemon.sock"));
    println!("4 KiB, requests a second, median of {ROUNDS} in turn");
    for (kind, name) in [(IN, "read"), (OUT, "write")] {
        for depth in [1, 2, 4, 8, 16] {
            let mut speeds = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                speeds[0].push(speed(&mut ours, kind, depth));
                speeds[1].push(speed(&mut theirs, kind, depth));
            }
            let [ours, theirs] = speeds.map(|mut speeds| {
                speeds.sort_by(f64::total_cmp);
                speeds[ROUNDS / 2]
            });
            println!(
                "{name:5} {depth:2} at a time: {ours:8.0} and {theirs:8.0}: {:.2} times",
                ours / theirs
            );
            assert!(ours > theirs, "ahead at every point");
        }
    }
}
