//! The parts of a software host, and the limits of a run in it.

use crate::executable::check_static;
use crate::Error;
use stasis_channel::SharedKeyboard;
use stasis_network::SharedOutside;
use stasis_run_events::{Moment, SharedDebugger};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// The memory of a machine under [`Mode::Exact`] is a multiple of this.
const STEP: u64 = 8 << 30;

/// Timekeeping of the software host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nothing but the program below the job (`stasis_bare`): one instruction is
    /// one nanosecond, idle time is skipped, and a run repeats exactly.
    Exact,
    /// Linux with KVM below the job. Time is the real machine's, two processors:
    /// a run does not repeat.
    Fast,
}

/// A file that the inner side can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its name inside: 1 to [`Input::MAX_NAME`] letters, digits, `.`, `_`
    /// and `-`.
    pub name: String,
    /// The file, below 4 GiB.
    pub path: PathBuf,
    /// True if it belongs to the run and not to its machine: then the inner side finds it in what
    /// [`crate::items::Later::take`] gives.
    pub late: bool,
    /// True if a job that has its [first part](Job::first) behind it does not need it.
    pub first_only: bool,
}

/// The inner side's task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Description of the machine in which the task is done.
    pub machine: Vec<u8>,
    /// The task there: looked up by [`crate::items::Later::take`].
    pub later: Vec<u8>,
    /// A first part that many jobs have alike. Under [`Mode::Exact`] the machine may be kept
    /// when it is done, for jobs with any drives, and a job then begins with
    /// [`crate::inside::Inside::is_first`] past; else there is no such part in it.
    pub first: Option<Vec<u8>>,
    /// True if the machine may be kept at the moment where the inner side looks that up, for later
    /// runs that differ in it only. It is, under [`Mode::Exact`], from the second run on, or from the third
    /// on where it has a first part.
    pub keeps: bool,
    /// Snapshots of the job, under [`Mode::Exact`], where its machine may be kept.
    pub snapshots: Option<Snapshots>,
}

/// Moment at which a job begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StartAt {
    /// At its beginning.
    #[default]
    Begin,
    /// At the last snapshot of which no processor had come to this time (ns since the commands have
    /// begun).
    Before(u64),
    /// At the last snapshot before this turn.
    Turn(u64),
    /// At the last snapshot before a moment that the run has told of as it was recorded: a line of
    /// output, or an I/O.
    Moment(Moment),
    /// At the last snapshot.
    Last,
}

/// The use that a job makes of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshots {
    /// Everything that the run depends on beside its machine.
    pub identity: Vec<u8>,
    /// True if those are stored that the inner side takes ([`crate::inside::snapshot`]).
    pub records: bool,
    /// Moment at which the job begins.
    pub from: StartAt,
    /// True if it begins there or not at all; else at its beginning, where there is no such
    /// snapshot.
    pub must: bool,
}

impl Job {
    /// A job that looks nothing up later.
    pub fn new(machine: impl Into<Vec<u8>>) -> Self {
        Self { machine: machine.into(), ..Self::default() }
    }
}

impl Input {
    /// Longest name: QEMU's fw_cfg allows 55 bytes (docs/specs/fw_cfg.txt), less the prefix that
    /// distinguishes inputs from other items.
    pub const MAX_NAME: usize = 55 - crate::items::INPUT_PREFIX.len();
    /// The input that holds the plan of a repetition, in each job that is one.
    pub const AGAIN: &str = "again";
}

/// A file or block device that appears inside as a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedDrive {
    /// The raw image or device.
    pub path: PathBuf,
    /// True if the inner side may only read it.
    pub read_only: bool,
}

/// A software host to run a job in.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its timekeeping.
    pub mode: Mode,
    /// The memory that the job needs, in bytes. The host has at least as much.
    pub memory: u64,
    /// Files that the inner side reads.
    pub inputs: Vec<Input>,
    /// Drives passed through, in this order: at most [`Host::DRIVES`].
    pub drives: Vec<PassedDrive>,
    /// The static executable that runs inside as `/init`: the program itself.
    pub executable: PathBuf,
    /// Folder of kernels and saved machines, usually `$XDG_CACHE_HOME/stasis`.
    pub cache: PathBuf,
    /// True if to keep the booted machine for later runs.
    pub snapshot: bool,
    /// The file that takes the software host's kernel messages; replaced at
    /// each run. `None`: below the cache folder, removed after a run that
    /// went well.
    pub log: Option<PathBuf>,
}

impl Host {
    /// Limit on the passed drives: QEMU's microvm has 8 virtio-mmio slots where the machine has one
    /// I/O APIC (docs/system/i386/microvm.rst).
    pub const DRIVES: usize = 8;

    /// Memory in MiB for QEMU's command line: a power of two from 2 GiB on, so that few saved
    /// machines serve many sizes. Untouched memory costs nothing.
    pub(crate) fn megabytes(&self) -> u64 {
        if self.mode == Mode::Exact {
            // All of it lies in one piece above 4 GiB.
            let low = stasis_bare::layout::LOW_END;
            // In whole steps, so that machines with media of other sizes are alike.
            let memory = self.memory.div_ceil(STEP).saturating_mul(STEP);
            return low.saturating_add(memory).div_ceil(1 << 20).min(1 << 30);
        }
        self.memory.div_ceil(1 << 20).clamp(2048, 1 << 30).next_power_of_two()
    }

    /// Checks everything that can be checked before anything is started.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_static(&self.executable)?;
        if self.drives.len() > Self::DRIVES {
            return Err(Error::Drives { given: self.drives.len(), most: Self::DRIVES });
        }
        for drive in &self.drives {
            open(&drive.path, !drive.read_only)?;
        }
        let mut contents = 0;
        for (index, input) in self.inputs.iter().enumerate() {
            let allowed = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
            let twice = self.inputs[..index].iter().any(|other| other.name == input.name);
            if input.name.is_empty()
                || input.name.len() > Input::MAX_NAME
                || !input.name.bytes().all(allowed)
                || twice
            {
                return Err(Error::InputName(input.name.clone()));
            }
            let length = open(&input.path, false)?;
            if length > u64::from(u32::MAX) {
                return Err(Error::InputLength { path: input.path.clone(), length });
            }
            contents += length;
        }
        self.check_memory(contents)
    }

    /// QEMU holds the inputs beside the machine's memory; its own needs are
    /// about 100 MiB (measured, QEMU 7.2, mostly translated code).
    fn check_memory(&self, inputs: u64) -> Result<(), Error> {
        let needed = self.memory.saturating_add(inputs).saturating_add(100 << 20);
        match available_memory() {
            Some(available) if available < needed => Err(Error::Memory { needed, available }),
            _ => Ok(()),
        }
    }
}

/// Opens a file as it will be used and returns its length.
fn open(path: &std::path::Path, write: bool) -> Result<u64, Error> {
    std::fs::OpenOptions::new()
        .read(true)
        .write(write)
        .open(path)
        .and_then(|file| file.metadata())
        .map(|metadata| metadata.len())
        .map_err(Error::io("cannot open", path))
}

/// `MemAvailable` in bytes: the memory available without swapping
/// (Documentation/filesystems/proc.rst).
pub(crate) fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Bytes that the inner side reads where it needs them: fills a buffer from an offset on.
pub type Source = Arc<dyn Fn(&mut [u8], u64) -> std::io::Result<()> + Send + Sync>;

/// Knowledge of a guest's programs and libraries, by their paths in the guest; None where there is none.
pub type Programs = Arc<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

/// A run's connections to the outer world while it lasts.
#[derive(Clone, Default)]
pub struct Control {
    /// Set to ask the inner side to stop. If it has not ended 3 s later, the
    /// host is killed.
    pub stop: Arc<AtomicBool>,
    /// Time at which the wall-clock time is over that the start and the job may take.
    pub deadline: Option<Instant>,
    /// The terminal of the person who watches the job, if it asks for one.
    pub keyboard: Option<SharedKeyboard>,
    /// The debugger, if one takes hold of the job.
    pub debugger: Option<SharedDebugger>,
    /// Why the job cannot be done once more from its beginning, as a debugger asks that goes back:
    /// what it has changed outside, or what nobody can type again.
    pub once: Option<String>,
    /// The source that [`crate::inside::Inside::source`] reads.
    pub source: Option<Source>,
    /// The world outside, if a network leads there.
    pub outside: Option<SharedOutside>,
    /// Asked by [`crate::inside::Inside::programs`].
    pub programs: Option<Programs>,
}

impl Control {
    /// Returns whether the wall-clock time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns whether it is to end: by its user, or because its time is over.
    pub(crate) fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.is_over()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn host(memory: u64) -> Host {
        Host {
            mode: Mode::Fast,
            memory,
            inputs: Vec::new(),
            drives: Vec::new(),
            executable: "/dev/null".into(),
            cache: "/nonexistent".into(),
            snapshot: true,
            log: None,
        }
    }

    #[test]
    fn memory_goes_up_in_steps() {
        for (asked, given) in [(0, 2048), (2 << 30, 2048), ((2 << 30) + 1, 4096), (5 << 30, 8192)] {
            assert_eq!(host(asked).megabytes(), given);
        }
        assert_eq!(host(u64::MAX).megabytes(), 1 << 30);
    }

    #[test]
    fn bad_input_is_named() {
        let error = host(u64::MAX).check().unwrap_err();
        assert!(matches!(error, Error::Memory { .. }), "{error}");
        let mut many = host(0);
        many.drives = vec![PassedDrive { path: "/dev/null".into(), read_only: true }; 9];
        assert!(matches!(many.check(), Err(Error::Drives { given: 9, most: 8 })));
        let mut missing = host(0);
        missing.drives = vec![PassedDrive { path: "/no/such".into(), read_only: true }];
        assert!(missing.check().unwrap_err().to_string().contains("/no/such"));
        for name in ["", "a b", "a,b", &"x".repeat(Input::MAX_NAME + 1)] {
            let mut named = host(0);
            named.inputs = vec![Input {
                name: name.into(),
                path: "/dev/null".into(),
                late: false,
                first_only: false,
            }];
            assert!(matches!(named.check(), Err(Error::InputName(other)) if other == name));
        }
        let mut twice = host(0);
        twice.inputs = vec![
            Input {
                name: "a".into(),
                path: "/dev/null".into(),
                late: false,
                first_only: false
            };
            2
        ];
        assert!(matches!(twice.check(), Err(Error::InputName(_))));
    }
}
