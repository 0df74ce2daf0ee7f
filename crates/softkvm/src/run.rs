//! One job in a software host, from start to end.

use crate::packet::{Packet, Packets, BULK, HANDSHAKE};
use crate::snapshot::{restore, start_exact, Restored, Snapshot};
use crate::{inside, prepare, Control, Error, Form, Host, Kernel};
use stasis_journal::{Decoder, Entry, FrameError, Journal};
use stasis_qemu::fd::readable;
use stasis_qemu::process::find_qemu;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the inner side may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(3);

/// Runs `job` inside a software host. What the inner side writes to its
/// journal goes to `journal`; the call returns when that was
/// [`Entry::Outcome`] or [`Entry::Failed`], or with the error that kept it
/// from coming. `progress` hears of long steps.
pub fn run(
    host: &Host,
    job: &[u8],
    journal: &mut dyn Journal,
    control: &Control,
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<(), Error> {
    let files = Files::new(host, job)?;
    let machine = ready(host, &files, control, progress)?;
    let result = relay(machine, journal, control);
    if result.is_ok() {
        files.remove_log(host);
    }
    result
}

/// Shows that `host` comes up: boots it and restores what was saved, up to where
/// it would take a job. Where a booted machine is saved already, that is the answer,
/// and nothing is started.
pub fn boot(
    host: &Host,
    control: &Control,
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<(), Error> {
    if host.form == Form::Fast
        && Kernel::cached(&host.cache).is_some_and(|kernel| Snapshot::exists(host, &kernel))
    {
        return Ok(());
    }
    let files = Files::new(host, b"")?;
    let machine = ready(host, &files, control, progress)?;
    let mut said = Said::default();
    let result = relay(machine, &mut said, control);
    match (said.failure, result) {
        (Some(message), _) => Err(Error::Died { status: message, detail: String::new() }),
        // It ends without an outcome, as there was no job.
        (None, result) => {
            if said.ready {
                Ok(())
            } else {
                result
            }
        }
    }?;
    files.remove_log(host);
    Ok(())
}

/// What a host without a job has said.
#[derive(Default)]
struct Said {
    ready: bool,
    failure: Option<String>,
}

impl Journal for Said {
    fn entry(&mut self, entry: Entry) -> std::io::Result<()> {
        match entry {
            Entry::Stage(_) => self.ready = true,
            Entry::Failed(message) => self.failure = Some(message),
            _ => {}
        }
        Ok(())
    }
}

/// A machine restored to where it takes its job.
fn ready(
    host: &Host,
    files: &Files,
    control: &Control,
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<Restored, Error> {
    host.check()?;
    // Before anything is downloaded that would be of no use without it.
    find_qemu().ok_or(Error::QemuMissing)?;
    let stopped = || control.stop.load(Ordering::Relaxed);
    if host.form == Form::Exact {
        // QEMU has read what is in the folder when it can be talked to.
        let folder = tempfile::tempdir_in(files.folder());
        let folder = folder.map_err(Error::system("make a folder"))?;
        return start_exact(host, folder.path(), &files.job, &files.log, &stopped);
    }
    let kernel = prepare(&host.cache, progress)?;
    let mut get = || Snapshot::get(host, &kernel, &files.log, &stopped, progress);
    let snapshot = get()?;
    match restore(host, &snapshot.folder, &files.job, &files.log, &stopped) {
        Err(Error::Stopped) => Err(Error::Stopped),
        Err(_) if host.snapshot => {
            // Damaged, or of a QEMU that went unnoticed: once more from new.
            snapshot.discard();
            let snapshot = get()?;
            restore(host, &snapshot.folder, &files.job, &files.log, &stopped)
        }
        // QEMU has the machine's files open now.
        other => other,
    }
}

/// Hands the journal on until the job has ended.
fn relay(mut machine: Restored, journal: &mut dyn Journal, control: &Control) -> Result<(), Error> {
    let start = Instant::now();
    let mut packets = Packets::default();
    let mut decoder = Decoder::new();
    let mut piece = vec![0; 1 << 16];
    let mut asked: Option<(u8, Instant)> = None;
    loop {
        let [ready] = readable([machine.qemu.journal.as_fd()], 50)
            .map_err(Error::system("wait for the software host"))?;
        if ready {
            let length = machine
                .qemu
                .journal
                .read(&mut piece)
                .map_err(Error::system("read from the software host"))?;
            if length == 0 {
                return Err(machine.qemu.died());
            }
            packets.push(&piece[..length]);
            while let Some(packet) = packets.next().map_err(FrameError::Kind)? {
                match packet {
                    Packet::Short(bytes) => decoder.push(&bytes),
                    Packet::Bulk { length } => {
                        let mut bytes = vec![0; length.min(BULK)];
                        machine
                            .memory
                            .read_exact_at(&mut bytes, machine.buffer)
                            .and_then(|()| machine.qemu.handshake.read_exact(&mut [0; HANDSHAKE]))
                            .map_err(Error::system("take results from the software host"))?;
                        decoder.push(&bytes);
                    }
                    Packet::Place { address, .. } => machine.place(address)?,
                }
            }
            while let Some(entry) = decoder.next_entry()? {
                let last = matches!(entry, Entry::Outcome(_) | Entry::Failed(_));
                journal.entry(entry).map_err(Error::Journal)?;
                if last {
                    return Ok(());
                }
            }
        }
        let limit = control.wall_limit.filter(|limit| start.elapsed() > *limit);
        match asked {
            None => {
                let why = if control.stop.load(Ordering::Relaxed) {
                    inside::STOP_BYTE
                } else if limit.is_some() {
                    inside::LIMIT_BYTE
                } else {
                    continue;
                };
                // If QEMU is gone, the journal's end tells.
                let _ = machine.qemu.stop.write_all(&[why]);
                asked = Some((why, Instant::now()));
            }
            Some((why, when)) if when.elapsed() > GRACE => {
                return Err(match control.wall_limit {
                    Some(limit) if why == inside::LIMIT_BYTE => Error::WallLimit(limit.as_secs()),
                    _ => Error::Stopped,
                });
            }
            Some(_) => {}
        }
    }
}

/// A run's own files.
struct Files {
    job: PathBuf,
    log: PathBuf,
}

impl Files {
    fn new(host: &Host, job: &[u8]) -> Result<Self, Error> {
        let folder = host.cache.join("softkvm/runs");
        fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
        remove_old(&folder);
        // Several runs may go on in one process.
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let log = host.log.clone().unwrap_or_else(|| folder.join(format!("{id}.log")));
        let _ = fs::remove_file(&log);
        let path = folder.join(format!("{id}.job"));
        let files = Self { job: path, log };
        fs::write(&files.job, job).map_err(Error::io("cannot write", &files.job))?;
        Ok(files)
    }

    fn folder(&self) -> &Path {
        self.job.parent().unwrap_or(Path::new("."))
    }

    fn remove_log(&self, host: &Host) {
        if host.log.is_none() {
            let _ = fs::remove_file(&self.log);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.job);
    }
}

/// Logs of failed runs are kept for a week.
fn remove_old(folder: &Path) {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let age =
            entry.metadata().and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
        if matches!(age, Ok(Ok(age)) if age > WEEK) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
