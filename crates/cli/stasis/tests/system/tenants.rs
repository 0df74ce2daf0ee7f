//! Several machines and a host workload on one drive.

use serde_json::Value;

use crate::images::{counter, create, qemu_agrees};
use crate::support::{guest_file, Bench};

const EXPERIMENT: &str = r#"
engine  = "exact"
seed    = 3
command = ["sh", "-c", "cat /sys/block/vda/queue/scheduler; hostname > /results/name; for i in 1 2 3; do dd if=/dev/vda of=/dev/null bs=64k count=40 iflag=direct 2>/dev/null; done; echo read"]

[[drive]]
name      = "disk"
model     = { kind = "fixed", read = "1ms", write = "1ms" }
medium    = { ram = "96MiB" }
scheduler = { kind = "bfq", depth = 2 }

[[machine]]
name            = "desk"
guest-scheduler = "bfq"
coordinate      = true
[[machine.disk]]
on   = "disk"
size = "32MiB"

[[machine]]
name = "server"
[[machine.disk]]
on        = "disk"
offset    = "32MiB"
size      = "32MiB"
interface = "nvme"
"#;

const WORKLOAD: &str = r#"
[[workload]]
name    = "readers"
pattern = "2r-seq"
offset  = "64MiB"
"#;

#[test]
fn machines_and_a_workload_share_a_drive() {
    let bench = Bench::new();
    let text = format!("{EXPERIMENT}{WORKLOAD}").replace(
        "name = \"server\"\n",
        "name = \"server\"\ncommand = [\"dd\", \"if=/dev/nvme0n1\", \"of=/dev/null\", \"bs=64k\", \"count=100\", \"iflag=direct\"]\n",
    );
    std::fs::write(bench.path("shared.toml"), text).unwrap();
    let run = bench.run(&["shared.toml", "--results=r"]);
    run.expect(0);
    let mut lines: Vec<&str> = run.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[desk] mq-deadline [bfq] none", "[desk] read"]);
    assert_eq!(bench.text("r/desk/name"), "desk\n");

    let summary = bench.json("r/summary.json");
    let machines = summary["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 2);
    for machine in machines {
        assert_eq!((&machine["ending"], &machine["exit_status"]), (&"exited".into(), &0.into()));
        assert_eq!(machine["refused_help"], 0);
    }
    let start = |machine: &Value| machine["started_seconds"].as_f64().unwrap();
    assert!((start(&machines[0]) - start(&machines[1])).abs() < 0.01, "they begin together");
    let drives = summary["drives"].as_array().unwrap();
    let names: Vec<_> = drives.iter().map(|drive| drive["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["desk.disk", "server.disk"]);
    assert_eq!(drives[0]["read"]["count"], 120);
    assert_eq!(drives[1]["read"]["count"], 100);

    let shared = &summary["shared"][0];
    let tenants = shared["tenants"].as_array().unwrap();
    // A new reader is raised: the guest's bfq has reported it.
    assert!(tenants[0]["help_calls"].as_u64() > Some(0), "{shared}");
    assert!(tenants[0]["helped_seconds"].as_f64() > Some(0.01), "{shared}");
    // And which requests are its own.
    let urgent = tenants[0]["urgent_requests"].as_u64().unwrap();
    assert!(urgent > 20 && urgent <= tenants[0]["requests"].as_u64().unwrap(), "{shared}");
    assert_eq!((&tenants[1]["help_calls"], &tenants[1]["urgent_requests"]), (&0.into(), &0.into()));
    let load = &shared["workloads"][0];
    assert!(load["ios"].as_u64() > Some(20) && load["errors"] == 0, "{load}");
    assert_eq!(load["threads"].as_array().unwrap().len(), 2);
}

/// Floods the channel beside the agent: help begun and ended, garbage of every
/// kind, at the end a help page that is none.
const FLOOD: &str = r#"
import ctypes, glob, mmap, os, struct
device = [d for d in glob.glob("/sys/bus/pci/devices/*") if open(d + "/vendor").read().strip() == "0x5354"][0]
def map(name, size):
    file = os.open(device + "/" + name, os.O_RDWR | os.O_SYNC)
    return mmap.mmap(file, size)
box, bell = map("resource0", 4096), map("resource2", 4096)
ring = ctypes.c_uint32.from_buffer(bell)
def call(kind, payload, length=None):
    box[0:8 + len(payload)] = struct.pack("<II", kind, len(payload) if length is None else length) + payload
    ring.value = 1
    return struct.unpack("<I", box[0:4])[0]
statuses = {}
def expect(wanted, *words):
    assert call(*words) == wanted, words
for turn in range(TURNS):
    expect(0, 12, struct.pack("<I", 1))
    expect(0, 12, struct.pack("<I", 0))
    expect(1, 12, struct.pack("<I", 7))
    expect(1, 12, b"help!")
    expect(1, 12, b"", 0xffffffff)
    expect(2, 99 + turn, b"\x55" * (turn % 64))
    expect(3, 1, struct.pack("<I", VERSION))
    expect(5, 11, struct.pack("<Q", 4096 * turn + 1))
    expect(5, 11, struct.pack("<Q", 1 << 60))
expect(0, 12, struct.pack("<I", 1))
expect(0, 11, struct.pack("<Q", 4096))
"#;

/// The reader beside it loses no more than help may take, 20 ms of its drive, and a turn or two.
#[test]
fn a_guest_that_floods_the_channel_is_contained_and_counted() {
    let bench = Bench::new();
    let turns = 100;
    let flood = FLOOD.replace("TURNS", &turns.to_string());
    let flood = flood.replace("VERSION", &stasis_channel::VERSION.to_string());
    std::fs::write(bench.path("flood.py"), flood).unwrap();
    let text = EXPERIMENT
        .replace("kind = \"bfq\", depth = 2", "kind = \"bfq\", budget_timeout = \"20ms\", \
                  low_latency = false, help_share = 0.0, help_burst = \"20ms\"")
        .replace("guest-scheduler = \"bfq\"\ncoordinate      = true\n", "")
        .replace(
            "name = \"server\"\n",
            "name = \"server\"\ncommand = [\"dd\", \"if=/dev/nvme0n1\", \"of=/dev/null\", \"bs=64k\", \"count=400\", \"iflag=direct\"]\n",
        );
    let seconds = |flood: &str| {
        let reads = "dd if=/dev/vda of=/dev/null bs=64k count=400 iflag=direct 2>/dev/null";
        let command = format!("command = [\"sh\", \"-c\", \"{reads} & {flood} wait\"]");
        let lines = text.lines().map(|line| {
            if line.starts_with("command = [\"sh\"") {
                command.as_str()
            } else {
                line
            }
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        std::fs::write(bench.path("flood.toml"), text).unwrap();
        let run = bench.run(&["flood.toml", "--results=r", "--file=flood.py"]);
        run.expect(0);
        let summary = bench.json("r/summary.json");
        let server = &summary["machines"][1];
        assert_eq!((&server["refused_help"], &server["refused_calls"]), (&0.into(), &0.into()));
        (
            summary["machines"][0].clone(),
            summary["shared"][0]["tenants"][0].clone(),
            server["virtual_seconds"].as_f64().unwrap(),
        )
    };
    let (quiet, _, before) = seconds("");
    assert_eq!(quiet["refused_calls"], 0);
    let (loud, tenant, after) = seconds("python3 /root/flood.py &&");
    assert_eq!(loud["ending"], "exited", "{loud}");
    assert_eq!(loud["refused_calls"], turns * 7, "{loud}");
    assert_eq!(loud["refused_help"], 1, "{loud}");
    assert!(tenant["help_calls"].as_u64() >= Some(2 * turns), "{tenant}");
    assert!(tenant["helped_seconds"].as_f64() <= Some(0.0201), "{tenant}");
    assert!(after < before + 0.1, "the other took {after} s, {before} s without a flood");
}

/// A guest's `ionice` class comes in virtio-blk's header to the drive's scheduler: a reader of the
/// idle class is not in the other machine's way.
#[test]
fn a_guests_io_priority_reaches_the_shared_drive() {
    let bench = Bench::new();
    let read = "dd if=/dev/vda of=/dev/null bs=64k count=300 iflag=direct";
    let seconds = |class: &str| {
        let text = EXPERIMENT
            .replace("interface = \"nvme\"\n", "")
            .replace("kind = \"bfq\", depth = 2", "kind = \"bfq\", low_latency = false")
            .replace("guest-scheduler = \"bfq\"\ncoordinate      = true\n", "")
            .replace(
                "name = \"server\"\n",
                &format!("name = \"server\"\ncommand = [\"sh\", \"-c\", \"{class} {read}\"]\n"),
            );
        let lines =
            text.lines().map(|line| match line.starts_with("command = [\"sh\", \"-c\", \"cat") {
                true => format!("command = [\"sh\", \"-c\", \"{read}\"]"),
                false => line.to_owned(),
            });
        let text = lines.collect::<Vec<_>>().join("\n");
        std::fs::write(bench.path("ionice.toml"), text).unwrap();
        bench.run(&["ionice.toml", "--results=r"]).expect(0);
        let summary = bench.json("r/summary.json");
        let seconds_of =
            |machine: usize| summary["machines"][machine]["virtual_seconds"].as_f64().unwrap();
        (seconds_of(0), seconds_of(1))
    };
    let (idle, same) = (seconds("ionice -c 3"), seconds("ionice -c 2 -n 4"));
    assert!(same.0 / same.1 > 0.8 && same.1 / same.0 > 0.8, "equal ones share: {same:?}");
    assert!(idle.0 < same.0 * 0.7, "{idle:?} {same:?}");
    assert!(idle.1 > idle.0 * 1.5, "{idle:?}");
}

/// A drive in a file, a region of it for one machine, and for another an image
/// whose files lie behind that.
const WITH_IMAGE: &str = r#"
engine  = "exact"
seed    = 5
command = ["sh", "/root/images.sh", "vda"]

[[drive]]
name      = "disk"
model     = "850-pro"
medium    = { file = "disk.img", size = "96MiB" }
scheduler = { kind = "bfq", depth = 4 }

[[machine]]
name = "desk"
[[machine.disk]]
on   = "disk"
size = "32MiB"

[[machine]]
name = "server"
[[machine.disk]]
on         = "disk"
offset     = "32MiB"
image      = "server.qcow2"
durability = "barrier"

[[workload]]
name    = "readers"
drive   = "disk"
pattern = "2r-seq"
offset  = "64MiB"
"#;

/// Both do what takes flushes, each where it belongs; the image's bytes are in its
/// file, and its times the drive's.
#[test]
fn an_image_and_a_region_share_a_drive() {
    const MIB: usize = 1 << 20;
    let bench = Bench::new();
    create(&bench, "server.qcow2", "16MiB");
    std::fs::write(bench.path("images.toml"), WITH_IMAGE).unwrap();
    let file = format!("--file={}", guest_file("images.sh"));
    bench.run(&["images.toml", "--results=r", &file]).expect(0);

    let summary = bench.json("r/summary.json");
    assert_eq!(summary["drives"][0]["medium"], "disk from 0B on");
    assert_eq!(summary["drives"][1]["medium"], "qcow2:server.qcow2 on disk from 32MiB on");
    qemu_agrees(&bench, "server.qcow2", &bench.text("r/server/vda.md5"));
    assert_eq!(bench.text("r/server/vda.files"), bench.text("r/desk/vda.files"));
    let disk = bench.bytes("disk.img");
    std::fs::write(bench.path("region"), &disk[..32 * MIB]).unwrap();
    let sum = std::process::Command::new("md5sum").arg(bench.path("region")).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert_eq!(sum.split(' ').next(), Some(bench.text("r/desk/vda.md5").trim()));
    assert!(disk[32 * MIB..].iter().all(|&byte| byte == 0), "an image is in its file only");

    let counters = |name| counter(&summary, 1, name);
    let guest = counters("guest_flushes");
    assert!(guest >= 40, "{guest}");
    assert!(counters("host_flushes") <= guest && counters("host_barriers") > 0);
    // The bytes that the scheduler served it are those that the image asked for, tables and all.
    let tenants = summary["shared"][0]["tenants"].as_array().unwrap();
    assert_eq!(tenants[1]["name"], "server.disk");
    let written = counters("host_write_bytes");
    let got = tenants[1]["bytes"].as_u64().unwrap();
    assert!(counters("table_write_bytes") > 0 && got > written, "{got} bytes, {written} written");
    // A flush takes the drive its time, also below an image.
    let flush = &summary["drives"][1]["flush"];
    assert_eq!(flush["count"].as_u64(), Some(guest));
    assert!(flush["delivered_ns"]["p50"].as_f64() > Some(2e6), "{flush}");
    assert!(summary["shared"][0]["workloads"][0]["ios"].as_u64() > Some(20));
}

#[test]
fn an_image_that_cannot_lie_on_a_drive_is_refused_before_anything_boots() {
    let bench = Bench::new();
    create(&bench, "server.qcow2", "16MiB");
    create(&bench, "drive.qcow2", "96MiB");
    create(&bench, "large.qcow2", "200MiB");
    let image = "image      = \"server.qcow2\"";
    let region = "size = \"32MiB\"";
    let on = "on         = \"disk\"";
    let drive = |name: &str| {
        format!("[[drive]]\nname = \"own\"\nmodel = \"null\"\nmedium = {{ qcow2 = \"{name}\" }}\n")
    };
    let load = "[[workload]]\nname = \"other\"\ndrive = \"own\"\npattern = \"1r-seq\"\n";
    let (twice, itself) = (drive("server.qcow2") + load, drive("drive.qcow2"));
    for (from, to, more, words) in [
        (image, "image = \"nothing.qcow2\"", "", ["disk server.disk", "there is no such file"]),
        (image, "image = \"large.qcow2\"", "", ["disk server.disk", "can grow to"]),
        (image, "image = \"images.toml\"", "", ["disk server.disk", "images.toml"]),
        ("\"32MiB\"\nimage", "\"16MiB\"\nimage", "", ["desk.disk and server.disk", "overlap"]),
        ("\"64MiB\"", "\"48MiB\"", "", ["readers reads where the disk", "server.disk"]),
        (region, image, "", ["server.qcow2", "disk desk.disk already"]),
        ("seed ", "seed ", &twice, ["server.qcow2", "drive own already"]),
        (on, "on = \"own\"", &itself, ["disk server.own", "an image itself"]),
        (image, &format!("{image}\nsize = \"8MiB\""), "", ["machine server", "leave `size` out"]),
        (image, "", "", ["machine server", "add `image"]),
        ("\"850-pro\"", "\"null\"", "", ["disk server.disk", "barrier"]),
    ] {
        assert!(WITH_IMAGE.contains(from));
        let text = format!("{}{more}", WITH_IMAGE.replacen(from, to, 1));
        std::fs::write(bench.path("images.toml"), text).unwrap();
        let run = bench.run(&["images.toml"]);
        assert!(!matches!(run.status, Some(0) | None), "{run:#?}");
        run.says(&words);
    }
}

#[test]
fn what_cannot_be_shared_is_refused_before_anything_boots() {
    let bench = Bench::new();
    let writer =
        WORKLOAD.replace("2r-seq", "1w-seq").replace("offset  = \"64MiB\"", "size = \"1MiB\"");
    for (from, to, workload, words) in [
        (
            "offset    = \"32MiB\"",
            "offset = \"80MiB\"",
            WORKLOAD,
            ["server.disk", "end past the drive disk"],
        ),
        (
            "offset    = \"32MiB\"",
            "offset = \"16MiB\"",
            WORKLOAD,
            ["desk.disk and server.disk", "overlap"],
        ),
        ("\"server\"", "\"desk\"", WORKLOAD, ["two machines", "desk"]),
        (
            "kind = \"bfq\"",
            "kind = \"bfg\"",
            WORKLOAD,
            ["unknown scheduler", "did you mean `bfq`?"],
        ),
        (
            "guest-scheduler = \"bfq\"",
            "guest-scheduler = \"cfq\"",
            WORKLOAD,
            ["guest-scheduler", "bfq"],
        ),
        ("seed    = 3", "seed = 3", &*writer, ["readers", "writes where the disk desk.disk is"]),
    ] {
        assert!(EXPERIMENT.contains(from));
        let text = format!("{}{workload}", EXPERIMENT.replace(from, to));
        std::fs::write(bench.path("wrong.toml"), text).unwrap();
        let run = bench.run(&["wrong.toml"]);
        assert!(!matches!(run.status, Some(0) | None), "{run:#?}");
        run.says(&words);
    }
}
