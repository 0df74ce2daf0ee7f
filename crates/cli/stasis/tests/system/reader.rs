//! A reader, who tries the commands of a page by copy and paste, in their order, in one folder with
//! the examples, as a user without a session.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use stasis_qemu_vm::readiness::Readiness;

use crate::support::{Bench, Finished};

#[path = "../server/mod.rs"]
#[allow(dead_code)] // what a reader starts has words of its own
mod server;

use server::Process;

/// Commands that run until they are stopped, by their beginning. Each reports when it is ready, as
/// it would report to systemd.
const LASTING: &[&str] = &["stasis serve ", "stasis function run "];

/// Limit on the time of a page: one with crash tests takes long on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(90 * 60);

pub struct Reader {
    bench: Bench,
    lasting: Vec<(String, Process)>,
    /// The output of the commands so far.
    pub printed: String,
    /// Functions and the servers' own folder: of a user's one each.
    alone: Option<MutexGuard<'static, ()>>,
}

impl Reader {
    /// A reader with a copy of the examples: some have their results beside them.
    pub fn new(repository: &Path) -> Self {
        let bench = Bench::ended_after(MAX_TIME);
        let examples = repository.join("examples");
        let copied = Command::new("cp").arg("-r").arg(examples).arg(bench.path(".")).status();
        assert!(copied.unwrap().success());
        Self { bench, lasting: Vec::new(), printed: String::new(), alone: None }
    }

    /// Writes a file into the reader's folder.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.bench.path(name), content).unwrap();
    }

    /// Runs the commands of one block. `typed` is for the last one.
    pub fn run(&mut self, commands: &[String], typed: Option<&Typed>) {
        let is_lasting = |command: &String| LASTING.iter().any(|begin| command.starts_with(begin));
        if commands.iter().any(is_lasting) {
            // Those of the block before: an address has one server.
            self.end_lasting();
            static ALONE: Mutex<()> = Mutex::new(());
            self.alone.get_or_insert_with(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        }
        for (index, command) in commands.iter().enumerate() {
            let begun = Instant::now();
            if is_lasting(command) {
                let mut shell = self.shell(command, true);
                self.bench.mark_lasting(shell.stdin(Stdio::null()));
                let process = self.until_ready(command, shell);
                self.lasting.push((command.clone(), process));
            } else {
                let typed = typed.filter(|_| index + 1 == commands.len());
                let run = self.finish(command, typed);
                self.printed += &format!("{}{}\n", run.stdout, run.stderr);
                assert_eq!(run.status, Some(0), "`{command}`: {}\n{}", run.stdout, run.stderr);
            }
            eprintln!("{command}: {:.1} s", begun.elapsed().as_secs_f64());
        }
    }

    /// A shell that has the program by its name, as after `make install`.
    fn shell(&self, command: &str, becomes: bool) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_stasis")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        let command = if becomes { format!("exec {command}") } else { command.to_owned() };
        shell.args(["-e", "-c", &command]).env("PATH", path).current_dir(self.bench.path("."));
        shell.env_remove("XDG_RUNTIME_DIR");
        shell
    }

    fn finish(&self, command: &str, typed: Option<&Typed>) -> Finished {
        let (mut line, mut input) = (command.to_owned(), String::new());
        if let Some(typed) = typed {
            input = typed.words.iter().map(|word| format!("{word}\n")).collect();
        }
        if let Some(begin) = line.strip_suffix(" ...").filter(|_| line.starts_with("qemu-system-"))
        {
            // The machine is ended once it is there.
            line = format!("{begin} -display none -qmp stdio");
            input = r#"{"execute": "qmp_capabilities"}{"execute": "quit"}"#.into();
        } else if line.starts_with("stasis shell ") && !line.contains(" -- ") {
            line = format!("script --quiet --return --command '{line}' /dev/null");
            // An end of the input that comes before the guest's shell is none to that.
            if !input.ends_with("exit\n") {
                input += "exit\n";
            }
        }
        let mut shell = self.shell(&line, false);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        self.bench.mark(shell.stdin(file));
        self.bench.finish(shell)
    }

    fn until_ready(&self, command: &str, mut shell: Command) -> Process {
        let folder = tempfile::tempdir_in(self.bench.path(".")).unwrap();
        let ready = Readiness::new(folder.path()).unwrap();
        let mut process = Process(ready.notified_by(&mut shell).spawn().unwrap());
        // A function's guest may have to be made: that takes as long as this machine is busy.
        let is_ready = ready.wait(MAX_TIME, || process.0.try_wait().unwrap().is_some());
        assert!(is_ready, "`{command}` does not get ready");
        process
    }

    /// Ends what still runs, the last one first.
    pub fn end_lasting(&mut self) {
        while let Some((command, Process(child))) = &mut self.lasting.pop() {
            if child.try_wait().unwrap().is_none() {
                kill_process(Pid::from_child(child), Signal::INT).unwrap();
            }
            // As if it had been asked by `stop`: 0; by the terminal: 130.
            let status = child.wait().unwrap().code();
            assert!(matches!(status, Some(0 | 130)), "`{command}`: {status:?}");
        }
    }
}

/// Words that are typed into a command.
pub struct Typed {
    pub words: Vec<String>,
}

impl Typed {
    /// Those of a block, behind its prompt.
    pub fn of(block: &str, prompt: &str) -> Self {
        let words = block.lines().filter_map(|line| line.strip_prefix(prompt)).map(str::to_owned);
        // Pages stop gdb, and not the reader.
        let paging = (prompt == "(gdb) ").then(|| "set pagination off".to_owned());
        Self { words: paging.into_iter().chain(words).collect() }
    }
}
