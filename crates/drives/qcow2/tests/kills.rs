//! The program is killed at any time; acknowledged writes are there when the image is opened again,
//! flushed or not.

use std::path::{Path, PathBuf};

use crate::common::*;
use rand_xoshiro::rand_core::RngCore;
use stasis_block::{Command, Operation, Status, Tag};
use stasis_drive::{Drive, Layer};
use stasis_qcow2::{Durability, Image, Settings};

const BLOCK: usize = 4096;
const BLOCKS: usize = 256;

fn open_to_outlive(path: &Path, seed: u64, settings: Settings) -> Driver<Image> {
    let (opening, medium) = open_files(path, true, &options()).unwrap();
    let drive = Drive::new(0, "d".into(), Latencies::new(seed), medium);
    Driver::new(opening.kill_safe().open(Box::new(drive), settings).unwrap())
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("qcow2.unflushed")
}

fn create(path: &Path, options: &str, size: &str) {
    let text = path.to_str().unwrap();
    qemu_img(&["create", "-q", "-f", "qcow2", "-o", options, text, size]);
}

/// Permitted content of a block: the last acknowledged write, or a later one submitted since.
#[derive(Clone, Default)]
struct Known {
    acknowledged: u64,
    asked: Vec<u64>,
}

fn stamped(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(BLOCK / 8)
}

/// Kills an image in the midst of commands, again and again.
fn kills(options: &str, settings: Settings, seed: u64) {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    create(&path, options, "1M");
    let mut random = random(seed);
    let mut known = vec![Known::default(); BLOCKS];
    let mut stamp = 0;
    for kill in 0..15 {
        let mut driver = open_to_outlive(&path, seed << 8 | kill, settings);
        for (block, known) in known.iter_mut().enumerate() {
            let data = driver.read((block * BLOCK) as u64, BLOCK as u64);
            let found = u64::from_le_bytes(data[..8].try_into().unwrap());
            assert_same(&data, &stamped(found), "a block is whole");
            let possible = found == known.acknowledged || known.asked.contains(&found);
            assert!(possible, "{options}: block {block} holds {found}, not {}", known.acknowledged);
            *known = Known { acknowledged: found, asked: Vec::new() };
        }
        let mut under_way: Vec<(Tag, usize, u64)> = Vec::new();
        for _ in 0..random.next_u64() % 80 {
            let block = random.next_u64() as usize % BLOCKS;
            if under_way.iter().any(|(_, other, _)| *other == block) {
                continue;
            }
            let offset = (block * BLOCK) as u64;
            let operation = match random.next_u64() % 16 {
                // Otherwise it is a hint, and a block may keep its content.
                0 if driver.layer.properties().discard_zeroes => Operation::Discard,
                1 => Operation::WriteZeroes,
                2 => Operation::Flush,
                _ => Operation::Write,
            };
            if operation == Operation::Flush {
                driver.submit(Command::flush(), vec![]);
                continue;
            }
            stamp += 1;
            let value = if operation == Operation::Write { stamp } else { 0 };
            let data = if operation == Operation::Write { stamped(stamp) } else { vec![] };
            let command = Command::new(operation, offset, BLOCK as u64);
            known[block].asked.push(value);
            under_way.push((driver.submit(command, data), block, value));
            for _ in 0..random.next_u64() % 4 {
                driver.step();
                under_way.retain(|(tag, block, value)| {
                    let Some(done) = driver.done.remove(tag) else { return true };
                    assert_eq!(done.status, Status::Ok);
                    known[*block] = Known { acknowledged: *value, asked: Vec::new() };
                    false
                });
            }
        }
        driver.layer.abandon();
    }
    // Everything is as in any other image once it is closed.
    drop(open_to_outlive(&path, seed, settings));
    assert!(!log_of(&path).exists());
    qemu_finds_sound(&path);
}

#[test]
fn what_was_acknowledged_outlives_the_program() {
    for (seed, durability) in Durability::ALL.into_iter().enumerate() {
        let settings = settings(durability);
        for (index, options) in [
            "cluster_size=65536",
            "cluster_size=4096",
            "cluster_size=512,refcount_bits=1",
            "cluster_size=4096,lazy_refcounts=on",
        ]
        .into_iter()
        .enumerate()
        {
            kills(options, settings, 8 * seed as u64 + index as u64);
        }
    }
}

#[test]
fn an_image_without_room_for_a_mark_outlives_it_too() {
    // Version 2 of the format has no feature bits.
    kills("compat=0.10,cluster_size=4096", settings(Durability::Flush), 1);
}

#[test]
fn without_being_asked_for_it_is_what_was_flushed_that_outlives() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    create(&path, "cluster_size=65536", "1M");
    let mut driver = Driver::new(open(&path, 1, settings(Durability::Flush)).unwrap());
    assert_eq!(driver.write(0, stamped(1)), Status::Ok);
    driver.layer.abandon();
    assert!(!log_of(&path).exists());
    let mut driver = Driver::new(open(&path, 1, settings(Durability::Flush)).unwrap());
    assert_same(&driver.read(0, BLOCK as u64), &stamped(0), "lost with the program");
}

/// An image that was killed with one write that was not flushed.
fn killed() -> (tempfile::TempDir, PathBuf) {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    create(&path, "cluster_size=65536", "1M");
    let mut driver = open_to_outlive(&path, 1, settings(Durability::Flush));
    assert_eq!(driver.write(0, stamped(1)), Status::Ok);
    driver.layer.abandon();
    assert!(log_of(&path).exists());
    (folder, path)
}

fn first_block(path: &Path) -> Vec<u8> {
    let mut driver = Driver::new(open(path, 1, settings(Durability::Flush)).unwrap());
    let data = driver.read(0, BLOCK as u64);
    drop(driver);
    assert!(!log_of(path).exists());
    qemu_finds_sound(path);
    data
}

#[test]
fn any_opening_to_write_takes_over_what_was_left() {
    let (_folder, path) = killed();
    assert_same(&first_block(&path), &stamped(1), "taken over");
    assert_same(&first_block(&path), &stamped(1), "and there to stay");
}

#[test]
fn a_log_is_void_once_another_program_has_written() {
    let (_folder, path) = killed();
    let output = std::process::Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", "write -P 7 64k 4k"])
        .arg(&path)
        .output()
        .expect("qemu-io is installed");
    assert!(output.status.success(), "{output:?}");
    assert_same(&first_block(&path), &stamped(0), "as that program found it");
    let mut driver = Driver::new(open(&path, 1, settings(Durability::Flush)).unwrap());
    assert_same(&driver.read(64 << 10, BLOCK as u64), &[7; BLOCK], "what it wrote");
}

/// Changes the head of an image's log, its checksum included.
fn forge(path: &Path, change: impl FnOnce(&mut [u8])) {
    let log = log_of(path);
    let mut bytes = std::fs::read(&log).unwrap();
    change(&mut bytes);
    let checksum = crc32fast::hash(&bytes[..44]);
    bytes[44..48].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&log, bytes).unwrap();
}

#[test]
fn a_log_of_another_boot_or_file_is_void() {
    for at in [8, 24, 32] {
        let (_folder, path) = killed();
        forge(&path, |head| head[at] ^= 1);
        assert_same(&first_block(&path), &stamped(0), "what was flushed");
    }
}

#[test]
fn what_was_being_carried_when_the_power_was_cut_is_carried_again() {
    let (_folder, path) = killed();
    forge(&path, |head| {
        head[8] ^= 1;
        head[40] = 1;
    });
    assert_same(&first_block(&path), &stamped(1), "taken over");
}

#[test]
fn a_log_stays_short_without_flushes() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    create(&path, "cluster_size=4096", "64M");
    let mut driver = open_to_outlive(&path, 1, settings(Durability::Flush));
    let mut longest = 0;
    for block in 0..6000 {
        // Scattered, so that each changes a different page.
        let place = block * 2741 % 16384;
        assert_eq!(driver.write(place * 4096, stamped(block + 1)), Status::Ok);
        longest = longest.max(std::fs::metadata(log_of(&path)).unwrap().len());
    }
    assert!((31 << 20..33 << 20).contains(&longest), "{longest}");
    driver.layer.abandon();
    let mut driver = open_to_outlive(&path, 2, settings(Durability::Flush));
    for block in 0..6000 {
        let place = block * 2741 % 16384;
        assert_same(&driver.read(place * 4096, 4096), &stamped(block + 1), "a block");
    }
}
