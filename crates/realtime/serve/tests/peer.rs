//! `stasis-serve` beside qemu-storage-daemon's vhost-user-blk export, for the same
//! client, without a VMM: the cost of the servers, and nothing else. Both serve memory: a file in
//! /dev/shm for the daemon, which has no other. Needs a core for the client and one for the server:
//! `cargo test --release -p stasis-serve --test peer -- --ignored --nocapture`.

#[allow(dead_code)]
mod support;

use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
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

/// I/Os a second of a client that sleeps until it is rung, for some time, of a server that looks for
/// work in a way of its own.
fn speed_of(poll: Poll, depth: u16) -> f64 {
    const TIME: Duration = Duration::from_millis(400);
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let server = Server::new(1, poll).unwrap();
    server.attach(drive("d", folder.path(), &format!("ram:{}MiB", SIZE >> 20), None)).unwrap();
    let mut guest = Guest::connect(&support::socket(folder.path()));
    let (start, mut sector, mut ended) = (Instant::now(), 1u64, 0u32);
    let mut free: Vec<u16> = (0..depth).collect();
    while start.elapsed() < TIME {
        while let Some(slot) = free.pop() {
            sector = (sector + 8 * 7919) % (SIZE / 512);
            guest.request(slot, IN, sector / 8 * 8);
        }
        if guest.is_rung(Duration::from_secs(5)) {
            guest.call.read().unwrap();
        }
        let given = guest.take_given();
        ended += given.len() as u32;
        free.extend(given);
    }
    f64::from(ended) / start.elapsed().as_secs_f64()
}

/// Stops busy loops, however a measurement ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "a measurement, which needs two cores: make slow-test"]
fn adaptive_is_near_the_better_of_the_others() {
    const WAYS: [Poll; 3] = [Poll::Always, Poll::Adaptive, Poll::Never];
    const ROUNDS: usize = 9;
    let cores = std::thread::available_parallelism().unwrap().get();
    println!("4 KiB reads, I/Os a second: always, adaptive, never; medians of {ROUNDS} in turn");
    let mut below = Vec::new();
    for busy in [0, 2 * cores] {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            for _ in 0..busy {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::black_box(0);
                    }
                });
            }
            for depth in [1, 16] {
                let mut speeds = [const { Vec::new() }; 3];
                for _ in 0..ROUNDS {
                    for (speeds, poll) in speeds.iter_mut().zip(WAYS) {
                        speeds.push(speed_of(poll, depth));
                    }
                }
                let least = speeds[1].iter().copied().fold(f64::MAX, f64::min);
                let [always, adaptive, never] = speeds.map(|mut speeds: Vec<f64>| {
                    speeds.sort_by(f64::total_cmp);
                    speeds[ROUNDS / 2]
                });
                let share = adaptive / always.max(never);
                println!(
                    "{busy} busy loops, {depth:2} at a time: {always:8.0} {adaptive:8.0} {never:8.0}; \
                     {share:.2} of the better, the worst round of adaptive {least:.0}"
                );
                if share < 0.8 {
                    below.push((busy, depth, share));
                }
            }
        });
    }
    assert!(below.is_empty(), "{below:?}");
}
