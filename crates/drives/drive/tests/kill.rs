//! A program that is killed at any moment loses no acknowledged flush.

#![allow(clippy::disallowed_methods, reason = "the test kills a process that writes")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use crate::common::Latencies;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::{Drive, Layer};
use stasis_media::{Execution, MediumSpec, OpenOptions};

const BLOCK: usize = 4096;
const BLOCKS: usize = 256;
const TEST: &str = "kill::an_acknowledged_flush_survives_a_kill";
const IMAGE: &str = "STASIS_TEST_KILL_IMAGE";

/// The blocks that each round writes.
fn rounds() -> impl Iterator<Item = (u64, Vec<usize>)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    (1..).map(move |round| {
        let mut blocks: Vec<_> = (0..12).map(|_| random.next_u64() as usize % BLOCKS).collect();
        blocks.sort_unstable();
        blocks.dedup();
        (round, blocks)
    })
}

/// Writes and flushes in rounds, and reports each, until it is killed.
fn write_for_ever(image: &Path, direct: bool) -> ! {
    let spec = MediumSpec::File { path: image.into(), size: Some((BLOCKS * BLOCK) as u64), direct };
    let options = OpenOptions {
        execution: Execution::Asynchronous,
        delay: Duration::ZERO,
        base: Path::new("."),
    };
    let medium = spec.open(&options).unwrap();
    let mut drive = Drive::new(0, "d".into(), Latencies::new(1, 1000), medium);
    let (mut now, mut done) = (0, Vec::new());
    for (round, blocks) in rounds() {
        for (tag, block) in blocks.iter().enumerate() {
            let command = Command::new(Operation::Write, (block * BLOCK) as u64, BLOCK as u64);
            let data = round.to_le_bytes().repeat(BLOCK / 8);
            drive.submit(now, Request { queue: 1, ..Request::new(tag as u32, command, data) });
        }
        // Each other flush follows its writes at once, before they are done.
        if round % 2 == 0 {
            now += 1000;
            drive.advance(now, &mut done);
        }
        let command = Command::flush();
        drive.submit(now, Request { queue: 1, ..Request::new(99, command, vec![]) });
        now += 1000;
        drive.advance(now, &mut done);
        assert_eq!(done.len(), blocks.len() + 1);
        assert!(done.drain(..).all(|done| done.status == Status::Ok));
        println!("\nacknowledged {round}");
    }
    unreachable!("rounds never end")
}

#[test]
fn an_acknowledged_flush_survives_a_kill() {
    if let Some(image) = std::env::var_os(IMAGE) {
        let image = Path::new(&image);
        write_for_ever(image, image.ends_with("direct.img"));
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for attempt in 0..10 {
        let name = if attempt % 2 == 0 { "cached.img" } else { "direct.img" };
        let image = folder.path().join(name);
        let _ = std::fs::remove_file(&image);
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(IMAGE, &image)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        let enough: u64 = 1 + random.next_u64() % 30;
        let mut last = acknowledged.find(|&round: &u64| round >= enough).expect("the child failed");
        std::thread::sleep(Duration::from_micros(random.next_u64() % 5000));
        child.kill().unwrap();
        // Its output just before its end counts.
        last = acknowledged.last().unwrap_or(last);
        child.wait().unwrap();

        let contents = std::fs::read(&image).unwrap();
        let mut expected = vec![0; BLOCKS];
        for (round, blocks) in rounds().take_while(|(round, _)| *round <= last) {
            blocks.into_iter().for_each(|block| expected[block] = round);
        }
        for (block, (bytes, expected)) in contents.chunks(BLOCK).zip(expected).enumerate() {
            let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            // The round after the last acknowledged one may have begun.
            assert!(
                found == expected || found == last + 1,
                "block {block} is of round {found}, not {expected}, after {last}"
            );
        }
    }
}
