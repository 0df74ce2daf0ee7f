//! The flow of filebench's varmail: a mail server that keeps each mail in a file.
//!
//! Each of the threads deletes a file; makes one, appends, fsyncs; opens one,
//! reads it, appends, fsyncs; opens one and reads it: 13 operations as filebench
//! counts them. Files are those that no other thread has at the time. As in
//! filebench an append is of a random length up to the given one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{bail, Context, Result};

use super::outcome::Outcome;
use super::random::Random;

/// Operations of one round.
const OPERATIONS: u64 = 13;
/// The mean size of the files at the beginning (bytes): filebench's.
const MEAN_SIZE: f64 = 16_384.0;
/// Share of the maximum number of files that exist at the beginning (percent; filebench's).
const PREALLOCATED: u32 = 80;

/// The files at the beginning.
#[derive(Debug, Clone, clap::Args)]
pub struct Files {
    /// Folder of the files
    pub folder: PathBuf,
    /// Maximum number of files
    #[arg(long)]
    pub files: u32,
}

/// Arguments of varmail's flow.
#[derive(Debug, Clone, clap::Args)]
pub struct Varmail {
    #[command(flatten)]
    pub files: Files,
    /// Rounds of all threads together
    #[arg(long)]
    pub rounds: u64,
    /// Threads
    #[arg(long)]
    pub threads: u32,
    /// The longest append and the length of a read, in bytes
    #[arg(long)]
    pub io_size: usize,
}

/// Existing and absent files. A file that a thread works on is in neither list.
struct Set {
    present: Vec<u32>,
    absent: Vec<u32>,
}

struct Mail<'a> {
    folder: &'a Path,
    set: Mutex<Set>,
    rounds: AtomicU64,
    syncs: AtomicU64,
    written: AtomicU64,
    done: AtomicU64,
    io_size: usize,
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}"))
}

/// Makes the files.
pub fn make(files: &Files) -> Result<Outcome> {
    std::fs::create_dir_all(&files.folder)
        .with_context(|| format!("cannot make {}", files.folder.display()))?;
    let mut random = Random::new(0);
    let (begun, mut written) = (Instant::now(), 0);
    let count = u64::from(files.files) * u64::from(PREALLOCATED) / 100;
    for number in 0..count as u32 {
        let content = vec![0x5A; random.gamma(MEAN_SIZE) as usize];
        written += content.len() as u64;
        let path = path(&files.folder, number);
        std::fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    let ns = u64::try_from(begun.elapsed().as_nanos())?;
    Ok(Outcome { operations: count, syncs: 0, written, ns })
}

/// Runs the flow.
pub fn run(varmail: &Varmail) -> Result<Outcome> {
    let folder = &varmail.files.folder;
    let mail = Mail {
        folder,
        set: Mutex::new(Set::read(&varmail.files)),
        rounds: AtomicU64::new(varmail.rounds),
        syncs: AtomicU64::new(0),
        written: AtomicU64::new(0),
        done: AtomicU64::new(0),
        io_size: varmail.io_size.max(1),
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..varmail.threads.max(1))
            .map(|number| {
                let mail = &mail;
                scope.spawn(move || mail.work(Random::new(1 + u64::from(number))))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a thread of varmail ended before its time"),
        })
    })?;
    let ns = u64::try_from(begun.elapsed().as_nanos())?;
    Ok(Outcome {
        operations: OPERATIONS * mail.done.into_inner(),
        syncs: mail.syncs.into_inner(),
        written: mail.written.into_inner(),
        ns,
    })
}

impl Set {
    fn read(files: &Files) -> Self {
        let (present, absent) =
            (0..files.files).partition(|&number| path(&files.folder, number).exists());
        Self { present, absent }
    }
}

impl Mail<'_> {
    fn work(&self, mut random: Random) -> Result<()> {
        let one_less = |rounds: u64| rounds.checked_sub(1);
        let mut buffer = vec![0; self.io_size];
        while self.rounds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            let number = self.take(&mut random, true)?;
            std::fs::remove_file(path(self.folder, number)).context("cannot delete a file")?;
            self.set(|set| set.absent.push(number));

            let number = self.take(&mut random, false)?;
            let file = OpenOptions::new()
                .append(true)
                .create_new(true)
                .open(path(self.folder, number))
                .context("cannot make a file")?;
            self.append(file, &mut random)?;
            self.set(|set| set.present.push(number));

            let number = self.take(&mut random, true)?;
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .open(path(self.folder, number))
                .context("cannot open a file")?;
            read(&file, &mut buffer)?;
            self.append(file, &mut random)?;
            self.set(|set| set.present.push(number));

            let number = self.take(&mut random, true)?;
            read(&File::open(path(self.folder, number))?, &mut buffer)?;
            self.set(|set| set.present.push(number));
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn set<T>(&self, change: impl FnOnce(&mut Set) -> T) -> T {
        change(&mut self.set.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A file for this thread alone, one that is there or one that is not.
    fn take(&self, random: &mut Random, present: bool) -> Result<u32> {
        let taken = self.set(|set| {
            let from = if present { &mut set.present } else { &mut set.absent };
            let count = from.len() as u64;
            (count > 0).then(|| from.swap_remove(random.below(count) as usize))
        });
        taken.context("too few files for so many threads")
    }

    fn append(&self, mut file: File, random: &mut Random) -> Result<()> {
        let length = 1 + random.below(self.io_size as u64) as usize;
        file.write_all(&vec![0x5A; length]).context("cannot append to a file")?;
        file.sync_all().context("cannot fsync a file")?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.written.fetch_add(length as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Reads a whole file.
fn read(mut file: &File, buffer: &mut [u8]) -> Result<()> {
    while file.read(buffer).context("cannot read a file")? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_keeps_its_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { folder: folder.path().join("mail"), files: 100 };
        let made = make(&files).unwrap();
        assert_eq!(made.operations, 80);
        let count = || std::fs::read_dir(&files.folder).unwrap().count();
        assert_eq!(count(), 80);
        let varmail = Varmail { files: files.clone(), rounds: 200, threads: 16, io_size: 4096 };
        let outcome = run(&varmail).unwrap();
        assert_eq!((outcome.operations, outcome.syncs), (13 * 200, 2 * 200));
        assert!((200 * 2..=200 * 2 * 4096).contains(&outcome.written));
        assert_eq!(count(), 80, "one is deleted for each that is made");
        let none = Files { folder: folder.path().join("none"), files: 1 };
        assert_eq!(make(&none).unwrap().operations, 0);
        let varmail = Varmail { files: none, rounds: 1, threads: 1, io_size: 1 };
        assert!(run(&varmail).is_err(), "there is none to delete");
    }
}
