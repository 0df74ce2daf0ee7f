//! Runs the program as a user does, and looks at what it leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

#[path = "../guest/compile.rs"]
mod compile;

use compile::compile;

/// The variable by which a run's processes are known, whoever started them.
const MARK: &str = "STASIS_SYSTEM_TEST";

/// Suffix of the mark of a process that goes on while others end.
const LASTING: &str = "lasting";

/// Limit on the time of a test, unless it names another. The slowest takes 2 minutes on two idle processors.
const MAX_TIME: Duration = Duration::from_secs(15 * 60);

/// A folder to work in, and the program.
pub struct Bench {
    folder: TempDir,
    mark: String,
    /// Dropped with the bench, which ends the watch.
    _watched: Sender<()>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub wall: Duration,
}

/// The words, with the form of the I/O records that tests can look at, before the command.
fn as_text<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let names_format = words[..end].iter().any(|word| word.starts_with("--ios"));
    let mut all = words.to_vec();
    if !names_format {
        all.insert(end, "--ios=csv");
    }
    all
}

impl Bench {
    pub fn new() -> Self {
        Self::ended_after(MAX_TIME)
    }

    /// A bench whose test may take so long.
    pub fn ended_after(max_time: Duration) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let (_watched, ended) = mpsc::channel();
        let marked = mark.clone();
        std::thread::spawn(move || {
            if ended.recv_timeout(max_time) == Err(RecvTimeoutError::Timeout) {
                end_what_hangs(&test, &marked, max_time);
            }
        });
        Self { folder: tempfile::tempdir().unwrap(), mark, _watched }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes an empty image.
    pub fn image(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    /// `stasis` with `words`, in the folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        command
            .args(words)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.mark(&mut command);
        command
    }

    /// `stasis run` with `words` to its end. I/Os are kept as text if the words name no format.
    pub fn run(&self, words: &[&str]) -> Finished {
        self.finish(self.command(&as_text(&[&["run"], words].concat())))
    }

    /// Runs a script under `exact` on so many processors, with a program of `tests/guest` and a
    /// drive of 50 us.
    pub fn run_beside_io(&self, vcpus: u32, program: &str, script: &str) -> Finished {
        let (vcpus, program) = (format!("--vcpus={vcpus}"), guest_program(program));
        let machine = ["--engine=exact", "--quiet", &vcpus, "--results=r", "--file", &program];
        let drive = "--drive=model=fixed:50us,medium=ram:64MiB";
        self.run(&[&machine[..], &[drive, "--", "sh", "-c", script]].concat())
    }

    /// Compiles a C program that needs no libraries, with these options besides, to the file `name`.
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) {
        let file = format!("{name}.c");
        std::fs::write(self.path(&file), source).unwrap();
        let built = Command::new("cc")
            .args(options)
            .args(["-static", "-o", name, &file])
            .current_dir(self.path("."))
            .status();
        assert!(built.unwrap().success());
    }

    pub fn finish(&self, mut command: Command) -> Finished {
        let begun = Instant::now();
        let Output { status, stdout, stderr } = command.output().unwrap();
        self.nothing_left();
        Finished {
            status: status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            wall: begun.elapsed(),
        }
    }

    /// `stasis run` with `words`, to be interfered with.
    pub fn start(&self, words: &[&str]) -> Running<'_> {
        let mut child = self.command(&as_text(&[&["run"], words].concat())).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { bench: self, child, lines }
    }

    /// Checks that no process of this bench's runs is left, a moment later.
    pub fn nothing_left(&self) {
        let limit = Instant::now() + Duration::from_secs(5);
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                return;
            }
            assert!(Instant::now() < limit, "still there: {processes:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The name of each process of this bench's runs.
    pub fn processes(&self) -> Vec<String> {
        let marked = marked(|mark| mark == self.mark);
        marked.iter().map(|process| named(process)).collect()
    }

    /// Makes `command` a run of this bench.
    pub fn mark(&self, command: &mut Command) {
        command.env(MARK, &self.mark);
    }

    /// Makes `command` a run of this bench that goes on while others end.
    pub fn mark_lasting(&self, command: &mut Command) {
        command.env(MARK, format!("{} {LASTING}", self.mark));
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.bytes(name)).unwrap()
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// The folder in `/proc` of each process whose mark, in its environment (proc(5)), is `wanted`.
fn marked(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let begin = format!("{MARK}=");
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_wanted = |process: &PathBuf| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        let mut words = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        words.any(|word| word.strip_prefix(&begin).is_some_and(&wanted))
    };
    processes.filter(is_wanted).collect()
}

/// The number and the name of a process or a thread.
fn named(process: &Path) -> String {
    let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
    format!("{} {}", process.file_name().unwrap().to_string_lossy(), name.trim())
}

/// Ends the processes of a test that hangs, so that it fails, and prints what each waits for.
fn end_what_hangs(test: &str, mark: &str, max_time: Duration) {
    eprintln!("{test} takes more than {} minutes; its processes:", max_time.as_secs() / 60);
    let lasting = format!("{mark} {LASTING}");
    let processes = marked(|found| found == mark || found == lasting);
    for process in &processes {
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        eprintln!("{}: {}", named(process), words.join(" "));
        for thread in std::fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
            let text_of =
                |file| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let (times, state) = (text_of("schedstat"), text_of("wchan"));
            eprintln!(
                "  {}: {state} {} {}",
                named(&thread.path()),
                times.trim(),
                text_of("syscall")
            );
        }
    }
    for process in &processes {
        let number = process.file_name().unwrap().to_string_lossy();
        let process = number.parse().ok().and_then(Pid::from_raw);
        let _ = process.map(|process| kill_process(process, Signal::KILL));
    }
}

/// A run in progress.
pub struct Running<'a> {
    bench: &'a Bench,
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running<'_> {
    /// The next line of the command's output.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.lines.read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops listening to the output, and waits for the end.
    pub fn leave(mut self) -> Finished {
        drop(self.lines);
        let begun = Instant::now();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = self.child.wait().unwrap().code();
        self.bench.nothing_left();
        Finished { status, stdout: String::new(), stderr, wall: begun.elapsed() }
    }

    /// Waits for the end; the output is what [`Self::line`] has not taken.
    pub fn finish(mut self) -> Finished {
        let begun = Instant::now();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.lines.read_to_string(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = self.child.wait().unwrap().code();
        let wall = begun.elapsed();
        self.bench.nothing_left();
        Finished { status, stdout, stderr, wall }
    }
}

impl Finished {
    /// Checks the status; shows everything if it is another.
    #[track_caller]
    pub fn expect(&self, status: i32) -> &Self {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }

    /// Checks for words among the messages.
    #[track_caller]
    pub fn says_warning(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "no {words:?} in {self:#?}");
        self
    }

    /// Checks for one clear message, each of `words` in it.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self:#?}");
        }
        assert!(!self.stderr.contains("panicked at"), "{self:#?}");
        assert_eq!(self.stderr.matches("stasis: ").count(), 1, "{self:#?}");
        self
    }
}

/// An experiment, beginning with `head`, in which a guest writes to an image until its power is cut, and
/// after that compares what was durable, and does `then`.
pub fn cut_image(head: &str, then: &str) -> String {
    format!(
        r#"{head}
command = ["sh", "-ec", '''
d=/dev/nvme0n1
if [ $STASIS_BOOT = 1 ]; then
    mkfs.ext4 -q $d; mount $d /mnt; seq 1 100000 >/mnt/kept; sync; echo synced
    i=0; while :; do i=$((i+1)); head -c 64k /dev/urandom >/mnt/$i; done
fi
mount $d /mnt; seq 1 100000 | cmp - /mnt/kept; {then}''']
[[drive]]
name   = "d"
model  = "samsung-980-pro"
medium = "qcow2:disk.qcow2"
[[fault]]
kind      = "power-cut"
at-output = "synced"
within    = "200ms"
restart   = "100ms"
"#
    )
}

/// A file of `tests/guest`.
pub fn guest_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest").join(name);
    path.to_str().unwrap().to_owned()
}

/// A program of `tests/guest`, compiled so that it needs no libraries.
pub fn guest_program(name: &str) -> String {
    compiled(&guest_file(&format!("{name}.rs")), name)
}

/// A program of `examples`, likewise.
pub fn example(name: &str) -> String {
    compiled(&example_file(&format!("{name}.rs")), name)
}

/// A file of `examples`.
pub fn example_file(name: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    examples.join(name).to_str().unwrap().to_owned()
}

fn compiled(source: &str, name: &str) -> String {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    // Two linkers that write one file damage it: each program is made once.
    static MADE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().unwrap());
    let program = folder.path().join(name);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.insert(name.to_owned()) {
        compile(Path::new(source), &program);
    }
    drop(made);
    program.to_str().unwrap().to_owned()
}

/// One job of fio's JSON report.
pub fn job<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut jobs = report["jobs"].as_array().unwrap().iter();
    jobs.find(|job| job["jobname"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// By drive and order: everything of a row but when the guest saw it done.
pub fn rows(bench: &Bench, file: &str, drive: &str) -> BTreeMap<u64, String> {
    let text = bench.text(file);
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name| header.iter().position(|column| *column == name).unwrap();
    let (delivered, order) = (column("delivered_ns"), column("order"));
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter(|row| row[0] == drive)
        .map(|mut row| {
            row[delivered] = "";
            row[0] = "";
            (row[order].parse().unwrap(), row.join(","))
        })
        .collect()
}

/// Returns the time that each command of one operation on a drive took to its target (ns), in the
/// order of completion.
pub fn ios<'a>(
    bench: &Bench,
    file: &str,
    drive: &'a str,
    operation: &'a str,
) -> impl Iterator<Item = u64> + 'a {
    let text = bench.text(file);
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let (submit, target) = (column("submit_ns"), column("target_ns"));
    let (name, kind) = (column("drive"), column("operation"));
    let found: Vec<_> = lines.filter(|row| row[name] == drive && row[kind] == operation).collect();
    found.into_iter().map(move |row| {
        let number = |at: usize| row[at].parse::<u64>().unwrap();
        number(target) - number(submit)
    })
}
