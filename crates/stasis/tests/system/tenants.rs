//! Several machines and a host workload on one drive.

use serde_json::Value;

use crate::support::Bench;

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
memory          = "256MiB"
guest-scheduler = "bfq"
coordinate      = true
[[machine.disk]]
on   = "disk"
size = "32MiB"

[[machine]]
name   = "server"
memory = "256MiB"
vcpus  = 2
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
        "vcpus  = 2\n",
        "vcpus  = 2\ncommand = [\"dd\", \"if=/dev/nvme0n1\", \"of=/dev/null\", \"bs=64k\", \"count=100\", \"iflag=direct\"]\n",
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
    // Whoever is new is raised: the guest's bfq said so.
    assert!(tenants[0]["help_calls"].as_u64() > Some(0), "{shared}");
    assert!(tenants[0]["helped_seconds"].as_f64() > Some(0.01), "{shared}");
    assert_eq!(tenants[1]["help_calls"], 0);
    let load = &shared["workloads"][0];
    assert!(load["ios"].as_u64() > Some(20) && load["errors"] == 0, "{load}");
    assert_eq!(load["threads"].as_array().unwrap().len(), 2);
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
