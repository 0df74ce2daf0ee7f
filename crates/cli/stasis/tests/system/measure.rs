//! Results of `stasis doctor --measure`.

use serde_json::Value;

use crate::support::Bench;

#[test]
#[ignore = "keeps the whole host busy for two minutes: make slow-test"]
fn exact_is_found_to_be_exact_on_a_quiet_and_on_a_busy_host() {
    let bench = Bench::new();
    let run =
        bench.finish(bench.command(&["doctor", "--measure", "--engine", "exact", "--json", "-q"]));
    run.expect(0);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let measured = &report["measured"];
    assert_eq!(measured["engine"], "exact");
    // On a slow machine its two minutes can be over before everything is measured.
    let all = measured["not_measured"].as_array().unwrap().is_empty();
    let verdict = if all { "exact" } else { "good" };
    assert_eq!(measured["verdict"]["kind"], verdict, "{measured:#}");
    let hosts = ["quiet", "loaded"].map(|host| &measured[host]["delivered"]);
    assert!(hosts[0].is_array(), "{measured:#}");
    for delivered in hosts.into_iter().filter(|delivered| delivered.is_array()) {
        // The host's load has no effect at all.
        assert_eq!(delivered, hosts[0]);
        let delivered = delivered.as_array().unwrap();
        let targets: Vec<_> =
            delivered.iter().map(|drive| drive["target_ns"].as_u64().unwrap()).collect();
        assert_eq!(targets, [0, 20_000, 50_000, 100_000, 1_000_000]);
        for drive in &delivered[1..] {
            assert_eq!(drive["max_ns"], drive["target_ns"], "{drive}");
            assert!(drive["ios"].as_u64().unwrap() >= 100, "{drive}");
        }
    }
    let clocks = &measured["clocks"];
    if all || clocks.is_object() {
        let expected: (&Value, &Value) = (&4.into(), &0.into());
        assert_eq!((&clocks["processors"], &clocks["backwards"]), expected, "{clocks}");
    }
}
