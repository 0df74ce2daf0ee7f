//! The README and the documents as a newcomer takes them: their commands by copy and paste,
//! in their order, in one folder with the examples.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use stasis_qemu_vm::readiness::Readiness;

use crate::support::Bench;

#[path = "../documents/commands.rs"]
mod commands;
#[path = "../documents/markdown.rs"]
#[allow(dead_code)] // another test has more to look for
mod markdown;
#[path = "../documents/pages.rs"]
#[allow(dead_code)] // only its folders
mod pages;
#[path = "../server/mod.rs"]
#[allow(dead_code)] // what this test starts has words of its own
mod server;

use pages::root;
use server::Process;

/// Commands that are not run here, by their beginning, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("stasis debug ", "a conversation: tests/system/debug.rs"),
    ("gdb ", "a conversation: tests/system/debug.rs"),
    ("stasis reproduce ", "takes minutes, or hours: tests/reproduce.rs"),
    ("stasis suite ", "takes minutes: tests/system/suite.rs has fewer scenarios"),
    (
        "stasis crash-test examples/crash.toml",
        "takes minutes: tests/system/crash.rs has fewer states",
    ),
    ("stasis crash-test examples/crash/atomic.toml", "takes minutes: atomic_writes in crash.rs"),
    ("stasis coordinate ", "needs a host's BFQ and a port: tests/coordinate"),
    ("stasis serve --drive name=fast,model=fixed:50us,medium=ram:1GiB --ublk", "tests/ublk.rs"),
    ("fio job.fio --output-format", "measures a real drive"),
    ("blktrace ", "measures a real drive"),
    ("nvme ", "is for the guest"),
    ("nfs-ls ", "a program of somebody else"),
    ("cargo run ", "compiles: crates/realtime/ordered-disk/tests"),
    ("qemu-system-x86_64 ", "has an ellipsis: tests/vmm.rs"),
    ("cloud-hypervisor ", "has an ellipsis"),
    ("systemd-run ", "has an ellipsis"),
    ("echo bfq ", "changes this host's drive"),
    ("modprobe ", "changes this host's kernel"),
    ("mkfs.ext4 /run/stasis/", "takes the block device of the line before"),
];

/// Commands that run until they are stopped, by their beginning. Each reports when it is ready, as
/// it would report to systemd.
const LASTING: &[&str] = &["stasis serve ", "stasis function run "];

/// A folder with a copy of the examples: some have their results beside them.
fn bench() -> Bench {
    let bench = Bench::new();
    let copied =
        Command::new("cp").arg("-r").arg(root().join("examples")).arg(bench.path(".")).status();
    assert!(copied.unwrap().success());
    bench
}

/// Runs the commands of `text`, one block, and stops those that still run then.
fn follow(bench: &Bench, text: &str) {
    // A function has its port of this host, and its folder, to itself.
    static FUNCTIONS: Mutex<()> = Mutex::new(());
    let _turn = text.contains("stasis function run ").then(|| FUNCTIONS.lock());
    // The program by its name, as after `make install`.
    let program = Path::new(env!("CARGO_BIN_EXE_stasis")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut lasting: Vec<(String, Process)> = Vec::new();
    for command in commands::of(text) {
        if ELSEWHERE.iter().any(|(begin, _)| command.starts_with(begin)) {
            continue;
        }
        let begun = Instant::now();
        let mut shell = Command::new("sh");
        shell.env("PATH", &path).current_dir(bench.path(".")).stdin(Stdio::null());
        if LASTING.iter().any(|begin| command.starts_with(begin)) {
            bench.mark_lasting(shell.args(["-c", &format!("exec {command}")]));
            lasting.push((command.clone(), until_ready(bench, &command, shell)));
        } else {
            bench.mark(shell.args(["-e", "-c", &command]));
            let run = bench.finish(shell);
            assert_eq!(run.status, Some(0), "`{command}`: {}\n{}", run.stdout, run.stderr);
        }
        eprintln!("{command}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    for (command, Process(child)) in lasting.iter_mut().rev() {
        if child.try_wait().unwrap().is_none() {
            let stopped =
                Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
            assert!(stopped.unwrap().success());
        }
        // As if it had been asked by `stop`: 0; by the terminal: 130.
        let status = child.wait().unwrap().code();
        assert!(matches!(status, Some(0 | 130)), "`{command}`: {status:?}");
    }
}

fn until_ready(bench: &Bench, command: &str, mut shell: Command) -> Process {
    let folder = tempfile::tempdir_in(bench.path(".")).unwrap();
    let ready = Readiness::new(folder.path()).unwrap();
    let mut process = Process(ready.notified_by(&mut shell).spawn().unwrap());
    // A function's guest may have to be made.
    let limit = Duration::from_secs(300);
    let is_ready = ready.wait(limit, || process.0.try_wait().unwrap().is_some());
    assert!(is_ready, "`{command}` does not get ready");
    process
}

#[test]
fn the_readme_works_by_copy_and_paste() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(commands::of(&text).len() >= 10);
    let bench = bench();
    let experiment = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(bench.path("experiment.toml"), experiment).unwrap();
    follow(&bench, &text);
}

#[test]
fn the_tutorial_works_by_copy_and_paste() {
    documents(&["tutorial/ten-minutes"]);
}

#[test]
fn the_documents_work_by_copy_and_paste() {
    documents(&[
        "reference/flash",
        "reference/disk-images",
        "reference/models",
        "reference/ordered-disks",
        "reference/power-cuts",
        "reference/sim",
        "guides/cloud-volume",
        "guides/qemu-disk",
    ]);
}

#[test]
fn the_guides_work_by_copy_and_paste() {
    documents(&[
        "guides/archive",
        "guides/bottleneck",
        "guides/femu",
        "guides/firmware",
        "guides/grafana",
        "guides/tail-latency",
    ]);
}

/// Apart: nearly twenty crash tests, and a guest with PostgreSQL.
#[test]
#[ignore = "takes minutes: make slow-test"]
fn the_guides_to_crash_tests_work_by_copy_and_paste() {
    documents(&["guides/file-system", "guides/mount-options", "guides/postgresql"]);
}

/// Apart: they follow runs closely.
#[test]
#[ignore = "takes a minute or two: make slow-test"]
fn the_guides_to_slow_requests_work_by_copy_and_paste() {
    documents(&["guides/slow-request", "guides/commit"]);
}

/// Apart: their guests take a minute each where they are not kept.
#[test]
fn the_document_on_functions_works_by_copy_and_paste() {
    documents(&["guides/storage-functions"]);
}

fn documents(names: &[&str]) {
    for name in names {
        let text = std::fs::read_to_string(root().join(format!("docs/{name}.md"))).unwrap();
        let bench = bench();
        // Measurements of a real drive.
        let data = root().join("crates/drives/models/tests/data");
        for (file, measured) in [("fio.json", "fio-randrw.json"), ("sdb.txt", "blkparse.txt")] {
            std::fs::copy(data.join(measured), bench.path(file)).unwrap();
        }
        // The experiment that the page has a reader write, or the reader's own.
        let demo = std::fs::read_to_string(root().join("examples/demo.toml")).unwrap();
        let written =
            markdown::blocks(&text, "toml").into_iter().find(|block| block.contains("command"));
        std::fs::write(bench.path("experiment.toml"), written.unwrap_or(demo)).unwrap();
        // A synopsis has placeholders.
        let blocks = text.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
        let blocks = blocks.filter(|block| !block.contains("MODEL"));
        blocks.for_each(|block| follow(&bench, &format!("```sh\n{block}```\n")));
    }
}
