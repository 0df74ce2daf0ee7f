//! A guest of several processors has the power of several.

use std::collections::BTreeMap;

use crate::support::{job, Bench};

/// Copies of a loop side by side; then a processor goes away and comes back,
/// and has work; then threads of fio, one on its own and as many as there are
/// processors.
const SCRIPT: &str = "
cat /sys/devices/system/clocksource/clocksource0/current_clocksource
/root/busy 25000000 1 2 4 2 4 2 4 8
echo 0 > /sys/devices/system/cpu/cpu1/online
nproc
echo 1 > /sys/devices/system/cpu/cpu1/online
nproc
taskset -c 1 sh -c 'echo on $(taskset -p $$)' | tail -c 3
fio --filename=/dev/nvme0n1 --rw=randread --bs=4k --direct=1 --ioengine=psync --size=64M --thread \
  --number_ios=200 --output-format=json --output=/results/fio.json --name=one \
  --name=four --stonewall --group_reporting --numjobs=4
grep CapBnd /proc/self/status";

#[test]
#[ignore = "counts the work of five runs: make slow-test"]
fn four_processors_do_four_times_the_work() {
    let bench = Bench::new();
    let run = bench.run_beside_io(4, "busy", SCRIPT);
    run.expect(0);
    println!("{}", run.stdout.trim());
    let mut lines = run.stdout.lines();
    assert_eq!(lines.next(), Some("kvm-clock"), "one clock for all processors");
    let mut took = BTreeMap::new();
    // The least of three: Linux may put two copies on one processor until its next tick, 4 ms
    // later, as it may on any machine.
    for line in lines.by_ref().take(8) {
        let words: Vec<&str> = line.split(' ').collect();
        let (copies, ns) = (words[1].parse::<u32>().unwrap(), words[3].parse::<f64>().unwrap());
        let least = took.entry(copies).or_insert(ns);
        *least = ns.min(*least);
    }
    // Starting and ending threads takes some microseconds of each.
    for (copies, most) in [(2, 1.02), (4, 1.02)] {
        let times = took[&copies] / took[&1];
        assert!(times < most, "{copies} copies take {times} times one");
    }
    // Never less than their work; Linux balances in ticks of 4 ms.
    let twice = took[&8] / took[&1];
    assert!((1.99..2.4).contains(&twice), "8 copies on 4 take {twice} times one");
    assert_eq!(lines.next(), Some("3"), "a processor is gone");
    assert_eq!(lines.next(), Some("4"), "it came back");
    assert_eq!(lines.next().map(str::trim), Some("2"), "and runs what is put there");
    // Linux, include/uapi/linux/capability.h: CAP_SYS_BOOT, for reboot and kexec.
    let rights = lines.next().unwrap().strip_prefix("CapBnd:").unwrap().trim();
    assert_eq!(u64::from_str_radix(rights, 16).unwrap() >> 22 & 1, 0, "it may not reboot");
    let report = bench.json("r/fio.json");
    let mean = |name: &str| job(&report, name)["read"]["clat_ns"]["mean"].as_f64().unwrap();
    let times = mean("four") / mean("one");
    assert!(times < 1.05, "fio's mean with four threads is {times} times that with one");
    let summary = bench.json("r/summary.json");
    let processors = summary["processors"].as_array().unwrap();
    assert_eq!(processors.len(), 4);
    for processor in processors {
        let utilization = processor["utilization"].as_f64().unwrap();
        assert!((0.1..1.0).contains(&utilization), "{processor}");
    }
    let skew = summary["clock_skew_max_ns"].as_u64().unwrap();
    assert!(skew <= 21_000, "{skew} ns between two processors, with a quantum of 20 us");
}

/// Two threads that add to one number without a lock, each in three instructions.
const RACE: &str = r#"
#include <pthread.h>
#include <stdio.h>
static volatile long sum;
static void *add(void *none) {
    for (int i = 0; i < 2000000; i++) {
        long have = sum;
        __asm__ volatile("" : "+r"(have));
        sum = have + 1;
    }
    return none;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%ld\n", sum);
    return 0;
}
"#;

/// A random schedule is another one for each seed, and the same for one seed, run by run and as a branch; and the
/// clocks of its processors are trusted.
#[test]
fn a_schedule_on_purpose_is_its_seeds() {
    let bench = Bench::new();
    bench.compile("race", RACE, &["-O1", "-pthread"]);
    let experiment = "engine = \"exact\"\ncommand = [\"/root/race\"]\nguest.files = [\"race\"]\n\
                      machine = { vcpus = 2, schedule = \"random\" }\n";
    std::fs::write(bench.path("e.toml"), experiment).unwrap();
    let sum = |seed: &str| -> u64 {
        let run = bench.run(&["e.toml", "--results=r", "--seed", seed]);
        run.expect(0);
        assert!(!run.stderr.contains("not to be trusted"), "{}", run.stderr);
        run.stdout.lines().find_map(|line| line.parse().ok()).expect(&run.stdout)
    };
    let sums = ["1", "2", "3"].map(sum);
    assert_eq!(sum("1"), sums[0], "the schedule is not the seed's alone");
    // One thread may be held until the other one is done.
    assert!(sums.iter().any(|sum| *sum < 4_000_000 && *sum != sums[0]), "{sums:?}");
    let skew = bench.json("r/summary.json")["clock_skew_max_ns"].as_u64().unwrap();
    assert!((20_000..=1_300_000).contains(&skew), "{skew} ns between two processors");
    // A branch's guest has drawn its own by the run's seed, so that its sums are others.
    let branch = |results: &str, seeds: &str| {
        let seeds = format!("--branch=seed={seeds}");
        let words = ["e.toml", "--results", results, "--seed=1", "--from=0s", &seeds];
        bench.run(&words).expect(0);
    };
    branch("b", "2..3");
    branch("again", "2");
    let sum = |output: &str| bench.text(output).trim().parse::<u64>().unwrap();
    let [two, three] = ["b/seed-2/output.txt", "b/seed-3/output.txt"].map(sum);
    assert!(two <= 4_000_000 && three <= 4_000_000, "{two} and {three}");
    assert_eq!(sum("again/output.txt"), two);

    for (change, refused) in [
        ("machine = { schedule = \"random\" }", "one processor has one schedule"),
        (
            "engine = \"softkvm\"\nmachine = { vcpus = 2, schedule = \"random\" }",
            "engine exact alone",
        ),
    ] {
        std::fs::write(bench.path("e.toml"), format!("{change}\ncommand = [\"true\"]\n")).unwrap();
        let engine =
            if change.starts_with("machine") { "--engine=exact" } else { "--engine=softkvm" };
        bench.run(&["e.toml", engine]).expect(125).says(&[refused]);
    }
}

/// Linux 6.12 starts processors by other ways than 6.1: each identifies itself by its APIC.
#[test]
#[ignore = "makes a guest of another release: make slow-test"]
fn debian_13_has_all_processors() {
    let bench = Bench::new();
    std::fs::write(bench.path("e.toml"), "machine.vcpus = 2\nguest.suite = \"trixie\"\n").unwrap();
    let script = "uname -r; nproc; cd /sys/devices/system/cpu/cpu1
for state in 0 1; do echo $state > online; nproc; done";
    let run = bench.run(&["e.toml", "--engine=exact", "--quiet", "--", "sh", "-c", script]);
    run.expect(0);
    let (kernel, processors) = run.stdout.split_once('\n').unwrap();
    assert!(kernel.starts_with("6.12."), "{kernel}");
    assert_eq!(processors.trim(), "2\n1\n2");
}
