//! `stasis shell --at`: a run becomes another at a moment, and its results stay what they are.

use std::process::{Command, Stdio};

use crate::support::{Bench, Finished};

/// The run: it sleeps, writes 50 blocks, sleeps, and leaves a file.
const SCRIPT: &str = "\
echo begun
sleep 0.2
dd if=/dev/zero of=/dev/nvme0n1 bs=4k count=50 oflag=direct 2>/dev/null
echo written
sleep 1
echo over >/results/over
";

/// A run's I/Os of the drive that the command made, from its `ios.csv`.
fn orders(ios: &str) -> Vec<u64> {
    let mut lines = ios.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| names.iter().position(|each| *each == name).unwrap();
    let (order, phase) = (at("order"), at("phase"));
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let own = rows.filter(|row| row[phase] == "command");
    own.map(|row| row[order].parse().unwrap()).collect()
}

#[test]
#[ignore = "repeats a run seven times: make slow-test"]
fn a_branch_is_another_run_from_its_moment_on() {
    let bench = Bench::new();
    std::fs::write(bench.path("job.sh"), SCRIPT).unwrap();
    let drive = "--drive=name=d,model=fixed:100us,medium=ram:64MiB";
    let machine = ["--quiet", "--ios=csv", "--engine=exact", "--vcpus=2", drive];
    let words = [&["run"], &machine[..], &["--file=job.sh", "--", "sh", "job.sh"]].concat();
    bench.finish(bench.command(&words)).expect(0);
    let files = ["ios.csv", "over", "summary.json"];
    let contents = || files.map(|file| bench.bytes(&format!("results/{file}")));
    let before = contents();

    let shell = |moment: &str, more: &[&str], command: &[&str]| -> Finished {
        let all = [&["shell", moment, "results"], more, &["--"], command].concat();
        let mut command = bench.command(&all);
        command.stdin(Stdio::null());
        bench.finish(command)
    };
    // The kernel's own count of what was written is the moment's; the status and both outputs are
    // the command's alone.
    let count = "awk '{print $5}' /sys/block/nvme0n1/stat; cat /proc/$(pgrep -xo sh)/wchan; exit 7";
    let own = orders(&String::from_utf8(before[0].clone()).unwrap());
    assert_eq!(own.len(), 50, "{own:?}");
    let io = format!("--at-io=d:{}", own[29]);
    let sleeps = shell("--at=100ms", &[], &["sh", "-c", &format!("echo e >&2; {count}")]);
    sleeps.expect(7).says(&["from here on it is another run, a branch at 0.1", "e\n"]);
    assert_eq!(sleeps.stdout, "0\ndo_wait", "{sleeps:#?}");
    let io = shell(&io, &[], &["sh", "-c", count]);
    io.expect(7);
    let written: u64 = io.stdout.lines().next().unwrap().parse().unwrap();
    assert!((30..40).contains(&written), "{io:#?}");
    let line = shell("--at-output=^writ", &[], &["sh", "-c", count]);
    line.expect(7);
    assert!(line.stdout.starts_with("50\n"), "{line:#?}");
    // The run's own command is over then, and what it left is there; the branch's results are its own.
    let kept = ["--results=other"];
    let end = shell("--at-end", &kept, &["sh", "-c", "cat /results/over; echo b >/results/b"]);
    end.expect(0).says(&["a branch at 1."]);
    assert_eq!(end.stdout, "over\n");
    assert_eq!(bench.bytes("other/b"), b"b\n");
    assert!(bench.bytes("other/over") == b"over\n");
    shell("--at-function=do_exit", &[], &["no-such-program"]).expect(127);
    shell("--at=1h", &[], &["true"]).expect(125).says(&["the moment has not come"]);
    assert!(contents() == before, "a branch has changed the results of the run");

    // A person at a terminal.
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/branch.py");
    let stasis = bench.command(&["shell", "--at=100ms", "results"]);
    let mut python = Command::new("python3");
    python.arg(driver).arg(stasis.get_program()).args(stasis.get_args());
    python.current_dir(bench.path(".")).env("TERM", "xterm");
    python.envs(stasis.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bench.finish(python).expect(0);
    assert!(contents() == before, "a person has changed the results of the run");
}

#[test]
fn what_has_no_branch_is_told() {
    let bench = Bench::new();
    for (words, message) in [
        (&["--at-panic", "r"][..], "stasis debug --at-panic"),
        (&["--at=1s"][..], "name its experiment, or the folder of its results"),
        (&["--machine=one"][..], "--machine names where a shell --at a moment runs"),
        (&["--at=1s", "no-such-folder"][..], "no-such-folder"),
    ] {
        let all = [&["shell", "--quiet"], words, &["--", "true"]].concat();
        bench.finish(bench.command(&all)).expect(125).says(&[message]);
    }
}
