//! Faults inside a guest, by its agent.

use super::support::Bench;

/// Each second of the run has one: a kill, a jump of the clock, a shortage of memory, and a drift,
/// by which 11 s of the guest's clock take 10 s of the run.
const INSIDE: &str = r#"
engine  = "exact"
command = ["sh", "-ec", '''
cp /bin/sleep /tmp/victim
/tmp/victim 100 || echo victim $?
a=$(date +%s); sleep 2; b=$(date +%s); echo jump $((b - a))
free() { awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }
m=$(free); sleep 2; echo taken $((m - $(free)))
sleep 2; echo back $((m - $(free)))
stasis-fault faster; sleep 11
echo line; sleep 100 || echo sleep $?''']

[machine]
memory = "512MiB"

[[fault]]
kind    = "kill"
process = "victim"
at      = "1s"

[[fault]]
kind = "clock-jump"
by   = "1h"
at   = "2s"

[[fault]]
kind   = "memory-shortage"
memory = "200MiB"
begin  = "4s"
end    = "6s"

[[fault]]
kind = "clock-drift"
ppm  = 100_000
when = "asked"
name = "faster"

[[fault]]
kind      = "kill"
process   = "sleep"
at-output = "^line$"
within    = "10ms"

[[fault]]
kind    = "kill"
process = "nothing"
at      = "1s"
"#;

#[test]
fn faults_come_inside_a_guest() {
    let bench = Bench::new();
    std::fs::write(bench.path("inside.toml"), INSIDE).unwrap();
    for results in ["first", "second"] {
        let run = bench.run(&["inside.toml", "--results", results]);
        run.expect(0);
        let text = run.stdout;
        let words = |name: &str| -> i64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or(&text);
            line.trim().parse().unwrap_or_else(|_| panic!("{name}: {text}"))
        };
        // 128 and the number of SIGKILL.
        assert_eq!([words("victim "), words("sleep ")], [137, 137]);
        assert!((3602..=3603).contains(&words("jump ")), "{text}");
        assert!((195..=205).contains(&words("taken ")), "{text}");
        assert!((-5..=5).contains(&words("back ")), "{text}");
    }
    let summary = bench.json("first/summary.json");
    let started = summary["boot_virtual_seconds"].as_f64().unwrap();
    let faults = summary["faults"].as_array().unwrap();
    let happened: Vec<_> = faults.iter().map(|fault| fault["happened"].as_u64().unwrap()).collect();
    assert_eq!(happened, [1, 1, 1, 1, 1, 0]);
    let at: Vec<_> = faults[..5]
        .iter()
        .map(|fault| fault["first_ns"].as_f64().unwrap() / 1e9 - started)
        .collect();
    for (at, expected) in at.iter().zip([1.0, 2.0, 4.0]) {
        assert!((0.0..0.001).contains(&(at - expected)), "{at} for {expected}");
    }
    // The guest has slept 11 s by its clock, which runs a tenth faster.
    let slept = at[4] - at[3];
    assert!((10.0..10.02).contains(&slept), "{slept} s");
    let read = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(read("first/faults.parquet") == read("second/faults.parquet"));
}
