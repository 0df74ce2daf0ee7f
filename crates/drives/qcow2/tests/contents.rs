//! An image driven by random operations against a plain disk, with `qemu-img`
//! as the second opinion.

use std::path::Path;

use crate::common::*;
use proptest::prelude::*;
use rand_xoshiro::rand_core::RngCore;
use stasis_block::{Command, Operation, Status};
use stasis_drive::Layer;
use stasis_qcow2::{check, Durability, Settings};

const SECTOR: u64 = 512;

/// A random command of at most `most` bytes.
fn command(random: &mut impl RngCore, size: u64, most: u64) -> Command {
    let operation = match random.next_u64() % 20 {
        0..=7 => Operation::Write,
        8..=12 => Operation::Read,
        13..=14 => Operation::Discard,
        15 => Operation::WriteZeroes,
        16 => Operation::Verify,
        17 => Operation::Copy,
        _ => Operation::Flush,
    };
    let length = (random.next_u64() % most / SECTOR + 1) * SECTOR;
    let offset = random.next_u64() % (size - length + 1) / SECTOR * SECTOR;
    let mut command = Command::new(operation, offset, length);
    command.fua = random.next_u64().is_multiple_of(16);
    match operation {
        Operation::Flush => Command::flush(),
        Operation::Copy => {
            command.source = if offset >= length { 0 } else { offset + length };
            if command.source + length > size {
                command.operation = Operation::Verify;
            }
            command
        }
        _ => command,
    }
}

fn buffer(random: &mut impl RngCore, command: &Command) -> Vec<u8> {
    match command.operation {
        Operation::Write => {
            let mut data = vec![0; command.length as usize];
            random.fill_bytes(&mut data);
            data
        }
        Operation::Read => vec![0xee; command.length as usize],
        _ => vec![],
    }
}

fn apply(disk: &mut [u8], command: &Command, data: &[u8]) {
    let range = command.offset as usize..(command.offset + command.length) as usize;
    match command.operation {
        Operation::Write => disk[range].copy_from_slice(data),
        Operation::Discard | Operation::WriteZeroes => disk[range].fill(0),
        Operation::Copy => {
            let source = command.source as usize;
            disk.copy_within(source..source + range.len(), range.start);
        }
        _ => {}
    }
}

/// Random operations, several in flight where they do not overlap; in the end
/// everybody agrees on the contents.
fn random_operations(path: &Path, disk: &mut [u8], seed: u64, settings: Settings, count: usize) {
    let size = disk.len() as u64;
    let image = open(path, seed, settings).unwrap();
    assert_eq!(image.properties().capacity, size);
    let mut driver = Driver::new(image);
    let mut random = random(seed);
    let mut in_flight: Vec<(u32, Command, Option<Vec<u8>>)> = Vec::new();
    for _ in 0..count {
        let next = command(&mut random, size, 200 << 10);
        let overlaps = |other: &Command| {
            let touches = |start: u64| {
                let sources = [other.offset, other.source];
                sources.iter().any(|&at| start < at + other.length && at < start + next.length)
            };
            touches(next.offset) || (next.operation == Operation::Copy && touches(next.source))
        };
        while in_flight.iter().any(|(_, other, _)| overlaps(other)) || in_flight.len() >= 8 {
            let (tag, command, expected) = in_flight.remove(0);
            let done = driver.wait(tag);
            assert_eq!(done.status, Status::Ok, "{command:?}");
            if let Some(expected) = expected {
                assert_same(&done.data, &expected, "read");
            }
        }
        let data = buffer(&mut random, &next);
        apply(disk, &next, &data);
        let range = next.offset as usize..(next.offset + next.length) as usize;
        let expected = (next.operation == Operation::Read).then(|| disk[range].to_vec());
        let tag = driver.submit(next, data);
        in_flight.push((tag, next, expected));
        if random.next_u64().is_multiple_of(3) {
            driver.step();
        }
    }
    for (tag, _, expected) in in_flight {
        let done = driver.wait(tag);
        assert_eq!(done.status, Status::Ok);
        if let Some(expected) = expected {
            assert_same(&done.data, &expected, "read");
        }
    }
    assert_same(&driver.read(0, size), disk, "the whole disk");
    while driver.step() {}
    assert_eq!(driver.layer.in_flight(), 0);
    driver.layer.close().unwrap();
    drop(driver);
    let (_, report, _) = check(path).unwrap();
    assert!(report.is_sound() && report.leaks == 0, "{report:?}");
    qemu_agrees(path);
    assert_same(&qemu_contents(path), disk, "as qemu-img reads it");
}

fn create(path: &Path, options: &str, size: u64) {
    qemu_img(&[
        "create",
        "-q",
        "-f",
        "qcow2",
        "-o",
        options,
        path.to_str().unwrap(),
        &size.to_string(),
    ]);
}

#[test]
fn an_image_by_qemu_holds_what_is_written() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    create(&path, "cluster_size=65536", 8 << 20);
    let mut disk = vec![0; 8 << 20];
    for (seed, durability) in Durability::ALL.into_iter().enumerate() {
        random_operations(&path, &mut disk, seed as u64, settings(durability), 300);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn images_of_every_shape_hold_what_is_written(
        seed: u64,
        cluster_bits in 9u32..=21,
        refcount_order in 0u32..=6,
        lazy: bool,
        old: bool,
        way in 0usize..3,
    ) {
        let folder = folder();
        let path = name(&folder, "disk.qcow2");
        let size = 2 << 20;
        let cluster = 1u64 << cluster_bits;
        let shape = if old {
            format!("compat=0.10,cluster_size={cluster}")
        } else {
            let bits = 1 << refcount_order;
            let lazy = if lazy { "on" } else { "off" };
            format!("cluster_size={cluster},refcount_bits={bits},lazy_refcounts={lazy}")
        };
        create(&path, &shape, size);
        let mut disk = vec![0; size as usize];
        // Discards do nothing in the old version.
        if !old {
            random_operations(&path, &mut disk, seed, settings(Durability::ALL[way]), 120);
            random_operations(&path, &mut disk, !seed, settings(Durability::ALL[way]), 40);
        }
    }
}
