//! Images to put to the test, and QEMU's programs as reference.
#![allow(dead_code)] // each test takes what it needs

pub mod cut;
#[path = "../../../drive/tests/common/history.rs"]
pub mod history;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::{Duration, Instant};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::clock::{EventQueue, Nanos};
use stasis_block::{Command, Completion, Model, Operation, Request, Status, Tag};
use stasis_drive::{Done, Drive, Layer};
use stasis_media::{Execution, HostMedium, OpenError, OpenOptions};
use stasis_qcow2::{Durability, Image, ImageError, Opening, Settings};

/// Random latencies, unlimited parallelism; flushes take long.
pub struct Latencies {
    random: Xoshiro256PlusPlus,
    events: EventQueue<Tag>,
}

impl Latencies {
    pub fn new(seed: u64) -> Box<Self> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Box::new(Self { random, events: EventQueue::new() })
    }
}

impl Model for Latencies {
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        let extra = if command.operation == Operation::Flush { 1_000_000 } else { 0 };
        self.events.push(now + 1_000 + extra + self.random.next_u64() % 50_000, tag);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next_at()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, tag)) = self.events.pop_due(now) {
            done.push(Completion::done(tag, at));
        }
    }

    fn barrier(&self) -> Option<Nanos> {
        Some(500)
    }
}

pub fn options() -> OpenOptions<'static> {
    OpenOptions { execution: Execution::Synchronous, delay: Duration::ZERO, base: Path::new("") }
}

pub fn settings(durability: Durability) -> Settings {
    Settings { durability, ..Settings::default() }
}

/// Opens the image at `path` on a dedicated drive.
pub fn open(path: &Path, seed: u64, settings: Settings) -> Result<Image, ImageError> {
    let (opening, medium) = open_files(path, true, &options())?;
    let drive = Drive::new(0, "d".into(), Latencies::new(seed), medium);
    opening.open(Box::new(drive), settings)
}

/// Opens an image. A child that another thread starts holds the locks of all
/// images that were open then, until it is its program, which may be after they
/// were closed here: such a lock goes away by itself.
pub fn open_files(
    path: &Path,
    writable: bool,
    options: &OpenOptions,
) -> Result<(Opening, Box<dyn HostMedium>), ImageError> {
    unlocked(|| stasis_qcow2::open_files(path, writable, options))
}

/// The same of an image whose file stays as it is.
pub fn open_kept(
    path: &Path,
    options: &OpenOptions,
) -> Result<(Opening, Box<dyn HostMedium>), ImageError> {
    unlocked(|| stasis_qcow2::open_kept(stasis_qcow2::links(path)?, options))
}

fn unlocked<T>(open: impl Fn() -> Result<T, ImageError>) -> Result<T, ImageError> {
    let begun = Instant::now();
    loop {
        match open() {
            Err(ImageError::Open(OpenError::Locked(_))) if begun.elapsed() < TIMEOUT => {
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

/// Limit on the start of a program.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs `qemu-img` and returns its output; fails where it does.
pub fn qemu_img(arguments: &[&str]) -> String {
    let output = Program::new("qemu-img").args(arguments).output().expect("qemu-img is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "qemu-img {arguments:?}: {text}{error}");
    text + &error
}

/// No errors, and no leaks.
pub fn qemu_agrees(path: &Path) {
    qemu_img(&["check", path.to_str().unwrap()]);
}

/// Sound: leaks are allowed.
pub fn qemu_finds_sound(path: &Path) {
    let output = Program::new("qemu-img").args(["check", path.to_str().unwrap()]).output().unwrap();
    let code = output.status.code();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(matches!(code, Some(0 | 3)), "qemu-img check: {code:?} {text}");
}

/// The disk as `qemu-img` reads it.
pub fn qemu_contents(path: &Path) -> Vec<u8> {
    let raw = path.with_extension("raw-by-qemu");
    qemu_img(&["convert", "-O", "raw", path.to_str().unwrap(), raw.to_str().unwrap()]);
    let contents = std::fs::read(&raw).unwrap();
    std::fs::remove_file(&raw).unwrap();
    contents
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub fn name(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// Drives a layer one command after the other, or several at a time.
pub struct Driver<L> {
    pub layer: L,
    pub now: Nanos,
    pub done: BTreeMap<Tag, Done>,
    next: Tag,
}

impl<L: Layer> Driver<L> {
    pub fn new(layer: L) -> Self {
        Self { layer, now: 0, done: BTreeMap::new(), next: 0 }
    }

    pub fn submit(&mut self, command: Command, data: Vec<u8>) -> Tag {
        self.next += 1;
        self.layer.submit(self.now, Request::new(self.next, command, data));
        self.next
    }

    /// Advances to the next event; `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.layer.next_event() else { return false };
        self.now = self.now.max(at);
        let mut done = Vec::new();
        self.layer.advance(self.now, &mut done);
        for done in done {
            assert_eq!(done.at, self.now, "advanced at the layer's own events");
            assert!(self.done.insert(done.tag, done).is_none());
        }
        true
    }

    pub fn wait(&mut self, tag: Tag) -> Done {
        while !self.done.contains_key(&tag) {
            assert!(self.step(), "command {tag} never ends");
        }
        self.done.remove(&tag).unwrap()
    }

    pub fn run(&mut self, command: Command, data: Vec<u8>) -> Done {
        let tag = self.submit(command, data);
        self.wait(tag)
    }

    pub fn write(&mut self, offset: u64, data: Vec<u8>) -> Status {
        let command = Command::new(Operation::Write, offset, data.len() as u64);
        self.run(command, data).status
    }

    pub fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let command = Command::new(Operation::Read, offset, length);
        let done = self.run(command, vec![0xee; length as usize]);
        assert_eq!(done.status, Status::Ok);
        done.data
    }

    pub fn flush(&mut self) -> Status {
        self.run(Command::flush(), vec![]).status
    }
}

pub fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Compares without printing megabytes.
pub fn assert_same(found: &[u8], expected: &[u8], subject: &str) {
    assert_eq!(found.len(), expected.len(), "{subject}: length");
    if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
        panic!("{subject}: differs at {at:#x}: {:#x}, not {:#x}", found[at], expected[at]);
    }
}
