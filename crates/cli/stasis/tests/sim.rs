//! `stasis sim` as a user calls it: its results against closed forms.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use stasis_results::{KeptIos, SlowIo, ToldCommand, ToldCommands};
use tempfile::TempDir;

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A simulation, whose I/Os are kept as text if the words name no format.
    fn call(&self, words: &[&str]) -> Output {
        let names_format = words.iter().any(|word| word.starts_with("--ios"));
        Command::new(env!("CARGO_BIN_EXE_stasis"))
            .arg("sim")
            .args(words)
            .args((!names_format).then_some("--ios=csv"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The summary of a simulation that ends with `status`.
    fn ended(&self, status: i32, words: &[&str]) -> Value {
        let output = self.call(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        serde_json::from_str(&self.text("results/summary.json")).unwrap()
    }

    fn sim(&self, words: &[&str]) -> Value {
        self.ended(0, words)
    }

    fn failure(&self, words: &[&str], status: i32) -> String {
        let output = self.call(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
        error
    }

    /// A column of ios.csv as numbers.
    fn column(&self, name: &str) -> Vec<u64> {
        let text = self.text("results/ios.csv");
        let mut lines = text.lines();
        let place = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
        lines.map(|line| line.split(',').nth(place).unwrap().parse().unwrap()).collect()
    }
}

fn seconds(summary: &Value) -> f64 {
    summary["virtual_seconds"].as_f64().unwrap()
}

#[test]
fn closed_loops_meet_the_closed_form() {
    let bench = Bench::new();
    // n I/Os in flight at p servers of 100 us: min(n, p) a service time, and
    // each waits for n / p services in the end.
    for (threads, depth, parallelism, latency) in [
        (1, 1, 1, 100_000),
        (1, 8, 4, 200_000),
        (8, 1, 4, 200_000),
        (4, 4, 16, 100_000),
        (3, 2, 8, 100_000),
    ] {
        let ios = 240u32;
        bench.file(
            "job.fio",
            &format!(
                "[global]\nioengine=libaio\nrw=randread\nsize=64m\n[a]\nnumjobs={threads}\niodepth={depth}\n\
                 number_ios={}\n",
                ios / threads
            ),
        );
        let model = format!("{{ kind = 'fixed', latency = '100us', parallelism = {parallelism} }}");
        let summary = bench.sim(&[&model, "--workload", "job.fio"]);
        let read = &summary["drives"][0]["read"];
        assert_eq!(read["count"], ios);
        let rate = f64::from((threads * depth).min(parallelism)) / 100e-6;
        assert_eq!(seconds(&summary), f64::from(ios) / rate, "{threads} {depth} {parallelism}");
        assert_eq!(read["target_ns"]["p50"], latency);
        assert_eq!(read["target_ns"]["max"], latency);
        assert_eq!(read["target_ns"], read["delivered_ns"]);
        assert_eq!(bench.column("order").len(), ios as usize);
    }
}

#[test]
fn a_path_of_the_software_adds_to_each_io() {
    let bench = Bench::new();
    bench.file("job.fio", "[a]\nrw=read\nsize=4m\nnumber_ios=100\n");
    let summary = bench.sim(&["fixed:100us", "--workload", "job.fio", "--path", "10us"]);
    assert_eq!(seconds(&summary), (100.0 * 110.0 - 10.0) / 1e6);
}

#[test]
fn rates_pauses_and_flushes_take_their_time() {
    let bench = Bench::new();
    for (keys, expected) in [
        // The last of 100 I/Os is submitted after 99 intervals of 1 ms.
        ("rate_iops=1000\nnumber_ios=100", 99e-3 + 100e-6),
        // 4 MiB/s are 1024 blocks a second.
        ("rate=4m\nnumber_ios=513", 0.5 + 100e-6),
        // Ten I/Os at a time and a pause, as in fio after the last ones as well.
        ("thinktime=1ms\nthinktime_blocks=10\nnumber_ios=100", 100.0 * 100e-6 + 10.0 * 1e-3),
        // Four writes and a flush, which waits for them and is waited for.
        (
            "rw=write\nfsync=4\nioengine=libaio\niodepth=4\nnumber_ios=40",
            10.0 * 100e-6 + 9.0 * 100e-6,
        ),
        ("runtime=10ms\ntime_based", 100.0 * 100e-6),
        ("startdelay=1\nnumber_ios=1", 1.0 + 100e-6),
    ] {
        bench.file("job.fio", &format!("[a]\nsize=4m\n{keys}\n"));
        let summary = bench.sim(&["fixed:100us", "--workload", "job.fio"]);
        assert!((seconds(&summary) - expected).abs() < 1e-9, "{keys}: {}", seconds(&summary));
    }
}

#[test]
fn stages_follow_each_other_and_ramps_do_not_count() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[global]\nsize=4m\n[a]\nrw=write\nnumber_ios=10\n[b]\nstonewall\nrw=randread\nnumber_ios=5\n\
         [c]\nstonewall\nrw=trim\nramp_time=1ms\nruntime=1ms\ntime_based\n",
    );
    let summary = bench.sim(&["fixed:100us", "--workload", "job.fio"]);
    let drive = &summary["drives"][0];
    assert_eq!((&drive["write"]["count"], &drive["read"]["count"]), (&10.into(), &5.into()));
    assert_eq!((&drive["discard"]["count"], &drive["boot_ios"]), (&10.into(), &10.into()));
    let (submit, queue) = (bench.column("submit_ns"), bench.column("queue"));
    let first = |thread| queue.iter().zip(&submit).find(|(queue, _)| **queue == thread).unwrap().1;
    assert_eq!((*first(1), *first(2)), (1_000_000, 1_500_000));
}

#[test]
fn a_job_has_a_rate_over_its_own_time() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[global]\nsize=4m\n[a]\nnumber_ios=100\n[b]\nstonewall\nrw=write\nnumber_ios=900\n",
    );
    let summary = bench.sim(&["fixed:100us", "--workload", "job.fio"]);
    let times: Vec<_> = [0, 1].map(|job| summary["jobs"][job]["virtual_seconds"].clone()).into();
    assert_eq!(times, [0.01, 0.09]);
    let rates = [(0, "read"), (1, "write")].map(|(job, operation)| {
        summary["jobs"][job]["operations"][operation]["iops"].as_f64().unwrap()
    });
    // While it ran each has 10,000 I/Os a second, independently of the other one.
    assert_eq!(rates, [10_000.0, 10_000.0]);
    // Those of the drive, of both together, and those of the jobs.
    let page = bench.text("results/report.html");
    assert_eq!(page.matches("\">10,000</td>").count(), 5);
}

#[test]
fn a_pages_rate_is_over_the_time_with_ios() {
    let bench = Bench::new();
    // 10,000 I/Os a second, after nine tenths of the virtual time without any.
    bench.file("job.fio", "[a]\nsize=4m\nnumber_ios=100\nstartdelay=90ms\n");
    let summary = bench.sim(&["fixed:100us", "--workload", "job.fio"]);
    assert_eq!(seconds(&summary), 0.1);
    assert_eq!(summary["drives"][0]["read"]["iops"], 10_000.0);
    let page = bench.text("results/report.html");
    let fact = page.split("I/Os a second").nth(1).unwrap();
    let value = fact.split(['<', '>']).map(str::trim).find(|text| text.contains("000")).unwrap();
    assert_eq!(value, "10,000");
}

#[test]
fn the_same_seed_is_the_same_simulation() {
    let bench = Bench::new();
    bench.file(
        "job.fio",
        "[a]\nioengine=libaio\nrw=randrw\nsize=4m\niodepth=8\nnumjobs=3\nbssplit=4k/70:16k/30\nrandom_distribution=zipf:1.1\n",
    );
    let ios = |seed| {
        bench.sim(&["uniform:50us-150us", "--workload", "job.fio", "--seed", seed]);
        bench.text("results/ios.csv")
    };
    let first = ios("1");
    assert_eq!(first, ios("1"));
    assert_ne!(first, ios("2"));
}

#[test]
fn a_limit_and_a_missing_list_of_ios_are_as_asked() {
    let bench = Bench::new();
    bench.file("job.fio", "[a]\nsize=4m\nruntime=10\ntime_based\n");
    let summary = bench.ended(124, &["fixed:100us", "--workload", "job.fio", "--limit", "5ms"]);
    assert_eq!((&summary["ending"], seconds(&summary)), (&"virtual-limit".into(), 5e-3));
    assert_eq!(summary["drives"][0]["read"]["count"], 50);
    assert!(bench.path("results/ios.csv").exists());
    bench.ended(124, &["fixed:100us", "--workload", "job.fio", "--limit", "5ms", "--ios=none"]);
    assert!(!bench.path("results/ios.csv").exists());
    assert!(bench.text("results/report.html").contains("</html>"));
}

#[test]
fn wrong_words_are_named() {
    let bench = Bench::new();
    bench.file("good.fio", "[a]\nsize=4m\n");
    bench.file("open.fio", "[a]\nrw=read\n");
    bench.file("bad.fio", "[a]\nsize=4m\niodpeth=3\n");
    bench.file("odd.fio", "[a]\nsize=4m\nbs=1000\n");
    for (words, status, expected) in [
        (vec!["fixed:100us"], 2, "--workload"),
        (vec!["fixd:100us", "--workload", "good.fio"], 125, "did you mean `fixed`?"),
        (vec!["fixed:100us", "--workload", "none.fio"], 125, "cannot read none.fio"),
        (vec!["fixed:100us", "--workload", "open.fio"], 125, "--size"),
        (vec!["fixed:100us", "--workload", "bad.fio"], 125, "line 3: unknown key `iodpeth`"),
        (vec!["fixed:100us", "--workload", "odd.fio"], 125, "no multiple of the drive's, 512"),
        (vec!["fixed:100us", "--workload", "good.fio", "--size", "1MiB"], 125, "ends beyond"),
        (vec!["fixed:100us", "--workload", "good.fio", "--size", "1001"], 125, "--size"),
        (vec!["fixed:100us", "--workload", "good.fio", "--limit", "5"], 125, "--limit"),
        (vec!["jpt39c", "--workload", "good.fio", "--size", "100TiB"], 125, "jpt39c"),
    ] {
        let error = bench.failure(&words, status);
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}

fn blkparse() -> String {
    format!("{}/../../drives/models/tests/data/blkparse.txt", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn traces_are_replayed_at_their_times_or_as_fast_as_possible() {
    let bench = Bench::new();
    // All of the 60 requests were issued: 20 reads, 29 writes, 6 discards and separate flushes.
    let trace = blkparse();
    let summary = bench.sim(&["fixed:100us", "--trace", &trace]);
    let drive = &summary["drives"][0];
    assert_eq!((&drive["read"]["count"], &drive["write"]["count"]), (&20.into(), &29.into()));
    assert_eq!(drive["discard"]["count"], 6);
    let times = bench.column("submit_ns");
    assert_eq!(times[0], 0);
    bench.sim(&["fixed:100us", "--trace", &trace, "--scale", "2"]);
    let stretched: Vec<u64> = times.iter().map(|at| 2 * at).collect();
    assert_eq!(bench.column("submit_ns"), stretched);
    let ios = times.len() as f64;
    for depth in [1, 4] {
        let summary =
            bench.sim(&["fixed:100us", "--trace", &trace, "--closed", &depth.to_string()]);
        assert_eq!(seconds(&summary), (ios / f64::from(depth)).ceil() * 100e-6, "{depth}");
    }
}

#[test]
fn msr_traces_and_standard_input_are_taken() {
    let bench = Bench::new();
    let text =
        "128166372003061629,hm,1,Read,4096,32768,413\n128166372003071629,hm,1,Write,0,4096,1\n";
    bench.file("hm.csv", text);
    let summary = bench.sim(&["fixed:100us", "--trace", "hm.csv"]);
    assert_eq!(summary["drives"][0]["read"]["bytes"], 32768);
    assert_eq!(seconds(&summary), 1e-3 + 100e-6);
    let first = bench.text("results/ios.csv");
    let status = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["sim", "fixed:100us", "--trace", "-", "--quiet", "--ios=csv"])
        .current_dir(bench.folder.path())
        .stdin(std::fs::File::open(bench.path("hm.csv")).unwrap())
        .status();
    assert!(status.unwrap().success());
    assert_eq!(bench.text("results/ios.csv"), first);
}

#[test]
fn a_simulation_of_its_own_ios_repeats_them() {
    let bench = Bench::new();
    // A disk has state, and its queue reorders requests.
    bench.file(
        "job.fio",
        "[a]\nioengine=libaio\nrw=randrw\nbssplit=4k/50:64k/50\nnorandommap\nsize=8g\niodepth=16\nnumber_ios=300\nfsync=7\n\
         ramp_time=100ms\n",
    );
    bench.sim(&["jpt39c", "--workload", "job.fio", "--seed", "5"]);
    let first = bench.text("results/ios.csv");
    std::fs::rename(bench.path("results"), bench.path("first")).unwrap();
    let again = ["jpt39c", "--trace", "first/ios.csv", "--exact-times", "--seed", "5"];
    bench.sim(&again);
    assert_eq!(bench.text("results/ios.csv"), first);
    // Compressed, they are the same.
    let compressed = ["--results", "small", "--ios", "zst"];
    bench.call(&[&["jpt39c", "--workload", "job.fio", "--seed", "5"][..], &compressed].concat());
    let small = ["jpt39c", "--trace", "small/ios.csv.zst", "--exact-times", "--seed", "5"];
    bench.sim(&small);
    assert_eq!(bench.text("results/ios.csv"), first);
    // By column, which is what is kept without a word, they are the same too: the file, and the
    // folder that it is in.
    let folder = bench.folder.path();
    let columns = ["sim", "jpt39c", "--workload", "job.fio", "--seed=5", "--results=columns"];
    let run = Command::new(env!("CARGO_BIN_EXE_stasis")).args(columns).current_dir(folder).status();
    assert!(run.unwrap().success() && !bench.path("columns/ios.csv").exists());
    for trace in ["columns", "columns/ios.parquet"] {
        bench.sim(&["jpt39c", "--trace", trace, "--exact-times", "--seed", "5"]);
        assert_eq!(bench.text("results/ios.csv"), first, "{trace}");
    }
    // Without the ramp's I/Os the head is elsewhere.
    bench.sim(&["jpt39c", "--trace", "first/ios.csv", "--seed", "5"]);
    assert!(bench.column("order").len() < first.lines().count() - 1);
}

#[test]
fn wrong_traces_are_named() {
    let bench = Bench::new();
    let trace = blkparse();
    bench.file("bad.csv", "1,h,0,Read,0,512,1\n1,h,0,Raed,0,512,1\n");
    bench.file("two.csv", "1,h,0,Read,0,512,1\n1,h,1,Read,0,512,1\n");
    bench.file("text", "hello\n");
    bench.file("good.fio", "[a]\nsize=4m\n");
    for (words, status, expected) in [
        (vec!["--trace", "none"], 125, "cannot open it"),
        (vec!["--trace", "text"], 125, "is no trace"),
        (vec!["--trace", "bad.csv"], 125, "line 2: the type `Raed`"),
        (vec!["--trace", "two.csv"], 125, "--trace-drive h.0"),
        (vec!["--trace", &trace, "--exact-times"], 125, "is for the I/Os of a run"),
        (vec!["--trace", &trace, "--wrap"], 125, "give --size"),
        (vec!["--trace", &trace, "--size", "64KiB"], 125, "--wrap brings it back"),
        (vec!["--trace", &trace, "--scale", "0"], 2, "above 0"),
        (vec!["--trace", &trace, "--closed", "0"], 2, "--closed"),
        (vec!["--trace", &trace, "--workload", "good.fio"], 2, "--workload"),
        (vec!["--workload", "good.fio", "--wrap"], 2, "--wrap"),
    ] {
        let words = [vec!["fixed:100us"], words].concat();
        let error = bench.failure(&words, status);
        assert!(error.contains(expected), "{words:?}: {error}");
    }
    bench.sim(&["fixed:100us", "--trace", &trace, "--size", "1MiB", "--wrap"]);
}

/// Sends SIGINT to `child` once the file at `ios` has I/Os.
fn interrupt_once_under_way(child: &Child, ios: &Path) {
    let limit = Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(ios).map_or(0, |metadata| metadata.len()) < 10_000 {
        assert!(Instant::now() < limit);
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn a_simulation_that_is_stopped_keeps_what_it_has() {
    let bench = Bench::new();
    bench.file("job.fio", "[a]\nsize=4m\nruntime=1000000\ntime_based\n");
    let mut child = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["sim", "fixed:100us", "--workload", "job.fio", "--ios=csv"])
        .current_dir(bench.folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once there are I/Os it is under way.
    let ios = bench.path("results/ios.csv");
    interrupt_once_under_way(&child, &ios);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary: Value = serde_json::from_str(&bench.text("results/summary.json")).unwrap();
    assert_eq!(summary["ending"], "cancelled");
    assert!(summary["drives"][0]["read"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn a_flash_drive_shows_its_inside() {
    let bench = Bench::new();
    bench
        .file("job.fio", "[a]\nioengine=libaio\nrw=randwrite\niodepth=16\nsize=16m\nio_size=64m\n");
    let words = ["femu-basic", "--workload", "job.fio", "--size", "64MiB", "--ios=none"];
    let inside = &bench.sim(&words)["drives"][0]["inside"];
    assert!(inside["host_units"].as_u64().unwrap() >= 16_384, "{inside}");
    assert!(inside["write_amplification"].as_f64().unwrap() >= 1.0);
    assert!(bench.text("results/report.html").contains("Inside drive0"));
    let error = bench.failure(&["femu-basic", "--trace", &blkparse()], 125);
    assert!(error.contains("Give --size"), "{error}");
}

/// A drive is aged by one simulation, and measured by others: each begins as the last one ended.
#[test]
fn a_flash_drive_with_a_state_is_aged_once() {
    let bench = Bench::new();
    bench.file("age.fio", "[age]\nrw=randwrite\nbs=4k\nio_size=256m\n");
    bench.file("read.fio", "[read]\nrw=randread\nbs=4k\nnumber_ios=2000\nrandseed=3\n");
    let drive = |state: &str| {
        format!(
            "[model]\nkind = 'flash'\nchannels = 2\nluns = 1\nplanes = 1\npages = 64\n\
             precondition = 'none'\nwear_levelling = 'none'\n{state}"
        )
    };
    bench.file("kept.toml", &drive("state = 'ssd.state'\n"));
    bench.file("new.toml", &drive(""));
    let run = |model: &str, job: &str| {
        bench.sim(&[model, "--size", "64MiB", "--workload", job, "--seed", "5"])
    };
    let unwritten = |summary: &Value| summary["drives"][0]["inside"]["unwritten_units"].clone();
    let new = run("new.toml", "read.fio");
    assert_eq!(unwritten(&new), 2000, "nothing was written");
    let aged = run("kept.toml", "age.fio");
    assert!(aged["drives"][0]["inside"]["collections"].as_u64().unwrap() > 0);
    let state = bench.text("ssd.state");
    // The first run of the same file after the second one's state is put back is the same.
    let first = run("kept.toml", "read.fio");
    assert!(unwritten(&first).as_u64().unwrap() < 200, "most was: {}", unwritten(&first));
    let ios = bench.text("results/ios.csv");
    bench.file("ssd.state", &state);
    run("kept.toml", "read.fio");
    assert_eq!(bench.text("results/ios.csv"), ios);
    // Another drive's, and a damaged one, are refused; and several simulations at a time.
    let other = ["kept.toml", "--size", "128MiB", "--workload", "read.fio"];
    assert!(bench.failure(&other, 125).contains("of a drive with"));
    let several = ["kept.toml", "--size", "64MiB", "--workload", "read.fio", "--seed", "1-2"];
    assert!(bench.failure(&several, 125).contains("one simulation at a time"));
    bench.file("ssd.state", &state[..state.len() / 2]);
    let cut = ["kept.toml", "--size", "64MiB", "--workload", "read.fio"];
    assert!(bench.failure(&cut, 125).contains("damaged"));
}

/// The names in a folder that begin with a digit, in order.
fn numbered(folder: &std::path::Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).collect();
    names.sort();
    names
}

#[test]
fn several_simulations_are_each_as_alone() {
    let bench = Bench::new();
    bench.file(
        "a.fio",
        "[a]\nioengine=libaio\nrw=randrw\nsize=4m\nio_size=40m\niodepth=8\nnumber_ios=5000\n",
    );
    bench.file("b.fio", "[b]\nrw=randread\nsize=4m\nnumber_ios=200\n");
    let models = ["uniform:50us-150us", "{ kind = 'fixed', read = '80us', label = 'mine/a' }"];
    let words = ["--workload", "a.fio", "--workload", "b.fio", "--seed", "3,7-8", "--jobs", "3"];
    let output = bench.call(&[&models[..], &words].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let folders = numbered(&bench.path("results"));
    assert_eq!(folders.len(), 12, "{folders:?}");
    assert_eq!(folders[0], "01-uniform-50us-150us-a-seed-3");
    assert_eq!(folders[11], "12-mine-a-b-seed-8");
    let mut number = 0;
    let csv = bench.text("results/simulations.csv");
    for model in models {
        for job in ["a.fio", "b.fio"] {
            for seed in ["3", "7", "8"] {
                let words = [model, "--workload", job, "--seed", seed, "--results", "alone"];
                assert!(bench.call(&words).status.success());
                let alone: Value = serde_json::from_str(&bench.text("alone/summary.json")).unwrap();
                let folder = format!("results/{}", folders[number]);
                number += 1;
                for file in ["ios.csv", "report.html"] {
                    assert!(bench.path(&format!("{folder}/{file}")).exists(), "{folder}");
                }
                let same = bench.text("alone/ios.csv");
                assert_eq!(bench.text(&format!("{folder}/ios.csv")), same, "{folder}");
                let own: Value =
                    serde_json::from_str(&bench.text(&format!("{folder}/summary.json"))).unwrap();
                assert_eq!(own["drives"], alone["drives"], "{folder}");
                assert_eq!(own["seed"], alone["seed"]);
                assert_eq!(own["title"], alone["title"]);
                // The table lists each, and so does the file of figures.
                assert!(stderr.contains(&folders[number - 1]), "{stderr}");
                let p50 = &alone["drives"][0]["read"]["target_ns"]["p50"];
                let row = csv.lines().find(|line| {
                    line.starts_with(&format!("\"{}\"", folders[number - 1]))
                        && line.contains(",read,")
                });
                assert!(row.is_some_and(|row| row.contains(&format!(",{p50},"))), "{csv}");
            }
        }
    }
    // The next one with the folder leaves nothing of them.
    bench.sim(&[models[0], "--workload", "b.fio"]);
    assert_eq!(numbered(&bench.path("results")), Vec::<String>::new());
    assert!(!bench.path("results/simulations.csv").exists());
}

#[test]
fn a_job_that_can_never_end_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let job = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    job("timed.fio", "[a]\ndirect=1\nrw=randread\nsize=1m\ntime_based=1\nruntime=1\n");
    job("sized.fio", "[a]\ndirect=1\nrw=read\nbs=512\nsize=128m\nloops=10\n");
    let sim = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        command.arg("sim").args(words).args(["--quiet", "--ios=none", "--results=r"]);
        command.current_dir(&folder).stdin(Stdio::null()).output().unwrap()
    };
    let timed = sim(&["null", "--workload", "timed.fio"]);
    let stderr = String::from_utf8_lossy(&timed.stderr).into_owned();
    assert_eq!(timed.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("never ends on a model without a latency"), "{stderr}");
    // The same model, more I/Os, and an end; and the same job on another model.
    assert_eq!(sim(&["null", "--workload", "sized.fio"]).status.code(), Some(0));
    assert_eq!(sim(&["fixed:100us", "--workload", "timed.fio"]).status.code(), Some(0));
}

#[test]
fn rates_are_over_the_time_in_which_the_drive_is_active() {
    let bench = Bench::new();
    bench.file("job.fio", "[a]\nrw=read\nsize=4m\nnumber_ios=100\nstartdelay=1\n");
    // One model, and several in a table.
    for models in [&["fixed:100us"][..], &["fixed:100us", "fixed:200us"]] {
        let output = bench.call(&[models, &["--workload", "job.fio"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.contains("10,000"), "{stderr}");
        if models.len() == 2 {
            let row = stderr.lines().find(|line| line.contains("fixed-200us")).unwrap();
            assert!(row.contains("5,000"), "{stderr}");
        }
    }
}

#[test]
fn of_several_simulations_one_that_fails_hinders_no_other() {
    let bench = Bench::new();
    bench.file("job.fio", "[a]\nsize=4m\nnumber_ios=10\n");
    bench.file("bad.csv", "1,h,0,Read,0,512,1\n1,h,0,Raed,0,512,1\n");
    bench.file("good.csv", "1,h,0,Read,0,512,1\n");
    let words = ["fixed:100us", "--trace", "bad.csv", "--trace", "good.csv"];
    let error = bench.failure(&words, 125);
    assert!(error.contains("1-fixed-100us-bad: ") && error.contains("`Raed`"), "{error}");
    let summary = bench.text("results/2-fixed-100us-good/summary.json");
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["drives"][0]["read"]["count"], 1);
    // Faults that can be found before anything begins are found then.
    for (words, status, expected) in [
        (vec!["fixed:1us", "fixd:2us", "--workload", "job.fio"], 125, "did you mean `fixed`?"),
        (vec!["null", "--workload", "job.fio", "--workload", "none.fio"], 125, "none.fio"),
        (vec!["null", "--trace", "-", "--seed", "1,2"], 125, "standard input"),
        (vec!["null", "--workload", "job.fio", "--seed", "2-1"], 2, "ends before it begins"),
        (vec!["null", "--workload", "job.fio", "--jobs", "0"], 2, "--jobs"),
    ] {
        let error = bench.failure(&words, status);
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}

#[test]
fn several_simulations_that_are_stopped_keep_what_is_finished() {
    let bench = Bench::new();
    bench.file("short.fio", "[a]\nsize=4m\nnumber_ios=10\n");
    bench.file("long.fio", "[a]\nsize=4m\nruntime=1000000\ntime_based\n");
    let child = Command::new(env!("CARGO_BIN_EXE_stasis"))
        .args(["sim", "fixed:100us", "--workload", "short.fio", "--workload", "long.fio"])
        .args(["--jobs", "1", "--seed", "1,2", "--ios=csv"])
        .current_dir(bench.folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Two have ended and the third is under way; the fourth never begins.
    let ios = bench.path("results/3-fixed-100us-long-seed-1/ios.csv");
    interrupt_once_under_way(&child, &ios);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("1 of 4 simulations were not begun"), "{stderr}");
    let ending = |folder: &str| {
        let text = bench.text(&format!("results/{folder}/summary.json"));
        serde_json::from_str::<Value>(&text).unwrap()["ending"].clone()
    };
    assert_eq!(ending("2-fixed-100us-short-seed-2"), "exited");
    assert_eq!(ending("3-fixed-100us-long-seed-1"), "cancelled");
    let csv = bench.text("results/simulations.csv");
    assert_eq!(csv.lines().count(), 1 + 3, "{csv}");
    assert!(!bench.path("results/4-fixed-100us-long-seed-2").exists());
}

/// Threads that think, at two depths, on one drive; then their I/Os on the same drive and on another.
#[test]
fn think_times_are_those_of_the_run() {
    let bench = Bench::new();
    bench.file("one.fio", "[a]\nrw=randread\nbs=4k\nsize=1m\nthinktime=30us\nnumber_ios=40\n");
    bench.file(
        "four.fio",
        "[a]\nrw=randread\nbs=4k\nsize=1m\nioengine=libaio\niodepth=4\nnumber_ios=40\n",
    );
    let times = |bench: &Bench| [bench.column("submit_ns"), bench.column("delivered_ns")];
    for job in ["one.fio", "four.fio"] {
        bench.sim(&["fixed:100us", "--workload", job, "--path", "7us"]);
        let first = times(&bench);
        std::fs::rename(bench.path("results"), bench.path(&format!("{job}.first"))).unwrap();
        let trace = format!("{job}.first");
        bench.sim(&["fixed:100us", "--trace", &trace, "--think-times"]);
        assert_eq!(times(&bench), first, "{job}");
        // 900 us more for each I/O, one after the other; of four in flight for each four.
        bench.sim(&["fixed:1ms", "--trace", &trace, "--think-times"]);
        let depth = if job == "one.fio" { 1 } else { 4 };
        let [submit, _] = times(&bench);
        let expected = first[0].iter().enumerate();
        let expected: Vec<_> =
            expected.map(|(number, at)| at + number as u64 / depth * 900_000).collect();
        assert_eq!(submit, expected, "{job}");
        // At its times in the trace it does not wait.
        bench.sim(&["fixed:1ms", "--trace", &trace]);
        assert_eq!(times(&bench)[0], first[0], "{job}");
    }
    bench.file("t.csv", "419,W,8192,4096,1577808144360767\n");
    let refused = bench.failure(&["fixed:1ms", "--trace", "t.csv", "--think-times"], 125);
    assert!(refused.contains("--think-times needs the trace's completions"), "{refused}");
}

/// A small drive in steady state, which collects garbage under a third of its writes.
const STEADY: &str = r#"
[model]
kind              = "flash"
channels          = 2
luns              = 1
planes            = 1
pages             = 32
page_size         = "4KiB"
over_provisioning = 0.15
precondition      = "steady"
"#;

/// The parts of each I/O's time are its latency to the ns, whatever it waited for.
#[test]
fn every_nanosecond_of_every_io_is_told() {
    let bench = Bench::new();
    let job = "[mixed]\nrw=randrw\nrwmixread=40\nbsrange=4k-32k\nioengine=libaio\niodepth=8\n\
               fsync=32\nnumber_ios=3000\nsize=30m\n";
    bench.file("job.fio", job);
    for (name, rest) in [
        ("page", "buffer = \"64KiB\"\ngc = { blocking = \"channel\" }\n"),
        ("direct", "buffer = \"0\"\nlink = \"PCIe 4.0 x2\"\nsuspensions = 2\n"),
        ("dftl", "ftl = \"dftl\"\nmapping_cache = \"16KiB\"\nplane_mode = \"lockstep\"\n"),
        ("hybrid", "ftl = \"hybrid\"\n"),
    ] {
        bench.file(&format!("{name}.toml"), &format!("{STEADY}{rest}"));
    }
    for (model, size) in [
        ("page.toml", "32MiB"),
        ("direct.toml", "32MiB"),
        ("dftl.toml", "32MiB"),
        ("hybrid.toml", "32MiB"),
        ("jpt39c", "8GiB"),
        ("samsung-980-pro", "32MiB"),
    ] {
        let size = format!("--size={size}");
        let words = [model, &size, "--workload=job.fio", "--timeline", "--results=results"];
        let summary = bench.sim(&words);
        assert_eq!(summary["timeline"]["lost"], 0, "{model}");
        let folder = bench.path("results");
        let mut commands = ToldCommands::read(&folder).unwrap().expect("it was asked for");
        let mut ios = KeptIos::open(&folder).unwrap();
        let (mut count, mut collected, mut after) = (0, 0, 0);
        while let Some(io) = ios.next().transpose().unwrap() {
            let command = commands.take("drive0", &io).map(|(_, command)| command);
            let latency = io.delivered - io.submit;
            assert!(command.is_some() || latency == 0, "{model}: nothing is told of {io:?}");
            let number = command.as_ref().and_then(|command| command.number);
            let is_flash = model.ends_with(".toml");
            let expected = command.as_ref().filter(|_| is_flash).map(|_| io.order);
            assert_eq!(number, expected, "{model}: {io:?}");
            let parts = SlowIo::told(&io, command.as_ref()).named();
            let sum: u64 = parts.iter().map(|(_, time)| time).sum();
            assert_eq!(sum, latency, "{model}: {io:?}: {parts:?}");
            count += 1;
            let waits = |command: ToldCommand| command.parts.gc + command.parts.buffer_gc;
            collected += u64::from(command.map_or(0, waits) > 0);
            after += u64::from(command.is_some_and(|command| command.after.is_some()));
        }
        let is_flash = model.ends_with(".toml");
        assert!(count >= 1500, "{model}: {count}");
        assert_eq!(is_flash, after > 500, "{model}: {after} ended with an operation");
        assert_eq!(is_flash, collected > 100, "{model}: {collected} waited for a collection");
    }
}

/// `stasis why` against the rows of the I/Os and the summary.
#[test]
fn each_io_can_be_asked_why_it_took_so_long() {
    let bench = Bench::new();
    let job = "[reads]\nrw=randread\nbs=4k\nioengine=libaio\niodepth=4\nnumber_ios=300\nsize=1g\n";
    bench.file("job.fio", job);
    let why = |words: &[&str], status: i32| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_stasis"));
        let output =
            program.arg("why").args(words).current_dir(bench.folder.path()).output().unwrap();
        let [answer, error] =
            [&output.stdout, &output.stderr].map(|printed| String::from_utf8_lossy(printed));
        assert_eq!(output.status.code(), Some(status), "{words:?}: {answer} {error}");
        format!("{answer}{error}")
    };
    let summary = bench.sim(&["jpt39c", "--size=8GiB", "--workload=job.fio", "--results=results"]);
    let slowest = &summary["drives"][0]["slowest"][0];
    let answer = why(&["results"], 0);
    assert_eq!(answer, why(&["results", &format!("drive0:{}", slowest["order"])], 0));
    assert_eq!(answer, why(&["results/ios.csv"], 0), "a file of the results is as their folder");
    // Its parts with their shares, which are the whole.
    let latency =
        |io: &Value| io["delivered_ns"].as_u64().unwrap() - io["submit_ns"].as_u64().unwrap();
    for part in ["queue", "positioning", "transfer", "controller"] {
        let line = answer
            .lines()
            .find(|line| line.starts_with(part))
            .unwrap_or_else(|| panic!("{answer}"));
        let share = line.split_whitespace().rev().nth(1).unwrap().parse::<f64>().unwrap();
        let of_summary = slowest["parts"][part].as_f64().unwrap() / latency(slowest) as f64;
        assert!((share - 100.0 * of_summary).abs() < 0.1, "{line}: {of_summary}");
    }
    assert!(answer.contains("With --timeline a run keeps"), "{answer}");

    // Columns: order is known by its heading.
    let text = bench.text("results/ios.csv");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let column = |name: &str| heading.iter().position(|each| *each == name).unwrap();
    let columns = ["order", "submit_ns", "delivered_ns"].map(column);
    let ios: Vec<[u64; 3]> =
        lines.map(|line| columns.map(|column| line[column].parse().unwrap())).collect();
    let mut overtaken = 0;
    for [order, submit, delivered] in ios.iter().copied().step_by(7) {
        let ahead: Vec<_> =
            ios.iter().filter(|io| (io[1], io[0]) < (submit, order) && io[2] > submit).collect();
        let later = ios.iter().filter(|io| (io[1], io[0]) > (submit, order) && io[2] < delivered);
        let answer = why(&["results", &format!("drive0:{order}")], 0);
        let expected = match ahead.len() {
            0 => "No other I/O was in the drive".to_owned(),
            1 => "  1 read, the oldest for".to_owned(),
            many => format!("  {many} reads, the oldest for"),
        };
        assert!(answer.contains(&expected), "{expected}: {answer}");
        let before = ahead.iter().filter(|io| io[2] < delivered).count();
        assert!(
            ahead.is_empty() || answer.contains(&format!("; {before} delivered before it")),
            "{answer}"
        );
        match later.count() {
            0 => assert!(!answer.contains("came later"), "{answer}"),
            1 => assert!(answer.contains("1 I/O came later"), "{answer}"),
            many => assert!(answer.contains(&format!("{many} I/Os came later")), "{answer}"),
        }
        overtaken += usize::from(answer.contains("came later"));
    }
    assert!(overtaken > 0, "a disk serves the nearest first");

    // A flash drive's parts work while an I/O waits; a model in one figure tells nothing.
    bench.sim(&["flash-tlc", "--size=1GiB", "--workload=job.fio", "--results=flash", "--timeline"]);
    let answer = why(&["flash"], 0);
    assert!(answer.contains("nand ") && answer.contains("the host's reads"), "{answer}");
    assert!(answer.contains("It ended with a read of block "), "{answer}");
    // It waited for other I/Os, and in a steady drive for collections.
    assert!(answer.contains("the host's reads: I/O"), "{answer}");
    bench.file("steady.toml", &format!("{STEADY}buffer = \"0\"\n"));
    let mixed = "[mixed]\nrw=randrw\nbs=4k\nioengine=libaio\niodepth=8\nnumber_ios=600\nsize=30m\n";
    bench.file("mixed.fio", mixed);
    let size = "--size=32MiB";
    bench.sim(&["steady.toml", size, "--workload=mixed.fio", "--results=steady", "--timeline"]);
    let each = (0..600).step_by(15).map(|order| why(&["steady", &format!("drive0:{order}")], 0));
    let answer: String = each.collect();
    assert!(answer.contains("the collection of block "), "{answer}");
    assert!(answer.contains(": this I/O:"), "{answer}");
    // Pages of the write buffer have the data of several.
    let gathers = STEADY.replace("4KiB", "16KiB").replace("= 32", "= 8");
    bench.file("gathers.toml", &format!("{gathers}buffer = \"64KiB\"\n"));
    bench.sim(&["gathers.toml", size, "--workload=mixed.fio", "--results=gathers", "--timeline"]);
    let each = (0..600).step_by(15).map(|order| why(&["gathers", &format!("drive0:{order}")], 0));
    let answer: String = each.collect();
    let gathered = |line: &str| {
        let more =
            line.split_once("the host's writes: I/O ").and_then(|(_, io)| io.split_once(" and "));
        more.is_some_and(|(io, rest)| io.parse::<u64>().is_ok() && rest.contains(" more"))
    };
    assert!(answer.lines().any(gathered), "{answer}");
    let answer = why(&["flash", "drive0:150"], 0);
    assert!(answer.contains("controller") && !answer.contains("are not kept"), "{answer}");
    bench.sim(&["fixed:100us", "--size=1GiB", "--workload=job.fio", "--results=fixed"]);
    assert!(why(&["fixed"], 0).contains("the model tells none"));

    for (words, expected) in [
        (&["results", "drive7:1"][..], "no I/O of a drive `drive7`: it has those of drive0"),
        (&["results", "drive0:300"], "drive drive0 has no I/O 300: it has 0 to 299"),
        (&["nothing"], "nothing"),
        (&["."], "it has none of ios.csv"),
    ] {
        let answer = why(words, 125);
        assert!(answer.contains(expected), "{words:?}: {answer}");
    }
    assert!(why(&["results", "drive0"], 2).contains("such as drive0:100"));
}

/// Below a log of pairs, page mapping writes each unit once, also where a run before has left data.
#[test]
fn pairs_on_page_mapping_are_written_once() {
    let bench = Bench::new();
    let text = "[pairs]\nkeys = 2000\noverwrites = 6000\n\
                log = { segment = '64KiB', spare-percent = 0 }\n";
    bench.file("pairs.toml", text);
    let model = "{ kind = 'flash', channels = 2, luns = 1, planes = 1, page_size = '4KiB', \
                 pages = 8, plp = true, buffer = '64KiB', state = 'ssd.state' }";
    for _ in 0..2 {
        let summary = bench.sim(&[model, "--workload", "pairs.toml", "--size", "3MiB"]);
        let below = summary["drives"][0]["inside"]["write_amplification"].as_f64().unwrap();
        assert!((below - 1.0).abs() < 0.02, "{below}");
        let overwrite = &summary["pairs"]["phases"]["overwrite"];
        assert!(overwrite["write_amplification"].as_f64().unwrap() > 1.5, "{overwrite}");
        assert!(bench.path("ssd.state").exists());
    }
}

/// A load of pairs: every value is compared, and the log, its index and the drive below are counted.
#[test]
fn pairs_are_stored_and_retrieved_on_zones() {
    let bench = Bench::new();
    let text = "[pairs]\nkeys = 2000\nvalue-size = '1KiB'\noverwrites = 4000\nretrieves = 3000\n\
                log = { segment = '64KiB', spare-percent = 0, index-cache = '32KiB' }\n";
    bench.file("pairs.toml", text);
    let model = |zone| {
        format!("{{ kind = 'flash', ftl = 'zoned', zone_size = '{zone}', mapping_unit = '1KiB' }}")
    };
    let words = |model: &str| {
        let words = [model, "--workload", "pairs.toml", "--size", "3MiB", "--seed", "3"];
        words.map(str::to_owned)
    };
    let call = words(&model("64KiB"));
    let summary = bench.sim(&call.each_ref().map(String::as_str));
    let pairs = &summary["pairs"];
    assert_eq!((pairs["wrong"].as_u64(), pairs["failed"].as_u64()), (Some(0), Some(0)));
    let number = |phase: &str, key: &str| pairs["phases"][phase][key].as_f64().unwrap();
    for (phase, count) in [("store", 2000.0), ("overwrite", 4000.0), ("retrieve", 3000.0)] {
        assert_eq!(number(phase, "count"), count);
        assert!(number(phase, "per_second") > 0.0);
    }
    assert_eq!(number("overwrite", "stored_bytes"), 4000.0 * 1024.0);
    assert!(number("overwrite", "write_amplification") > 1.5, "{pairs}");
    // 21 pages of the index, of which 8 are in memory.
    assert_eq!(
        (pairs["index_pages"].as_u64(), pairs["index_pages_in_memory"].as_u64()),
        (Some(21), Some(8))
    );
    assert!(number("retrieve", "index_read_bytes") > 1000.0 * 4096.0, "{pairs}");
    assert_eq!(number("retrieve", "stored_bytes"), 0.0);
    let inside = &summary["drives"][0]["inside"];
    let below = inside["write_amplification"].as_f64().unwrap();
    assert!((below - 1.0).abs() < 0.06, "values fill pages: {below}");
    // The rows are the drive's commands: those of the host have queue 0.
    let host = bench.column("queue").iter().filter(|queue| **queue == 0).count();
    assert!((9000..12_000).contains(&host), "{host}: values, and pages that retrieves wait for");
    let again = bench.text("results/ios.csv");
    bench.sim(&call.each_ref().map(String::as_str));
    assert_eq!(bench.text("results/ios.csv"), again);

    // Segments that are no whole zones are refused, as is what has no room.
    let call = words(&model("128KiB"));
    let error = bench.failure(&call.each_ref().map(String::as_str), 125);
    assert!(error.contains("give log.segment = \"128KiB\""), "{error}");
    let error = bench.failure(&["fixed:1us", "--workload", "pairs.toml", "--size", "2MiB"], 125);
    assert!(error.contains("have no room in"), "{error}");
    let error = bench.failure(&["fixed:1us", "--workload", "pairs.toml"], 125);
    assert!(error.contains("Give --size"), "{error}");
    bench.file("wrong.toml", "[pairs]\nkeys = 10\nvalue-sise = 3\n");
    let error = bench.failure(&["fixed:1us", "--workload", "wrong.toml", "--size", "1GiB"], 125);
    assert!(error.contains("value-size"), "{error}");
    // A medium that gives wrong data is found by the values' bytes.
    let faulty = "{ kind = 'flash', faults = [{ kind = 'corrupt', rate = 0.01 }] }";
    let call = ["--workload", "pairs.toml", "--size", "64MiB"];
    let summary = bench.ended(125, &[&[faulty][..], &call].concat());
    assert!(summary["pairs"]["wrong"].as_u64().unwrap() > 0, "{}", summary["pairs"]);
}
