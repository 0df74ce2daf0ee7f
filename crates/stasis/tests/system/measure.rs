//! What `stasis doctor --measure` finds.

use serde_json::Value;

use crate::support::Bench;

#[test]
fn exact_is_found_to_be_exact_on_a_quiet_and_on_a_busy_host() {
    let bench = Bench::new();
    let run =
        bench.finish(bench.command(&["doctor", "--measure", "--engine", "exact", "--json", "-q"]));
    run.expect(0);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let measured = &report["measured"];
    assert_eq!(measured["engine"], "exact");
    assert_eq!(measured["not_measured"], Value::Array(Vec::new()), "{measured:#}");
    assert_eq!(measured["verdict"]["kind"], "exact", "{measured:#}");
    for host in ["quiet", "loaded"] {
        let delivered = measured[host]["delivered"].as_array().unwrap();
        let targets: Vec<_> =
            delivered.iter().map(|drive| drive["target_ns"].as_u64().unwrap()).collect();
        assert_eq!(targets, [0, 20_000, 50_000, 100_000, 1_000_000]);
        for drive in &delivered[1..] {
            assert_eq!(drive["max_ns"], drive["target_ns"], "{host}: {drive}");
            assert!(drive["ios"].as_u64().unwrap() >= 100, "{host}: {drive}");
        }
    }
    // What the host does is not seen at all.
    assert_eq!(measured["quiet"]["delivered"], measured["loaded"]["delivered"]);
    let clocks = &measured["clocks"];
    assert_eq!((&clocks["processors"], &clocks["backwards"]), (&4.into(), &0.into()), "{clocks}");
}
