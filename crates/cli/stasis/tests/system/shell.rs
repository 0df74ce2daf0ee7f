//! `stasis shell` at a terminal, which a program in Python has the other end of.

use std::process::Command;

use crate::support::Bench;

#[test]
fn a_person_at_a_terminal() {
    sits_at_a_terminal("exact");
}

/// Keys cross into a Linux there, and what waits for them is the real machine's clock.
#[test]
fn a_person_at_a_terminal_of_a_software_host() {
    sits_at_a_terminal("softkvm");
}

fn sits_at_a_terminal(engine: &str) {
    let bench = Bench::new();
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/terminal.py");
    // Each read takes half a second of the guest's time.
    let drive = "--drive=model=fixed:500ms,medium=ram:64MiB";
    let stasis = bench.command(&["shell", "--engine", engine, drive]);
    let mut python = Command::new("python3");
    python.arg(driver).arg(stasis.get_program()).args(stasis.get_args());
    python.current_dir(bench.path(".")).env("TERM", "xterm");
    python.envs(stasis.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = bench.finish(python);
    run.expect(0);
    assert!(!bench.path("results").exists(), "nobody asked for results");
}

#[test]
fn without_a_terminal_there_is_none_to_give() {
    let bench = Bench::new();
    let run = bench.finish(bench.command(&["shell", "--engine=exact"]));
    assert_eq!(run.status, Some(125), "{run:#?}");
    run.says(&["there is no terminal", "stasis run"]);
}
