//! Intervals against what is known of distributions.

use proptest::prelude::*;
use stasis_comparison::{mean, of_runs, percentile, Candidate, Comparison};

/// A sequence that is spread evenly (Weyl), for tests that need no randomness.
fn spread(seed: u64, count: u64) -> Vec<u64> {
    let mut values: Vec<u64> = (0..count)
        .map(|index| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 44)
        .collect();
    values.sort_unstable();
    values
}

fn candidate(name: &str, runs: &[&[u64]]) -> Candidate {
    let subject = || ("drive".to_owned(), "read".to_owned());
    let runs = runs.iter().map(|values| [(subject(), values.to_vec())].into()).collect();
    Candidate { name: name.into(), runs }
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
    assert!(other.differences[0].significant);
    assert!(other.to_html().contains("c against a"));
    assert!(Comparison::of(vec![a]).is_none());
}

#[test]
fn many_results_make_a_page_of_less_than_two_megabytes() {
    let values = spread(1, 5000);
    let candidates = (0..12u64).map(|number| {
        let mut one = candidate(&format!("c{number}"), &[&values]);
        for operation in ["write", "flush", "discard", "copy"] {
            let slower = values.iter().map(|value| value * (10 + number) / 10).collect();
            one.runs[0].insert(("drive".into(), operation.into()), slower);
        }
        one
    });
    let html = Comparison::of(candidates.collect()).unwrap().to_html();
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert_eq!(html.matches("<figcaption>Upper tail").count(), 5);
}

#[test]
fn what_only_one_has_is_told() {
    let a = candidate("a", &[&[1, 2, 3]]);
    let mut b = candidate("b", &[&[1, 2, 3]]);
    b.runs[0].insert(("drive".into(), "write".into()), vec![1, 2]);
    let comparison = Comparison::of(vec![a, b]).unwrap();
    assert_eq!(comparison.apart, [("drive".into(), "write".into(), vec!["b".into()])]);
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
        comparison.unwrap().to_html();
    }
}
