//! Drives under load: so many commands in flight, the next as one completes.

use stasis_block::{Command, Completion, Model, Operation};

use crate::shadow::Shadow;
use crate::{ftl::Shape, Spec, SpecError, Ssd};

/// The description, without its over-provisioning where the geometry needs more than is given.
pub fn roomy(spec: &Spec, capacity: u64) -> Spec {
    match spec.check(capacity) {
        Err(SpecError::Value { key: "over_provisioning", .. }) => {
            Spec { over_provisioning: None, ..spec.clone() }
        }
        _ => spec.clone(),
    }
}

/// A drive with the shadow array beside it.
pub fn shadowed(spec: &Spec, capacity: u64, seed: u64) -> Ssd {
    let spec = roomy(spec, capacity);
    let mut ssd = Ssd::new(&spec, capacity, seed).unwrap();
    ssd.context.shadow = Some(Box::new(Shadow::new(Shape::new(&spec, capacity))));
    ssd
}

/// Runs until the drive is idle; returns the completions.
pub fn drain(ssd: &mut Ssd) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(at) = ssd.next_event() {
        ssd.advance(at, &mut done);
    }
    done
}

/// One command, alone; its latency.
pub fn alone(ssd: &mut Ssd, now: u64, command: &Command) -> (Completion, u64) {
    ssd.submit(now, 0, command);
    let mut done = Vec::new();
    while done.is_empty() {
        let at = ssd.next_event().expect("it completes");
        ssd.advance(at, &mut done);
    }
    (done[0], done[0].at - now)
}

/// `count` commands with `depth` in flight; their completions.
pub fn run(
    ssd: &mut Ssd,
    start: u64,
    depth: u32,
    count: u64,
    mut next: impl FnMut(u64) -> Command,
) -> Vec<Completion> {
    run_each(ssd, start, depth, count, &mut next)
}

/// [`run`], compiled once.
fn run_each(
    ssd: &mut Ssd,
    start: u64,
    depth: u32,
    count: u64,
    next: &mut dyn FnMut(u64) -> Command,
) -> Vec<Completion> {
    let (mut sent, mut all) = (0u64, Vec::new());
    let mut done = Vec::new();
    for tag in 0..depth.min(count as u32) {
        ssd.submit(start, tag, &next(sent));
        sent += 1;
    }
    while (all.len() as u64) < count {
        let at = ssd.next_event().expect("commands complete");
        ssd.advance(at, &mut done);
        for completion in done.drain(..) {
            assert!(completion.at <= at && completion.at >= start);
            all.push(completion);
            if sent < count {
                ssd.submit(at, completion.tag, &next(sent));
                sent += 1;
            }
        }
    }
    all
}

/// A command on units of 4 KiB.
pub fn on(operation: Operation, unit: u64, units: u64) -> Command {
    Command::new(operation, unit * 4096, units * 4096)
}
