//! The README as a newcomer takes it: each command of its section Use, by copy and paste, in
//! their order, in one folder with the examples.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::Bench;

#[path = "../documents/commands.rs"]
mod commands;

/// What is tested elsewhere: it goes on until it is stopped, or takes long.
const ELSEWHERE: &[&str] = &[
    // tests/function.rs
    "stasis function run nfs --drive model=null,medium=file:disk.img",
];

#[test]
fn the_readme_works_by_copy_and_paste() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Use\n")).unwrap();
    let bench = Bench::new();
    // A copy: one of them has its results beside it.
    let copied =
        Command::new("cp").arg("-r").arg(root.join("examples")).arg(bench.path(".")).status();
    assert!(copied.unwrap().success());
    let experiment = section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(bench.path("experiment.toml"), experiment).unwrap();
    // The program by its name, as after `make install`.
    let program = Path::new(env!("CARGO_BIN_EXE_stasis")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let commands = commands::of(section);
    assert!(commands.len() >= 10, "{commands:?}");
    for skipped in ELSEWHERE {
        assert!(commands.iter().any(|command| command == skipped), "{skipped} is gone");
    }
    for command in commands.iter().filter(|command| !ELSEWHERE.contains(&command.as_str())) {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", command]).env("PATH", &path).current_dir(bench.path("."));
        let run = bench.finish({
            shell.stdin(Stdio::null());
            shell
        });
        eprintln!("{command}: {:.1} s", run.wall.as_secs_f64());
        assert_eq!(run.status, Some(0), "`{command}`: {}\n{}", run.stdout, run.stderr);
    }
}
