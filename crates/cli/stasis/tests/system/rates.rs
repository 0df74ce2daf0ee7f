//! Rates of an operation: as fio counts them, in the same run.

use serde_json::Value;

use crate::support::{example_file, Bench};

/// A part of what fio prints, and the operation of a drive that it was.
struct Same {
    job: &'static str,
    direction: &'static str,
    drive: usize,
}

const fn same(job: &'static str, direction: &'static str, drive: usize) -> Same {
    Same { job, direction, drive }
}

/// fio's own time is in whole milliseconds, rounded up (backend.c, `update_runtime`): its rate is within
/// this of what the summary has.
fn agree(summary: &Value, fio: &Value, same: &Same, example: &str) {
    let Same { job, direction, drive } = *same;
    let jobs = fio["jobs"].as_array().unwrap();
    let of_job = jobs.iter().find(|found| found["jobname"] == job);
    let printed = &of_job.unwrap_or_else(|| panic!("{example}: no job {job} in {fio}"))[direction];
    let ours = &summary["drives"][drive][direction];
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap();
    assert_eq!(number(ours, "count"), number(printed, "total_ios"), "{example}, {job}");
    let (seconds, milliseconds) = (number(ours, "active_seconds"), number(printed, "runtime"));
    let least = (milliseconds - 1.0) * 1e-3 / 1.01;
    let most = milliseconds * 1e-3 * 1.01;
    assert!(
        (least..=most).contains(&seconds),
        "{example}, {direction} of {job}: {seconds} s, and fio has {milliseconds} ms"
    );
    for (rate, amount) in [("iops", "count"), ("bytes_per_second", "bytes")] {
        let (rate, expected) = (number(ours, rate), number(ours, amount) / seconds);
        // JSON's numbers may differ in their last digit.
        assert!((rate / expected - 1.0).abs() < 1e-12, "{example}: {rate}, not {expected}");
    }
}

/// Each example with fio: its I/Os a second are over the same time as ours.
#[test]
#[ignore = "takes minutes: make slow-test"]
fn rates_are_those_that_fio_prints() {
    let bench = Bench::new();
    let output = ["--output-format=json", "--output=/results/fio.json"];
    let check = |name: &str, results: &str, all: &[Same]| {
        let summary = bench.json(&format!("{results}/summary.json"));
        // Each of several machines has a folder.
        let found = ["fio.json", "volume/fio.json"].map(|file| format!("{results}/{file}"));
        let file = found.iter().find(|file| bench.path(file).exists()).expect("fio has printed");
        let fio = bench.json(file);
        all.iter().for_each(|same| agree(&summary, &fio, same, name));
    };
    let job = example_file("job.fio");
    for model in ["jpt39c", "samsung-980-pro", "femu-basic"] {
        let results = format!("--results={model}");
        let drive = format!("--drive=model={model},medium=ram:1GiB");
        let words = ["--engine=exact", "--quiet", &results, &drive, "--file", &job, "--", "fio"];
        bench.run(&[&words[..], &output, &["job.fio"]].concat()).expect(0);
        check(
            &format!("job.fio on {model}"),
            model,
            &[same("log", "write", 0), same("table", "read", 0)],
        );
    }
    // The examples, with fio's figures as JSON.
    let json = format!("\"fio\", \"{}\", \"{}\", ", output[0], output[1]);
    for (name, all) in [
        (
            "demo.toml",
            &[
                same("disk", "read", 0),
                same("disk", "write", 0),
                same("ssd", "read", 1),
                same("ssd", "write", 1),
                same("pmem", "read", 2),
                same("pmem", "write", 2),
            ][..],
        ),
        ("noisy-neighbour.toml", &[same("a", "read", 0)]),
    ] {
        let text = std::fs::read_to_string(example_file(name)).unwrap();
        assert!(text.contains("\"fio\", "), "{text}");
        std::fs::write(bench.path(name), text.replace("\"fio\", ", &json)).unwrap();
        std::fs::copy(example_file("demo.fio"), bench.path("demo.fio")).unwrap();
        let results = format!("--results={name}.d");
        bench.run(&["--engine=exact", "--quiet", &results, name]).expect(0);
        check(name, &format!("{name}.d"), all);
    }
}
