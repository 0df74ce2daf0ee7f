//! The program is killed under load, and the disk is opened again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use stasis_ordered_disk::{Options, OrderedDisk, MIN_LOG};

const CAPACITY: u64 = 16 << 20;
const BLOCK: u64 = 4096;
const BLOCKS: u64 = CAPACITY / BLOCK;
const IMAGE: &str = "STASIS_TEST_ORDERED_IMAGE";

fn options() -> Options {
    Options { log_bytes: MIN_LOG, ..Options::default() }
}

/// Place of the write of this number: every block in turn, in no order.
fn place(number: u64) -> u64 {
    number * 1237 % BLOCKS * BLOCK
}

/// Not a test: the process to be killed. Reports each write's number once it has ended.
#[test]
#[ignore = "the other test starts it"]
fn victim() {
    let Ok(image) = std::env::var(IMAGE) else { return };
    let (disk, _) = OrderedDisk::open(Path::new(&image), options()).unwrap();
    let mut block = vec![0; BLOCK as usize];
    disk.read(0, &mut block).unwrap();
    let first = u64::from_le_bytes(block[8..16].try_into().unwrap());
    for number in first + 1.. {
        // The number of the last life's last write is where it begins again.
        block.fill(number as u8);
        block[..8].copy_from_slice(&number.to_le_bytes());
        disk.write(place(number), &block, false).unwrap();
        if number % 3 == 0 {
            disk.flush().unwrap();
        }
        println!("ended {number}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    OrderedDisk::create(&image, CAPACITY).unwrap();
    // Enough for the log to be checkpointed many times, and at different points.
    let mut newest = vec![0u64; BLOCKS as usize];
    for (life, count) in [1, 700, 5000, 6101, 3333].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--ignored", "--nocapture"])
            .env(IMAGE, &image)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines.by_ref().map_while(Result::ok).filter_map(|line| {
            line.rsplit_once("ended ").and_then(|(_, number)| number.parse::<u64>().ok())
        });
        let mut last = 0;
        for number in numbers.take(count) {
            newest[(place(number) / BLOCK) as usize] = number;
            last = number;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (disk, recovered) = OrderedDisk::open(&image, options()).unwrap();
        let mut block = vec![0; BLOCK as usize];
        let mut lost = Vec::new();
        for (index, expected) in newest.iter_mut().enumerate() {
            disk.read(index as u64 * BLOCK, &mut block).unwrap();
            let number = u64::from_le_bytes(block[..8].try_into().unwrap());
            assert!(block[16..].iter().all(|byte| *byte == number as u8), "block {index} is torn");
            // Between the last line that was read and the end more was written.
            if number < *expected {
                lost.push((index, number, *expected));
            }
            last = last.max(number);
            *expected = number;
        }
        assert!(lost.is_empty(), "life {life}: {lost:?} are lost; {recovered:?}");
        assert!(recovered.replayed > 0, "{recovered:?}");
        // Place where the next life begins.
        disk.read(0, &mut block).unwrap();
        block[8..16].copy_from_slice(&last.to_le_bytes());
        disk.write(0, &block, false).unwrap();
        disk.close().unwrap();
    }
}
