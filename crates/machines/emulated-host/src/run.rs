//! One job in a software host, from start to end.

use crate::exact::Start;
use crate::qemu::{JobFiles, Purpose};
use crate::relay::{relay, Ended, Started};
use crate::repeats::Repeats;
use crate::saved::restore;
use crate::{linux, prepare, Control, Error, Host, Input, Job, Kernel, Mode, Snapshots, StartAt};
use stasis_qemu_vm::process::find_qemu;
use stasis_run_events::{EventSink, RunEvent};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Runs `job` inside a software host. The inner side's events go to `events`; the call returns
/// after [`RunEvent::Outcome`] or [`RunEvent::Failed`], or with the error that kept it from coming.
/// Where a debugger goes back in time, the job is done once more, in another machine, with the input
/// [`Input::AGAIN`], from a snapshot where one is stored; what has been handed on once is not handed
/// on again.
/// `progress` is called for long steps. Returns remarks for the user.
pub fn run(
    host: &Host,
    job: &Job,
    events: &mut dyn EventSink,
    control: &Control,
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<Vec<String>, Error> {
    let files = Files::new(host, job)?;
    let ready = ready(host, job, &files, control, progress).map_err(|error| match error {
        // The start ends at its limit as at a stop.
        Error::Stopped if !control.stop.load(Ordering::Relaxed) => Error::WallLimit,
        error => error,
    });
    let mut events = Repeats::new(events);
    let mut notes = Vec::new();
    let mut result = relay(ready?, &mut notes, &mut events, control);
    while let Ok(Ended::Again(turn, plan)) = result {
        events.again();
        result = again(host, job, &files, control, (turn, &plan))
            .and_then(|started| relay(started, &mut notes, &mut events, control));
    }
    let result = result.map(|_| notes);
    if matches!(result, Ok(_) | Err(Error::Stopped | Error::WallLimit)) {
        files.remove_log(host);
    }
    result
}

/// The machine that does the job once more, by `plan`, from a snapshot before this turn.
fn again(
    host: &Host,
    job: &Job,
    files: &Files,
    control: &Control,
    (turn, plan): (u64, &[u8]),
) -> Result<Started, Error> {
    let path = &files.again;
    fs::write(path, plan).map_err(Error::io("cannot write", path))?;
    let mut host = host.clone();
    host.inputs.push(Input {
        name: Input::AGAIN.into(),
        path: path.clone(),
        late: true,
        first_only: false,
    });
    let mut job = job.clone();
    if let Some(snapshots) = &mut job.snapshots {
        // Changes by a debugger are not the run's.
        *snapshots = Snapshots {
            from: StartAt::Turn(turn),
            records: false,
            must: false,
            ..snapshots.clone()
        };
    }
    ready(&host, &job, files, control, &mut |_, _| ())
}

/// Shows that `host` comes up: boots it and restores what was saved, up to where
/// it would take a job. Where a booted machine is saved already, that is the answer,
/// and nothing is started.
pub fn boot(
    host: &Host,
    control: &Control,
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<(), Error> {
    if host.mode == Mode::Fast
        && Kernel::cached(&host.cache).is_some_and(|kernel| linux::is_kept(host, &kernel))
    {
        return Ok(());
    }
    let job = Job::default();
    let files = Files::new(host, &job)?;
    let started = ready(host, &job, &files, control, progress)?;
    let mut events = BootEvents::default();
    let result = relay(started, &mut Vec::new(), &mut events, control).map(|_| ());
    match (events.failure, result) {
        (Some(message), _) => Err(Error::Died { status: message, detail: String::new() }),
        // The host ends without an outcome, as there was no job.
        (None, result) => {
            if events.ready {
                Ok(())
            } else {
                result
            }
        }
    }?;
    files.remove_log(host);
    Ok(())
}

/// Events of a host without a job.
#[derive(Default)]
struct BootEvents {
    ready: bool,
    failure: Option<String>,
}

impl EventSink for BootEvents {
    fn event(&mut self, event: RunEvent) -> std::io::Result<()> {
        match event {
            RunEvent::Stage(_) => self.ready = true,
            RunEvent::Failed(message) => self.failure = Some(message),
            _ => {}
        }
        Ok(())
    }
}

/// The machine at the point where it takes its job, or beyond.
fn ready(
    host: &Host,
    job: &Job,
    files: &Files,
    control: &Control,
    progress: &mut dyn FnMut(&str, Option<f64>),
) -> Result<Started, Error> {
    host.check()?;
    // Before anything is downloaded that would be of no use without it.
    find_qemu().ok_or(Error::QemuMissing)?;
    let stopped = || control.ends();
    if host.mode == Mode::Exact {
        let start = Start { host, job, files: &files.job, log: &files.log, control };
        if let Some(kept) = start.kept(&stopped, progress)? {
            return Ok(kept);
        }
        // QEMU has read what is in the folder when it can be talked to.
        let folder = tempfile::tempdir_in(files.folder());
        let folder = folder.map_err(Error::system("make a folder"))?;
        return Ok(Started::anew(start.anew(folder.path(), &stopped)?));
    }
    let kernel = prepare(&host.cache, progress)?;
    let mut get = || linux::get(host, &kernel, &files.log, &stopped, progress);
    let purpose = Purpose::Restore { job: &files.job, shares: false, resume: None };
    let kept = get()?;
    let restored = restore(host, &kept.folder, &purpose, &files.log, &stopped, None);
    let note = kept.note.clone();
    let machine = match restored {
        Err(error) if host.snapshot && error.is_of_restore() => {
            // Another QEMU, unnoticed, may have saved it: once more from new.
            kept.discard()?;
            let kept = get()?;
            restore(host, &kept.folder, &purpose, &files.log, &stopped, None)
        }
        // QEMU has the machine's files open now.
        other => other,
    };
    Ok(Started { note, ..Started::anew(machine?) })
}

/// A run's own files.
struct Files {
    job: JobFiles,
    /// The plan of a repetition.
    again: PathBuf,
    log: PathBuf,
}

impl Files {
    fn new(host: &Host, job: &Job) -> Result<Self, Error> {
        let folder = host.cache.join("softkvm/runs");
        fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
        remove_old(&folder);
        // One process may have several runs at once.
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let log = host.log.clone().unwrap_or_else(|| folder.join(format!("{id}.log")));
        let _ = fs::remove_file(&log);
        let path = |suffix: &str| folder.join(format!("{id}.{suffix}"));
        let (machine, later, first) = (path("job"), path("later"), path("first"));
        let job_files = JobFiles { machine, later, first };
        let files = Self { job: job_files, again: path("again"), log };
        let write = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(Error::io("cannot write", path))
        };
        write(&files.job.machine, &job.machine)?;
        write(&files.job.later, &job.later)?;
        if let Some(first) = &job.first {
            write(&files.job.first, first)?;
        }
        Ok(files)
    }

    fn folder(&self) -> &Path {
        self.job.machine.parent().unwrap_or(Path::new("."))
    }

    fn remove_log(&self, host: &Host) {
        if host.log.is_none() {
            let _ = fs::remove_file(&self.log);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.job.machine);
        let _ = fs::remove_file(&self.job.later);
        let _ = fs::remove_file(&self.job.first);
        let _ = fs::remove_file(&self.again);
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
