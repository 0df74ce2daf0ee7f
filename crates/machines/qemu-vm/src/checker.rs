//! Runs a command of the guest on one state of disks after the other, in one
//! boot.

use crate::checked::{attach, checked, Device};
use crate::kept::KeptBoot;
use crate::scratch::Scratch;
use crate::{Accelerator, Config, Error, Job, Piece, Vm};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stasis_guest_root::Pack;

/// Limit on the kept bytes of the command's output.
const MAX_OUTPUT: usize = 64 << 10;

/// The check to run on each state.
#[derive(Debug, Clone)]
pub struct Task {
    /// The command.
    pub command: Vec<String>,
    /// Longest that it may take, in the guest's time.
    pub limit: Duration,
    /// A whole tar archive of files that the guest has below `/`; none where it is empty.
    pub files: Arc<[u8]>,
}

/// Disks as they are to be.
pub trait Disks {
    /// The drives that they are of, in order.
    fn devices(&self) -> Vec<Device>;

    /// Returns the first byte of each zone of disk `index` that is not empty, and the number of its
    /// bytes that are written.
    fn written(&self, index: usize) -> Vec<(u64, u64)> {
        let _ = index;
        Vec::new()
    }

    /// Fills `into` with what disk `index` holds from `offset` on.
    ///
    /// # Errors
    /// The disk cannot be read.
    fn read(&mut self, index: usize, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// The command's verdict on a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its status, as a shell gives it. `None`: the guest did not survive it, twice.
    pub status: Option<u8>,
    /// True if it took too long and was ended.
    pub late: bool,
    /// Its output on both streams (the end of it, if it was much), and remarks on the check.
    pub output: String,
}

/// A machine for checks, with a disk in memory for each of the states'.
///
/// Between two commands the guest has no disk open, so its caches hold nothing of
/// them: the kernel drops a block device's at the last close (Linux
/// `block/bdev.c`, `blkdev_flush_mapping`). Where something of a command stays
/// behind, the machine is started anew: from its boot, which is kept, where QEMU can save it.
#[derive(Debug)]
pub struct Checker {
    config: Config,
    kept: Arc<KeptBoot>,
    task: Task,
    machine: Option<(Vm, Vec<Scratch>)>,
    devices: Vec<Device>,
    starts: u64,
}

impl Checker {
    /// A checker; its machine is started at the first check. The configuration's
    /// drives are replaced by the states'.
    pub fn new(config: Config, task: Task) -> Self {
        let (kept, devices) = Default::default();
        Self { config, kept, task, machine: None, devices, starts: 0 }
    }

    /// Returns another checker for the same task, with a machine of its own. All checkers share one
    /// boot.
    #[must_use]
    pub fn another(&self) -> Self {
        let kept = Arc::clone(&self.kept);
        Self { kept, ..Self::new(self.config.clone(), self.task.clone()) }
    }

    /// A checker for the same task whose guests run so, with a boot of their own.
    #[must_use]
    pub fn with(&self, accelerator: Accelerator) -> Self {
        Self::new(Config { accelerator, ..self.config.clone() }, self.task.clone())
    }

    /// Ends the machine: the next check is made in one that has seen no other.
    pub fn renew(&mut self) {
        self.machine = None;
    }

    /// Returns the number of times that its machine has been started, be it from a kept boot.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns the number of boots of guests for this checker or one that shares its boot.
    pub fn boots(&self) -> u64 {
        self.kept.boots()
    }

    /// Runs the command on `disks`, which stay as they are. `files` (path below
    /// `/` and content) are in the guest before it, `environment` is added to its
    /// own.
    ///
    /// # Errors
    /// The machine does not start, or `disks` cannot be read. A guest that dies of
    /// a state twice, each time newly started, is a finding.
    pub fn check(
        &mut self,
        disks: &mut dyn Disks,
        files: &[(&str, &[u8])],
        environment: &[(&str, String)],
    ) -> Result<Finding, Error> {
        let own = archive(files).map_err(Error::system("pack the check's input"))?;
        let mut job = Job::new(self.task.command.clone());
        job.has_input = !own.is_empty() || !self.task.files.is_empty();
        job.send_results = false;
        job.limit_ms = u64::try_from(self.task.limit.as_millis()).unwrap_or(u64::MAX);
        for (name, value) in environment {
            job.environment.insert((*name).into(), value.clone());
        }
        let devices = disks.devices();
        job.checked = checked(&devices, |index| disks.written(index));
        job.drives = job.checked.iter().map(|disk| disk.name.clone()).collect();
        let shared = Arc::clone(&self.task.files);
        let mut fresh = false;
        loop {
            let (vm, scratches) = self.machine(&devices, &mut fresh)?;
            for (index, scratch) in scratches.iter_mut().enumerate() {
                let mut read = |offset: u64, into: &mut [u8]| disks.read(index, offset, into);
                scratch.become_copy(&mut read).map_err(Error::system("read the state's disk"))?;
            }
            let mut collected = Vec::new();
            let outcome = vm.run(&job, &mut own.as_slice().chain(&shared[..]), &mut |piece| {
                if let Piece::Output(_, bytes) = piece {
                    keep(&mut collected, bytes);
                }
            });
            let mut output = String::from_utf8_lossy(&collected).into_owned();
            match outcome {
                // The disks are not as they are to be.
                Ok(outcome) if !outcome.started && !fresh => self.machine = None,
                Ok(outcome) if !outcome.started => {
                    self.machine = None;
                    return Err(Error::NotReady { reason: outcome.message.trim_end().into() });
                }
                Ok(outcome) => {
                    if !outcome.message.is_empty() {
                        // Something is left of the command.
                        self.machine = None;
                        output += &outcome.message;
                    }
                    return Ok(Finding {
                        status: Some(outcome.status),
                        late: outcome.late,
                        output,
                    });
                }
                Err(error @ (Error::Ended { .. } | Error::Silent { .. })) => {
                    self.machine = None;
                    if fresh {
                        output += &error.to_string();
                        return Ok(Finding { status: None, late: false, output });
                    }
                    // Perhaps an earlier state did it.
                }
                Err(error) => {
                    self.machine = None;
                    return Err(error);
                }
            }
        }
    }

    /// The machine with these drives; `fresh` receives whether it was started for this.
    fn machine(
        &mut self,
        devices: &[Device],
        fresh: &mut bool,
    ) -> Result<&mut (Vm, Vec<Scratch>), Error> {
        let machine = match self.machine.take().filter(|_| self.devices == devices) {
            Some(machine) => machine,
            None => {
                let disks = attach(&mut self.config, devices);
                let disks = disks.map_err(Error::system("make a disk in memory"))?;
                self.devices = devices.to_vec();
                *fresh = true;
                self.starts += 1;
                (self.kept.start(&self.config, devices)?, disks)
            }
        };
        Ok(self.machine.insert(machine))
    }
}

/// Appends, and drops the beginning where it gets too much.
fn keep(output: &mut Vec<u8>, bytes: &[u8]) {
    output.extend_from_slice(bytes);
    if output.len() > MAX_OUTPUT {
        output.drain(..output.len() - MAX_OUTPUT);
    }
}

/// The files as a part of an archive.
fn archive(files: &[(&str, &[u8])]) -> io::Result<Vec<u8>> {
    let mut pack = Pack::default();
    for (path, content) in files {
        pack.add_bytes(Path::new(path), 0o644, content)?;
    }
    pack.part()
}
