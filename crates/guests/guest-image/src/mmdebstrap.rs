//! Runs mmdebstrap, which installs the packages and, through our hook, makes
//! the image.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::own_kernel::{self, OwnKernel};
use crate::{customize, processes, removal, sources, BuildError, Progress, Recipe};

/// The archive with the kernel and its modules, below the work folder.
pub(crate) const KERNEL_ARCHIVE: &str = "kernel.tar";
/// The archive with a kernel of the user's own, in the work folder.
const OWN_KERNEL: &str = "own-kernel.tar";
const ROOT_IMAGE: &str = "root.ext4";

/// The guest's date, as text: seconds since 1970-01-01 00:00 UTC.
pub(crate) const DATE: &str = "date";

/// Required tools, each with its Debian package.
const TOOLS: [(&str, &str); 4] = [
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("depmod", "kmod"),
    ("dpkg-deb", "dpkg"),
];

/// Folders of system administration that are not in every user's `PATH`.
const ADMINISTRATION: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Documentation, which only readers need.
const EXCLUDED: [&str; 7] = ["man", "doc", "info", "locale", "lintian", "bug", "gtk-doc"];

/// Sections of the manual (man(1)), whose folders packages expect.
const MANUAL: std::ops::RangeInclusive<u8> = 1..=8;

/// Length of the parts of a build, as the share that is done when a line of the log that starts
/// with the text appears.
const MILESTONES: [(&str, &str, f64); 9] = [
    ("stasis: looking the packages up", "looking the packages up", 0.04),
    ("I: downloading packages", "downloading packages", 0.15),
    ("I: extracting archives", "extracting packages", 0.40),
    ("I: installing essential packages", "installing packages", 0.45),
    ("I: installing remaining packages", "installing packages", 0.60),
    ("stasis: fetching the kernel", "fetching the kernel", 0.78),
    ("stasis: tidying", "tidying up", 0.85),
    ("stasis: making the image", "making the root file system's image", 0.86),
    ("stasis: copying the image", "copying the image", 0.91),
];

/// Makes the archive and the image in `work`; everything that the tools print
/// goes to `log`.
pub(crate) fn run(
    recipe: &Recipe,
    work: &Path,
    log: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BuildError> {
    check_tools()?;
    let started = "preparing";
    progress(Progress { step: started.into(), fraction: 0.0 });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let hook = customize::hook(&recipe.kernel, &recipe.modules, now);
    let package = if own_kernel::is_path(&recipe.kernel) { "" } else { &recipe.kernel };
    let mut command = Command::new("mmdebstrap");
    command
        // The output of apt and dpkg shows their progress.
        .arg("--verbose")
        .args(["--variant=essential", "--architectures=amd64", "--format=null"])
        .arg(format!("--include={}", recipe.packages.join(",")))
        // Perl, otherwise, to convert a system that needs no conversion.
        .arg("--include=usr-is-merged")
        .arg("--aptopt=APT::Install-Recommends \"false\"")
        .arg(format!("--setup-hook={}", customize::look_up(&recipe.packages, package)))
        .arg(format!("--setup-hook={}", customize::exclude(&EXCLUDED)))
        .arg(format!("--extract-hook={}", customize::empty(&EXCLUDED, &excluded_folders())))
        .args(own_kernel(recipe, work)?)
        .arg(format!("--customize-hook={hook}"));
    for name in [KERNEL_ARCHIVE, ROOT_IMAGE, DATE] {
        let hook = customize::download(&format!("/.stasis/{name}"), &work.join(name));
        command.arg(format!("--customize-hook={hook}"));
    }
    command
        .args([recipe.suite.as_str(), "-"])
        .args(sources::of_guest(&recipe.suite, recipe.kernel_release())?)
        .env("LC_ALL", "C.UTF-8")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    follow(command, log, stop, progress)?;
    removal::remove(&work.join(OWN_KERNEL))
}

/// The folders that stay although what packages put there does not.
fn excluded_folders() -> Vec<String> {
    let sections = MANUAL.map(|section| format!("usr/share/man/man{section}"));
    EXCLUDED.map(|folder| format!("usr/share/{folder}")).into_iter().chain(sections).collect()
}

/// The words that bring a kernel of the user's own into the new root, before the hook.
fn own_kernel(recipe: &Recipe, work: &Path) -> Result<Vec<String>, BuildError> {
    if !own_kernel::is_path(&recipe.kernel) {
        return Ok(Vec::new());
    }
    let archive = work.join(OWN_KERNEL);
    OwnKernel::find(&recipe.kernel)?.pack(&archive, work)?;
    let hooks = [customize::own_kernel_folder(), customize::unpack_own_kernel(&archive)];
    Ok(hooks.map(|hook| format!("--customize-hook={hook}")).to_vec())
}

/// Interval between two looks at whether a build is to stop.
const TICK: Duration = Duration::from_millis(100);
/// Time after which a build that goes on gets another signal to stop.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs to the end, copying to the log what is printed.
fn follow(
    mut command: Command,
    log: &Path,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BuildError> {
    let mut file = File::create(log).map_err(BuildError::file("create", log))?;
    let failed = |cause: String| BuildError::Mmdebstrap { cause, log: log.into() };
    let mut child = command.spawn().map_err(|e| failed(format!("cannot start it: {e}")))?;
    let lines = read_lines(child.stderr.take());
    let (mut cause, mut course) = (String::new(), Course::default());
    let mut end = End::default();
    loop {
        if stop.load(Ordering::Relaxed) {
            if let Some(signal) = end.due(Instant::now()) {
                processes::signal_all(child.id(), signal);
            }
        }
        let line = match lines.recv_timeout(TICK) {
            Ok(line) => line.map_err(BuildError::file("read the output for", log))?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        file.write_all(&line)
            .and_then(|()| file.write_all(b"\n"))
            .map_err(BuildError::file("write", log))?;
        let line = String::from_utf8_lossy(&line);
        end.line(&line);
        if let Some(made) = course.line(&line) {
            progress(made);
        }
        // The first error is the cause; later ones follow from it.
        if cause.is_empty() && (line.starts_with("E:") || line.contains("error: ")) {
            cause = line.trim().to_string();
        }
    }
    let status = child.wait().map_err(BuildError::file("wait for", Path::new("mmdebstrap")))?;
    if end.last.is_some() || stop.load(Ordering::Relaxed) {
        return Err(BuildError::Stopped);
    }
    if status.success() {
        return Ok(());
    }
    if cause.is_empty() {
        cause = format!("mmdebstrap ended with {status}");
    }
    Err(failed(cause))
}

/// The end of a build that is stopped: mmdebstrap removes its files, once the programs that it waits
/// for have ended.
#[derive(Debug, Default)]
struct End {
    /// Time of the last signal.
    last: Option<Instant>,
    /// Its files are being removed: a signal would end the program that does so.
    removes: bool,
}

impl End {
    /// The signal that is due now, for all programs of the build.
    fn due(&mut self, now: Instant) -> Option<Signal> {
        let signal = match self.last {
            None => Signal::INT,
            // Again and again: a program that starts just now has not got the signal before. Who ignores
            // an interrupt, as in the background of a shell, is asked in another way.
            Some(last) if now.duration_since(last) >= AGAIN && !self.removes => Signal::TERM,
            Some(_) => return None,
        };
        self.last = Some(now);
        Some(signal)
    }

    /// Takes in a line of the log.
    fn line(&mut self, line: &str) {
        self.removes |= line.starts_with("I: removing tempdir");
    }
}

/// Reads lines in a thread that ends with them.
fn read_lines(from: Option<ChildStderr>) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let read = from.into_iter().flat_map(|from| BufReader::new(from).split(b'\n'));
        // A receiver that is gone wants no more.
        let _ = read.map(|line| sender.send(line)).find(Result::is_err);
    });
    lines
}

/// Progress of a build, by the lines of its log.
#[derive(Debug, Default)]
struct Course {
    /// The present part, in [`MILESTONES`].
    part: Option<usize>,
    /// Packages, as apt has counted them last: the essential ones are counted when they are fetched.
    packages: u32,
    /// Steps of packages that are done: fetched, unpacked, set up.
    steps: u32,
}

impl Course {
    /// The progress after one more line, if it is another.
    fn line(&mut self, line: &str) -> Option<Progress> {
        let found = MILESTONES.iter().position(|(start, ..)| line.starts_with(start));
        if found.is_some() && found >= self.part {
            *self = Self { part: found, packages: self.packages, steps: 0 };
        } else if let Some(count) = newly_installed(line) {
            (self.packages, self.steps) = (count, 0);
            return None;
        } else if ["Get:", "Unpacking ", "Setting up "].iter().any(|word| line.starts_with(word)) {
            self.steps += 1;
        } else {
            return None;
        }
        let part = self.part?;
        let (start, step, begin) = MILESTONES[part];
        let end = MILESTONES.get(part + 1).map_or(1.0, |(_, _, begin)| *begin);
        // Packages that are only fetched have one step; essential ones are fetched before.
        let steps = match start {
            _ if start.contains("downloading") => 1,
            _ if start.contains("essential") => 2,
            _ => 3,
        };
        let of_part = match self.packages {
            0 => 0.0,
            packages => f64::from(self.steps) / f64::from(steps * packages),
        };
        Some(Progress { step: step.into(), fraction: begin + (end - begin) * of_part.min(0.99) })
    }
}

/// The number of packages in apt's line about them.
fn newly_installed(line: &str) -> Option<u32> {
    let (before, _) = line.split_once(" newly installed")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Tools that this user lacks to build a guest: each program with its Debian package.
pub fn missing_tools() -> Vec<(&'static str, &'static str)> {
    let is_root = rustix::process::geteuid().is_root();
    // Without root it maps a range of user numbers, with this program.
    let mapper = (!is_root).then_some(("newuidmap", "uidmap"));
    let there = |tool: &str| folders().any(|folder| folder.join(tool).is_file());
    TOOLS.into_iter().chain(mapper).filter(|(tool, _)| !there(tool)).collect()
}

fn check_tools() -> Result<(), BuildError> {
    match missing_tools().first() {
        Some(&(tool, package)) => Err(BuildError::MissingTool { tool, package }),
        None => Ok(()),
    }
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.into_iter().chain(ADMINISTRATION.map(PathBuf::from))
}

fn search_path() -> std::ffi::OsString {
    // Fails only for a folder with a colon in its name, which PATH cannot have.
    std::env::join_paths(folders()).unwrap_or_else(|_| "/usr/sbin:/usr/bin:/sbin:/bin".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shell(script: &str) -> (Result<(), BuildError>, String, Vec<f64>) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut fractions = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        let result =
            follow(command, &log, &AtomicBool::new(false), &mut |p| fractions.push(p.fraction));
        (result, String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned(), fractions)
    }

    #[test]
    fn a_failure_names_the_first_error_and_the_log() {
        let script = "echo 'I: extracting archives...' >&2; printf 'bad \\377 byte\\n' >&2
            echo 'E: Unable to locate package fioo' >&2; echo 'E: mmdebstrap failed' >&2; exit 3";
        let (result, log, fractions) = shell(script);
        let text = result.unwrap_err().to_string();
        assert!(text.contains("Unable to locate package fioo") && text.contains("/log"), "{text}");
        assert!(log.ends_with("E: mmdebstrap failed\n"));
        assert_eq!(fractions, [0.40]);
    }

    #[test]
    fn progress_only_grows() {
        let lines: String = MILESTONES.iter().map(|m| format!("echo '{}...' >&2;", m.0)).collect();
        let (result, _, fractions) = shell(&lines);
        result.unwrap();
        assert_eq!(fractions.len(), MILESTONES.len());
        assert!(fractions.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn packages_are_progress() {
        let mut course = Course::default();
        let mut fractions = Vec::new();
        let mut lines = vec!["I: downloading packages with apt...".to_owned()];
        lines.push("0 upgraded, 20 newly installed, 0 to remove and 0 not upgraded.".into());
        lines.extend((1..=20).map(|n| format!("Get:{n} http://deb.debian.org/debian x [9 B]")));
        lines.push("I: extracting archives...".into());
        lines.push("I: installing essential packages...".into());
        for word in ["Unpacking x (1) ...", "Setting up x (1) ..."] {
            lines.extend(std::iter::repeat_n(word.to_owned(), 20));
        }
        lines.push("I: installing remaining packages inside the chroot...".into());
        lines.push("0 upgraded, 50 newly installed, 0 to remove and 0 not upgraded.".into());
        for word in ["Get:1 x", "Unpacking x (1) ...", "Setting up x (1) ..."] {
            lines.extend(std::iter::repeat_n(word.to_owned(), 50));
        }
        for line in &lines {
            fractions.extend(course.line(line).map(|made| made.fraction));
        }
        assert_eq!(fractions.len(), lines.len() - 2);
        assert!(fractions.windows(2).all(|pair| pair[0] <= pair[1]), "{fractions:?}");
        let largest = fractions.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        // The extraction of archives is one step.
        assert!(largest < 0.06, "{largest}");
        assert!(fractions[20] > 0.38, "{fractions:?}");
    }

    #[test]
    fn a_build_that_is_stopped_ends_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let (log, stop) = (folder.path().join("log"), AtomicBool::new(false));
        let mut command = Command::new("sh");
        // The shell waits for its child, as mmdebstrap does.
        let script = "trap 'echo stopping >&2' INT TERM; echo 'I: extracting archives' >&2; \
                      sh -c 'exec sleep 1000'; echo cleaning >&2; exit 1";
        command.args(["-c", script]).stderr(Stdio::piped());
        let ended = follow(command, &log, &stop, &mut |_| stop.store(true, Ordering::Relaxed));
        assert!(matches!(ended, Err(BuildError::Stopped)), "{ended:?}");
        assert!(fs::read_to_string(&log).unwrap().ends_with("cleaning\n"));
    }

    #[test]
    fn signals_are_repeated_until_files_are_removed() {
        let (mut end, begun) = (End::default(), Instant::now());
        assert_eq!(end.due(begun), Some(Signal::INT));
        assert_eq!(end.due(begun + AGAIN / 2), None);
        assert_eq!(end.due(begun + AGAIN), Some(Signal::TERM));
        assert_eq!(end.due(begun + AGAIN * 3 / 2), None);
        end.line("I: main() received signal INT: waiting for setup...");
        assert_eq!(end.due(begun + AGAIN * 2), Some(Signal::TERM));
        end.line("I: removing tempdir /tmp/mmdebstrap.x...");
        assert_eq!(end.due(begun + AGAIN * 9), None);
    }

    #[test]
    fn a_silent_failure_still_has_a_cause() {
        let (result, ..) = shell("exit 9");
        assert!(result.unwrap_err().to_string().contains("exit status: 9"));
    }
}
