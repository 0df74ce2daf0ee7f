//! Disks in real files: opened again, by two, in bad files, without space.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_ordered_disk::{log_path, Durability, OpenError, Options, OrderedDisk, MIN_LOG};

const CAPACITY: u64 = 32 << 20;

fn options() -> Options {
    Options { log_bytes: MIN_LOG, ..Options::default() }
}

fn image() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    OrderedDisk::create(&image, CAPACITY).unwrap();
    (folder, image)
}

fn open(image: &Path) -> OrderedDisk {
    OrderedDisk::open(image, options()).unwrap().0
}

fn refused(image: &Path) -> OpenError {
    OrderedDisk::open(image, options()).map(|_| ()).unwrap_err()
}

#[test]
fn a_write_and_an_order_are_there_after_the_program_is_gone() {
    let (_folder, image) = image();
    let disk = open(&image);
    disk.write(4096, &[7; 8192], false).unwrap();
    disk.flush().unwrap();
    disk.write(0, &[9; 512], false).unwrap();
    drop(disk);
    let (disk, recovered) = OrderedDisk::open(&image, options()).unwrap();
    assert!(recovered.replayed > 8192, "{recovered:?}");
    let mut found = vec![0; 16384];
    disk.read(0, &mut found).unwrap();
    let expected = [vec![9; 512], vec![0; 3584], vec![7; 8192], vec![0; 4096]].concat();
    assert!(found == expected);
    disk.close().unwrap();
    // A closed disk is a plain image.
    assert!(fs::read(&image).unwrap()[..16384] == expected);
    let (disk, recovered) = OrderedDisk::open(&image, options()).unwrap();
    assert_eq!((recovered.replayed, recovered.cut), (0, 0));
    drop(disk);
}

#[test]
fn random_operations_from_several_threads_are_read_as_written() {
    const PART: u64 = CAPACITY / 4;
    for durability in Durability::ALL {
        let (_folder, image) = image();
        let options = Options { durability, ..options() };
        let disk = OrderedDisk::open(&image, options).unwrap().0;
        let work = |thread: u64| {
            let disk = &disk;
            move || {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(thread);
                let mut model = vec![0u8; PART as usize];
                for round in 0..150u64 {
                    let length =
                        512 * (1 + random.next_u64() % (if round % 10 == 0 { 3000 } else { 40 }));
                    let at = random.next_u64() % (PART - length) / 512 * 512;
                    let range = at as usize..(at + length) as usize;
                    match random.next_u64() % 8 {
                        0 => {
                            disk.discard(thread * PART + at, length).unwrap();
                            model[range].fill(0);
                        }
                        1 => {
                            let mut found = vec![1; length as usize];
                            disk.read(thread * PART + at, &mut found).unwrap();
                            assert!(found == model[range]);
                        }
                        2 => disk.flush().unwrap(),
                        3 => disk.barrier().unwrap(),
                        _ => {
                            model[range.clone()].fill(random.next_u64() as u8);
                            let fua = random.next_u64() % 16 == 0;
                            disk.write(thread * PART + at, &model[range], fua).unwrap();
                        }
                    }
                }
                model
            }
        };
        let models: Vec<u8> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut found = vec![0; CAPACITY as usize];
        disk.read(0, &mut found).unwrap();
        assert!(found == models);
        let counters = disk.counters();
        assert!(counters.checkpointed_bytes > 0, "the log was too small for all: {counters:?}");
        disk.close().unwrap();
        assert!(fs::read(&image).unwrap() == models);
    }
}

#[test]
fn an_order_is_durable_within_the_lag() {
    let (_folder, image) = image();
    let disk = open(&image);
    disk.write(0, &[1; 512], false).unwrap();
    disk.flush().unwrap();
    assert_eq!(disk.counters().durable, 0);
    // The test fails by never ending.
    while disk.counters().syncs == 0 {
        std::thread::yield_now();
    }
    disk.write(0, &[2; 512], true).unwrap();
    assert_eq!(disk.counters().durable, 1);
}

#[test]
fn two_never_have_it_open() {
    let (_folder, image) = image();
    let disk = open(&image);
    assert!(matches!(refused(&image), OpenError::Locked(_)));
    drop(disk);
    open(&image);
}

#[test]
fn beyond_the_end_is_an_error() {
    let (_folder, image) = image();
    let disk = open(&image);
    assert!(disk.write(CAPACITY - 512, &[1; 1024], false).is_err());
    assert!(disk.read(u64::MAX - 3, &mut [0; 512]).is_err());
    assert!(disk.discard(CAPACITY, u64::MAX).is_err());
    disk.write(CAPACITY - 512, &[1; 512], false).unwrap();
}

#[test]
fn bad_logs_are_refused_with_what_is_wrong() {
    let (_folder, image) = image();
    open(&image).close().unwrap();
    let log = log_path(&image);
    let good = fs::read(&log).unwrap();

    fs::write(&log, &good[..good.len() - 1]).unwrap();
    assert!(matches!(refused(&image), OpenError::Truncated { .. }));
    fs::write(&log, b"no log").unwrap();
    assert!(matches!(refused(&image), OpenError::NoLog { .. }));
    fs::write(&log, b"").unwrap();
    assert!(matches!(refused(&image), OpenError::NoLog { .. }));

    fs::write(&log, &good).unwrap();
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all_at(&[9], 16).unwrap();
    assert!(matches!(refused(&image), OpenError::Newer { version: 9, .. }));

    fs::write(&log, &good).unwrap();
    let mut file = OpenOptions::new().write(true).open(&image).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(&[0; 4096]).unwrap();
    assert!(matches!(refused(&image), OpenError::OtherDisk { .. }));

    let small = Options { log_bytes: 4096, ..options() };
    fs::remove_file(&log).unwrap();
    assert!(matches!(OrderedDisk::open(&image, small), Err(OpenError::LogSize(4096))));
    assert!(matches!(refused(Path::new("/dev/null")), OpenError::NoFile(_)));
}
