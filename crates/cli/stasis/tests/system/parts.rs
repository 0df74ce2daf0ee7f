//! The parts of each I/O's time add up to it, with all layers together and in every form of the results.

use std::collections::BTreeMap;

use serde_json::Value;
use stasis_report::why::{Which, Why};
use stasis_results::{KeptIos, SlowIo, Summary, ToldCommands};

use crate::images::create;
use crate::support::Bench;

/// A flash drive behind a scheduler, on which a limited disk of virtio, one of NVMe, and an image lie
/// beside a workload, and which faults make slower.
const EXPERIMENT: &str = r#"
engine  = "exact"
seed    = 3
command = ["sh", "-c", "d=/dev/vda; [ -e $d ] || d=/dev/nvme0n1; dd if=/dev/zero of=$d bs=16k count=60 oflag=direct conv=fsync 2>/dev/null; dd if=$d of=/dev/null bs=4k count=60 iflag=direct 2>/dev/null"]

[[drive]]
name      = "ssd"
model     = { base = "flash-tlc", buffer = "0" }
medium    = "ram:128MiB"
scheduler = { kind = "bfq", depth = 2 }

[[machine]]
name   = "limited"
memory = "256MiB"
[[machine.disk]]
on     = "ssd"
size   = "16MiB"
limits = { iops = 2000 }

[[machine]]
name   = "free"
memory = "256MiB"
[[machine.disk]]
on        = "ssd"
offset    = "16MiB"
size      = "16MiB"
interface = "nvme"

[[machine]]
name   = "imaged"
memory = "256MiB"
[[machine.disk]]
on     = "ssd"
offset = "32MiB"
image  = "disk.qcow2"

[[workload]]
name    = "readers"
pattern = "2r-rand"
offset  = "112MiB"

[[fault]]
kind   = "slow"
drive  = "ssd"
factor = 3.0
rate   = 0.1
"#;

/// A part's name in the words of `stasis why`, and its time in a row.
fn layers(io: &SlowIo) -> [(&'static str, u64); 4] {
    [
        ("image", io.image_ns),
        ("limit", io.limited_ns),
        ("scheduler", io.scheduled_ns),
        ("fault", io.fault_ns),
    ]
}

#[test]
#[ignore = "takes minutes: make slow-test"]
fn every_part_of_every_io_is_told_in_every_form() {
    let bench = Bench::new();
    create(&bench, "disk.qcow2", "16MiB");
    std::fs::write(bench.path("all.toml"), EXPERIMENT).unwrap();
    bench.run(&["all.toml", "--results=plain"]).expect(0);
    std::fs::remove_file(bench.path("disk.qcow2")).unwrap();
    create(&bench, "disk.qcow2", "16MiB");
    bench.run(&["all.toml", "--results=watched", "--timeline"]).expect(0);
    assert!(
        bench.bytes("plain/ios.csv") == bench.bytes("watched/ios.csv"),
        "to be told changes one"
    );

    let folder = bench.path("watched");
    let mut commands = ToldCommands::read(&folder).unwrap().expect("it was asked for");
    let mut rows: BTreeMap<(String, u64), SlowIo> = BTreeMap::new();
    let (mut ios, mut with_parts) = (KeptIos::open(&folder).unwrap(), 0);
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    while let Some(io) = ios.next().transpose().unwrap() {
        let drive = ios.drives()[usize::from(io.drive)].clone();
        assert!(io.model_begin() <= io.model_end() && io.model_end() <= io.target, "{io:?}");
        let command = commands.take(&drive, &io);
        let row = SlowIo::told(&io, None);
        let with = SlowIo::told(&io, command.as_ref().map(|(_, command)| command));
        with_parts += u64::from(command.is_some());
        assert_eq!(layers(&row), layers(&with), "the timeline and the row");
        for io in [&row, &with] {
            assert_eq!(
                io.named().iter().map(|(_, time)| time).sum::<u64>(),
                io.latency(),
                "{io:?}"
            );
        }
        for (name, time) in layers(&row) {
            *sums.entry(name).or_default() += time;
        }
        assert!(row.limited_ns == 0 || drive.starts_with("limited"), "{drive}: {row:?}");
        assert!(row.image_ns == 0 || drive.starts_with("imaged"), "{drive}: {row:?}");
        // Requests of a disk have their parts; those of an image are other requests.
        assert!(
            command.is_some() || drive.starts_with("imaged") || row.latency() == 0,
            "{drive}: {row:?}"
        );
        rows.insert((drive, io.order), row);
    }
    assert!(with_parts > 200, "{with_parts}");
    assert!(sums.len() == 4 && sums.values().all(|sum| *sum > 0), "{sums:?}");

    // The slowest of the summary, the page and `why`, with and without a timeline.
    for name in ["plain", "watched"] {
        let folder = bench.path(name);
        let summary = Summary::beside(&folder).unwrap();
        for drive in &summary.drives {
            for slow in &drive.slowest {
                let row = &rows[&(drive.described.name.clone(), slow.order)];
                assert_eq!(layers(slow), layers(row), "{name}");
                assert_eq!(slow.named().iter().map(|(_, time)| time).sum::<u64>(), slow.latency());
            }
            let slowest = drive.slowest.iter().max_by_key(|io| io.latency()).unwrap();
            let which = Which::Of(drive.described.name.clone(), slowest.order);
            let why = Why::of(&folder, &which).unwrap();
            assert_eq!(why.parts.iter().map(|(_, time)| time).sum::<u64>(), why.whole, "{why:?}");
            for (part, time) in layers(slowest) {
                let part_of = why.parts.iter().find(|(name, _)| *name == part);
                assert_eq!(part_of.map_or(0, |(_, time)| *time), time, "{name}: {part} of {why:?}");
            }
        }
        let page = bench.text(&format!("{name}/report.html"));
        for heading in ["limit", "scheduler", "image"] {
            assert!(page.contains(&format!(">{heading}</th>")), "{name}: {heading}");
        }
        // The model keeps the parts of its own slowest commands, of which some are a disk's slowest.
        let has_parts = |drive: &Value| {
            drive["slowest"]
                .as_array()
                .is_some_and(|all| all.iter().any(|io| io["parts"].is_object()))
        };
        let json = bench.json(&format!("{name}/summary.json"));
        let drives = json["drives"].as_array().unwrap();
        assert!(drives.iter().any(has_parts), "the model's parts of a disk on a shared drive");
    }
}
