//! Files that `stasis export` writes, read by the tools that they are for.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The I/Os of the job below.
const IOS: usize = 3000;

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output
}

fn stasis(folder: &Path, words: &[&str]) -> String {
    let output = run(Command::new(env!("CARGO_BIN_EXE_stasis")).args(words).current_dir(folder));
    String::from_utf8(output.stderr).unwrap()
}

/// A simulation's results, in a separate folder.
fn simulated(ios: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let job = "[global]\nioengine=libaio\nbs=4k\niodepth=8\nsize=64m\n[r]\nrw=randread\nnumber_ios=2000\n\
               [w]\nrw=randwrite\nnumber_ios=1000\n";
    fs::write(folder.path().join("job.fio"), job).unwrap();
    stasis(
        folder.path(),
        &["sim", "samsung-980-pro", "--workload", "job.fio", "--ios", ios, "--quiet"],
    );
    folder
}

/// Needs blkparse and btt.
#[test]
fn blkparse_and_btt_read_the_trace() {
    let folder = simulated("csv");
    let stderr = stasis(folder.path(), &["export", "results", "--blktrace", "trace"]);
    assert!(stderr.contains("3000 I/Os"), "{stderr}");
    let mut command = Command::new("blkparse");
    command.args(["-i", "drive0", "-D", "trace", "-d", "all.bin", "-f", "%a %d %T.%t %S %N %e\n"]);
    let parsed = run(command.current_dir(folder.path()));
    let parsed = String::from_utf8(parsed.stdout).unwrap();
    let events = |action: &str| parsed.lines().filter(|line| line.starts_with(action)).count();
    assert_eq!([events("Q "), events("D "), events("C ")], [IOS; 3]);

    // Each row of ios.csv is there, at its times to the ns.
    let rows = fs::read_to_string(folder.path().join("results/ios.csv")).unwrap();
    let lines: std::collections::HashSet<&str> = parsed.lines().collect();
    for row in rows.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let direction = if fields[2] == "read" { "R" } else { "W" };
        for (action, time) in [("D", fields[6]), ("C", fields[8])] {
            let time: u64 = time.parse().unwrap();
            let (s, ns) = (time / 1_000_000_000, time % 1_000_000_000);
            let line = format!("{action} {direction} {s}.{ns:09} {} {} 0", fields[3], fields[4]);
            assert!(lines.contains(line.as_str()), "{line}: not in\n{}", &parsed[..300]);
        }
    }

    let report = run(Command::new("btt").args(["-i", "all.bin"]).current_dir(folder.path()));
    let report = String::from_utf8(report.stdout).unwrap();
    let row = report.lines().find(|line| line.starts_with("D2C")).unwrap();
    assert!(row.trim().ends_with("3000"), "{row}");
}

/// Each I/O of a simulation in the order of submission: operation, LBA, length, and time since
/// the first.
fn submitted(results: &Path) -> Vec<(String, String, String, u64)> {
    let rows = fs::read_to_string(results.join("ios.csv")).unwrap();
    let mut rows: Vec<Vec<&str>> =
        rows.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    rows.sort_by_key(|row| number(row[14]));
    let begin = number(rows[0][6]);
    let io = |row: &Vec<&str>| {
        let [operation, lba, bytes] = [row[2], row[3], row[4]].map(str::to_owned);
        (operation, lba, bytes, number(row[6]) - begin)
    };
    rows.iter().map(io).collect()
}

#[test]
fn a_trace_that_was_exported_is_the_same_ios_when_it_is_read() {
    let folder = simulated("csv");
    stasis(folder.path(), &["export", "results", "--blktrace", "trace"]);
    let first = submitted(&folder.path().join("results"));
    assert_eq!(first.len(), IOS);
    // By the file, and by the name that blkparse would be given.
    for trace in ["trace/drive0.blktrace.0", "trace/drive0"] {
        let words =
            ["sim", "fixed:10us", "--trace", trace, "--results", "again", "--quiet", "--ios=csv"];
        stasis(folder.path(), &words);
        assert_eq!(submitted(&folder.path().join("again")), first, "{trace}");
    }
    let summary = fs::read(folder.path().join("again/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["trace"]["submitted"], IOS);
    assert_eq!(summary["trace"]["left_out"]["operations"], 0);
    // A smaller drive, and the effect of that.
    let words = ["sim", "fixed:10us", "--trace", "trace/drive0", "--size", "16MiB", "--wrap"];
    let stderr = stasis(folder.path(), &words);
    assert!(stderr.contains("lie beyond the drive and were brought back to it"), "{stderr}");
}

/// Needs blkparse, which reads the same file in its own way.
#[test]
fn a_trace_is_read_as_blkparse_reads_it() {
    let folder = simulated("csv");
    stasis(folder.path(), &["export", "results", "--blktrace", "trace"]);
    let parsed =
        run(Command::new("blkparse").args(["-q", "-i", "trace/drive0"]).current_dir(folder.path()));
    fs::write(folder.path().join("parsed.txt"), parsed.stdout).unwrap();
    let rows = ["trace/drive0", "parsed.txt"].map(|trace| {
        stasis(
            folder.path(),
            &["sim", "fixed:10us", "--trace", trace, "--quiet", "--results", "r", "--ios=csv"],
        );
        fs::read_to_string(folder.path().join("r/ios.csv")).unwrap()
    });
    assert!(rows[0] == rows[1], "{}\n{}", &rows[0][..500], &rows[1][..500]);
}

/// Needs fio.
#[test]
fn fio_replays_the_trace() {
    let folder = simulated("zst");
    stasis(folder.path(), &["export", "results", "--blktrace", "trace"]);
    let mut command = Command::new("fio");
    command.args(["--name=replay", "--ioengine=null", "--read_iolog=trace/drive0.blktrace.0"]);
    command.args(["--replay_no_stall=1", "--replay_redirect=/dev/null", "--output-format=json"]);
    let output = run(command.current_dir(folder.path()));
    let report = String::from_utf8(output.stdout).unwrap();
    let report = &report[report.find('{').unwrap()..];
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let job = &report["jobs"][0];
    let count = |way: &str| job[way]["total_ios"].as_u64().unwrap();
    assert_eq!((count("read"), count("write")), (2000, 1000));
}

#[test]
fn fios_log_has_each_latency() {
    let folder = simulated("parquet");
    stasis(folder.path(), &["export", "results", "--fio-log", "."]);
    let log = fs::read_to_string(folder.path().join("drive0_clat.1.log")).unwrap();
    assert_eq!(log.lines().count(), IOS);
    for line in log.lines() {
        let fields: Vec<u64> = line.split(", ").map(|field| field.parse().unwrap()).collect();
        assert!(fields.len() == 6 && fields[1] > 0 && fields[2] < 2 && fields[3] == 4096, "{line}");
    }
}

/// The spans that a simulation keeps are in the trace, beside the I/Os.
#[test]
fn perfetto_gets_what_happened_inside() {
    let folder = simulated("none");
    let words = ["sim", "flash-tlc", "--workload", "job.fio", "--timeline", "--results", "r"];
    stasis(folder.path(), &words);
    let summary = fs::read(folder.path().join("r/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let spans = summary["timeline"]["spans"].as_u64().unwrap();
    // A read of 4 KiB is at the cells and on the channel.
    assert!(spans > 4000 && summary["timeline"]["lost"] == 0, "{}", summary["timeline"]);
    let stderr = stasis(folder.path(), &["export", "r", "--perfetto", "r.perfetto-trace"]);
    let all = format!("{IOS} I/Os, {spans} spans of what happened inside");
    assert!(stderr.contains(&all), "{stderr}: not {all}");
    let stderr = stasis(folder.path(), &["export", "r", "--perfetto", "x", "--drive", "drive0"]);
    assert!(stderr.contains(&all), "{stderr}");

    // Looking changes no I/O, and the same again is the same bytes.
    let again = ["sim", "flash-tlc", "--workload", "job.fio", "--results", "plain"];
    stasis(folder.path(), &again);
    let files = fs::read_dir(folder.path().join("plain")).unwrap();
    for name in files.map(|file| file.unwrap().file_name()) {
        let read = |results: &str| fs::read(folder.path().join(results).join(&name)).unwrap();
        assert!(!name.to_string_lossy().starts_with("ios.") || read("plain") == read("r"));
        assert_ne!(name, "timeline.parquet");
    }
    let timeline = || fs::read(folder.path().join("r/timeline.parquet")).unwrap();
    let first = timeline();
    stasis(folder.path(), &words);
    assert!(timeline() == first);
    fs::write(folder.path().join("r/timeline.parquet"), &first[..first.len() / 2]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
    command.args(["export", "r", "--perfetto", "x"]).current_dir(folder.path());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("no whole Parquet file"), "{stderr}");
}

#[test]
fn what_cannot_be_exported_is_told() {
    let folder = simulated("csv");
    let fails = |words: &[&str], why: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        let output = command.args(words).current_dir(folder.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(why), "{words:?}: {stderr}");
    };
    fails(
        &["export", "results"],
        "--blktrace, --perfetto, --pprof, --off-cpu, --fio-log or --log-writes",
    );
    fails(&["export", "results", "--pprof", "x"], "a run with --profile leaves it");
    fails(&["export", "results", "--off-cpu", "x"], "run it with --guest-times");
    assert!(!folder.path().join("x").exists(), "nothing is written for nothing");
    fs::write(folder.path().join("results/profile.folded"), "vCPU 0;a 1\n").unwrap();
    fails(&["export", "results", "--pprof", "x"], "no interval of a profile");
    fails(&["export", "nothing", "--perfetto", "x"], "nothing");
    fails(&["export", "results", "--drive", "none", "--perfetto", "x"], "it has drive0");
    fs::write(folder.path().join("ios.parquet"), "PAR1 and no more").unwrap();
    fails(&["export", "ios.parquet", "--perfetto", "x"], "no whole Parquet file");
    fs::write(folder.path().join("other.csv"), "a,b\n1,2\n").unwrap();
    fails(&["export", "other.csv", "--perfetto", "x"], "not those of ios.csv");
}

/// The log of a trace, whose form `crates/experiments/crash/src/log_writes.rs` tests.
#[test]
fn a_crash_tests_trace_is_a_log_of_dm_log_writes() {
    use stasis_block::{Command as Io, Operation, Status};
    use stasis_crash::{Frame, Level, TraceHeader, TraceWriter, TracedDrive};
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    fs::create_dir(&results).unwrap();
    let drive = |name: &str| TracedDrive { name: name.into(), ..TracedDrive::default() };
    let header = TraceHeader { drives: vec![drive("a"), drive("b")], ..TraceHeader::default() };
    let mut bytes = Vec::new();
    let mut trace = TraceWriter::new(&mut bytes, &header).unwrap();
    let data = vec![7; 4096];
    let (level, at) = (Level::Guest, 0);
    let command = Io::new(Operation::Write, 8192, 4096);
    for frame in [
        Frame::Request { drive: 1, level, place: 0, at, command, data: &data },
        Frame::Completion { drive: 1, level, place: 0, at, status: Status::Ok },
        Frame::Output { at, bytes: b"step 1\n" },
    ] {
        trace.frame(&frame).unwrap();
    }
    trace.finish().unwrap();
    fs::write(results.join("run.record"), &bytes).unwrap();
    let stderr = stasis(folder.path(), &["export", "results", "--log-writes", "logs"]);
    assert!(stderr.contains("a.log: 2 entries") && stderr.contains("b.log: 3 entries"), "{stderr}");
    let log = fs::read(folder.path().join("logs/b.log")).unwrap();
    // The superblock, a mark, a write with its data, the mark of the end.
    assert_eq!(log.len(), 512 + 512 + (512 + 4096) + 512);
    assert_eq!((&log[544..550], &log[1536..1540]), (&b"step 1"[..], &[7; 4][..]));
    let only = stasis(folder.path(), &["export", "results", "--log-writes", "one", "--drive", "a"]);
    assert!(only.contains("a.log") && !only.contains("b.log"), "{only}");
    fs::write(results.join("run.record"), &bytes[..bytes.len() - 9]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
    command.args(["export", "results", "--log-writes", "cut"]).current_dir(folder.path());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("damaged or cut off"), "{error}");
}

/// A log takes the place of a run, and one that does not fit is refused.
#[test]
fn a_log_of_dm_log_writes_is_tested_without_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let experiment = "command = ['true']\n[[drive]]\nname = 'disk'\nmodel = 'fixed:100us'\n\
                      medium = { ram = '1MiB' }\n";
    fs::write(path("test.toml"), experiment).unwrap();
    let sector = |fields: &[u64], text: &[u8]| {
        let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        bytes.extend_from_slice(text);
        bytes.resize(512, 0);
        bytes
    };
    // WRITE_LOG_MAGIC of drivers/md/dm-log-writes.c; flags 1: flush, 8: mark.
    let log = [
        sector(&[0x6a_7366_7773_6872, 1, 4, 512], b""),
        sector(&[8, 1, 0, 0], b""),
        vec![7; 512],
        sector(&[0, 0, 1, 0], b""),
        sector(&[0, 0, 8, 9], b"durable 1"),
        sector(&[0, 0, 8, 17], b"dm-log-writes-end"),
    ]
    .concat();
    fs::write(path("one.log"), &log).unwrap();
    let test = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stasis"));
        let words = [&["crash-test", "test.toml", "--json"], more].concat();
        command.args(words).current_dir(folder.path()).output().unwrap()
    };
    let output = test(&["--log-writes", "one.log", "--results", "r", "--states", "40"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // Empty, with the sector, and with the sector and the promise of the flush.
    assert_eq!((&report["cuts"], &report["distinct"]), (&40.into(), &3.into()), "{report}");
    assert_eq!(report["guest_commands"], 2);

    // After the flush the sector is there, on top of what was there before.
    let mut base = vec![3; 1 << 20];
    fs::write(path("base.img"), &base).unwrap();
    let output = test(&["--log-writes", "one.log", "--base", "base.img", "--results", "b"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // State 0 is the end with everything lost that may be; the trace needs no log any more.
    fs::remove_file(path("one.log")).unwrap();
    let output = test(&["--trace", "b", "--results", "kept", "--state", "0", "--keep-disk"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    base[8 * 512..9 * 512].fill(7);
    assert!(fs::read(path("kept/disk.state-0.img")).unwrap() == base);

    fs::write(path("cut.log"), &log[..log.len() - 1]).unwrap();
    fs::write(path("short.img"), [0; 4096]).unwrap();
    fs::write(path("one.log"), &log).unwrap();
    for (words, why) in [
        (&["--log-writes", "cut.log"][..], "cut.log: it is cut off in entry 3 of 4"),
        (&["--log-writes", "test.toml"], "test.toml: it is no log of dm-log-writes"),
        (&["--log-writes", "no.log"], "cannot read no.log"),
        (&["--log-writes", "one.log", "--base", "short.img"], "it has 4KiB and the drive"),
        (&["--log-writes", "one.log", "--trace", "b"], "cannot be used with"),
        (&["--base", "base.img"], "--log-writes"),
    ] {
        let output = test(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(why), "{words:?}: {stderr}");
    }
    fs::write(path("test.toml"), experiment.replace("name", "namespaces = 2\nname")).unwrap();
    let output = test(&["--log-writes", "one.log"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("it has `namespaces`"), "{stderr}");
}
