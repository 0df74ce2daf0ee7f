//! A machine that comes back goes on from its first boot, and nothing tells the difference.

use serde_json::{json, Value};
use stasis_results::comparable;

use crate::images::create;
use crate::root::make_with;
use crate::support::Bench;

/// A command whose output tells each boot from another: the kernel's log with its times, interrupts, the
/// clock, random numbers, and the content of each drive.
pub(crate) const COMMAND: &str = r#"command = ["sh", "-ec", '''
echo "boot $STASIS_BOOT" $(date +%s.%N) $(cat /proc/sys/kernel/random/uuid)
dmesg; cat /proc/interrupts /proc/uptime /proc/meminfo /proc/vmstat
for drive in $(lsblk -dno NAME | grep -v pmem); do
    head -c 64k /dev/$drive | md5sum
    dd if=/dev/urandom of=/dev/$drive bs=4k count=8 conv=fsync 2> /dev/null || echo "$drive: not written"
done
[ "$STASIS_BOOT" = 3 ] || sleep 5
''']
"#;

/// Fields of `summary.json` that count the work of the host.
const WORK: [&str; 6] =
    ["exits", "exits_by_reason", "exits_per_io", "slices", "clock_skew_max_ns", "restarts"];

/// The figures of a run but those that count the work that it took.
pub(crate) fn figures(summary: &Value) -> String {
    let exits = summary["exits_by_reason"].as_object().unwrap();
    // Doorbells are among the accesses to memory.
    let reasons = exits.iter().filter(|(name, _)| !["total", "doorbell"].contains(&name.as_str()));
    let reasons: u64 = reasons.map(|(_, count)| count.as_u64().unwrap()).sum();
    assert_eq!(summary["exits"].as_u64(), Some(reasons), "{exits:?}");
    let mut summary = comparable(summary);
    let all = summary.as_object_mut().unwrap();
    WORK.iter().for_each(|field| drop(all.remove(*field)));
    serde_json::to_string_pretty(&summary).unwrap()
}

/// Runs `experiment`, with boots if asked; its output, I/Os, and summary.
fn run(bench: &Bench, name: &str, experiment: &str, boots: bool) -> (String, String, Value) {
    let text = format!("virtual-limit = '60s'\n{experiment}");
    let text = text.replace("#boots", &format!("boots-again = {boots}"));
    for name in ["disk.img", "disk.img.state", "disk.qcow2", "disk.qcow2.state"] {
        let _ = std::fs::remove_file(bench.path(name));
    }
    create(bench, "disk.qcow2", "64MiB");
    std::fs::write(bench.path("restarts.toml"), text).unwrap();
    let results = format!("--results={name}");
    let run = bench.run(&["--quiet", "--ios=csv", &results, "restarts.toml"]);
    run.expect(0);
    let ios = bench.text(&format!("{name}/ios.csv"));
    (run.stdout, ios, bench.json(&format!("{name}/summary.json")))
}

/// Runs `experiment` with restarts from the first boot and with boots; both results must be alike. Returns
/// each one's output, and its report of its restarts.
fn both(bench: &Bench, command: &str, experiment: &str) -> [(String, Value); 2] {
    let runs = [("kept", false), ("whole", true)]
        .map(|(name, boots)| run(bench, name, &format!("{command}{experiment}"), boots));
    let [kept, whole] = &runs;
    let parts = |(output, ios, summary): &(String, String, Value)| {
        [output.clone(), ios.clone(), figures(summary)]
    };
    for (kept, whole) in parts(kept).iter().zip(&parts(whole)) {
        for (kept, whole) in kept.lines().zip(whole.lines()) {
            assert_eq!(kept, whole);
        }
        assert!(kept == whole, "one has more lines");
    }
    runs.map(|(output, _, summary)| (output, summary["restarts"].clone()))
}

/// Machines with these drives fail, one of them twice, and go on as machines that boot.
fn each_is_a_boot(drives: [&str; 3]) {
    let bench = Bench::new();
    let machines = drives.iter().enumerate().map(|(number, drive)| {
        format!("[[machine]]\nname = 'm{number}'\n#boots\ndrive = [{drive}]\n")
    });
    let failures = [
        ("m0", "power-cut", "200ms", "33us"),
        ("m1", "panic", "200ms", "33us"),
        ("m2", "hang", "200ms", "33us"),
        ("m2", "reset", "1900ms", "50ms"),
    ];
    let faults = failures.map(|(machine, kind, at, restart)| {
        format!("[[fault]]\nkind = '{kind}'\nmachine = '{machine}'\nat = '{at}'\nrestart = '{restart}'\n")
    });
    let text: String =
        ["[[network]]\n".to_owned()].into_iter().chain(machines).chain(faults).collect();
    let [kept, whole] = both(&bench, COMMAND, &text);
    assert!(kept.0.contains("[m2] boot 3"), "{}", kept.0);
    for (number, count) in [1, 1, 2].into_iter().enumerate() {
        assert_eq!(kept.1[number], json!({ "kept": count, "whole": 0 }), "{}", kept.1);
        let of_boots = &whole.1[number];
        assert_eq!((&of_boots["kept"], &of_boots["whole"]), (&json!(0), &json!(count)));
    }
}

#[test]
fn a_restart_is_a_boot_whatever_the_drive() {
    each_is_a_boot([
        "{ model = 'samsung-980-pro', medium = 'ram:64MiB' }",
        "{ model = 'fixed:100us', medium = 'ram:64MiB', interface = 'virtio-blk' }",
        "{ model = 'flash-tlc', medium = 'ram:64MiB' }",
    ]);
}

/// Open-Channel drives and those of pairs cannot fail with their machine, which the experiment is told.
#[test]
#[ignore = "boots three machines three times: make slow-test"]
fn a_restart_is_a_boot_with_rare_drives_and_media() {
    each_is_a_boot([
        "{ model = 'fixed:30us', medium = 'ram:64MiB', block-size = 4096, zones = { size = '8MiB' } }, \
         { model = 'fixed:30us', medium = { file = 'disk.img', size = '64MiB' }, namespaces = 2 }",
        "{ model = 'fixed:30us', medium = 'qcow2:disk.qcow2' }, \
         { model = 'jpt39c', medium = 'ram:64MiB' }",
        "{ model = 'null', medium = 'ram:16MiB', programs = { processors = 1, memory = '1MiB' } }",
    ]);
}

/// The guest boots where another processor might notice, and the run says why.
#[test]
fn a_machine_of_several_processors_boots() {
    let bench = Bench::new();
    let experiment =
        "command = ['sh', '-c', 'echo boot $STASIS_BOOT; [ $STASIS_BOOT = 2 ] || sleep 5']\n\
         drive = [{ model = 'null', medium = 'ram:64MiB' }]\n\
         fault = [{ kind = 'power-cut', at = '100ms', restart = '1ms' }]\n[machine]\nvcpus = 2\n";
    let (output, _, summary) = run(&bench, "booted", experiment, false);
    assert_eq!(output, "boot 1\nboot 2\n");
    let reason = "a machine of the run has several processors";
    assert_eq!(summary["restarts"], json!([{ "kept": 0, "whole": 1, "reason": reason }]));
    // The boot belongs to its failure, from when the machine was switched on until its command began.
    for fault in summary["faults"].as_array().unwrap() {
        let interval = &fault["intervals"][0];
        let [begin, end, back] =
            ["begin_ns", "end_ns", "back_ns"].map(|key| interval[key].as_u64().unwrap());
        assert_eq!(end - begin, 1_000_000, "{fault}");
        assert!((10_000_000..600_000_000).contains(&(back - end)), "{fault}");
    }
}

/// A root that is read where it lies is a drive of the guest's: the kernel sees it after the greeting too.
#[test]
#[ignore = "boots a machine three times: make slow-test"]
fn a_restart_is_a_boot_on_a_root_that_is_read_where_it_lies() {
    let bench = Bench::new();
    make_with(&bench.path("tree"), &["/bin/sh", "/bin/cat", "/bin/sleep"]);
    bench.image("tree/holes", 3 << 30);
    let command = "command = ['sh', '-ec', 'echo boot $STASIS_BOOT; cat /etc/whose /proc/uptime \
         /proc/interrupts /proc/meminfo; [ $STASIS_BOOT = 2 ] || sleep 5']\n";
    let experiment = "drive = [{ model = 'null', medium = 'ram:64MiB' }]\n\
         fault = [{ kind = 'power-cut', at = '100ms', restart = '1ms' }]\n[guest]\nroot = 'tree'\n[machine]\n#boots\n";
    let [kept, _] = both(&bench, command, experiment);
    assert!(kept.0.contains("boot 2"), "{}", kept.0);
    assert_eq!(kept.1, json!([{ "kept": 1, "whole": 0 }]));
}
