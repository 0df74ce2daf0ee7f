//! Readers and writers, each a separate process as in the publication's suite: a scheduler
//! attributes I/O to its process.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{ensure, Context, Result};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::disk::TestDisk;
use super::plan::MeasurementPlan;
use stasis_program::pattern::Pattern;

/// Bytes of a sequential reader's or writer's call.
const SEQUENTIAL: usize = 128 << 10;
/// Bytes of a random reader's or writer's call: a page.
const RANDOM: usize = 4 << 10;
/// Folder of the writers' files.
const SCRATCH: &str = "/tmp/suite-scratch";

/// Arguments of one process.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The file, or the device on which it lies
    file: PathBuf,
    /// Offset of the file there (bytes)
    #[arg(long)]
    offset: u64,
    /// Length of the file (bytes)
    #[arg(long)]
    length: u64,
    /// Write, not read
    #[arg(long)]
    write: bool,
    /// Access random places
    #[arg(long)]
    random: bool,
    /// Seed of the places
    #[arg(long)]
    seed: u64,
}

/// Reads or writes until it is killed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let name = || arguments.file.display().to_string();
    let size = if arguments.random { RANDOM } else { SEQUENTIAL };
    let calls = arguments.length / size as u64;
    ensure!(calls > 0, "{}: shorter than {size} bytes", name());
    let mut options = OpenOptions::new();
    options.read(!arguments.write).write(arguments.write).create(arguments.write);
    let file = options.open(&arguments.file).with_context(name)?;
    let mut buffer = vec![0x5A; size];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(arguments.seed);
    for number in 0u64.. {
        let place = if arguments.random { random.next_u64() } else { number } % calls;
        let at = arguments.offset + place * size as u64;
        step(&file, arguments.write, at, &mut buffer).with_context(name)?;
    }
    Ok(())
}

fn step(file: &File, write: bool, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
    match write {
        true => file.write_all_at(buffer, at),
        false => file.read_exact_at(buffer, at),
    }
}

/// The processes of a workload; they are killed when this goes.
pub struct Loads {
    processes: Vec<Child>,
    scratch: bool,
}

impl Loads {
    /// Starts a workload; `number` makes its random places others.
    pub fn start(
        plan: &MeasurementPlan,
        disk: &TestDisk,
        pattern: Pattern,
        number: u32,
    ) -> Result<Self> {
        let mut loads = Self { processes: Vec::new(), scratch: pattern.writers > 0 };
        let mut add = |file: &Path, offset: u64, length: u64, write: bool| {
            let mut command = Command::new("/proc/1/exe");
            command.args(["guest-suite", "load"]).arg(file);
            command.args(["--offset", &offset.to_string(), "--length", &length.to_string()]);
            let seed = u64::from(number) * 1000 + loads.processes.len() as u64;
            command.args(["--seed", &seed.to_string()]);
            command.args(write.then_some("--write"));
            command.args(pattern.random.then_some("--random"));
            loads.processes.push(command.spawn().context("cannot start a reader or writer")?);
            anyhow::Ok(())
        };
        for reader in 0..u64::from(pattern.readers) {
            add(&disk.partition(2), reader * plan.file, plan.file, false)?;
        }
        if pattern.writers > 0 {
            make_scratch(disk)?;
        }
        for writer in 0..pattern.writers {
            // Half of the room: the journal and a file's tables need some.
            let length = plan.file / 2 / u64::from(pattern.writers);
            let file = format!("{SCRATCH}/{writer}");
            add(Path::new(&file), 0, length, true)?;
        }
        Ok(loads)
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        for child in &mut self.processes {
            // A process that has already ended is no error.
            let _ = child.kill();
        }
        for child in &mut self.processes {
            let _ = child.wait();
        }
        if self.scratch {
            // A file system that stays mounted makes the next workload's mkfs fail with an error.
            let _ = Command::new("umount").arg(SCRATCH).status();
        }
    }
}

/// An empty ext4 on the third partition.
fn make_scratch(disk: &TestDisk) -> Result<()> {
    let partition = disk.partition(3);
    std::fs::create_dir_all(SCRATCH)?;
    let mut make = Command::new("mkfs.ext4");
    make.args(["-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]);
    super::start::run(make.arg(&partition))?;
    let mut mount = Command::new("mount");
    super::start::run(mount.args(["-o", "noatime,noinit_itable"]).arg(&partition).arg(SCRATCH))
}
