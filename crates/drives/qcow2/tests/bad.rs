//! Bad input: files that are no images, or images that contradict themselves,
//! and drives without room.

#[path = "common/damaged.rs"]
mod damaged;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::common::*;
use proptest::prelude::*;
use rand_xoshiro::rand_core::RngCore;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::Drive;
use stasis_fuzz_corpus::{cases, corpus, inputs};
use stasis_media::{Finished, Medium, MediumError};
use stasis_qcow2::{Durability, Image, ImageError, Settings, ZeroLatency, MAX_DEPTH};

fn open_image(path: &Path) -> Result<Image, ImageError> {
    let (opening, medium) = open_files(path, true, &options())?;
    let drive = Drive::new(0, "d".into(), Box::new(ZeroLatency::default()), medium);
    opening.open(Box::new(drive), Settings::default())
}

fn message(path: &Path) -> String {
    open_image(path).map(drop).unwrap_err().to_string()
}

fn create(path: &Path, options: &str) {
    qemu_img(&["create", "-q", "-f", "qcow2", "-o", options, path.to_str().unwrap(), "1M"]);
}

fn patch(path: &Path, at: usize, bytes: &[u8]) {
    let mut file = std::fs::read(path).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    std::fs::write(path, file).unwrap();
}

#[test]
fn each_is_refused_with_one_clear_message() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    let fresh = || create(&path, "cluster_size=4096");
    let expect = |parts: &[&str]| {
        let message = message(&path);
        assert!(!message.contains('\n'), "{message}");
        for part in parts {
            assert!(message.contains(part), "{message:?} has no {part:?}");
        }
    };
    expect(&["no such file"]);
    std::fs::write(&path, "text").unwrap();
    expect(&["no qcow2 image", "stasis image convert"]);
    fresh();
    patch(&path, 4, &4u32.to_be_bytes());
    expect(&["version 4 is not supported"]);
    fresh();
    patch(&path, 72, &(1u64 << 40).to_be_bytes());
    expect(&["newer version"]);
    fresh();
    patch(&path, 32, &1u32.to_be_bytes());
    expect(&["encryption"]);
    fresh();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
    expect(&["damaged", "behind its end"]);
    // The L1 table is put upon the refcount table.
    fresh();
    let file = std::fs::read(&path).unwrap();
    patch(&path, 40, &file[48..56]);
    expect(&["damaged", "overlaps", "stasis image check"]);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    expect(&["directory"]);
}

#[test]
fn backing_files_are_found_or_named() {
    let folder = folder();
    let [base, one, two] = ["base.qcow2", "one.qcow2", "two.qcow2"].map(|n| name(&folder, n));
    create(&base, "cluster_size=65536");
    let over = |path: &Path, backing: &str| {
        let path = path.to_str().unwrap();
        qemu_img(&["create", "-q", "-f", "qcow2", "-u", "-b", backing, "-F", "qcow2", path, "1M"]);
    };
    over(&one, "two.qcow2");
    over(&two, "one.qcow2");
    assert!(message(&one).contains("lead back to"), "{}", message(&one));
    over(&one, "none.qcow2");
    assert!(message(&one).contains("none.qcow2 is missing"), "{}", message(&one));
    over(&one, "base.qcow2");
    open_image(&one).unwrap();
    for depth in 0..MAX_DEPTH {
        let below = if depth == 0 { "base.qcow2".into() } else { format!("{}.qcow2", depth - 1) };
        over(&name(&folder, &format!("{depth}.qcow2")), &below);
    }
    let deepest = name(&folder, &format!("{}.qcow2", MAX_DEPTH - 1));
    open_image(&deepest).unwrap();
    over(&one, &format!("{}.qcow2", MAX_DEPTH - 1));
    assert!(message(&one).contains("more than 64 backing files"), "{}", message(&one));
}

#[test]
fn a_changed_backing_file_is_told_or_refused() {
    let folder = folder();
    let [base, top] = ["base.qcow2", "top.qcow2"].map(|n| name(&folder, n));
    create(&base, "cluster_size=65536");
    let options = stasis_qcow2::CreateOptions {
        backing: Some(("base.qcow2".into(), None)),
        ..stasis_qcow2::CreateOptions::default()
    };
    stasis_qcow2::create(&top, &options).unwrap();
    let newer = || stasis_qcow2::find(&top).unwrap().newer_below().unwrap();
    // Written before and after the image above it.
    let at = |path: &Path, seconds: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    at(&base, 1000);
    at(&top, 2000);
    assert!(newer().is_empty());
    at(&base, 3000);
    assert_eq!(newer(), std::slice::from_ref(&base));
    // Shorter than the image above: the missing part reads as zeroes.
    std::fs::remove_file(&base).unwrap();
    qemu_img(&["create", "-q", "-f", "qcow2", base.to_str().unwrap(), "512K"]);
    let mut driver = Driver::new(open_image(&top).unwrap());
    assert!(driver.read(0, 1 << 20).iter().all(|byte| *byte == 0));
    drop(driver);
    // Another thing altogether.
    std::fs::write(&base, "text").unwrap();
    assert!(message(&top).contains("base.qcow2"), "{}", message(&top));
}

#[test]
fn an_image_is_opened_once() {
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    create(&path, "cluster_size=65536");
    let first = open_image(&path).unwrap();
    assert!(message(&path).contains("another program uses this image"), "{}", message(&path));
    drop(first);
    open_image(&path).unwrap();
}

#[test]
fn a_way_that_the_drive_does_not_offer_is_refused() {
    struct Plain(ZeroLatency);
    impl stasis_block::Model for Plain {
        fn submit(&mut self, now: u64, tag: u32, command: &Command) {
            self.0.submit(now, tag, command);
        }
        fn next_event(&self) -> Option<u64> {
            self.0.next_event()
        }
        fn advance(&mut self, now: u64, done: &mut Vec<stasis_block::Completion>) {
            self.0.advance(now, done);
        }
    }
    let folder = folder();
    let path = name(&folder, "disk.qcow2");
    create(&path, "cluster_size=65536");
    let (opening, medium) = open_files(&path, true, &options()).unwrap();
    let drive = Drive::new(0, "d".into(), Box::new(Plain(ZeroLatency::default())), medium);
    let refused = opening.open(Box::new(drive), settings(Durability::Ordered)).map(drop);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("barrier = "), "{message}");
}

/// A host file system that is full from `limit` on.
struct Full {
    inner: Box<dyn Medium>,
    limit: Arc<AtomicU64>,
    failed: Vec<Finished>,
}

impl Medium for Full {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }
    fn submit(&mut self, request: Request) {
        let Request { tag, command, data, .. } = request;
        let end = command.offset + command.length;
        if command.operation == Operation::Write && end > self.limit.load(Ordering::Relaxed) {
            let result = Err(MediumError::Memory { offset: command.offset });
            self.failed.push(Finished { tag, result, data });
        } else {
            self.inner.submit(Request::new(tag, command, data));
        }
    }
    fn poll(&mut self, done: &mut Vec<Finished>) {
        done.append(&mut self.failed);
        self.inner.poll(done);
    }
    fn wait(&mut self, done: &mut Vec<Finished>) {
        self.poll(done);
    }
    fn in_flight(&self) -> usize {
        self.failed.len() + self.inner.in_flight()
    }
}

#[test]
fn without_room_a_write_fails_and_the_image_goes_on() {
    for durability in Durability::ALL {
        let folder = folder();
        let path = name(&folder, "disk.qcow2");
        create(&path, "cluster_size=4096");
        let limit = Arc::new(AtomicU64::new(u64::MAX));
        let (opening, inner) = open_files(&path, true, &options()).unwrap();
        let medium = Full { inner, limit: Arc::clone(&limit), failed: Vec::new() };
        let drive = Drive::new(0, "d".into(), Latencies::new(1), Box::new(medium));
        let image = opening.open(Box::new(drive), settings(durability)).unwrap();
        let mut driver = Driver::new(image);
        let mut disk = vec![0; 1 << 20];
        let mut random = random(5);
        let (mut failed, mut flushes_failed) = (0, 0);
        for index in 0..400u64 {
            if index % 40 == 20 {
                // From here on nothing new finds room.
                limit.store(std::fs::metadata(&path).unwrap().len(), Ordering::Relaxed);
            } else if index % 40 == 39 {
                limit.store(u64::MAX, Ordering::Relaxed);
            }
            let at = random.next_u64() % 250 * 4096;
            let value = vec![index as u8; 4096];
            match driver.write(at, value.clone()) {
                Status::Ok => disk[at as usize..][..4096].copy_from_slice(&value),
                _ => failed += 1,
            }
            if index.is_multiple_of(7) && driver.flush() != Status::Ok {
                flushes_failed += 1;
            }
        }
        assert!(failed > 10, "{durability:?}: {failed} writes failed");
        assert_eq!(driver.flush(), Status::Ok, "{durability:?}: {flushes_failed} failed before");
        assert_same(&driver.read(0, 1 << 20), &disk, "the disk");
        driver.layer.close().unwrap();
        drop(driver);
        qemu_agrees(&path);
        assert_same(&qemu_contents(&path), &disk, "as qemu-img reads it");
    }
}

/// An image with everything that an image can have.
fn rich(folder: &tempfile::TempDir) -> Vec<u8> {
    let path = name(folder, "rich.qcow2");
    create(&path, "cluster_size=512,refcount_bits=16");
    let mut driver = Driver::new(open_image(&path).unwrap());
    for at in [0u64, 40 << 10, 300 << 10] {
        driver.write(at, vec![7; 20 << 10]);
    }
    drop(driver);
    qemu_img(&["snapshot", "-c", "one", path.to_str().unwrap()]);
    let mut driver = Driver::new(open_image(&path).unwrap());
    driver.write(10 << 10, vec![8; 60 << 10]);
    drop(driver);
    qemu_agrees(&path);
    std::fs::read(&path).unwrap()
}

/// Inputs that cargo-fuzz has found.
fn known() -> Vec<Vec<u8>> {
    corpus(env!("CARGO_MANIFEST_DIR"), "image")
}

#[test]
fn the_corpus_is_refused_or_works() {
    let folder = folder();
    let path = name(&folder, "file");
    for bytes in known() {
        std::fs::write(&path, damaged::as_image(&bytes)).unwrap();
        damaged::exercise(&path);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    /// After any damage to an image: it is refused, or it works; nothing panics and everything
    /// ends.
    #[test]
    fn damaged_images_are_refused_or_work(
        bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0u8..4), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        thread_local!(static RICH: (tempfile::TempDir, Vec<u8>) = {
            let folder = folder();
            let rich = rich(&folder);
            (folder, rich)
        });
        RICH.with(|(folder, rich)| {
            let mut file = rich.clone();
            for (index, value, kind) in bytes {
                // Header and tables more often than data.
                let places = if kind < 2 { 112 } else { file.len() };
                let at = index.index(places) / 8 * 8;
                let new = match kind {
                    0 => value,
                    1 => value % 64,
                    2 => value % file.len() as u64 / 512 * 512,
                    _ => (value % file.len() as u64 / 512 * 512) | (1 << 63),
                };
                file[at..at + 8].copy_from_slice(&new.to_be_bytes());
            }
            if let Some(cut) = cut {
                file.truncate(cut.index(file.len()));
            }
            let path = name(folder, "damaged.qcow2");
            std::fs::write(&path, &file).unwrap();
            damaged::exercise(&path);
        });
    }

    /// Files that are hardly images.
    #[test]
    fn images_of_the_corpus_changed_are_refused_or_work(bytes in inputs(known(), 8192)) {
        thread_local!(static FOLDER: tempfile::TempDir = folder());
        FOLDER.with(|folder| {
            let path = name(folder, "file");
            std::fs::write(&path, damaged::as_image(&bytes)).unwrap();
            damaged::exercise(&path);
        });
    }
}
