//! QEMU as a child: where it is, its start, its end.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{mpsc, OnceLock};

use rustix::io::{fcntl_setfd, Errno, FdFlags};
use rustix::process::{getpid, getppid, set_parent_process_death_signal, Signal};

/// The program.
pub const QEMU: &str = "qemu-system-x86_64";

/// QEMU's executable, if it is installed.
pub fn find_qemu() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(QEMU)).find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok())
}

/// The installed QEMU's version in one line, if it is installed and prints one.
pub fn version_line() -> Option<String> {
    let output = Command::new(QEMU).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

/// Returns QEMU's major and minor version.
pub fn version() -> Option<(u32, u32)> {
    version_in(&version_line()?)
}

fn version_in(output: &str) -> Option<(u32, u32)> {
    let mut numbers = output.strip_prefix("QEMU emulator version ")?.split('.');
    let digits = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    Some((digits(numbers.next()?)?, digits(numbers.next()?)?))
}

/// The option by which a socket's client comes back a second after its server:
/// QEMU 9.2 brought `reconnect-ms`, QEMU 11 has `reconnect` no more
/// (docs/about/removed-features.rst).
pub fn reconnect(version: Option<(u32, u32)>) -> &'static str {
    match version {
        Some(version) if version >= (9, 2) => "reconnect-ms=1000",
        _ => "reconnect=1",
    }
}

/// QEMU's options end at a comma; a doubled one stands for itself.
pub fn with_path(options: &str, path: &Path) -> OsString {
    let mut bytes = options.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b',' {
            bytes.push(b',');
        }
    }
    OsString::from_vec(bytes)
}

/// A running QEMU; dropping it kills it, and so does any end of this program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: File,
    log_path: PathBuf,
}

impl Process {
    /// Starts `command`, which inherits `fds` and nothing else, and writes its
    /// complaints to the log.
    ///
    /// # Errors
    /// The log cannot be written, or the program not be started.
    pub fn start(
        mut command: Command,
        fds: &[BorrowedFd<'_>],
        log_path: &Path,
    ) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).read(true).append(true).open(log_path)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.try_clone()?)
            // Ctrl-C is the program's to handle, not QEMU's.
            .process_group(0);
        let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = Some(getpid());
        // SAFETY: between fork and exec only prctl, getppid and fcntl run, all
        // safe after a fork, on descriptors that the caller holds open.
        unsafe {
            command.pre_exec(move || {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                if getppid() != parent {
                    return Err(Errno::SRCH.into());
                }
                for fd in &fds {
                    fcntl_setfd(BorrowedFd::borrow_raw(*fd), FdFlags::empty())?;
                }
                Ok(())
            });
        }
        Ok(Self { child: spawn(command)?, log, log_path: log_path.to_owned() })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the process's end; for one whose descriptors have closed.
    ///
    /// # Errors
    /// The system gives no status.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// The process's end, if it has come.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of the log, for a message.
    pub fn detail(&mut self) -> String {
        let tail = tail(&mut self.log).unwrap_or_default();
        let path = self.log_path.display();
        if tail.is_empty() {
            return format!("; its log {path} is empty");
        }
        format!(":\n{tail}\n(all of it in {path})")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Spawns on a thread that lasts as long as the program: a child's death signal
/// comes at the end of the *thread* that made it (prctl(2), PR_SET_PDEATHSIG).
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<Option<mpsc::Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        let work = move || {
            for (mut command, answer) in taken {
                // Whoever asked waits.
                let _ = answer.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("spawn".into()).spawn(work).ok().map(|_| orders)
    });
    let gone = || io::Error::other("the thread that starts programs is gone");
    let (answer, child) = mpsc::channel();
    spawner.as_ref().ok_or_else(gone)?.send((command, answer)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

/// The last lines of the log that are not empty.
pub fn tail(log: &mut File) -> io::Result<String> {
    const BYTES: u64 = 8192;
    const LINES: usize = 12;
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        // One for each feature of the processor that TCG leaves out.
        .filter(|line| !line.is_empty() && !line.contains("TCG doesn't support requested feature"))
        .collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_told_to_reconnect_in_its_own_words() {
        let option_for = |text| reconnect(version_in(text));
        assert_eq!(
            option_for("QEMU emulator version 7.2.22 (Debian 1:7.2)\nCopyright"),
            "reconnect=1"
        );
        assert_eq!(option_for("QEMU emulator version 9.1.0"), "reconnect=1");
        assert_eq!(option_for("QEMU emulator version 9.2.0"), "reconnect-ms=1000");
        assert_eq!(option_for("QEMU emulator version 10.0.13 (Debian)"), "reconnect-ms=1000");
        assert_eq!(option_for("QEMU emulator version 11.1-rc1"), "reconnect-ms=1000");
        assert_eq!(option_for("what?"), "reconnect=1");
    }

    #[test]
    fn commas_in_paths_are_doubled() {
        assert_eq!(with_path("file=", Path::new("/a,b/c")), OsString::from("file=/a,,b/c"));
    }

    #[test]
    fn the_tail_leaves_out_the_warnings_of_every_start() {
        let mut log = tempfile::tempfile().unwrap();
        let text = "warning: TCG doesn't support requested feature: CPUID\n\nreal trouble\n";
        std::io::Write::write_all(&mut log, text.as_bytes()).unwrap();
        assert_eq!(tail(&mut log).unwrap(), "real trouble");
    }

    #[test]
    fn a_process_outlives_the_thread_that_starts_it_and_not_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let start = move || {
            let mut command = Command::new("sleep");
            command.arg("1000");
            Process::start(command, &[], &log).unwrap()
        };
        let mut process = std::thread::spawn(start).join().unwrap();
        // Time for a signal to be wrong in.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(process.ended().is_none());
        let folder = PathBuf::from(format!("/proc/{}", process.id()));
        assert!(folder.exists());
        drop(process);
        assert!(!folder.exists());
    }

    #[test]
    fn only_what_is_given_is_inherited() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (kept, given) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let script = format!(
            "test ! -e /proc/self/fd/{0} && test -e /proc/self/fd/{1}",
            kept.as_raw_fd(),
            given.as_raw_fd()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let given = std::os::fd::AsFd::as_fd(&given);
        assert!(Process::start(command, &[given], &log).unwrap().wait().unwrap().success());
    }
}
