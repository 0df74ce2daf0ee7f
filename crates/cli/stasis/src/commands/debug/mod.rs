//! `stasis debug`: gdb at a moment of a run, or the moment as a file.

mod dump;
mod files;
mod packet;

use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use stasis_experiment::Experiment;
use stasis_qemu_vm::fd::readable;
use stasis_run_events::Debugger;
use stasis_runner::Debugged;
use stasis_terminal::stop_on_signals;

use dump::Dump;
use files::{Files, Found};
use packet::packet;

use super::archive::Parse;
use super::moment::MomentArguments;
use super::run::stdin::Source;
use super::stopped::Stopped;
use super::symbols;
use crate::arguments::RunArguments;

/// Arguments of `stasis debug`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The run is that of `stasis run` with the same words, under the engine exact; or, where a folder of
results is named in place of an experiment, the run that has left them. It stops at the moment, and
gdb sees all processors of all machines as threads. Stops, breakpoints, watchpoints and steps take
no virtual time: the run with them is the run without. `monitor help` in gdb lists what only the run
knows. `detach` lets the run go on to its end, `kill` ends it.

Examples:
  stasis debug --drive model=fixed:100us,medium=ram:64MiB --gdb -- dd if=/dev/nvme0n1 of=/dev/null count=8 iflag=direct
  stasis debug experiment.toml --at 1.25s --symbols linux/vmlinux --gdb
  stasis debug results --at-io drive0:1234 --listen 1234
  stasis debug results --at 1.25s --dump moment.elf

Exit status: that of `stasis run`."
)]
pub struct Arguments {
    #[command(flatten)]
    moment: MomentArguments,
    /// Wait for gdb on this socket of the file system, or on a port of 127.0.0.1 [default: stasis.gdb]
    #[arg(long, value_name = "SOCKET|PORT")]
    listen: Option<String>,
    /// Start gdb, here, at the moment
    #[arg(long)]
    gdb: bool,
    /// The kernel's symbols for gdb: a vmlinux, or the folder of a kernel's build; its vmlinux-gdb.py,
    /// where it lies beside, is loaded too [default: the names that the guest's kernel lists]
    #[arg(long, value_name = "FILE|FOLDER", requires = "gdb")]
    symbols: Option<PathBuf>,
    /// Write the moment to this file, and end the run: the guest's memory and registers as drgn and gdb read
    /// them (an ELF core file with VMCOREINFO)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gdb", "listen", "symbols"])]
    dump: Option<PathBuf>,
    #[command(flatten)]
    run: RunArguments,
}

/// `stasis debug`; `parse` reads command lines.
pub fn main(arguments: Arguments, parse: Parse, quiet: bool) -> Result<ExitCode> {
    let stopped = Stopped::of(&arguments.run, parse, true)?;
    if stopped.run.arguments.power_cut.is_some() {
        bail!("--power-cut ends the run: leave it out, and stop --at that time");
    }
    if stopped.run.arguments.profile.is_some() {
        bail!("--profile is for `stasis run`: gdb looks at moments");
    }
    if stopped.run.arguments.guest_times {
        bail!("--guest-times is for `stasis run`: gdb looks at moments");
    }
    let named = arguments.symbols.as_deref().map(vmlinux).transpose()?;
    let stop = match arguments.gdb {
        // Ctrl-C is gdb's: it stops the run.
        true => {
            signal_hook::flag::register(SIGINT, Arc::default()).context("cannot handle signals")?;
            let stop = Arc::default();
            signal_hook::flag::register(SIGTERM, Arc::clone(&stop))
                .context("cannot handle signals")?;
            stop
        }
        false => stop_on_signals()?,
    };
    // The kernel's tasks and its functions' names.
    let own = {
        let (mut experiment, base) = super::run::joined(stopped.run.arguments.clone())?;
        stopped.complete(&mut experiment);
        let wants_all = arguments.gdb && named.is_none() || arguments.dump.is_some();
        let are_needed = arguments.moment.needs_symbols() || wants_all;
        match symbols::of_guest(&experiment, &base, &stop) {
            Ok(own) => Some(own),
            Err(error) if are_needed => return Err(error),
            Err(_) => None,
        }
    };
    let (tasks, modules) =
        own.as_ref().map(symbols::Symbols::tasks_and_modules).unwrap_or_default();
    let at = arguments.moment.moment(own.as_ref())?;
    let run = stopped.run.arguments.clone();
    let complete = |experiment: &mut Experiment| stopped.complete(experiment);
    let snapshot = arguments.moment.snapshot(stopped.results.as_deref());
    if let (Some(file), Some(own)) = (arguments.dump, &own) {
        let dump = Arc::new(Mutex::new(Dump::new(file, own, Arc::clone(&stop))));
        let debugged = Debugged {
            at,
            tasks,
            modules: None,
            writes: Vec::new(),
            debugger: Arc::clone(&dump) as _,
        };
        let stdin = Source::Kept(stopped.run.stdin.clone());
        let status = super::run::debugged(run, stdin, quiet, complete, (&debugged, snapshot, stop));
        let dumped = dump.lock().unwrap_or_else(std::sync::PoisonError::into_inner).end();
        return match (status, dumped) {
            (_, Ok(dumped)) => {
                println!("{dumped}");
                Ok(ExitCode::SUCCESS)
            }
            // A run that fails says more than a moment that has not come.
            (Err(error), Err(_)) | (Ok(_), Err(error)) => Err(error),
        };
    }
    let writes = own.as_ref().map(symbols::Symbols::writes).unwrap_or_default();
    let listener = Listener::new(arguments.listen.as_deref())?;
    let scripts = named.as_deref().and_then(Path::parent).map(Path::to_owned);
    let files = own.as_ref().map(|own| Files::new(own.programs()));
    let symbols = named.or(own.map(|symbols| symbols.file));
    let gdb = arguments.gdb.then_some(Gdb { symbols, scripts, commands: None, child: None });
    let wire = Arc::new(Mutex::new(Wire {
        listener,
        connection: None,
        gdb,
        files,
        was_there: false,
        stop: Arc::clone(&stop),
    }));
    let debugged = Debugged { at, tasks, modules, writes, debugger: Arc::clone(&wire) as _ };
    let stdin = match (&stopped.run.stdin, arguments.gdb) {
        (None, false) => Source::Own,
        // This program's is gdb's.
        (kept, _) => Source::Kept(kept.clone()),
    };
    let status = super::run::debugged(run, stdin, quiet, complete, (&debugged, snapshot, stop));
    let mut wire = wire.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !wire.was_there && status.is_ok() {
        eprintln!("stasis: the moment has not come: the run ended before");
    }
    // gdb sees the end of the connection.
    wire.connection = None;
    if let Some(child) = wire.gdb.as_mut().and_then(|gdb| gdb.child.as_mut()) {
        child.wait().context("cannot wait for gdb")?;
    }
    status
}

/// The file with a kernel's symbols that a user names.
fn vmlinux(named: &Path) -> Result<PathBuf> {
    let file = if named.is_dir() { named.join("vmlinux") } else { named.to_owned() };
    std::fs::metadata(&file)
        .with_context(|| format!("--symbols: cannot read {}", file.display()))?;
    std::path::absolute(&file).with_context(|| format!("--symbols: {}", file.display()))
}

/// The socket to which gdb connects.
enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    fn new(word: Option<&str>) -> Result<Self> {
        let word = word.unwrap_or("stasis.gdb");
        if let Ok(port) = word.parse::<u16>() {
            let address = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port);
            let listener = TcpListener::bind(address)
                .with_context(|| format!("--listen: cannot listen on {address}"))?;
            listener.set_nonblocking(true).context("cannot set a socket up")?;
            let address = listener.local_addr().context("cannot set a socket up")?;
            return Ok(Self::Tcp(listener, address));
        }
        let path = PathBuf::from(word);
        let listener = match UnixListener::bind(&path) {
            // Left by a run that was killed: nobody answers there.
            Err(error)
                if error.kind() == ErrorKind::AddrInUse && UnixStream::connect(&path).is_err() =>
            {
                let _ = std::fs::remove_file(&path);
                UnixListener::bind(&path)
            }
            other => other,
        };
        let listener = listener
            .with_context(|| format!("--listen: cannot make the socket {}", path.display()))?;
        listener.set_nonblocking(true).context("cannot set a socket up")?;
        Ok(Self::Unix(listener, path))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener, _) => listener.as_fd(),
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        // Whoever does not take what gdb has asked for has gone.
        const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(PATIENCE)?;
                Ok(Box::new(stream))
            }
            Self::Tcp(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(PATIENCE)?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// The place as gdb's `target remote` takes it.
impl Display for Listener {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::Unix(_, path) => {
                // gdb takes a name without a slash for something else.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                write!(f, "{}", path.display())
            }
            Self::Tcp(_, address) => write!(f, "{address}"),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A connection of gdb's.
trait Stream: Read + Write + AsFd + Send {}

impl<T: Read + Write + AsFd + Send> Stream for T {}

/// gdb, started here.
struct Gdb {
    symbols: Option<PathBuf>,
    /// The folder that a user has named, from which gdb loads the kernel's own commands, if they lie
    /// there.
    scripts: Option<PathBuf>,
    /// The file of the commands that gdb has here.
    commands: Option<tempfile::NamedTempFile>,
    child: Option<Child>,
}

impl Gdb {
    fn start(&mut self, target: &str) -> io::Result<()> {
        let mut gdb = Command::new("gdb");
        gdb.arg("-q");
        if let Some(scripts) = &self.scripts {
            gdb.args(["-iex", &format!("add-auto-load-safe-path {}", scripts.display())]);
        }
        if let Some(symbols) = &self.symbols {
            gdb.arg(Path::new(symbols));
        }
        let commands = tempfile::Builder::new().suffix(".py").tempfile()?;
        std::fs::write(commands.path(), files::COMMANDS)?;
        gdb.arg("-x").arg(commands.path());
        self.commands = Some(commands);
        self.child = Some(gdb.args(["-ex", &format!("target remote {target}")]).spawn()?);
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }
}

/// The wire between the run and gdb.
struct Wire {
    listener: Listener,
    connection: Option<Box<dyn Stream>>,
    gdb: Option<Gdb>,
    /// The guest's files, where its root is known.
    files: Option<Files>,
    was_there: bool,
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "gdb at {}", self.listener)
    }
}

/// Interval between looks for a stop while waiting (ms).
const LOOK: i32 = 50;

impl Wire {
    /// Waits for gdb. Returns whether gdb is there.
    fn connect(&mut self) -> io::Result<bool> {
        self.was_there = true;
        let target = self.listener.to_string();
        match &mut self.gdb {
            Some(gdb) => gdb.start(&target).inspect_err(|error| {
                eprintln!("stasis: cannot start gdb: {error}; install it, or leave --gdb out");
            })?,
            None => eprintln!("stasis: the run stands still: gdb -ex 'target remote {target}'"),
        }
        while !self.is_over() {
            let [ready] = readable([self.listener.fd()], LOOK)?;
            if ready {
                self.connection = Some(self.listener.accept()?);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a gdb waits for the run, after another one has gone.
    fn comes_again(&mut self) -> io::Result<bool> {
        let [ready] = readable([self.listener.fd()], 0)?;
        if ready {
            self.connection = Some(self.listener.accept()?);
        }
        Ok(ready)
    }

    /// Answers a gdb that comes while another one has the run.
    fn refuse_others(&mut self) -> io::Result<()> {
        let [ready] = readable([self.listener.fd()], 0)?;
        if ready {
            const REFUSED: &[u8] = b"E.another gdb has the run: detach there first";
            // One that has gone by now needs no answer.
            let _ = self.listener.accept()?.write_all(&[b"+", &*packet(REFUSED)].concat());
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.gdb.as_mut().is_some_and(Gdb::has_ended)
    }

    /// The bytes that have come; None at the end of the connection.
    fn read(&mut self, wait: bool) -> io::Result<Option<Vec<u8>>> {
        loop {
            let Some(connection) = &mut self.connection else { return Ok(None) };
            let [ready] = readable([connection.as_fd()], if wait { LOOK } else { 0 })?;
            if ready {
                let mut bytes = vec![0; 16 << 10];
                let length = connection.read(&mut bytes)?;
                bytes.truncate(length);
                if length == 0 {
                    return Ok(None);
                }
                let found = match &mut self.files {
                    Some(files) => files.take(bytes),
                    None => Found::Others(bytes),
                };
                match found {
                    Found::Others(bytes) => return Ok(Some(bytes)),
                    Found::Answer(answer) => connection.write_all(&answer)?,
                    Found::Part => {}
                }
                continue;
            }
            if !wait {
                return Ok(Some(Vec::new()));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }
}

impl Debugger for Wire {
    fn exchange(&mut self, bytes: &[u8], wait: bool) -> io::Result<Option<Vec<u8>>> {
        let is_there = match &self.connection {
            Some(_) => self.refuse_others().map(|()| true)?,
            None if self.was_there => !wait && self.comes_again()?,
            None => self.connect()?,
        };
        if !is_there {
            return Ok(None);
        }
        let answered = match &mut self.connection {
            Some(connection) => connection.write_all(bytes).and_then(|()| self.read(wait)),
            None => Ok(None),
        };
        if !matches!(answered, Ok(Some(_))) {
            self.connection = None;
            let target = self.listener.to_string();
            eprintln!("stasis: gdb has gone; the run goes on (gdb -ex 'target remote {target}' comes again)");
        }
        answered
    }
}
