//! The steady state that is made equals the one that is written, and its amplification is that of
//! theory.

use stasis_block::Operation;

use super::basics::small;
use super::load::{on, run};
use crate::spec::{GcSpec, Precondition};
use crate::{Spec, Ssd};

fn spec(policy: &str, precondition: Precondition) -> Spec {
    let gc = GcSpec { policy: policy.into(), choices: 4, foreground: 3, ..GcSpec::default() };
    Spec {
        channels: 1,
        luns: 2,
        pages: Some(32),
        over_provisioning: Some(0.18),
        precondition: Some(precondition),
        gc,
        ..small()
    }
}

/// The share of full blocks by sixteenths of validity, and the amplification
/// from now on.
fn state(ssd: &mut Ssd, start: u64, writes: u64) -> (Vec<f64>, f64) {
    let valid = ssd.report(0).ftl["valid"].as_array().unwrap().clone();
    let valid: Vec<f64> = valid.iter().map(|count| count.as_f64().unwrap()).collect();
    let sum: f64 = valid.iter().sum();
    let before = ssd.context().statistics.clone();
    write(ssd, start, writes, 2);
    let after = &ssd.context().statistics;
    let moved = (after.moved_units - before.moved_units) as f64;
    let host = (after.programmed_units - before.programmed_units) as f64;
    (valid.into_iter().map(|count| count / sum).collect(), 1.0 + moved / host)
}

fn write(ssd: &mut Ssd, start: u64, writes: u64, seed: u64) {
    let units = ssd.capacity() / 4096;
    run(ssd, start, 16, writes, |n| {
        on(Operation::Write, stasis_nand::hash::bits(seed, n) % units, 1)
    });
}

#[test]
fn a_made_steady_state_is_like_one_that_was_written() {
    let capacity = 96 << 20;
    let units = capacity / 4096;
    for policy in ["greedy", "d-choices"] {
        let mut written = Ssd::new(&spec(policy, Precondition::Sequential), capacity, 1).unwrap();
        write(&mut written, 0, 5 * units, 1);
        let (shape, amplification) = state(&mut written, 1 << 50, units);
        let mut made = Ssd::new(&spec(policy, Precondition::Steady), capacity, 1).unwrap();
        made.ftl().check();
        let (made_shape, made_amplification) = state(&mut made, 0, units);
        // The largest distance between the two distributions (Kolmogorov).
        let (mut distance, mut one, mut other) = (0.0f64, 0.0, 0.0);
        for (a, b) in shape.iter().zip(&made_shape) {
            (one, other) = (one + a, other + b);
            distance = distance.max(f64::abs(one - other));
        }
        assert!(distance < 0.05, "{policy}: {shape:?} {made_shape:?}");
        let ratio = made_amplification / amplification;
        assert!((ratio - 1.0).abs() < 0.02, "{policy}: {made_amplification} {amplification}");
    }
}
