//! Runs that end early over the results of an earlier one: see `tests/old_results.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use crate::support::Bench;

const DRIVE: &str = "--drive=model=fixed:100us,medium=ram:64MiB";
const ENDLESS: &str =
    "echo begins; while dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct status=none; \
     do :; done";

/// All below a folder, with contents; none of a folder.
fn below(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(below(&path));
        }
        all.insert(path.clone(), std::fs::read(path).ok());
    }
    all
}

/// Results in `results`, of a simulation: what they are of is all the same.
fn earlier(bench: &Bench) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    std::fs::write(bench.path("job.fio"), "[job]\nrw=randread\nbs=4k\nnumber_ios=2000\n").unwrap();
    let words = ["sim", "fixed:10us", "--workload=job.fio", "--size=64MiB"];
    bench.finish(bench.command(&words)).expect(0);
    below(&bench.path("results"))
}

#[test]
fn a_run_that_never_starts_leaves_the_results_of_the_one_before() {
    let bench = Bench::new();
    let before = earlier(&bench);
    let exact = ["run", "--engine=exact", "-q", DRIVE];
    let more = [&exact[..], &["--memory=4096GiB", "--", "true"]].concat();
    bench.finish(bench.command(&more)).expect(125).says(&["not enough memory"]);
    assert_eq!(below(&bench.path("results")), before);

    let experiment = "command = ['true']\n[[drive]]\nmodel = 'null'\nmedium = 'ram:64MiB'\n";
    std::fs::write(bench.path("e.toml"), experiment).unwrap();
    // Everything but QEMU.
    let none = bench.path("bin");
    std::fs::create_dir(&none).unwrap();
    for words in [
        [&exact[..], &["--", "true"]].concat(),
        vec!["crash-test", "e.toml", "--engine=exact", "--results=results"],
        vec!["on", "null,fixed:1us", "--engine=exact", "--results=results", "--", "true"],
    ] {
        let mut command = bench.command(&words);
        command.env("PATH", &none);
        let run = bench.finish(command);
        run.expect(125);
        assert!(run.stderr.contains("qemu-system-x86"), "{run:#?}");
        assert_eq!(below(&bench.path("results")), before, "{words:?}");
    }
}

#[test]
fn a_run_that_is_stopped_before_its_command_leaves_the_results_of_the_one_before() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (bench, mut tries) = (Bench::new(), 0);
        let before = earlier(&bench);
        loop {
            let mut run = bench.start(&["--engine=exact", "-q", DRIVE, "--", "sh", "-c", ENDLESS]);
            let limit = Instant::now() + Duration::from_secs(60);
            while !bench.path("results/.stasis-before").exists() {
                assert!(Instant::now() < limit, "the run does not begin");
                std::thread::sleep(Duration::from_millis(1));
            }
            run.signal(signal);
            let began = run.line().is_some();
            let run = run.finish();
            run.expect(130);
            if !began {
                run.says(&["before the command began", "has the results of the run before"]);
                assert_eq!(below(&bench.path("results")), before);
                break;
            }
            // It was quicker than the signal: its results are its own.
            assert_eq!(bench.json("results/summary.json")["ending"], "cancelled");
            std::fs::remove_dir_all(bench.path("results")).unwrap();
            assert_eq!(earlier(&bench).len(), before.len());
            tries += 1;
            assert!(tries < 10, "the command always begins first");
        }
    }
}

#[test]
fn a_closed_terminal_ends_a_run_with_a_summary() {
    let bench = Bench::new();
    earlier(&bench);
    let mut run = bench.start(&["--engine=exact", "-q", DRIVE, "--", "sh", "-c", ENDLESS]);
    assert_eq!(run.line().as_deref(), Some("begins"));
    run.signal(Signal::HUP);
    run.finish().expect(130).says(&["results so far are kept"]);
    assert_eq!(bench.json("results/summary.json")["ending"], "cancelled");
    assert!(!bench.path("results/.stasis-before").exists());
}

#[test]
fn a_host_that_is_killed_leaves_what_there_is_and_what_was() {
    let bench = Bench::new();
    let before = earlier(&bench);
    let mut run = bench.start(&["--engine=exact", "-q", DRIVE, "--", "sh", "-c", ENDLESS]);
    assert_eq!(run.line().as_deref(), Some("begins"));
    let qemu = bench.processes().into_iter().find(|name| name.contains("qemu-system")).unwrap();
    let (pid, _) = qemu.split_once(' ').unwrap();
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let run = run.finish();
    run.expect(125);
    assert!(run.stderr.contains("results/.stasis-before"), "{run:#?}");
    assert!(bench.path("results/ios.csv").exists());
    let summary = bench.bytes("results/.stasis-before/summary.json");
    assert_eq!(Some(summary), before[&bench.path("results/summary.json")]);
    // The next one that ends leaves its own.
    bench.run(&["--engine=exact", "-q", DRIVE, "--", "true"]).expect(0);
    assert!(!bench.path("results/.stasis-before").exists());
}
