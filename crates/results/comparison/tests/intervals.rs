//! Intervals against what is known of distributions.

use proptest::prelude::*;
use stasis_block::inside::Parts;
use stasis_block::Operation;
use stasis_comparison::{mean, of_runs, percentile, Candidate, Comparison, Ios, Run, Setup};
use stasis_report::SlowIo;

/// A sequence that is spread evenly (Weyl), for tests that need no randomness.
fn spread(seed: u64, count: u64) -> Vec<u64> {
    let mut values: Vec<u64> = (0..count)
        .map(|index| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 44)
        .collect();
    values.sort_unstable();
    values
}

fn candidate(name: &str, runs: &[&[u64]]) -> Candidate {
    let run = |values: &&[u64]| Run {
        ios: [(("drive".to_owned(), Operation::Read), ios(values))].into(),
        setup: Setup([("drive: model".to_owned(), name.to_owned())].into()),
        ..Run::default()
    };
    Candidate { name: name.into(), runs: runs.iter().map(run).collect() }
}

/// I/Os of 4 KiB that follow one another.
fn ios(latencies: &[u64]) -> Ios {
    let iops = latencies.len() as f64 * 1e9 / latencies.iter().sum::<u64>().max(1) as f64;
    Ios { latencies: latencies.to_vec(), iops, bytes_per_second: iops * 4096.0 }
}

#[test]
fn percentiles_are_those_of_the_values() {
    let values: Vec<u64> = (1..=1000).collect();
    let p50 = percentile(&values, 50.0).unwrap();
    assert_eq!(p50.value, 500.0);
    // 1.96 sqrt(1000/4) = 31 ranks on either side.
    assert!((465.0..=470.0).contains(&p50.low) && (530.0..=535.0).contains(&p50.high), "{p50:?}");
    // One value in a thousand is above p99.9; none is expected above p99.99.
    assert_eq!(percentile(&values, 99.9).unwrap().value, 999.0);
    assert_eq!(percentile(&values, 99.99), None);
    assert_eq!(percentile(&[], 50.0), None);
    assert_eq!(mean(&[7]), None);
}

/// The percentile's interval has the true value in about 95 of 100 samples.
#[test]
fn an_interval_covers_what_it_says() {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    let random = |sample: u64, index: u64| {
        BuildHasherDefault::<DefaultHasher>::default().hash_one((sample, index)) % 1_000_000
    };
    let covered = (0..1000_u64).filter(|sample| {
        let mut values: Vec<u64> = (0..200).map(|index| random(*sample, index)).collect();
        values.sort_unstable();
        let p90 = percentile(&values, 90.0).unwrap();
        p90.low <= 900_000.0 && 900_000.0 <= p90.high
    });
    let covered = covered.count();
    assert!((930..=985).contains(&covered), "{covered} of 1000");
}

#[test]
fn runs_are_compared_by_their_figures() {
    // Student's 97.5th percentile for two degrees of freedom, times the standard error.
    let three = of_runs(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(three.value, 2.0);
    assert!((three.high - 2.0 - 4.303 / 3_f64.sqrt()).abs() < 1e-9, "{three:?}");
    assert_eq!(of_runs(&[1.0]), None);
}

#[test]
fn what_is_the_same_differs_in_nothing_and_what_is_slower_is_found() {
    let values = spread(1, 5000);
    let slower: Vec<u64> = values.iter().map(|value| value + value / 5).collect();
    let [a, b, c] = [("a", &values), ("b", &values), ("c", &slower)]
        .map(|(name, values)| candidate(name, &[values]));
    let same = Comparison::of(vec![a.clone(), b]).unwrap();
    assert!(same.differences.len() >= 4);
    assert!(same.differences.iter().all(|one| one.percent == 0.0 && !one.significant));
    let other = Comparison::of(vec![a.clone(), c]).unwrap();
    let found: Vec<_> = other.slower_by(10.0).collect();
    assert!(found.iter().any(|one| one.statistic == "mean"), "{found:?}");
    assert_eq!(other.slower_by(30.0).count(), 0);
    // By figure in order, rates first; a single run's rates have no interval.
    let order: Vec<_> = other.differences.iter().map(|one| one.statistic.as_str()).collect();
    assert_eq!(order, ["IOPS", "bandwidth", "mean", "p50", "p95", "p99", "p99.9"]);
    let rate = &other.differences[0];
    assert!(rate.is_slower() && !rate.significant && (-17.0..-16.0).contains(&rate.percent));
    assert_eq!(other.setup, [("drive: model".into(), vec!["a".into(), "c".into()])]);
    let html = other.to_html(None);
    for part in [
        "c against a",
        "<p class=\"sentence\">c is slower than a at ",
        "<dd>slower</dd>",
        "<dt>Slower</dt><dd>5 of 5 latencies</dd>",
        "<td class=\"figure bad\">+20",
        "What differs in the set-up",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let html = same.to_html(None);
    assert!(html.contains("<dd>no difference</dd>") && !html.contains("<td class=\"figure bad"));
    assert!(Comparison::of(vec![a]).is_none());
}

/// A run's slowest I/Os spent their time where the page says.
fn slow(latency: u64, gc: u64) -> SlowIo {
    let parts = Parts { gc, cell: latency - gc, ..Parts::default() };
    SlowIo {
        order: 1,
        operation: Operation::Read,
        lba: 0,
        bytes: 4096,
        submit_ns: 0,
        target_ns: latency,
        delivered_ns: latency,
        image_ns: 0,
        limited_ns: 0,
        scheduled_ns: 0,
        fault_ns: 0,
        parts: Some(parts),
        guest: None,
    }
}

#[test]
fn of_several_the_fastest_and_the_slowest_are_named_and_why() {
    let values = spread(1, 5000);
    let [a, b, c] = [("a", 10), ("b", 5), ("c", 40)].map(|(name, factor)| {
        let values: Vec<u64> = values.iter().map(|value| value * factor).collect();
        let mut one = candidate(name, &[&values]);
        let slowest = vec![slow(1000, if name == "c" { 800 } else { 0 })];
        one.runs[0].slowest.insert("drive".into(), slowest);
        one
    });
    let comparison = Comparison::of(vec![a, b, c]).unwrap();
    let html = comparison.to_html(None);
    let sentence = html.split("<p class=\"sentence\">").nth(1).unwrap().split("</p>").next();
    let sentence = sentence.unwrap();
    for part in
        ["At p99.9 of reads b is the fastest, ", ", and c the slowest, ", ", 8 times as long."]
    {
        assert!(sentence.contains(part), "{part}: {sentence}");
    }
    let why =
        "Where the slowest reads spent their time, of b: cell, 100 %. of a: cell, 100 %. of c: \
               collection, 80 %; cell, 20 %.";
    assert!(html.contains(why), "{why}");
    for part in ["<dd>fastest: b</dd>", "Why the slowest I/Os are slow", "All differences"] {
        assert!(html.contains(part), "{part}");
    }
    // A row for each in place of a column, so that the table has room for any number.
    let head = html.split("<thead>").nth(1).unwrap().split("</thead>").next().unwrap();
    let columns = head.matches("<th ").count();
    assert_eq!(columns, 9, "{head}");
    assert!(
        html.contains("<td class=\"figure bad\">") && html.contains("<td class=\"figure good\">")
    );
}

#[test]
fn many_results_make_a_page_of_less_than_two_megabytes() {
    let values = spread(1, 5000);
    let candidates = (0..12u64).map(|number| {
        let mut one = candidate(&format!("c{number}"), &[&values]);
        use Operation::{Copy, Discard, Flush, Write};
        for operation in [Write, Flush, Discard, Copy] {
            let slower: Vec<u64> = values.iter().map(|value| value * (10 + number) / 10).collect();
            one.runs[0].ios.insert(("drive".into(), operation), ios(&slower));
        }
        one
    });
    let html = Comparison::of(candidates.collect()).unwrap().to_html(None);
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert_eq!(html.matches("<figcaption>Upper tail").count(), 5);
}

#[test]
fn what_only_one_has_is_told() {
    let a = candidate("a", &[&[1, 2, 3]]);
    let mut b = candidate("b", &[&[1, 2, 3]]);
    b.runs[0].ios.insert(("drive".into(), Operation::Write), ios(&[1, 2]));
    let comparison = Comparison::of(vec![a, b]).unwrap();
    assert_eq!(comparison.apart, [("drive".into(), Operation::Write, vec!["b".into()])]);
}

proptest! {
    #[test]
    fn no_values_panic(mut values in prop::collection::vec(any::<u64>(), 0..50), percent in 0.0..100.0) {
        values.sort_unstable();
        if let Some(found) = percentile(&values, percent) {
            prop_assert!(found.low <= found.value && found.value <= found.high);
        }
        mean(&values);
        let other: Vec<u64> = values.iter().map(|value| value / 2).collect();
        let comparison = Comparison::of(vec![candidate("a", &[&values]), candidate("b", &[&other, &values])]);
        comparison.unwrap().to_html(None);
    }
}
