//! One guest, four drives, and everything a user would do with them.

use serde_json::Value;

use crate::support::{guest_file, job, Bench};

const SIZE: u64 = 64 << 20;

#[test]
fn drives_deliver_what_their_models_ask_for_and_keep_what_is_written() {
    let bench = Bench::new();
    let plain = bench.image("plain.img", SIZE);
    bench.image("late.img", SIZE);
    let run = bench.run(&[
        "--engine=exact",
        "--results=r",
        "--file",
        &guest_file("drives.sh"),
        "--drive=model=null,medium=ram:64MiB,name=nothing",
        "--drive=model=fixed:100us,medium=ram:64MiB",
        "--drive=model=fixed:100us,medium=file:plain.img",
        "--drive=model=fixed:100us,medium=file:late.img,delay=5ms",
        "--",
        "sh",
        "/root/drives.sh",
    ]);
    run.expect(7);
    assert_eq!(run.stdout, "to standard output\n");
    assert!(run.stderr.contains("to standard error\n"), "{run:#?}");
    assert!(run.stderr.contains("report: r/report.html"), "{run:#?}");

    let summary = bench.json("r/summary.json");
    check_schema(&summary);
    assert_eq!(summary["engine"], "exact");
    assert_eq!(summary["exit_status"], 7);
    let drives = summary["drives"].as_array().unwrap();
    let names: Vec<_> = drives.iter().map(|drive| drive["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["nothing", "drive1", "drive2", "drive3"]);
    assert_eq!(drives[3]["medium"], "file:late.img + 5ms");
    for drive in [0, 3] {
        // fio's alone: nothing else used these two.
        assert_eq!(drives[drive]["read"]["count"], 300);
        assert_eq!(drives[drive]["write"]["count"], 100);
        assert_eq!(drives[drive]["write"]["bytes"], 100 * 4096);
    }
    for operation in ["flush", "discard", "write-zeroes"] {
        assert!(drives[1][operation]["count"].as_u64().unwrap() > 0, "no {operation}");
        assert_eq!(drives[1][operation]["errors"], 0);
    }
    every_io_is_on_time(&bench);
    fio_sees_the_same_on_every_medium(&bench);

    // The link is the model's, or the usual one.
    assert_eq!(bench.text("r/links.txt"), "8.0 GT/s PCIe x4 of 8.0 GT/s PCIe\n".repeat(4));
    assert_eq!(bench.text("r/pci-complaints.txt"), "");
    assert_eq!(bench.text("r/resets.txt"), "stasis: before flr\nstasis: before bus\n");
    assert_eq!(bench.text("r/list.txt").matches("Stasis NVMe drive").count(), 4);
    assert!(bench.text("r/id-ctrl.txt").contains("sn        : STASIS1"));
    assert!(bench.text("r/smart-log.txt").contains("media_errors\t\t\t\t: 0"));
    assert!(bench.text("r/report.html").contains("</html>"));

    // The guest's data is in the file, as a file system that the host's own tools accept.
    let check = std::process::Command::new("e2fsck").arg("-fn").arg(&plain).output();
    let check = check.expect("e2fsck, of Debian's e2fsprogs");
    assert!(check.status.success(), "{check:?}");
    let mut dump = std::process::Command::new("debugfs");
    let numbers: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    let content = dump.args(["-R", "cat /numbers"]).arg(&plain).output().unwrap().stdout;
    assert!(content == numbers.as_bytes(), "{} bytes", content.len());
}

/// The fields that others may rely on.
fn check_schema(summary: &Value) {
    const LATENCY: [&str; 14] = [
        "mean", "min", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9",
        "p99.99", "max",
    ];
    let number = |value: &Value, name: &str| {
        assert!(value[name].is_number(), "{name} is {:?}", value[name]);
    };
    for name in [
        "exit_status",
        "virtual_seconds",
        "wall_seconds",
        "frozen_seconds",
        "skipped_seconds",
        "exits",
    ] {
        number(summary, name);
    }
    for name in ["p50", "p99", "max"] {
        number(&summary["overshoot_ns"], name);
    }
    for drive in summary["drives"].as_array().unwrap() {
        for name in ["name", "model", "interface", "medium"] {
            assert!(drive[name].is_string(), "{name} is {:?}", drive[name]);
        }
        for operation in ["read", "write", "flush"] {
            number(&drive[operation], "count");
            number(&drive[operation], "bytes");
            for name in LATENCY {
                if drive[operation]["count"] != 0 {
                    number(&drive[operation]["target_ns"], name);
                    number(&drive[operation]["delivered_ns"], name);
                }
            }
        }
    }
}

/// Every row of `ios.csv`, not only percentiles.
fn every_io_is_on_time(bench: &Bench) {
    let text = bench.text("r/ios.csv");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name| header.iter().position(|column| *column == name).unwrap();
    let (drive, phase, status) = (column("drive"), column("phase"), column("status"));
    let (submit, target, delivered) =
        (column("submit_ns"), column("target_ns"), column("delivered_ns"));
    let mut rows = 0;
    for line in lines {
        let row: Vec<&str> = line.split(',').collect();
        let time = |column: usize| row[column].parse::<u64>().unwrap();
        let latency = if row[drive] == "nothing" { 0 } else { 100_000 };
        assert_eq!(time(target) - time(submit), latency, "{line}");
        assert_eq!(time(delivered), time(target), "{line}");
        assert_eq!(row[status], "ok", "{line}");
        rows += usize::from(row[phase] == "command");
    }
    assert!(rows > 4 * 400, "only {rows} I/Os");
}

/// The width of fio's bins from 65,536 to 131,071 ns (fio, stat.h: 64 to an octave).
const BIN: f64 = 1024.0;

/// fio's own figures of the same work on RAM, on a file, and on a late file: three
/// drives of one guest, one after the other, so up to p95 within one of fio's bins. `repeat`
/// checks to the byte what one drive's medium changes.
fn fio_sees_the_same_on_every_medium(bench: &Bench) {
    let report = bench.json("r/fio.json");
    for (name, direction) in [("reads", "read"), ("writes", "write")] {
        let times = |drive| &job(&report, &format!("{name}{drive}"))[direction]["clat_ns"];
        let [ram, others @ ..] = [1, 2, 3].map(times);
        for other in others {
            for (percentile, of_ram) in ram["percentile"].as_object().unwrap() {
                let (a, b) =
                    (of_ram.as_f64().unwrap(), other["percentile"][percentile].as_f64().unwrap());
                // Above p95 what else the guest does shows, and below p5: an interrupt between the
                // doorbell and fio's look at its clock makes a latency shorter.
                let percentile: f64 = percentile.parse().unwrap();
                let near = a >= 100_000.0 && (a - b).abs() <= BIN;
                assert!(
                    near || !(5.0..=95.0).contains(&percentile),
                    "{direction} p{percentile}: {a} ns on RAM, {b} ns on a file"
                );
            }
        }
    }
}

/// Bits rot on two drives, and the file system with checksums finds it.
#[test]
fn a_file_system_with_checksums_finds_bit_rot() {
    let bench = Bench::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/bit-rot.toml");
    let run = bench.run(&[example, "--seed=1", "--results", "rot"]);
    run.expect(0);
    assert!(run.stdout.contains("ext4 returns wrong data\n"), "{}", run.stdout);
    assert!(run.stdout.contains("btrfs has found it\n"), "{}", run.stdout);
    let summary = bench.json("rot/summary.json");
    for fault in summary["faults"].as_array().unwrap() {
        assert_eq!(
            (fault["kind"].as_str(), fault["happened"].as_u64()),
            (Some("bit-rot"), Some(200))
        );
    }
    assert!(bench.path("rot/faults.parquet").exists());
}
