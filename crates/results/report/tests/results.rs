//! A run's results as a reader finds them.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use parquet::basic::Encoding;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use serde_json::{json, Map, Value};
use stasis_block::inside::Inside;
use stasis_block::{Command, Operation};
use stasis_report::page::{Block, Page, Section};
use stasis_report::{text_summary, ResultsWriter};
use stasis_results::{
    comparable, Changes, Drive, Ios, KeptIos, ResultsError, ResultsFolder, Summary,
};
use stasis_run_events::{
    Ending, Exits, IoRecord, IoStatus, MachineOutcome, Outcome, Overshoot, ProcessorOutcome,
    Processors,
};

const OPERATIONS: [&str; 5] = ["read", "write", "flush", "discard", "write-zeroes"];

fn drive(name: &str) -> Drive {
    let [model, interface, medium] = ["fixed:100us", "nvme", "ram:1GiB"].map(str::to_owned);
    Drive {
        name: name.to_owned(),
        model,
        parameters: json!({ "kind": "fixed", "read": "100us" }),
        changes: None,
        interface,
        medium,
    }
}

fn outcome(wall_ns: u64) -> Outcome {
    Outcome {
        virtual_ns: 12_000_000_001,
        boot_virtual_ns: 2_000_000_000,
        boot_wall_ns: wall_ns / 2,
        wall_ns,
        frozen_ns: wall_ns / 3,
        skipped_ns: 4_000_000_000,
        exits: Exits { total: 12_345, io: 345, mmio: 2_000, msr: 10_000, ..Exits::default() },
        overshoot: Overshoot { p50: 1, p99: 20, max: 300 },
        calibration: vec![("io".to_owned(), 2880)],
        tsc_khz: 5_000_000,
        ..Outcome::of(Ending::Exited(3))
    }
}

fn record(index: u64) -> IoRecord {
    let submit = 2_000_000_000 + index * 110_000;
    let operation = if index.is_multiple_of(3) { Operation::Write } else { Operation::Read };
    let failed = index % 1000 == 999;
    IoRecord {
        drive: (index % 2) as u16,
        queue: 1,
        status: if failed { IoStatus::Error } else { IoStatus::Ok },
        code: if failed { 0x281 } else { 0 },
        boot: index < 10,
        fua: index % 5 == 4,
        order: index / 2,
        submit,
        target: submit + 100_000 + index % 7,
        delivered: submit + 100_000 + index % 11,
        ..IoRecord::of(&Command::new(operation, index * 4096, 4096))
    }
}

fn finish(writer: ResultsWriter, wall_ns: u64) -> Summary {
    let extra: Map<String, Value> = [
        ("command".to_owned(), json!(["fio", "--name=<b>x</b>"])),
        ("engine".to_owned(), json!("not this one")),
        ("seed".to_owned(), json!(7)),
    ]
    .into_iter()
    .collect();
    writer.finish(&outcome(wall_ns), "exact", Duration::from_nanos(wall_ns), extra).unwrap()
}

fn run(folder: &Path, records: &[IoRecord], wall_ns: u64) -> Summary {
    let mut writer = ResultsWriter::create(folder, vec![drive("a"), drive("b")]).unwrap();
    records.chunks(100).for_each(|batch| writer.record(batch).unwrap());
    finish(writer, wall_ns)
}

fn json(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn the_summary_has_what_is_promised() {
    let folder = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..5000).map(record).collect();
    let summary = run(folder.path(), &records, 9_000_000_000);
    let json = json(folder.path());
    assert_eq!(serde_json::from_value::<Summary>(json.clone()).unwrap(), summary);
    assert_eq!(json["engine"], "exact");
    assert_eq!(json["exit_status"], 3);
    assert_eq!(json["ending"], "exited");
    assert_eq!(json["virtual_seconds"], 12.000000001);
    assert_eq!(json["wall_seconds"], 9.0);
    assert_eq!(json["frozen_seconds"], 3.0);
    assert_eq!(json["skipped_seconds"], 4.0);
    assert_eq!(json["exits"], 12_345);
    let ios = summary.ios() as f64;
    for (name, count) in [("total", 12_345.0), ("io", 345.0), ("mmio", 2_000.0), ("halt", 0.0)] {
        let each = json["exits_per_io"][name].as_f64().unwrap();
        assert!((each - count / ios).abs() <= 0.0005, "{name}: {each}");
    }
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    for (label, count) in [("port I/O", 345.0), ("memory-mapped I/O", 2_000.0), ("halt", 0.0)] {
        let text = format!("{label}, {:.2} for each I/O", count / ios);
        assert!(page.contains(&text), "{text}");
    }
    assert_eq!(json["overshoot_ns"], json!({"p50": 1, "p99": 20, "max": 300}));
    assert_eq!(json["seed"], 7);
    let latencies: Vec<u64> = records
        .iter()
        .filter(|r| !r.boot && r.drive == 1 && r.operation == Operation::Read)
        .map(|r| r.delivered - r.submit)
        .collect();
    let read = &json["drives"][1]["read"];
    assert_eq!(read["count"], latencies.len());
    assert_eq!(read["bytes"], latencies.len() * 4096);
    assert_eq!(read["delivered_ns"]["max"], *latencies.iter().max().unwrap());
    assert_eq!(read["percentiles"], "exact");
    assert_eq!(json["drives"][1]["boot_ios"], 5);
    let errors: u64 = (0..2)
        .flat_map(|d| OPERATIONS.map(|o| json["drives"][d][o]["errors"].as_u64().unwrap()))
        .sum();
    assert_eq!(errors, 5);
    for drive in json["drives"].as_array().unwrap() {
        for name in ["name", "model", "interface", "medium"] {
            assert!(drive[name].is_string());
        }
        for (operation, kind) in
            OPERATIONS.iter().flat_map(|o| ["target_ns", "delivered_ns"].map(|kind| (o, kind)))
        {
            let names = "mean min p1 p5 p10 p25 p50 p75 p90 p95 p99 p99.9 p99.99 max";
            let figures = drive[operation][kind].as_object().unwrap();
            assert_eq!(figures.len(), 14);
            for name in names.split(' ') {
                assert!(figures[name].is_number(), "{operation} {kind} {name}");
            }
        }
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let folders = [1, 1, 2].map(|_| tempfile::tempdir().unwrap());
    let records: Vec<_> = (0..20_000).map(record).collect();
    run(folders[0].path(), &records, 9_000_000_000);
    run(folders[1].path(), &records, 9_000_000_000);
    run(folders[2].path(), &records, 7_777_777_777);
    let read = |index: usize, name: &str| fs::read(folders[index].path().join(name)).unwrap();
    for name in ["ios.csv", "summary.json", "report.html"] {
        assert_eq!(read(0, name), read(1, name), "{name}");
    }
    assert_ne!(json(folders[0].path()), json(folders[2].path()));
    let text = |index: usize| comparable(&json(folders[index].path())).to_string();
    assert_eq!(text(0), text(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_survive_the_file(
        names in prop::collection::vec("\\PC{0,8}|[\",\r\n a]{1,6}", 1..4),
        raw in prop::collection::vec(
            (any::<[u16; 5]>(), 0u8..8, any::<[bool; 4]>(), any::<[u64; 7]>()), 0..30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let drives = names.iter().map(|name| drive(name)).collect();
        let mut writer = ResultsWriter::with_exact_bound(folder.path(), drives, 10).unwrap();
        let records: Vec<IoRecord> = raw
            .into_iter()
            .map(|([drive, queue, stream, priority, code], operation, [failed, boot, fua, refused], numbers)| {
                let [offset, bytes, source, order, submit, target, delivered] = numbers;
                let drive = drive % names.len() as u16;
                let operation = Operation::from_number(operation).unwrap();
                let [offset, source] = [offset, source].map(|byte| byte / 512 * 512);
                let status = match (refused, failed) {
                    (true, _) => IoStatus::Refused,
                    (_, true) => IoStatus::Error,
                    _ => IoStatus::Ok,
                };
                IoRecord {
                    drive, queue, operation, status, code, boot, fua, stream, priority, offset, bytes, source, order,
                    submit, target, delivered, image: 0, limited: 0, scheduled: 0, fault: 0,
                }
            })
            .collect();
        writer.record(&records).unwrap();
        // Read before the end: the file must already be whole.
        let mut reader = csv::Reader::from_path(folder.path().join("ios.csv")).unwrap();
        let header: Vec<_> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        prop_assert_eq!(header.join(","), stasis_run_events::text::heading());
        let mut rows = reader.records();
        for record in &records {
            let row = rows.next().unwrap().unwrap();
            prop_assert_eq!(&row[0], &names[usize::from(record.drive)]);
            prop_assert_eq!(&row[1], if record.boot { "boot" } else { "command" });
            prop_assert_eq!(&row[2], record.operation.name());
            let numbers: Vec<u64> = (3..9).map(|column| row[column].parse().unwrap()).collect();
            prop_assert_eq!(numbers, vec![
                record.offset / 512, record.bytes, record.queue.into(),
                record.submit, record.target, record.delivered,
            ]);
            let status = match record.status {
                IoStatus::Ok => "ok",
                IoStatus::Error => "error",
                IoStatus::Refused => "refused",
            };
            prop_assert_eq!(&row[9], status);
            prop_assert_eq!(&row[15], format!("{:#x}", record.code));
            let numbers: Vec<u64> = (10..15).map(|column| row[column].parse().unwrap()).collect();
            prop_assert_eq!(numbers, vec![
                record.fua.into(), record.stream.into(), record.priority.into(), record.source / 512, record.order,
            ]);
        }
        prop_assert!(rows.next().is_none());
        finish(writer, 1);
    }
}

#[test]
fn hostile_names_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let name = "<script>alert('x')</script>\" onload=\"y\u{1b}[2J";
    let mut writer = ResultsWriter::create(folder.path(), vec![drive(name)]).unwrap();
    writer.record(&[IoRecord { drive: 0, ..record(100) }]).unwrap();
    let summary = finish(writer, 1_000);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    // The page's own script, which names nothing of the run, and no other.
    let [before, script, after] = page.split("script>").collect::<Vec<_>>()[..] else { panic!() };
    assert!(!script.contains("alert") && !script.contains("fio"));
    let page = format!("{before}{after}");
    assert!(!page.contains("<script") && !page.contains("\" onload=\"") && !page.contains("<b>x"));
    assert!(page.contains("&lt;script&gt;") && page.contains("fio --name=&lt;b&gt;x&lt;/b&gt;"));
    for part in [page.as_str(), script] {
        assert!(!part.contains("http://") && !part.contains("https://"));
        // A plot's own parts are named by what stands behind #.
        assert!(!part.replace("url(#", "").contains("url("));
    }
    assert!(!text_summary(&summary).contains('\u{1b}'));
    assert_eq!(json(folder.path())["drives"][0]["name"], name);
}

#[test]
fn a_run_without_io_is_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let summary = run(folder.path(), &[], 0);
    assert_eq!(summary.ios(), 0);
    assert_eq!(json(folder.path())["exits_per_io"], json!({}));
    assert_eq!(json(folder.path())["drives"][0]["read"]["target_ns"]["p99.9"], 0);
    assert!(text_summary(&summary).starts_with("No I/O"));
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("The command made no I/O to this drive."));
    // Nor does it need a drive.
    finish(ResultsWriter::create(folder.path(), Vec::new()).unwrap(), 0);
}

#[test]
fn one_io_is_every_percentile() {
    let folder = tempfile::tempdir().unwrap();
    let summary = run(folder.path(), &[IoRecord { drive: 0, ..record(100) }], 1);
    let read = &summary.drives[0].read;
    assert_eq!(read.count, 1);
    assert!(read.delivered_ns.percentiles().iter().all(|&(_, ns)| ns == 100_001));
    let text = text_summary(&summary);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("delivered"), "{text}");
}

#[test]
fn a_page_says_who_used_the_drive() {
    for (engine, says, hides) in [
        ("exact", "what the guest got", "since the server began"),
        ("sim", "Virtual time since the first measured I/O", "guest got"),
        ("serve", "Time since the server began", "Virtual time"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
        writer.record(&[IoRecord { drive: 0, ..record(100) }]).unwrap();
        writer.finish(&outcome(1), engine, Duration::from_secs(1), Map::new()).unwrap();
        let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
        assert!(page.contains(says), "{engine}: {says}");
        assert!(!page.contains(hides), "{engine}: {hides}");
        assert_eq!(page.contains("delivered"), engine != "sim", "{engine}");
        assert!(!page.contains("p99.99"), "{engine}: of one I/O");
    }
}

#[test]
fn a_summary_has_a_drives_description_beside_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
    let summary = writer.finish(&outcome(1), "exact", Duration::ZERO, Map::new()).unwrap();
    let written = json(folder.path());
    let described = written["drives"][0].as_object().unwrap();
    for (key, value) in serde_json::to_value(drive("a")).unwrap().as_object().unwrap() {
        assert_eq!(described[key], *value);
    }
    for key in ["name", "model", "parameters", "interface", "medium", "boot_ios", "read"] {
        assert!(described.contains_key(key), "{key}");
    }
    assert_eq!(serde_json::from_value::<Summary>(written).unwrap(), summary);
}

#[test]
fn the_page_says_where_results_come_from_and_what_the_models_were() {
    let folder = tempfile::tempdir().unwrap();
    let writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
    let mut extra = Map::new();
    extra.insert("stasis_version".into(), "1.2.3".into());
    extra.insert("command_line".into(), "stasis run -- 'a b' <c>".into());
    let summary = writer.finish(&outcome(1), "exact", Duration::ZERO, extra).unwrap();
    assert_eq!(summary.drives[0].described.parameters["read"], "100us");
    assert!(comparable(&json(folder.path())).get("command_line").is_none());
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    for word in [
        "Where this comes from",
        "stasis run -- 'a b' &lt;c&gt;",
        "The model of a",
        "&quot;100us&quot;",
    ] {
        assert!(page.contains(word) || page.contains(&word.replace('\'', "&#39;")), "{word}");
    }
}

#[test]
fn the_page_of_a_branch_says_of_which_run_it_is_one_and_since_when() {
    let page = |branch: Value| {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
        writer.record(&[record(20)]).unwrap();
        let extra = [("branch".to_owned(), branch)].into_iter().collect();
        writer.finish(&outcome(1), "exact", Duration::ZERO, extra).unwrap();
        fs::read_to_string(folder.path().join("report.html")).unwrap()
    };
    let change = |key: &str, was: Value, is: Value| json!({ "key": key, "was": was, "is": is });
    let seed = change("seed", json!(7), json!(8));
    let model = change("drive.a.model.read", Value::Null, json!("2<us>"));
    let html = page(json!({ "of_seed": 7, "at_ns": 12_345_678, "changes": [seed, model] }));
    let expected =
        "A branch: for 12.346 ms of its commands' time the run with seed 7, from there on \
                    with seed 8 (was 7), drive.a.model.read 2&lt;us&gt; (was none) changed.";
    let plain = html.replace("&#39;", "'").replace("&#x27;", "'");
    assert!(plain.contains(expected), "{}", &plain[..plain.len().min(6000)]);
    let many: Vec<Value> = (0..9).map(|n| change(&format!("k{n}"), json!(0), json!(1))).collect();
    let html = page(json!({ "of_seed": 7, "at_ns": 1_000, "changes": many }));
    assert!(html.contains("k5 1 (was 0), 3 more changed.") && !html.contains("k6 1"));
    let html = page(json!({ "of_seed": 7, "at_ns": null, "changes": [] }));
    assert!(html.contains("ended before the branch"), "{}", &html[..html.len().min(6000)]);
    assert!(!page(Value::Null).contains("A branch of the run"));
}

/// I/Os that a power cut took have no row: a page has their number, and nothing else of them.
#[test]
fn ios_that_a_failure_cut_off_are_counted() {
    let run = |cut_ios: Vec<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
        writer.record(&[record(20)]).unwrap();
        let outcome = Outcome { cut_ios, ..outcome(1) };
        writer.finish(&outcome, "exact", Duration::ZERO, Map::new()).unwrap();
        let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
        (json(folder.path())["drives"][0].clone(), page)
    };
    let (drive, page) = run(vec![3]);
    assert_eq!(drive["cut_ios"], 3);
    let count: u64 = ["read", "write"].iter().filter_map(|one| drive[one]["count"].as_u64()).sum();
    assert_eq!(count, 1);
    let sentence = "3 I/Os were under way when the machine failed. They have no end, no latency and no row, and are in \
                no figure of this page.";
    assert!(page.contains(sentence), "{sentence}");
    assert!(run(vec![1]).1.contains("1 I/O was under way when the machine failed. It has no end"));
    for (drive, page) in [run(vec![0]), run(Vec::new())] {
        assert!(drive.get("cut_ios").is_none() && !page.contains("when the machine failed"));
    }
}

#[test]
fn jobs_and_those_who_share_a_drive_have_their_sections() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
    writer.by_job(vec![("log".into(), 1), ("table".into(), 2)]);
    writer.of_machines(vec!["desk".into()], vec![None]).unwrap();
    let io =
        |queue, index| IoRecord { drive: 0, queue, operation: Operation::Read, ..record(index) };
    writer.record(&[io(0, 100), io(1, 101), io(2, 102), io(2, 103)]).unwrap();
    let shared = serde_json::from_str(include_str!("shared.json")).unwrap();
    let outcome = Outcome {
        shared: vec![shared],
        lost_spans: 0,
        restarts: Vec::new(),
        machines: vec![MachineOutcome {
            name: "desk".into(),
            ending: None,
            started_ns: Some(5),
            virtual_ns: None,
            refused_help: 0,
            refused_calls: 0,
        }],
        ..outcome(1)
    };
    let disk = json!({ "name": "disk", "limits": { "iops": 500 } });
    let experiment = json!({
        "machine": [{ "name": "desk", "disk": [disk] }],
        "drive": [{ "name": "a", "limits": { "bandwidth": "20MB/s" } }],
    });
    let extra = [("experiment".to_owned(), experiment)].into_iter().collect();
    let summary = writer.finish(&outcome, "exact", Duration::ZERO, extra).unwrap();
    let counts: Vec<_> = summary.jobs.iter().map(|job| job.operations["read"].count).collect();
    assert_eq!(counts, [1, 3]);
    // One basis of rates: each job's operation is over its own time.
    for job in &summary.jobs {
        let read = &job.operations["read"];
        assert_eq!(read.active_seconds, job.virtual_seconds);
        assert_eq!(read.iops, read.count as f64 / read.active_seconds);
    }
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    for shown in [
        "<h2>Jobs</h2>",
        "went on until the others had ended",
        "Requests that waited for a limit",
        "25 ms",
        // By weights of 100 each, of which one asks in three of four steps: half of these.
        "by weight",
        "37.5 %",
        "62.5 %",
        "help for 200 ms; 20 of 30 requests waited for its limit of 500 I/Os a second",
        // The value of a limit and the threshold stand where the page uses the words.
        "its limit",
        "<td data-c=\"its limit\">500 I/Os a second</td>",
        "Its limit: 20 MB/s.",
        "has suffered where its worst is more than 1.5 times its usual one",
        "<h2>Tenants of disk</h2>",
        "The scheduler is bfq; its parameters are at the end of this part. Weights divide the amount",
        "<dt>depth = 1</dt><dd>requests at the drive at once;",
        "75 %",
        "Help that guests asked for",
        "Bandwidth of the host&#39;s workloads",
        "p99 of each tenant over time",
        "desk.disk: 900 µs at 2.5 ms",
        "readers: 70 µs at 1.5 ms",
        "The tenant desk.disk suffered, from 2 ms to 3 ms: there its p99 was 900 µs, 9 times the usual 100 µs. \
         No other tenant did. A tenant suffers in a step of the time whose p99 is more than 1.5 times its usual one; a request \
         belongs to the step in which it ended, and can have begun before. The limit \
         of desk.disk (500 I/Os a second) delayed 20 of its 30 requests, by 25 ms on average.",
        "<th scope=\"row\">readers</th><td data-c=\"operation\">all</td>",
    ] {
        let shown = shown.to_owned();
        assert!(page.contains(&shown) || page.contains(&shown.replace("&#39;", "'")), "{shown}");
    }
    let place = |heading: &str| page.find(heading).unwrap_or_else(|| panic!("{heading}"));
    assert!(place("<h2>Tenants of disk</h2>") < place("<h2>Drive a</h2>"), "tenants come first");
}

#[test]
fn several_processors_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let processor = |number, running_ns| ProcessorOutcome {
        machine: 0,
        number,
        running_ns,
        shares: vec![0.25, 1.0],
    };
    let outcome = Outcome {
        virtual_ns: 10_000_000_000,
        frozen_ns: 7_250_000_000,
        processors: Processors {
            slices: 54_321,
            call: Overshoot { p50: 1_300, p99: 17_700, max: 19_900 },
            clock_skew_max_ns: 20_400,
            step_ns: 5_000_000_000,
            each: vec![processor(0, 6_500_000_000), processor(1, 2_000_000_000)],
            ..Processors::default()
        },
        ..outcome(1)
    };
    let writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
    writer.finish(&outcome, "exact", Duration::ZERO, Map::new()).unwrap();
    let summary = json(folder.path());
    let each = summary["processors"].as_array().unwrap();
    for (processor, running, idle) in [(&each[0], 6.5, 3.5), (&each[1], 2.0, 8.0)] {
        assert_eq!(processor["running_seconds"], running);
        assert_eq!(processor["idle_seconds"], idle);
        assert_eq!(processor["utilization"], running / 10.0);
        assert_eq!(processor["step_seconds"], 5.0);
        assert_eq!(processor["shares"], json!([0.25, 1.0]));
    }
    assert_eq!(summary["slices"], 54_321);
    assert_eq!(summary["clock_skew_max_ns"], 20_400);
    assert_eq!(summary["processor_call_ns"], json!({"p50": 1_300, "p99": 17_700, "max": 19_900}));
    assert_eq!(summary["frozen_seconds"], 7.25);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    for part in [
        "ran for 8.5 s of virtual time together, in 54,321 slices, and were idle for 11.5 s",
        "frozen together for 7.25 s of wall-clock",
        "took 1.3 µs in the median and 17.7 µs at p99",
        "ran ahead of the others by 20.4 µs at most",
        "Share of time for which each processor ran",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn compressed_rows_are_the_same_rows() {
    let [plain, compressed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let records: Vec<_> = (10..20_010).map(record).collect();
    run(plain.path(), &records, 1);
    let claimed = ResultsFolder::claim(compressed.path(), &[]).unwrap();
    let drives = vec![drive("a"), drive("b")];
    let mut writer = ResultsWriter::within(claimed, drives, Ios::Zst).unwrap();
    records.chunks(7).for_each(|batch| writer.record(batch).unwrap());
    finish(writer, 1);
    let bytes = fs::read(compressed.path().join("ios.csv.zst")).unwrap();
    let rows = zstd::decode_all(&bytes[..]).unwrap();
    assert!(rows == fs::read(plain.path().join("ios.csv")).unwrap());
    assert!(bytes.len() * 4 < rows.len(), "{} of {}", bytes.len(), rows.len());
    assert!(!compressed.path().join("ios.csv").exists());
}

/// The rows of an `ios.parquet`, written as `ios.csv` has them.
fn rows_of_parquet(path: &Path) -> Vec<Vec<String>> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let field = |(name, field): (&String, &Field)| match (name.as_str(), field) {
        ("fua", Field::Bool(yes)) => u8::from(*yes).to_string(),
        ("code", Field::UShort(code)) => format!("{code:#x}"),
        (_, Field::UShort(number)) => number.to_string(),
        (_, Field::ULong(number)) => number.to_string(),
        (_, Field::Str(word)) => word.clone(),
        other => panic!("{other:?}"),
    };
    let rows = file.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().get_column_iter().map(field).collect()).collect()
}

#[test]
fn the_same_ios_by_column_are_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..100_000).map(record).collect();
    let bytes = ["1", "2"].map(|name| {
        let claimed = ResultsFolder::claim(&folder.path().join(name), &[]).unwrap();
        let mut writer =
            ResultsWriter::within(claimed, vec![drive("a"), drive("b")], Ios::Parquet).unwrap();
        records.chunks(1000).for_each(|piece| writer.record(piece).unwrap());
        let fields = ["started_at", "command_line", "qemu", "host_kernel"];
        let mut extra: Map<_, _> = fields
            .map(|field| (field.to_owned(), format!("{field} {name}").into()))
            .into_iter()
            .collect();
        extra.insert("seed".into(), 7.into());
        writer.finish(&outcome(1), "exact", Duration::from_secs(1), extra).unwrap();
        fs::read(folder.path().join(name).join("ios.parquet")).unwrap()
    });
    assert!(bytes[0] == bytes[1], "{} and {} bytes", bytes[0].len(), bytes[1].len());
}

#[test]
fn rows_by_column_are_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let records: Vec<_> = (0..150_000).map(record).collect();
    let drives = || vec![drive("a"), drive("odd, \"name\"")];
    let claim = |name: &str| ResultsFolder::claim(&folder.path().join(name), &[]).unwrap();
    let mut plain = ResultsWriter::within(claim("csv"), drives(), Ios::Csv).unwrap();
    let mut columns = ResultsWriter::within(claim("parquet"), drives(), Ios::Parquet).unwrap();
    for piece in records.chunks(1000) {
        plain.record(piece).unwrap();
        columns.record(piece).unwrap();
    }
    finish(plain, 1);
    let mut extra = Map::new();
    extra.insert("stasis_version".into(), "1.2.3".into());
    columns.finish(&outcome(1), "exact", Duration::from_secs(1), extra).unwrap();

    let path = folder.path().join("parquet/ios.parquet");
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = file.metadata();
    assert!(metadata.num_row_groups() > 1, "memory is bounded by the group");
    let entries = metadata.file_metadata().key_value_metadata().unwrap();
    let version = entries.iter().find(|entry| entry.key == "stasis_version").unwrap();
    assert_eq!(version.value.as_deref(), Some("\"1.2.3\""));

    let units = entries.iter().find(|entry| entry.key == "units").unwrap();
    let units: Value = serde_json::from_str(units.value.as_deref().unwrap()).unwrap();
    assert_eq!((&units["submit_ns"], &units["lba"]), (&"ns".into(), &"512 B".into()));
    let columns = metadata.file_metadata().schema_descr().columns();
    let names: Vec<_> = columns.iter().map(|column| column.name()).collect();
    assert_eq!(names.join(","), stasis_run_events::text::heading());

    let mut reader = csv::Reader::from_path(folder.path().join("csv/ios.csv")).unwrap();
    let rows = rows_of_parquet(&path);
    assert_eq!(rows.len(), records.len());
    for (line, row) in reader.records().zip(&rows) {
        assert!(line.unwrap().iter().eq(row.iter()), "{row:?}");
    }
}

#[test]
fn columns_that_are_kept_as_differences_may_jump() {
    let folder = tempfile::tempdir().unwrap();
    let claimed = ResultsFolder::claim(folder.path(), &[]).unwrap();
    let mut writer = ResultsWriter::within(claimed, vec![drive("a")], Ios::Parquet).unwrap();
    let ends = [0, u64::MAX, 1, 1 << 63, (1 << 63) - 1, u64::MAX - 1];
    for index in 0..1000 {
        let submit = ends[index % ends.len()];
        let order = ends[(index + 1) % ends.len()];
        let one = IoRecord { drive: 0, submit, target: u64::MAX, order, ..record(index as u64) };
        writer.record(&[one]).unwrap();
    }
    finish(writer, 1);
    let path = folder.path().join("ios.parquet");
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    for (index, wanted) in [(2, false), (3, true), (6, true), (14, true), (15, false)] {
        let column = file.metadata().row_group(0).column(index);
        let found = column.encodings().any(|one| one == Encoding::DELTA_BINARY_PACKED);
        assert_eq!(found, wanted, "{:?}", column.column_path());
    }
    for (index, row) in rows_of_parquet(&path).iter().enumerate() {
        let wanted = [index, index + 1].map(|index| ends[index % ends.len()].to_string());
        assert_eq!([&row[6], &row[14]], [&wanted[0], &wanted[1]]);
        assert_eq!(row[7], u64::MAX.to_string());
    }
}

#[test]
fn a_parquet_file_of_no_ios_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let claimed = ResultsFolder::claim(folder.path(), &[]).unwrap();
    finish(ResultsWriter::within(claimed, vec![drive("a")], Ios::Parquet).unwrap(), 1);
    assert!(rows_of_parquet(&folder.path().join("ios.parquet")).is_empty());
}

#[test]
fn what_is_kept_is_read_back_from_each_format() {
    let records: Vec<_> = (0..70_000)
        .map(|index| {
            let refused = index % 5000 == 999;
            let status = if refused { IoStatus::Refused } else { record(index).status };
            IoRecord { status, source: 512, ..record(index) }
        })
        .collect();
    for ios in [Ios::Csv, Ios::Zst, Ios::Parquet] {
        let folder = tempfile::tempdir().unwrap();
        let claimed = ResultsFolder::claim(folder.path(), &[]).unwrap();
        let drives = vec![drive("a, b"), drive("c")];
        let mut writer = ResultsWriter::within(claimed, drives, ios).unwrap();
        writer.record(&records).unwrap();
        finish(writer, 1);
        let mut kept = KeptIos::open(folder.path()).unwrap();
        let read: Vec<_> = kept.by_ref().map(Result::unwrap).collect();
        assert!(read == records, "{ios:?}");
        assert_eq!(kept.drives(), ["a, b", "c"]);

        // Cut off in the middle: an error, not fewer rows, where the format can detect it.
        let whole = fs::read(kept.path()).unwrap();
        fs::write(kept.path(), &whole[..whole.len() / 2]).unwrap();
        let cut = KeptIos::open(folder.path()).and_then(|kept| kept.collect::<Result<Vec<_>, _>>());
        if ios == Ios::Csv {
            assert!(cut.is_err() || cut.unwrap().len() < records.len());
        } else {
            assert!(cut.unwrap_err().to_string().contains("ios."), "{ios:?}");
        }
    }
    let error = KeptIos::open(Path::new("/")).unwrap_err().to_string();
    assert!(error.contains("none of ios.csv"), "{error}");
}

#[test]
fn equal_latencies_share_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let io = record(100);
    let summary = run(folder.path(), &[IoRecord { drive: 0, delivered: io.target, ..io }], 1);
    let text = text_summary(&summary);
    let columns: Vec<_> =
        text.lines().nth(1).unwrap().split("  ").filter(|c| !c.is_empty()).collect();
    let columns: Vec<_> = columns.iter().map(|column| column.trim()).collect();
    // One I/O has a mean and a median, and no p99.
    let figures = ["100 µs", "100 µs", "–", "–"];
    let expected =
        [&["a", "read", "1", "4 KiB", "target = delivered"][..], &figures, &["0 %"]].concat();
    assert_eq!(columns, expected);
}

#[test]
fn beyond_the_bound_the_summary_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::with_exact_bound(folder.path(), vec![drive("a")], 100).unwrap();
    let records: Vec<_> = (100..300).map(|i| IoRecord { drive: 0, ..record(i) }).collect();
    writer.record(&records).unwrap();
    let summary = finish(writer, 1);
    let json = json(folder.path());
    assert_eq!(json["drives"][0]["read"]["percentiles"], "histogram");
    assert_eq!(json["drives"][0]["write"]["percentiles"], "exact");
    let p50 = summary.drives[0].read.delivered_ns.p50 as f64;
    assert!((p50 - 100_005.0).abs() < 200.0, "{p50}");
}

#[test]
fn an_unknown_drive_is_an_error_that_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
    let batch = [IoRecord { drive: 0, ..record(20) }, IoRecord { drive: 1, ..record(21) }];
    let error = writer.record(&batch).unwrap_err();
    assert!(matches!(error, ResultsError::NoSuchDrive { index: 1, drives: 1 }), "{error}");
    let rows = fs::read_to_string(folder.path().join("ios.csv")).unwrap();
    assert_eq!(rows.lines().count(), 2);
}

#[test]
fn results_of_an_earlier_run_do_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &[record(100)], 1);
    let _killed = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
    assert!(!folder.path().join("summary.json").exists());
    assert!(!folder.path().join("report.html").exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = ResultsWriter::create(&folder.path().join("file/x"), Vec::new()).unwrap_err();
    assert!(error.to_string().contains("file/x"), "{error}");
}

/// A bound that only something quadratic, or an allocation per row on a very slow
/// machine, would miss.
#[test]
fn a_million_ios_take_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::create(folder.path(), vec![drive("a"), drive("b")]).unwrap();
    let mut batch = Vec::new();
    let began = Instant::now();
    for index in 0..1_000_000 {
        batch.push(record(index));
        if batch.len() == 500 {
            writer.record(&batch).unwrap();
            batch.clear();
        }
    }
    let recorded = began.elapsed();
    let summary = finish(writer, 1_000_000);
    println!("recorded in {recorded:?}, finished in {:?}", began.elapsed() - recorded);
    assert_eq!(summary.ios(), 999_990);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let page = fs::metadata(folder.path().join("report.html")).unwrap().len();
    assert!(page < 1_000_000, "{page} bytes");
}

/// Statistics from inside a flash SSD, as its model writes them.
const INSIDE: &str = include_str!("inside.json");

#[test]
fn the_inside_of_a_flash_drive_is_drawn_and_any_other_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [
        ("gc.policy", [json!("greedy"), json!("d-choices")]),
        ("blocks", [json!(null), json!(28)]),
    ];
    let keys = keys.map(|(key, values)| (key.to_owned(), values)).into();
    let flash =
        Drive { changes: Some(Changes { from: "some-ssd".into(), keys }), ..drive("flash") };
    let drives = vec![flash, drive("other"), drive("odd")];
    let mut writer = ResultsWriter::create(folder.path(), drives).unwrap();
    let io = IoRecord { submit: 1500, target: 4000, delivered: 4000, ..record(100) };
    writer.record(&[IoRecord { drive: 0, ..io }]).unwrap();
    let other = [json!({"a": 1}), json!("text")].map(|value| Some(Inside::Other(value)));
    let inside = [Some(serde_json::from_str(INSIDE).unwrap())].into_iter().chain(other).collect();
    // The inside is of the first microseconds.
    let outcome = Outcome { inside, boot_virtual_ns: 0, ..outcome(1) };
    let summary = writer.finish(&outcome, "exact", Duration::ZERO, Map::new()).unwrap();
    let json: Value = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["drives"][0]["inside"]["moved_units"], 1200);
    assert_eq!(json["drives"][1]["inside"], json!({"a": 1}));
    assert_eq!(json["drives"][2]["inside"], "text");
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(page.matches("<h2>Inside ").count(), 1);
    for shown in [
        "Inside flash",
        "read collection: 20 µs",
        "erase in the background: 7",
        // Columns of one share are one box.
        "channel 0, 1 µs to 3 µs: 50 %",
        "channel 1, 0 ns to 1 µs: 100 %",
        "LUN 0, 0 ns to 4 µs: 100 %",
        // At the ends of the steps, in their middles, and for each second.
        "free blocks: 18 at 2 µs",
        "free blocks: 9 at 4 µs",
        "programmed: 1.5 GB/s at 1.5 µs",
        "written by the host: 1 GB/s at 1.5 µs",
        // A step without writes of the host.
        "programmed: 700 MB/s at 3.5 µs",
        "collections: 2,000,000/s at 1.5 µs",
        // Nothing is valid at the end of the first step.
        "effective: 300 % at 2 µs",
        "effective: 25 % at 4 µs",
        "beyond the capacity: 175 % at 4 µs",
        "<dd>25 %",
        "1 to 3 : 6",
        // Below the one I/O, of 2.5 us, in the middles of the steps that have some.
        "collections at 1.5 µs",
        "collections at 2.5 µs",
        "collections (their times; their height has no meaning)</span>",
        "Parameters that differ from those of some-ssd.",
        "gc.policy</th><td class=\"figure\">d-choices</td><td class=\"figure\">greedy</td>",
        "blocks</th><td class=\"figure\">28</td><td class=\"figure\">–</td>",
        "2 × 1 × 1 × 28 × 16",
        "<dd>175 %",
        "flash: the array has 175 % over-provisioning, the least that its geometry needs at this size, in place of 7 %",
        "<dd>3.906 MiB",
        "<dd>9.766 MiB",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("channel 1, 1 µs"));
}

/// A drive whose parts have flash of their own: each is drawn, and their collections are in one plot.
#[test]
fn each_part_of_a_drive_with_flash_of_its_own_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [("blocks".to_owned(), [json!(null), json!(28)])].into();
    let ssd = Drive { changes: Some(Changes { from: "some-ssd".into(), keys }), ..drive("ssd") };
    let mut writer = ResultsWriter::create(folder.path(), vec![ssd]).unwrap();
    writer
        .record(&[IoRecord {
            submit: 1500,
            target: 4000,
            delivered: 4000,
            drive: 0,
            ..record(100)
        }])
        .unwrap();
    let flash = || Some(serde_json::from_str::<Inside>(INSIDE).unwrap());
    let parts = [(0, flash()), (1 << 20, None), (5 << 20, flash())];
    let inside = vec![Some(Inside::of_parts(parts.into()))];
    let outcome = Outcome { inside, boot_virtual_ns: 0, ..outcome(1) };
    writer.finish(&outcome, "exact", Duration::ZERO, Map::new()).unwrap();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    for (shown, count) in [
        ("<h2>Inside ssd, part 1<", 1),
        ("<h2>Inside ssd, part 3<", 1),
        ("<h2>Inside ", 2),
        ("ssd, part 1: the array has 175 % over-provisioning", 1),
        ("read collection: 20 µs", 2),
        ("channel 0, 1 µs to 3 µs: 50 %", 2),
        // The description is the same.
        ("Parameters that differ from those of some-ssd.", 1),
    ] {
        assert_eq!(page.matches(shown).count(), count, "{shown}");
    }
    assert!(page.contains("collections at 1.5 µs"));
}

#[test]
fn very_large_maps_stay_small() {
    use stasis_report::plot::{Axis, Heat, Quantity, Scale};
    let values =
        (0..1000).map(|row| (0..5000).map(|at| f64::from((row * at) % 97) / 97.0).collect());
    let values: Vec<Vec<f64>> = values.collect();
    let heat = || Heat {
        title: "t".into(),
        row: "r".into(),
        x: Axis::new("x", Scale::Linear, Quantity::Time),
        width: 10.0,
        origin: 0.0,
        values: values.clone(),
    };
    let drawn = heat().draw();
    assert!(drawn.as_str().len() < 2_000_000, "{}", drawn.as_str().len());
    let none = Heat { values: Vec::new(), ..heat() };
    assert!(none.draw().as_str().contains("nothing recorded"));
    // A page names it in place of an empty frame.
    let plots = Block::Plots(vec![none.draw(), Heat { title: "drawn".into(), ..heat() }.draw()]);
    let page = Page { sections: vec![Section::new("s").with(plots)], ..Page::default() };
    let html = page.to_html();
    assert!(
        html.contains("Not drawn, as nothing was recorded: t.")
            && !html.contains("nothing recorded<")
    );
    assert_eq!(html.matches("<svg ").count(), 1);
}

/// A guest's run: one drive of 100 us with I/Os late by `late` ns, and the run's other figures.
fn guest_run(late: u64, overshoot: u64, skew: u64) -> (Summary, String) {
    let folder = tempfile::tempdir().unwrap();
    let outcome = Outcome {
        overshoot: Overshoot { p50: 0, p99: overshoot, max: overshoot },
        processors: Processors { clock_skew_max_ns: skew, ..Processors::default() },
        ..outcome(1)
    };
    let mut writer = ResultsWriter::create(folder.path(), vec![drive("a")]).unwrap();
    writer.of_guest(20_000);
    let records: Vec<_> = (10..1010)
        .map(|index| {
            let mut record = IoRecord { drive: 0, boot: false, ..record(index) };
            record.target = record.submit + 100_000;
            record.delivered = record.target + late;
            record
        })
        .collect();
    writer.record(&records).unwrap();
    let summary = writer.finish(&outcome, "kvm", Duration::ZERO, Map::new()).unwrap();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(json(folder.path())["warnings"].is_null(), summary.warnings.is_empty());
    (summary, page)
}

#[test]
fn what_is_not_to_be_trusted_is_told() {
    let (summary, page) = guest_run(1_000, 1_000, 40_000);
    assert_eq!(summary.warnings, Vec::<String>::new(), "at the thresholds");
    assert!(!page.contains("Not to be trusted"));
    for (figures, words) in [
        ((1_001, 0, 0), ["drive a: the latency of read", "+1.00 %"]),
        ((0, 1_001, 0), ["ended 1.001 µs late at p99", "drive a, 100 µs"]),
        ((0, 0, 40_001), ["were 40.001 µs apart", "2 quanta of 20 µs"]),
    ] {
        let (summary, page) = guest_run(figures.0, figures.1, figures.2);
        let warnings = &summary.warnings;
        let warning = warnings.first().unwrap_or_else(|| panic!("nothing said of {figures:?}"));
        assert!(words.iter().all(|word| warning.contains(word)), "{words:?} in {warning}");
        assert!(page.contains("Not to be trusted"), "{warning}");
    }
}

/// Drives that others use in real time, and simulations, have no slices and no quantum.
#[test]
fn only_a_guests_run_warns() {
    let folder = tempfile::tempdir().unwrap();
    let late: Vec<_> =
        (10..110).map(|index| IoRecord { delivered: 9_000_000_000, ..record(index) }).collect();
    assert_eq!(run(folder.path(), &late, 1).warnings, Vec::<String>::new());
}
