//! A virtual machine: its start, its commands, its end.

use crate::arguments::{arguments, Ends, KeptMemory};
use crate::last_output::{console, ended, last_output};
use crate::nbd::Root;
use crate::port::{Failure, Port};
use crate::probe::{probe, KvmState};
use crate::process::{find_qemu, Process};
use crate::qmp::{Qmp, QmpError};
use crate::{Accelerator, Config, Error};
use rustix::fs::{memfd_create, MemfdFlags};
use serde_json::json;
use stasis_channel::{Host, Job, Mailbox, Request, Response, Stream, MAX_PAYLOAD};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Limit on the bytes of an input that are handed over at once.
const PIECE: usize = 1 << 20;

/// The status of a command that its time limit ended, as of timeout(1).
const OUT_OF_TIME: u8 = 124;

/// By how much a clock of instructions may be slower than the host's, on one that is busy.
const SLOWER: u32 = 20;

/// Longest time for QEMU to save or load a state without the memory, on a machine that is busy with
/// much else.
const MAX_MOVE: Duration = Duration::from_secs(120);

/// A machine that waits for its first job, as it was saved.
#[derive(Debug)]
pub(crate) struct Saved {
    memory: File,
    state: File,
    host: Host,
}

/// A booted machine.
pub(crate) enum Booted {
    /// The machine was saved, and has ended.
    Saved(Saved),
    /// The machine is not saved.
    Running(Box<Vm>),
}

/// Returns the path by which other processes of this user find an open file.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// A file in memory.
fn in_memory(name: &str, size: u64) -> Result<File, Error> {
    let made = memfd_create(name, MemfdFlags::CLOEXEC).map(File::from).map_err(Into::into);
    let sized = made.and_then(|file| file.set_len(size).map(|()| file));
    sized.map_err(Error::system("make a file in memory"))
}

/// End of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// As a shell gives it; 124 where the job's time limit ended it.
    pub status: u8,
    /// True if it was started.
    pub started: bool,
    /// True if the job's time limit ended it.
    pub late: bool,
    /// Message of the guest's agent: why the command did not start, or the part that it could not
    /// tidy up. Empty if all is well.
    pub message: String,
}

/// Something that comes while a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The command wrote this.
    Output(Stream, &'a [u8]),
    /// A piece of the tar stream of `/results`.
    Results(&'a [u8]),
}

/// A running guest under stock QEMU. Dropping it ends it at once.
#[derive(Debug)]
pub struct Vm {
    process: Process,
    port: Port,
    host: Host,
    frame: Vec<u8>,
    monitor: Qmp<'static>,
    root: Option<Root>,
    folder: TempDir,
    stop: Arc<AtomicBool>,
    timeout: Duration,
    kvm: bool,
    // True if its clock counts instructions.
    counts: bool,
}

/// Returns whether KVM works; asked once.
fn kvm_state() -> &'static KvmState {
    static STATE: OnceLock<KvmState> = OnceLock::new();
    STATE.get_or_init(probe)
}

impl Vm {
    /// Boots the guest; returns when it can run a command.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start(config: &Config) -> Result<Self, Error> {
        let mut vm = Self::launch(config, None)?;
        vm.boot(config.boot_limit)?;
        Ok(vm)
    }

    /// Boots the guest and saves it where it waits for its first job. Returns the booted machine
    /// instead if it has a device whose state QEMU cannot save, and under KVM.
    pub(crate) fn save(config: &Config) -> Result<Booted, Error> {
        let memory = in_memory("stasis-kept", config.memory.next_multiple_of(2 << 20))?;
        let state = in_memory("stasis-state", 0)?;
        let kept = KeptMemory { path: &path_of(&memory), restored: false };
        let mut vm = Self::launch(config, Some(kept))?;
        vm.boot(config.boot_limit)?;
        if vm.kvm {
            // It boots as fast as it starts from a file.
            return Ok(Booted::Running(Box::new(vm)));
        }
        vm.monitor.execute("stop", json!({}))?;
        ignore_shared(&mut vm.monitor)?;
        let uri = format!("exec:cat >{}", path_of(&state).display());
        let saved = vm.monitor.execute("migrate", json!({ "uri": uri }));
        match saved.and_then(|_| vm.monitor.migrated(MAX_MOVE)) {
            Ok(()) => Ok(Booted::Saved(Saved { memory, state, host: vm.host.clone() })),
            Err(QmpError::Refused { .. }) => {
                vm.monitor.execute("cont", json!({}))?;
                Ok(Booted::Running(Box::new(vm)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Starts a saved machine, which stays as it is. `config` is as it was saved with, but for the
    /// files of the drives, which hold what they held then.
    pub(crate) fn restore(config: &Config, saved: &Saved) -> Result<Self, Error> {
        let kept = KeptMemory { path: &path_of(&saved.memory), restored: true };
        let mut vm = Self::launch(config, Some(kept))?;
        ignore_shared(&mut vm.monitor)?;
        let uri = format!("exec:cat {}", path_of(&saved.state).display());
        vm.monitor.execute("migrate-incoming", json!({ "uri": uri }))?;
        vm.monitor.migrated(MAX_MOVE)?;
        vm.monitor.execute("cont", json!({}))?;
        vm.host = saved.host.clone();
        Ok(vm)
    }

    /// Starts QEMU, up to its monitor's greeting.
    fn launch(config: &Config, kept: Option<KeptMemory<'_>>) -> Result<Self, Error> {
        let qemu = find_qemu().ok_or(Error::QemuMissing)?;
        let kvm = match config.accelerator {
            Accelerator::Emulation | Accelerator::Instructions => false,
            Accelerator::Best => *kvm_state() == KvmState::Usable,
            Accelerator::Kvm if *kvm_state() == KvmState::Usable => true,
            Accelerator::Kvm => return Err(Error::Kvm(kvm_state().clone())),
        };
        let image = &config.guest.root;
        let root = fs::metadata(image).map_err(|source| Error::File {
            action: "find",
            path: image.clone(),
            source,
        })?;
        let folder = tempfile::Builder::new().prefix("stasis-qemu-").tempdir();
        let folder = folder.map_err(Error::system("make a temporary folder"))?;
        let sockets = || UnixStream::pair().map_err(Error::system("make a socket"));
        let ((port, port_end), (monitor, monitor_end)) = (sockets()?, sockets()?);
        let lower = config.guest.lower().map_err(|e| Error::Root { cause: e.to_string() })?;
        let lower = match lower {
            Some((kind, lower)) => Some((kind, lower, sockets()?)),
            None => None,
        };
        let of_root = lower.as_ref().map(|(kind, _, (_, end))| (kind.name(), end.as_raw_fd()));
        let ends = Ends {
            port: port_end.as_raw_fd(),
            monitor: monitor_end.as_raw_fd(),
            console: &folder.path().join("console"),
            root: of_root,
            kept,
        };
        let mut command = Command::new(qemu);
        command.args(arguments(config, kvm, root.len(), &ends));
        let mut inherited = vec![port_end.as_fd(), monitor_end.as_fd()];
        inherited.extend(lower.iter().map(|(_, _, (_, end))| end.as_fd()));
        let process = Process::start(command, &inherited, &folder.path().join("log"))
            .map_err(Error::system("start qemu-system-x86_64"))?;
        drop((port_end, monitor_end));
        let root = lower.map(|(_, lower, (server, _))| Root::serve(lower, server)).transpose()?;
        let stop = Arc::clone(&config.stop);
        let asked = Arc::clone(&stop);
        let stopped = move || asked.load(Ordering::Relaxed);
        let port = Port::new(port).map_err(Error::system("make a socket"))?;
        let monitor = match Qmp::new(monitor, &stopped) {
            Ok(monitor) => monitor.until(&|| false),
            Err(crate::qmp::QmpError::Closed) => return Err(ended(process, &folder)),
            Err(crate::qmp::QmpError::Stopped) => return Err(Error::Stopped),
            Err(error) => return Err(error.into()),
        };
        let (host, frame) = (Host::repeating(), Vec::new());
        let timeout = config.timeout;
        let counts = config.accelerator == Accelerator::Instructions;
        Ok(Self { process, port, host, frame, monitor, root, folder, stop, timeout, kvm, counts })
    }

    /// Waits until the guest can run a command.
    fn boot(&mut self, limit: Duration) -> Result<(), Error> {
        match self.greeting(Instant::now() + limit) {
            Err(Error::Silent { console, .. }) => {
                Err(Error::Boot { seconds: limit.as_secs(), console })
            }
            other => other,
        }
    }

    /// Returns whether KVM runs it.
    pub fn uses_kvm(&self) -> bool {
        self.kvm
    }

    /// Process id of QEMU.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The monitor, for what this type does not offer.
    pub fn monitor(&mut self) -> &mut Qmp<'static> {
        &mut self.monitor
    }

    /// The last lines of the guest's console.
    pub fn console(&self) -> String {
        console(&self.folder)
    }

    /// Runs a job to its end. `input` is a tar stream to unpack below `/` before
    /// the command, where the job has one; `take` gets what comes out as it
    /// comes. A limit in the job ends the command; if the guest then does not
    /// come back either, that is an error.
    ///
    /// # Errors
    /// See [`Error`]. How the command ended is no error.
    pub fn run(
        &mut self,
        job: &Job,
        input: &mut dyn Read,
        take: &mut dyn FnMut(Piece<'_>),
    ) -> Result<Outcome, Error> {
        self.answer(Response::Job(job))?;
        let timeout = self.timeout;
        let limit = (job.limit_ms > 0).then(|| Duration::from_millis(job.limit_ms));
        // A clock of instructions is slower than this one while the guest works, mostly, and as fast
        // while it waits.
        let (slowest, fastest) = if self.counts { (SLOWER, 2) } else { (1, 1) };
        let mut deadline = Instant::now() + timeout;
        let mut outcome =
            Outcome { status: 126, started: false, late: false, message: String::new() };
        let mut begun = Instant::now();
        let mut piece = Vec::new();
        loop {
            self.receive(deadline)?;
            let before = outcome.message.len();
            piece.clear();
            let response = match self.host.receive(self.frame.as_mut_slice())? {
                Request::Hello => {
                    return self.root_failure().map_or(Ok(outcome), Err);
                }
                Request::Command => Response::Job(job),
                Request::ReadInput { max } => {
                    let most = max.min(PIECE).min(MAX_PAYLOAD) as u64;
                    match (&mut *input).take(most).read_to_end(&mut piece) {
                        Ok(_) => Response::Bytes(&piece),
                        Err(source) => {
                            return Err(Error::System {
                                action: "read the command's input",
                                source,
                            })
                        }
                    }
                }
                // There is one machine, and no helper.
                Request::Ready => Response::Bytes(&[1, 0, 0, 0]),
                Request::HelpPage { .. } | Request::Help { .. } => Response::Done,
                Request::Started => {
                    outcome.started = true;
                    begun = Instant::now();
                    let far = Duration::from_secs(365 * 24 * 3600);
                    deadline =
                        Instant::now() + limit.map_or(far, |limit| limit * slowest + timeout);
                    Response::Done
                }
                Request::Output { stream, bytes } => {
                    take(Piece::Output(stream, bytes));
                    Response::Done
                }
                Request::Exited { status } => {
                    outcome.status = status;
                    // The guest's clock began later than this one.
                    outcome.late = status == OUT_OF_TIME
                        && limit.is_some_and(|limit| begun.elapsed() * fastest >= limit);
                    deadline = Instant::now() + timeout;
                    Response::Done
                }
                Request::NotStarted { status, message } => {
                    outcome.status = status;
                    outcome.message += &message;
                    deadline = Instant::now() + timeout;
                    Response::Done
                }
                Request::Results { bytes } => {
                    take(Piece::Results(bytes));
                    deadline = Instant::now() + timeout;
                    Response::Done
                }
                // No command runs on a terminal here.
                Request::Typed => Response::Refused(stasis_channel::Refusal::Failed),
                // No run here has a branch.
                Request::Branch => Response::Done,
                // No job here lets a process ask for one.
                Request::Fault { .. }
                | Request::Orders
                | Request::Ordered { .. }
                | Request::Health { .. }
                | Request::Callable { .. } => Response::Refused(stasis_channel::Refusal::Failed),
                Request::Log { text } => {
                    outcome.message += &text;
                    Response::Done
                }
                Request::Finished => {
                    return Err(Error::Ended {
                        output: "its agent says that it has finished".into(),
                    })
                }
            };
            if outcome.message.len() > before {
                outcome.message.push('\n');
            }
            self.answer(response)?;
        }
    }

    /// Runs a shell's script without input; gives its outcome and what it wrote
    /// to both outputs.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn shell(&mut self, script: &str) -> Result<(Outcome, Vec<u8>), Error> {
        let mut job = Job::new(vec!["sh".into(), "-c".into(), script.into()]);
        job.send_results = false;
        let mut output = Vec::new();
        let outcome = self.run(&job, &mut std::io::empty(), &mut |piece| {
            if let Piece::Output(_, bytes) = piece {
                output.extend_from_slice(bytes);
            }
        })?;
        Ok((outcome, output))
    }

    /// Ends the guest in order: its drives are unmounted and flushed.
    ///
    /// # Errors
    /// The machine does not end within [`Config::timeout`].
    pub fn stop(mut self) -> Result<(), Error> {
        self.answer(Response::Job(&Job::new(Vec::new())))?;
        match self.receive(Instant::now() + self.timeout) {
            Err(Error::Ended { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(Error::Ended { output: "its agent goes on after the end".into() }),
        }
    }

    fn greeting(&mut self, deadline: Instant) -> Result<(), Error> {
        self.receive(deadline)?;
        match self.host.receive(self.frame.as_mut_slice())? {
            Request::Hello => Ok(()),
            // The host's state machine lets nothing else be first.
            other => Err(Error::Ended { output: format!("its agent began with {other:?}") }),
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<(), Error> {
        let stop = &self.stop;
        let begun = Instant::now();
        let stopped = || stop.load(Ordering::Relaxed);
        let received = self.port.receive(&mut self.frame, deadline, stopped);
        received.map_err(|failure| self.failed(failure, begun))
    }

    fn answer(&mut self, response: Response<'_>) -> Result<(), Error> {
        let begun = Instant::now();
        let mut frame = Growing(Vec::new());
        Host::respond(&mut frame, response);
        let sent = self.port.send(&frame.0);
        sent.map_err(|failure| self.failed(failure, begun))
    }

    /// Why the root could not be read, if so: then what the guest did is of no use.
    fn root_failure(&self) -> Option<Error> {
        self.root.as_ref().and_then(Root::failure)
    }

    fn failed(&mut self, failure: Failure, begun: Instant) -> Error {
        if let Some(error) = self.root_failure() {
            return error;
        }
        match failure {
            Failure::Closed => {
                Error::Ended { output: last_output(&mut self.process, &self.folder) }
            }
            Failure::Late => {
                Error::Silent { seconds: begun.elapsed().as_secs(), console: self.console() }
            }
            Failure::Stopped => Error::Stopped,
            Failure::TooLong(length) => Error::Frame { length },
            Failure::System(source) => Error::System { action: "wait for the guest", source },
        }
    }
}

/// Memory that is shared with a file is no part of a saved state.
fn ignore_shared(monitor: &mut Qmp<'_>) -> Result<(), QmpError> {
    let capabilities = json!([
        { "capability": "x-ignore-shared", "state": true },
        { "capability": "events", "state": true },
    ]);
    monitor.execute("migrate-set-capabilities", json!({ "capabilities": capabilities })).map(drop)
}

/// A mailbox as long as what has been written to it.
struct Growing(Vec<u8>);

impl Mailbox for Growing {
    fn read(&self, offset: usize, into: &mut [u8]) {
        self.0.as_slice().read(offset, into);
    }

    fn write(&mut self, offset: usize, from: &[u8]) {
        let end = offset + from.len();
        if self.0.len() < end {
            self.0.resize(end, 0);
        }
        self.0[offset..end].copy_from_slice(from);
    }
}
