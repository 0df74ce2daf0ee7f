//! gdb at a run: what it sees, and that its stops change nothing.

use std::process::{Command, Stdio};

use crate::support::{guest_file, Bench, Finished};

/// `stasis debug`, or `stasis run`, of two processors on a flash drive.
fn words<'a>(first: &[&'a str], results: &'a str, script: &'a str) -> Vec<&'a str> {
    let machine = ["--quiet", "--ios=csv", "--engine=exact", "--vcpus=2", "--seed=7"];
    let drive = "--drive=name=d,model=flash-tlc,medium=ram:64MiB";
    let rest = ["--results", results, drive, "--file", script, "--", "sh", "/root/debug.sh"];
    [first, &machine, &rest].concat()
}

/// Runs under gdb, which executes `script`.
fn under_gdb(bench: &Bench, first: &[&str], results: &str, script: &str) -> (Finished, String) {
    let file = guest_file("debug.sh");
    let path = bench.path(&format!("{results}.gdb"));
    std::fs::write(&path, format!("set pagination off\n{script}")).unwrap();
    let mut command = bench.command(&words(&[&["debug", "--gdb"], first].concat(), results, &file));
    let gdb = std::fs::File::open(&path).unwrap();
    // gdb reads its commands from the standard input, as from a user.
    let run = bench.finish({
        command.stdin(Stdio::from(gdb));
        command
    });
    // Answers of `monitor` are on its standard error.
    let said = format!("{}{}", run.stdout, run.stderr);
    (run, said)
}

#[test]
fn a_run_under_a_debugger_is_the_run_without() {
    assert!(Command::new("gdb").arg("--version").output().is_ok(), "no gdb: make setup");
    let bench = Bench::new();
    let file = guest_file("debug.sh");
    let alone = bench.finish(bench.command(&words(&["run"], "alone", &file)));
    alone.expect(0);

    // A breakpoint in the kernel at each I/O, a watchpoint, and a thousand steps.
    let script = "\
info threads
stepi 1000
monitor time
info symbol $rip
break submit_bio
commands
silent
printf \"bio at %#lx\\n\", $rip
continue
end
watch *(unsigned long *)&jiffies
commands
silent
printf \"tick\\n\"
continue
end
continue
";
    let (run, said) = under_gdb(&bench, &["--at-output", "^mounted$"], "stopped", script);
    run.expect(0);
    assert!(said.contains("CPU 0") && said.contains("CPU 1"), "{said}");
    assert!(said.contains("ns since the commands have begun"), "{said}");
    let (hits, ticks) = (said.matches("bio at 0xff").count(), said.matches("tick").count());
    assert!(hits >= 60 && ticks >= 2, "{hits} breakpoints, {ticks} ticks: {said}");
    for file in ["ios.csv", "fio.json"] {
        let of = |results: &str| bench.bytes(&format!("{results}/{file}"));
        assert!(of("alone") == of("stopped"), "{file} differs under gdb");
    }

    // The run of results at an I/O's number, and a debugger that goes away without a word.
    let script = bench.path("left.gdb");
    std::fs::write(&script, "monitor drives\nmonitor events\ndisconnect\n").unwrap();
    let mut again = bench.command(&["debug", "--gdb", "alone", "--at-io=d:50", "--results=left"]);
    again.stdin(std::fs::File::open(&script).unwrap());
    let run = bench.finish(again);
    let said = format!("{}{}", run.stdout, run.stderr);
    run.expect(0).says(&["gdb has gone"]);
    assert!(said.contains("d: next event"), "{said}");
    let same = bench.bytes("alone/ios.csv") == bench.bytes("left/ios.csv");
    assert!(same, "a debugger that has gone left another run");

    // The moment of a function's call; `kill` ends the run.
    let script = bench.path("killed.gdb");
    std::fs::write(&script, "bt 2\nset $rax = 5\np $rax\np $cr3 != 0\nkill\n").unwrap();
    let function = "--at-function=__x64_sys_execve";
    let mut killed = bench.command(&["debug", "--gdb", function, "--results=killed", "--", "true"]);
    killed.stdin(std::fs::File::open(&script).unwrap());
    let run = bench.finish(killed);
    let said = format!("{}{}", run.stdout, run.stderr);
    run.expect(130);
    assert!(said.contains("__x64_sys_execve") && said.contains("do_syscall_64"), "{said}");
    assert!(said.contains("$1 = 5") && said.contains("$2 = 1"), "{said}");
    assert_eq!(bench.json("killed/summary.json")["ending"], "cancelled");
}

#[test]
fn what_cannot_be_debugged_is_told() {
    let bench = Bench::new();
    let drive = "--drive=model=fixed:1us,medium=ram:64MiB";
    for (words, message) in [
        (&["--engine=softkvm"][..], "a debugger needs the engine exact"),
        (&["--at-io", "other:1", drive][..], "there is no drive other; there is drive0"),
        (&["--at-function", "no_such_function"][..], "kernel has no no_such_function"),
        (&["--at", "soon"][..], "--at: "),
        (&["--at-output", "("][..], "--at-output"),
        (&["--power-cut", "1s"][..], "--power-cut ends the run"),
        (&["no-such-folder"][..], "no-such-folder"),
    ] {
        let all = [&["debug", "--quiet", "--results=r"], words, &["--", "true"]].concat();
        bench.finish(bench.command(&all)).expect(125).says(&[message]);
    }
    let all = ["debug", "--quiet", "--results=r", "--at=1h", "--", "true"];
    bench.finish(bench.command(&all)).expect(0).says(&["the moment has not come"]);
}
