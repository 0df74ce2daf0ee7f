//! A closed loop of commands against a model.

use stasis_block::clock::Nanos;
use stasis_block::Command;
use stasis_models::{BuildContext, Model, ModelSpec};

/// The region of the publication's experiments (section 5): 4 GB.
pub const REGION: u64 = 4_000_000_000;

/// A model by its word, with seed 1 and a drive of [`REGION`].
pub fn build(word: &str, path: Nanos) -> Box<dyn Model> {
    let context = BuildContext { seed: 1, capacity: REGION, path };
    ModelSpec::parse(word).unwrap().build(&context).unwrap()
}

/// Numbers without an order, always the same.
pub fn numbers() -> impl FnMut() -> u64 {
    // Knuth's MMIX generator: any will do.
    let mut state = 11u64;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 20
    }
}

/// `count` commands from `begin` on, `depth` at a time, each `pause` ns after the one before it.
/// Latencies in the order of completion, and the time when the last completed.
pub fn run(
    model: &mut dyn Model,
    begin: Nanos,
    (count, depth): (usize, u32),
    pause: Nanos,
    mut command: impl FnMut() -> Command,
) -> (Vec<Nanos>, Nanos) {
    let mut submitted = vec![begin; depth as usize];
    let (mut latencies, mut done, mut last) = (Vec::with_capacity(count), Vec::new(), begin);
    (0..depth).for_each(|tag| model.submit(begin, tag, &command()));
    while latencies.len() < count {
        let now = model.next_event().expect("commands are under way");
        model.advance(now, &mut done);
        for completion in done.drain(..) {
            let tag = completion.tag as usize;
            latencies.push(completion.at - submitted[tag]);
            last = completion.at;
            // Time advances for all: the pause is part of `now`.
            submitted[tag] = now + pause;
            model.submit(now + pause, completion.tag, &command());
        }
    }
    (latencies, last)
}
