//! The benchmark suite, with one small scenario.

use crate::support::Bench;

#[test]
fn a_scenario_is_measured_once() {
    let bench = Bench::new();
    let words = [
        "suite",
        "--guest-workload=1r-seq",
        "--host-workload=1r-seq",
        "--coordinate=yes",
        "--starts=2",
        "--samples=2",
        "--application=none",
        "--results=r",
        "--engine=exact",
        "--",
        "sh",
        "-c",
        "read word < /etc/hostname && test $word = stasis",
    ];
    let run = bench.finish(bench.command(&words));
    run.expect(0);
    let scenarios = bench.json("r/scenarios.json");
    let [throughput, startup] = &scenarios.as_array().unwrap()[..] else { panic!("{scenarios}") };
    let setup = "mk6006gah.host-bfq.1r-seq-on-host.guest-bfq-coordinated";
    assert_eq!(throughput["name"], format!("{setup}.1r-seq.throughput"));
    assert_eq!(startup["name"], format!("{setup}.1r-seq.startup-sh"));
    // Half of the disk's 10 MB/s, and all of it.
    let rate = throughput["repetitions"][0]["mean"].as_f64().unwrap();
    assert!((3e6..7e6).contains(&rate), "{rate}");
    let together = throughput["together"].as_f64().unwrap();
    assert!((8e6..10.5e6).contains(&together), "{together}");
    assert_eq!(
        (&startup["failed"], &startup["repetitions"][0]["count"]),
        (&false.into(), &2.into())
    );
    // Some ten reads at 20 ms, and no reader before them.
    let seconds = startup["repetitions"][0]["mean"].as_f64().unwrap();
    assert!((0.05..3.0).contains(&seconds), "{seconds}");

    let again = bench.finish(bench.command(&words));
    again.expect(0);
    assert!(again.stderr.contains("done before"), "{again:#?}");
    assert_eq!(bench.json("r/scenarios.json"), scenarios);
}
