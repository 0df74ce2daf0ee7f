//! Images that QEMU's tools and this crate change in turns: chains of random shapes, with
//! snapshots, resizes, compressed clusters, clusters of zeroes and images that were not closed.
//! After every step both programs find the image sound and read the same disk.

use std::path::PathBuf;
use std::process::Command as Program;

use crate::common::*;
use rand_xoshiro::rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Operation, Status};
use stasis_drive::{Drive, Layer};
use stasis_qcow2::{check, CreateOptions, Format, ZeroLatency};
use stasis_qcow2_format::Reader;

const SECTOR: u64 = 512;

/// An image, the files below it, and the expected content of its disk.
struct Chain {
    folder: tempfile::TempDir,
    random: Xoshiro256PlusPlus,
    /// The topmost file.
    top: PathBuf,
    files: usize,
    disk: Vec<u8>,
    shape: Shape,
    /// True if it may have compressed clusters.
    packed: bool,
    /// Names of the top's internal snapshots, with the disks of then.
    snapshots: Vec<(String, Vec<u8>)>,
    /// Operations so far, for a failure's message.
    log: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    old: bool,
    cluster: u64,
    refcount_bits: u32,
    lazy: bool,
    /// True if entries of L2 tables tell of parts of clusters.
    extended: bool,
    /// True if clusters are compressed by zstd.
    zstd: bool,
    backed: bool,
}

impl Chain {
    fn new(seed: u64) -> Self {
        let mut random = random(seed);
        let folder = folder();
        let shape = Shape {
            old: false,
            cluster: 512,
            refcount_bits: 16,
            lazy: false,
            extended: false,
            zstd: false,
            backed: false,
        };
        let top = folder.path().join("0");
        let mut disk = vec![0; (64 + random.next_u64() as usize % 2048) * SECTOR as usize];
        random.fill_bytes(&mut disk);
        std::fs::write(&top, &disk).unwrap();
        let mut chain = Self {
            folder,
            random,
            top,
            files: 1,
            disk,
            shape,
            packed: false,
            snapshots: vec![],
            log: vec![format!("seed {seed}")],
        };
        let depth = chain.below(3);
        match chain.below(3) {
            // A raw file at the bottom.
            0 => chain.overlay(),
            _ => chain.fresh(),
        }
        for _ in 0..depth {
            for _ in 0..chain.below(4) {
                chain.step();
            }
            chain.overlay();
        }
        chain
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn path(&self) -> &str {
        self.top.to_str().unwrap()
    }

    fn next_shape(&mut self, backed: bool) -> Shape {
        let old = self.below(3) == 0;
        let cluster = 512 << self.below(9);
        Shape {
            old,
            cluster,
            extended: !old && cluster >= 16 << 10 && self.below(3) > 0,
            zstd: !old && self.below(2) == 0,
            refcount_bits: if old { 16 } else { 1 << self.below(7) },
            lazy: !old && self.below(3) == 0,
            backed,
        }
    }

    fn next_file(&mut self) -> PathBuf {
        let file = self.folder.path().join(self.files.to_string());
        self.files += 1;
        file
    }

    fn options(shape: Shape) -> String {
        let Shape { cluster, refcount_bits, lazy, extended, zstd, .. } = shape;
        match shape.old {
            true => format!("compat=0.10,cluster_size={cluster}"),
            false => {
                let [lazy, extended] = [lazy, extended].map(|on| if on { "on" } else { "off" });
                let compression = if zstd { "zstd" } else { "zlib" };
                format!(
                    "cluster_size={cluster},refcount_bits={refcount_bits},lazy_refcounts={lazy},\
                     extended_l2={extended},compression_type={compression}"
                )
            }
        }
    }

    /// An image without a file below, with the same disk: copied by QEMU, compressed or not.
    fn fresh(&mut self) {
        let file = self.next_file();
        let shape = self.next_shape(false);
        let options = Self::options(shape);
        let mut arguments = vec!["convert", "-O", "qcow2", "-o", &options];
        if self.below(2) == 0 {
            arguments.push("-c");
            self.packed = true;
            // Half of the disk is compressible.
            let half = self.disk.len() / 2;
            self.disk[..half].fill(3);
            std::fs::write(&self.top, &self.disk).unwrap();
        }
        self.log.push(format!("{arguments:?} {file:?}"));
        arguments.extend(["-f", "raw", self.path(), file.to_str().unwrap()]);
        qemu_img(&arguments);
        self.top = file;
        self.shape = shape;
    }

    /// A new image above, by either program, as large, smaller or larger.
    fn overlay(&mut self) {
        let shape = self.next_shape(true);
        let raw = !self.top_is_qcow2();
        let format = if raw { "raw" } else { "qcow2" };
        let size = match self.below(3) {
            0 => self.disk.len() as u64,
            1 => (self.disk.len() as u64 / SECTOR / 2 + 1) * SECTOR,
            _ => self.disk.len() as u64 + (1 + self.below(600)) * SECTOR,
        };
        let file = self.next_file();
        let below = self.top.file_name().unwrap().to_str().unwrap().to_owned();
        let ours = !shape.old && !shape.extended && self.below(2) == 0;
        self.log.push(format!("overlay {file:?} of {size}, ours {ours}: {shape:?}"));
        if ours {
            let kind = if raw { Format::Raw } else { Format::Qcow2 };
            let options = CreateOptions {
                size: Some(size),
                cluster_size: shape.cluster,
                refcount_bits: shape.refcount_bits,
                lazy_refcounts: shape.lazy,
                backing: Some((below, (self.below(2) == 0).then_some(kind))),
            };
            stasis_qcow2::create(&file, &options).unwrap();
        } else {
            let options = Self::options(shape);
            let (file, size) = (file.to_str().unwrap(), size.to_string());
            let files = ["-b", &below, "-F", format, "-o", &options, file, &size];
            qemu_img(&[&["create", "-q", "-f", "qcow2"][..], &files].concat());
        }
        self.disk.resize(size as usize, 0);
        self.top = file;
        self.shape = shape;
        self.packed = false;
        self.snapshots.clear();
    }

    fn top_is_qcow2(&self) -> bool {
        std::fs::read(&self.top).unwrap().starts_with(b"QFI\xfb")
    }

    fn range(&mut self) -> std::ops::Range<usize> {
        let sectors = self.disk.len() as u64 / SECTOR;
        let length = 1 + self.below(sectors.min(400));
        let start = self.below(sectors - length + 1);
        (start * SECTOR) as usize..((start + length) * SECTOR) as usize
    }

    /// Commands through this crate, with the image closed at the end or left as a kill does.
    fn ours(&mut self) {
        let image = open(&self.top, self.random.next_u64(), Default::default()).unwrap();
        let mut driver = Driver::new(image);
        for _ in 0..1 + self.below(6) {
            let range = self.range();
            let (at, length) = (range.start as u64, range.len() as u64);
            match self.below(6) {
                0 | 1 => {
                    let mut data = vec![0; range.len()];
                    self.random.fill_bytes(&mut data);
                    self.log.push(format!("write {range:?}"));
                    self.disk[range].copy_from_slice(&data);
                    assert_eq!(driver.write(at, data), Status::Ok);
                }
                2 => {
                    self.log.push(format!("zero {range:?}"));
                    self.disk[range].fill(0);
                    let done = driver.run(Command::new(Operation::WriteZeroes, at, length), vec![]);
                    assert_eq!(done.status, Status::Ok);
                }
                3 => {
                    self.log.push(format!("discard {range:?}"));
                    // Version 2 keeps its content.
                    if driver.layer.properties().discard_zeroes {
                        self.disk[range].fill(0);
                    }
                    let done = driver.run(Command::new(Operation::Discard, at, length), vec![]);
                    assert_eq!(done.status, Status::Ok);
                }
                4 => assert_eq!(driver.flush(), Status::Ok),
                _ => assert_same(&driver.read(at, length), &self.disk[range], "a read"),
            }
        }
        if self.below(4) == 0 {
            self.log.push("abandoned after a flush".into());
            assert_eq!(driver.flush(), Status::Ok);
            while driver.step() {}
            driver.layer.abandon();
            // Only a program that writes repairs it.
            open(&self.top, 0, Default::default()).unwrap().close().unwrap();
        } else {
            driver.layer.close().unwrap();
        }
    }

    /// Commands through `qemu-io`.
    fn qemu(&mut self) {
        for _ in 0..1 + self.below(3) {
            let range = self.range();
            let (at, length) = (range.start, range.len());
            let byte = 1 + self.below(255) as u8;
            match self.below(3) {
                0 => {
                    assert!(self.qemu_io(&format!("write -P {byte} {at} {length}")));
                    self.disk[range].fill(byte);
                }
                1 => {
                    // In version 2 it writes zeroes.
                    assert!(self.qemu_io(&format!("write -z {at} {length}")));
                    self.disk[range].fill(0);
                }
                _ => {
                    let cluster = self.shape.cluster as usize;
                    let start = at / cluster * cluster;
                    let whole = start..start + cluster;
                    // QEMU compresses only into clusters that have no data yet.
                    if whole.end <= self.disk.len()
                        && self.qemu_io(&format!("write -c -P {byte} {start} {cluster}"))
                    {
                        self.disk[whole].fill(byte);
                        self.packed = true;
                    }
                }
            }
        }
    }

    /// Returns whether the command succeeded.
    fn qemu_io(&mut self, command: &str) -> bool {
        self.log.push(format!("qemu-io {command}"));
        let arguments = ["-f", "qcow2", "-c", command, self.path()];
        let output = Program::new("qemu-io").args(arguments).output().unwrap();
        output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("failed")
    }

    fn grow(&mut self) {
        if self.shape.refcount_bits < 2 && !self.snapshots.is_empty() {
            return;
        }
        let size = self.disk.len() as u64 + (1 + self.below(900)) * SECTOR;
        self.log.push(format!("grow to {size}"));
        // QEMU's refuses to grow one of version 2 above a file below.
        if self.below(3) == 0 && self.snapshots.is_empty() && !self.shape.old {
            qemu_img(&["resize", "-q", "-f", "qcow2", self.path(), &size.to_string()]);
        } else {
            stasis_qcow2::grow(&self.top, size).unwrap();
        }
        self.disk.resize(size as usize, 0);
    }

    /// Made smaller by QEMU, which leaves data behind the end within the last cluster, then
    /// larger here.
    fn shrink(&mut self) {
        let size = (self.disk.len() as u64 / SECTOR).saturating_sub(1 + self.below(300)).max(16);
        let size = (size * SECTOR).min(self.disk.len() as u64);
        self.log.push(format!("shrink to {size}"));
        if !self.snapshots.is_empty() {
            return;
        }
        let arguments = ["resize", "-q", "-f", "qcow2", "--shrink", self.path()];
        qemu_img(&[&arguments[..], &[&size.to_string()]].concat());
        self.disk.truncate(size as usize);
        let more = size + (1 + self.below(900)) * SECTOR;
        self.log.push(format!("grow to {more}"));
        stasis_qcow2::grow(&self.top, more).unwrap();
        self.disk.resize(more as usize, 0);
    }

    fn snapshot(&mut self) {
        // A refcount must have room for a second use, and compressed clusters that share one
        // for two of each.
        let least = if self.packed { 16 } else { 2 };
        if self.shape.refcount_bits < least || self.snapshots.len() > 1 {
            return;
        }
        let name = format!("s{}", self.snapshots.len());
        self.log.push(format!("snapshot {name}"));
        qemu_img(&["snapshot", "-c", &name, self.path()]);
        self.snapshots.push((name, self.disk.clone()));
    }

    fn step(&mut self) {
        match self.below(10) {
            0..=3 => self.ours(),
            4..=6 => self.qemu(),
            7 => self.grow(),
            8 => self.shrink(),
            _ => self.snapshot(),
        }
        self.agree();
    }

    /// Both programs find the image sound, with the disk that it must have.
    fn agree(&mut self) {
        if !self.top_is_qcow2() {
            return;
        }
        let log = &self.log;
        let (header, report, _) = check(&self.top).unwrap();
        assert!(report.is_sound() && report.leaks == 0, "{log:#?}: {report:?}");
        let versions = (header.version, header.backing.is_some());
        assert_eq!(versions, (if self.shape.old { 2 } else { 3 }, self.shape.backed), "{log:#?}");
        qemu_agrees(&self.top);
        let same = |found: &[u8], expected: &[u8], who: &str| {
            assert_eq!(found.len(), expected.len(), "{who}: {log:#?}");
            if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
                panic!("{who} reads {:#x} at {at}, not {:#x}: {log:#?}", found[at], expected[at]);
            }
        };
        same(&qemu_contents(&self.top), &self.disk, "QEMU");
        same(&self.contents(None), &self.disk, "Stasis");
        if !self.shape.backed {
            let file = std::fs::File::open(&self.top).unwrap();
            let reader = Reader::open(file.into(), &self.top).unwrap();
            let mut found = vec![0xee; reader.size() as usize];
            reader.read_at(&mut found, 0).unwrap();
            same(&found, &self.disk, "the reader");
        }
        for (name, disk) in &self.snapshots {
            same(&self.contents(Some(name)), disk, name);
        }
    }

    fn contents(&self, snapshot: Option<&str>) -> Vec<u8> {
        let (opening, medium) = open_files(&self.top, false, &options()).unwrap();
        let drive = Box::new(Drive::new(0, "d".into(), Box::new(ZeroLatency::default()), medium));
        let mut image = match snapshot {
            Some(name) => opening.open_snapshot(drive, name).unwrap(),
            None => opening.open(drive, Default::default()).unwrap(),
        };
        let size = image.properties().capacity;
        let (status, data) =
            image.instant(Command::new(Operation::Read, 0, size), vec![0; size as usize]);
        assert_eq!(status, Status::Ok, "{:#?}", self.log);
        data
    }
}

fn run(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let mut chain = Chain::new(seed);
        for _ in 0..6 {
            chain.step();
        }
    }
}

fn is_installed(program: &str) -> bool {
    Program::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn qemu_and_this_crate_agree_on_some_random_chains() {
    if is_installed("qemu-img") && is_installed("qemu-io") {
        run(0..6);
    }
}

#[test]
#[ignore = "takes minutes: make slow-test"]
fn qemu_and_this_crate_agree_on_hundreds_of_random_chains() {
    run(6..400);
}

/// The smallest case of each fault that the random chains stand for.
#[test]
fn version_2_keeps_its_header() {
    let folder = folder();
    let [base, top] = ["base.raw", "top.qcow2"].map(|file| name(&folder, file));
    std::fs::write(&base, vec![7; 1 << 20]).unwrap();
    let path = top.to_str().unwrap();
    let create = ["create", "-q", "-f", "qcow2", "-o", "compat=0.10", "-F", "raw"];
    qemu_img(&[&create[..], &["-b", "base.raw", path]].concat());
    let before = std::fs::read(&top).unwrap();
    for _ in 0..2 {
        let mut driver = Driver::new(open(&top, 1, Default::default()).unwrap());
        assert_eq!(driver.write(0, vec![1; 4096]), Status::Ok);
        driver.layer.close().unwrap();
    }
    // All behind the fields of version 2: the header's extensions and the name below.
    assert_same(&std::fs::read(&top).unwrap()[72..512], &before[72..512], "the header");
    assert!(qemu_img(&["info", path]).contains("backing file format: raw"));
    // And a format that cannot be is found.
    let mut bytes = std::fs::read(&top).unwrap();
    bytes[79] = 2;
    std::fs::write(&top, &bytes).unwrap();
    let (_, report, _) = check(&top).unwrap();
    assert!(report.corruptions.iter().any(|corruption| corruption.contains("`ra`")), "{report:?}");
}

#[test]
fn what_a_larger_disk_has_is_zero_whatever_is_below() {
    for (version, base_size) in [("0.10", 2 << 20), ("1.1", 2 << 20), ("1.1", (1 << 20) + 512)] {
        let folder = folder();
        let [base, top] = ["base.raw", "top.qcow2"].map(|file| name(&folder, file));
        std::fs::write(&base, vec![7; base_size]).unwrap();
        let path = top.to_str().unwrap();
        // An end within a cluster.
        let size = (1 << 20) - 1024;
        let option = format!("compat={version}");
        let create = ["create", "-q", "-f", "qcow2", "-o", &option, "-F", "raw", "-b", "base.raw"];
        qemu_img(&[&create[..], &[path, &size.to_string()]].concat());
        stasis_qcow2::grow(&top, 3 << 20).unwrap();
        let mut disk = vec![7; size];
        disk.resize(3 << 20, 0);
        qemu_agrees(&top);
        assert_same(&qemu_contents(&top), &disk, "as qemu-img reads it");
        let mut driver = Driver::new(open(&top, 1, Default::default()).unwrap());
        assert_same(&driver.read(0, 3 << 20), &disk, "as it is read here");
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (option, mark, name_of_it) in [
        ("compat=1.1", true, "marked as corrupt"),
        ("data_file=DATA,data_file_raw=on", false, "an external data file"),
    ] {
        let folder = folder();
        let path = name(&folder, "disk.qcow2");
        let option = option.replace("DATA", name(&folder, "data").to_str().unwrap());
        qemu_img(&["create", "-q", "-f", "qcow2", "-o", &option, path.to_str().unwrap(), "1M"]);
        let mut before = std::fs::read(&path).unwrap();
        before[79] |= if mark { 2 } else { 0 };
        std::fs::write(&path, &before).unwrap();
        assert_eq!(open_files(&path, false, &options()).is_ok(), mark);
        let kept = open_kept(&path, &options()).map(drop);
        for refused in [kept, open_files(&path, true, &options()).map(drop)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(name_of_it) && error.contains(" convert"), "{error}");
        }
        let links = stasis_qcow2::links(&path).unwrap_or_default();
        stasis_qcow2::make_room(&links).unwrap_err();
        stasis_qcow2::grow(&path, 2 << 20).unwrap_err();
        assert_same(&std::fs::read(&path).unwrap(), &before, &option);
    }
}
