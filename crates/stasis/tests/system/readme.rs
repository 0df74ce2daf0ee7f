//! The README and the documents as a newcomer takes them: their commands by copy and paste,
//! in their order, in one folder with the examples.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::Bench;

#[path = "../documents/commands.rs"]
mod commands;

/// What is not run here, by how it begins, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("stasis function run nfs ", "goes on until it is stopped: tests/function.rs"),
    ("stasis reproduce ", "takes minutes"),
    (
        "stasis crash-test examples/crash.toml",
        "takes minutes: tests/system/crash.rs has fewer states",
    ),
    ("fio job.fio --output-format", "measures a real drive"),
    ("blktrace ", "measures a real drive"),
    ("nvme ", "is for the guest"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder with a copy of the examples: some have their results beside them.
fn bench() -> Bench {
    let bench = Bench::new();
    let copied =
        Command::new("cp").arg("-r").arg(root().join("examples")).arg(bench.path(".")).status();
    assert!(copied.unwrap().success());
    bench
}

/// Runs the commands of `text`.
fn follow(bench: &Bench, text: &str) {
    // The program by its name, as after `make install`.
    let program = Path::new(env!("CARGO_BIN_EXE_stasis")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for command in commands::of(text) {
        if ELSEWHERE.iter().any(|(begin, _)| command.starts_with(begin)) {
            continue;
        }
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &command]).env("PATH", &path).current_dir(bench.path("."));
        shell.stdin(Stdio::null());
        let run = bench.finish(shell);
        eprintln!("{command}: {:.1} s", run.wall.as_secs_f64());
        assert_eq!(run.status, Some(0), "`{command}`: {}\n{}", run.stdout, run.stderr);
    }
}

#[test]
fn the_readme_works_by_copy_and_paste() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Use\n")).unwrap();
    assert!(commands::of(section).len() >= 10);
    let bench = bench();
    let experiment = section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(bench.path("experiment.toml"), experiment).unwrap();
    follow(&bench, section);
}

#[test]
fn the_documents_work_by_copy_and_paste() {
    for name in ["flash", "image", "models", "power-cuts", "sim"] {
        let text = std::fs::read_to_string(root().join(format!("docs/{name}.md"))).unwrap();
        let bench = bench();
        // What was measured on a real drive.
        let data = root().join("crates/models/tests/data");
        for (file, measured) in [("fio.json", "fio-randrw.json"), ("sdb.txt", "blkparse.txt")] {
            std::fs::copy(data.join(measured), bench.path(file)).unwrap();
        }
        // A synopsis has words of its own.
        let blocks = text.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
        let blocks = blocks.filter(|block| !block.contains("MODEL"));
        blocks.for_each(|block| follow(&bench, &format!("```sh\n{block}```\n")));
    }
}
