//! Runs that end otherwise than by their command's own exit.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{guest_program, Bench};

const DRIVE: &str = "--drive=model=fixed:100us,medium=ram:64MiB";

/// Reads until it is stopped, and prints a line when it begins.
const ENDLESS: &str =
    "echo begins; while dd if=/dev/nvme0n1 of=/dev/null bs=4k iflag=direct status=none; \
     do :; done";

#[test]
fn a_command_that_does_not_exist() {
    let bench = Bench::new();
    let run = bench.run(&["--engine=exact", "-q", DRIVE, "--", "no-such-command"]);
    run.expect(127).says(&["no-such-command", "not found in the guest"]);
    assert_eq!(bench.json("results/summary.json")["ending"], "not-started");
    // A run in the same folder that never begins leaves it as it is.
    let results = |name: &str| std::fs::read(bench.path("results").join(name)).unwrap();
    let before = ["summary.json", "report.html"].map(results);
    bench.run(&["--engine=exact", "-q", DRIVE, "--", "no-such-tool"]).expect(127).says(&[
        "no-such-tool",
        "not found in the guest",
        "results has the results of the run before",
    ]);
    let words = ["--engine=exact", "-q", "--wall-limit=1ms", DRIVE, "--", "true"];
    let run = bench.run(&words);
    run.expect(124).says(&["before the command began", "results of the run before"]);
    let output = bench.run(&[&["--json"], &words[..]].concat());
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(answer["summary"]["ending"], "wall-limit", "{answer}");
    assert_eq!(answer["summary"]["exit_status"], 124, "{answer}");
    assert_eq!(["summary.json", "report.html"].map(results), before);
}

/// An ordinary command line: a pipe into the command, and a named drive on a file that does not
/// exist yet.
#[test]
fn a_pipe_a_new_image_and_a_kill() {
    let bench = Bench::new();
    std::fs::write(bench.path("words.txt"), "one\ntwo\n").unwrap();
    let mut command = bench.command(&[
        "run",
        "--engine=exact",
        "--drive=model=samsung-980-pro,medium=file:new.img",
        "--",
        "sh",
        "-c",
        "cat; test -z \"$(ls /run/stasis*)\"; blockdev --getsize64 /dev/nvme0n1; kill -9 $$",
    ]);
    command.stdin(std::fs::File::open(bench.path("words.txt")).unwrap());
    let run = bench.finish(command);
    // 1,000 GB as drives have them (IDEMA LBA1-03).
    run.expect(137).says(&["killed (status 137)", "--memory"]);
    assert_eq!(run.stdout, "one\ntwo\n1000204886016\n");
    let repeat = &bench.json("results/summary.json")["repeat"];
    assert!(repeat["command"].as_str().unwrap().ends_with(" < results/stdin"), "{repeat}");
    let input = repeat["inputs"].as_array().unwrap().last().unwrap();
    assert_eq!((&input["path"], &input["bytes"]), (&"results/stdin".into(), &8.into()), "{repeat}");
    assert_eq!(std::fs::read_to_string(bench.path("results/stdin")).unwrap(), "one\ntwo\n");
    assert_eq!(std::fs::metadata(bench.path("new.img")).unwrap().len(), 1_000_204_886_016);
}

#[test]
fn a_guest_that_panics() {
    let bench = Bench::new();
    let words = "dd if=/dev/nvme0n1 of=/dev/null bs=4k count=10 iflag=direct status=none; \
                 echo c >/proc/sysrq-trigger";
    let run = bench.run(&["--engine=exact", "-q", DRIVE, "--", "sh", "-c", words]);
    run.says(&["panicked"]);
    assert_ne!(run.status, Some(0));
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["ending"], "panicked");
    assert_eq!(summary["drives"][0]["read"]["count"], 10);
}

#[test]
fn a_guest_that_takes_too_long() {
    let bench = Bench::new();
    // On its own clock: a year's sleep is over at once.
    let run =
        bench.run(&["--engine=exact", "-q", "--virtual-limit=10s", "--", "sleep", "31536000"]);
    run.expect(124).says(&["10s of virtual time"]);
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["ending"], "virtual-limit");
    let seconds = summary["virtual_seconds"].as_f64().unwrap();
    assert!((10.0..11.0).contains(&seconds), "{seconds} s");

    // On ours: it never sleeps. The second run begins from the kept guest of the first. The limit
    // leaves this host the time that it has just taken to boot.
    let limit = (2 * run.wall.as_secs()).max(12);
    let run = bench.run(&[
        "--engine=exact",
        "-q",
        &format!("--wall-limit={limit}s"),
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ]);
    run.expect(124).says(&["of wall-clock time"]);
    assert!(run.wall < Duration::from_secs(limit + 6), "took {:?}", run.wall);
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["ending"], "wall-limit");
    // Figures that are known by then are reported, even without an I/O.
    assert!(summary["virtual_seconds"].as_f64().unwrap() > 0.0, "{summary}");
    assert!(summary["exits"].as_u64().unwrap() > 0, "{summary}");
    assert!(summary["tsc_khz"].as_u64().unwrap() > 0, "{summary}");
}

/// A guest that begins from a kept one, and has no drive whose I/Os would end its slices.
#[test]
fn a_guest_that_only_computes_is_interrupted_on_time() {
    let bench = Bench::new();
    // The local timer's interrupts are a processor's second column.
    let script = "loc() { awk '/LOC:/ { print $2 }' /proc/interrupts; }
        before=$(loc); i=0; while [ $i -lt 120000 ]; do i=$((i + 1)); done
        echo $(($(loc) - before))";
    let interrupts = |run: &crate::support::Finished| -> u64 { run.stdout.trim().parse().unwrap() };
    let words = ["--engine=exact", "-q", "--", "sh", "-c", script];
    let [first, second] = [0; 2].map(|_| interrupts(bench.run(&words).expect(0)));
    let milliseconds =
        bench.json("results/summary.json")["virtual_seconds"].as_f64().unwrap() * 1e3;
    assert_eq!(first, second);
    // The kernel's tick is 4 ms; the loop is most of the run.
    assert!(second as f64 > milliseconds / 4.0 * 0.8, "{second} in {milliseconds} ms");
}

#[test]
fn a_limit_before_the_boot_ends_the_run_in_its_own_way() {
    let bench = Bench::new();
    let words = ["--engine=exact", "-q", "--ios=parquet", "--wall-limit=1ms", DRIVE, "--", "true"];
    bench.run(&words).expect(124).says(&["1ms of wall-clock time", "before the command began"]);
    assert_eq!(bench.json("results/summary.json")["ending"], "wall-limit");
    let ios = std::fs::read(bench.path("results/ios.parquet")).unwrap();
    assert!(ios.starts_with(b"PAR1") && ios.ends_with(b"PAR1") && ios.len() > 8, "{ios:?}");
}

/// A machine whose end is not waited for stands still when the others' commands have ended.
#[test]
fn what_a_machine_gets_that_nobody_waits_for_ends_with_the_others() {
    let bench = Bench::new();
    let machine = |name: &str, wait: bool, at: &str, command: &str| {
        format!(
            "[[machine]]\nname = '{name}'\nwait = {wait}\ncommand = ['sh', '-c', '{command}']\n\
             [[machine.disk]]\non = 'shared'\noffset = '{at}'\nsize = '32MiB'\n"
        )
    };
    let file = format!(
        "engine = 'exact'\n[[drive]]\nname = 'shared'\nmodel = 'fixed:1ms'\n\
         medium = {{ ram = '128MiB' }}\n{}{}",
        machine("short", true, "0", "dd if=/dev/vda of=/dev/null bs=4k count=50 iflag=direct"),
        machine("endless", false, "32MiB", "dd if=/dev/vda of=/dev/null bs=4k iflag=direct"),
    );
    std::fs::write(bench.path("two.toml"), file).unwrap();
    bench.run(&["-q", "two.toml"]).expect(0);
    let summary = bench.json("results/summary.json");
    let drives = summary["drives"].as_array().unwrap();
    let reads = |at: usize| drives[at]["read"]["count"].as_f64().unwrap();
    // They take turns on a drive of one I/O at a time, or go at once: the endless one has no more
    // I/Os than some at its start and those in flight.
    assert_eq!(reads(0), 50.0);
    assert!(reads(1) <= 60.0, "{drives:?}");
    let got: Vec<f64> = summary["shared"][0]["tenants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tenant| tenant["requests"].as_f64().unwrap())
        .collect();
    let ratio = got[1] / got[0];
    assert!((0.5..1.5).contains(&ratio), "{got:?}");
}

#[test]
fn an_interrupted_run_keeps_its_results() {
    let bench = Bench::new();
    let mut run = bench.start(&["--engine=exact", "-q", DRIVE, "--", "sh", "-c", ENDLESS]);
    assert_eq!(run.line().as_deref(), Some("begins"));
    // Until some I/Os of the command have been recorded: udevd's come before.
    let limit = Instant::now() + Duration::from_secs(60);
    let ios = || std::fs::read_to_string(bench.path("results/ios.csv")).unwrap_or_default();
    while ios().matches(",command,").count() < 10 {
        assert!(Instant::now() < limit, "no I/O was recorded");
        std::thread::sleep(Duration::from_millis(100));
    }
    run.signal(Signal::INT);
    let run = run.finish();
    run.expect(130).says(&["stopped", "results so far are kept"]);
    assert!(run.wall < Duration::from_secs(10), "took {:?} to stop", run.wall);
    let summary = bench.json("results/summary.json");
    assert_eq!(summary["ending"], "cancelled");
    let reads = summary["drives"][0]["read"]["count"].as_u64().unwrap();
    assert!(reads > 0);
    assert!(bench.text("results/ios.csv").lines().count() as u64 > reads);
    assert!(bench.text("results/report.html").contains("</html>"));
}

#[test]
fn a_killed_program_has_lost_nothing_that_was_flushed() {
    let bench = Bench::new();
    let image = bench.image("disk.img", 64 << 20);
    let program = guest_program("acknowledge");
    let drive = "--drive=model=fixed:100us,medium=file:disk.img";
    let words = [
        "--engine=exact",
        "-q",
        "--file",
        &program,
        drive,
        "--",
        "/root/acknowledge",
        "/dev/nvme0n1",
    ];
    let mut run = bench.start(&words);
    let mut acknowledged = 0;
    while acknowledged < 50 {
        let line = run.line().expect("the program goes on");
        acknowledged = line.parse::<u64>().unwrap();
    }
    run.signal(Signal::KILL);
    // Output from before its death counts too.
    while let Some(line) = run.line() {
        acknowledged = line.parse().unwrap_or(acknowledged);
    }
    assert_eq!(run.finish().status, None);
    let image = std::fs::File::open(image).unwrap();
    for number in 1..=acknowledged {
        let mut bytes = [0; 8];
        image.read_exact_at(&mut bytes, number * 4096).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), number, "of {acknowledged} flushed");
    }
    println!("killed after {acknowledged} acknowledged flushes, all in the file");
}

#[test]
fn a_folder_is_one_runs_and_does_not_depend_on_who_listens() {
    let bench = Bench::new();
    let script =
        "mkdir /results/logs; echo kept >/results/logs/one; echo x >/results/ios.csv; seq 1 200000";
    let mut first = bench.start(&["--engine=exact", "--quiet", DRIVE, "--", "sh", "-c", script]);
    // The rest does not fit into a pipe: the run waits for its reader.
    assert_eq!(first.line().as_deref(), Some("1"));
    let words = ["run", "--engine=exact", "--quiet", DRIVE, "--", "true"];
    let second = bench.command(&words).output().unwrap();
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("another run is writing to results") && stderr.contains("--results"));
    let finished = first.leave();
    finished.expect(0);
    assert!(finished.stderr.contains("ios.csv is the run's own"), "{finished:#?}");
    assert_eq!(bench.json("results/summary.json")["ending"], "exited");
    assert_eq!(bench.text("results/logs/one"), "kept\n");

    std::fs::write(bench.path("results/mine"), "mine").unwrap();
    bench.run(&["--engine=exact", "--quiet", DRIVE, "--", "true"]).expect(0);
    assert!(!bench.path("results/logs").exists(), "the first run's");
    assert_eq!(bench.text("results/mine"), "mine");
    std::fs::remove_file(bench.path("results/.stasis-results")).unwrap();
    std::fs::write(bench.path("results/summary.json"), "mine").unwrap();
    let foreign = bench.run(&["--engine=exact", "--quiet", DRIVE, "--", "true"]);
    foreign.expect(125).says(&["ios.csv", "not written by Stasis"]);
}
