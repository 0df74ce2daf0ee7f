//! Write amplification, against the simplest log-structured reference and a closed form.

#[path = "support/reference.rs"]
mod reference;

use reference::{reference, Lengths, Load, UNIT};
use stasis_block::Random;
use stasis_key_value::{Condition, Key, Layout, Store, Task};

/// The store, with a drive that does everything at once.
fn measured(load: Load) -> f64 {
    let mut random = Random::new(6);
    let most = 8 * UNIT as u32;
    let bytes = load.segments * load.segment;
    let layout = Layout::new(bytes, load.segment, UNIT, (most, u32::MAX), 0).unwrap();
    let mut store = Store::new(layout);
    let mut before = store.statistics();
    for step in 0..load.keys + load.overwrites {
        let key = if step < load.keys { step } else { random.below(load.keys) };
        let length = (load.lengths.next(&mut random) * UNIT) as u32;
        let key = Key::new(&key.to_be_bytes()).unwrap();
        store.check(&key, length, Condition::Always).unwrap();
        let place = store.place(length).unwrap();
        store.store(key, place, Condition::Always).unwrap();
        while let Some(task) = store.next_task() {
            match task {
                Task::Copy { to, .. } => store.copied(to, true),
                Task::Discard { offset, .. } => store.discarded(offset),
            }
        }
        if step + 1 == load.keys {
            before = store.statistics();
        }
    }
    let now = store.statistics();
    let stored = now.stored - before.stored;
    (stored + now.collected - before.collected) as f64 / stored as f64
}

#[test]
fn write_amplification_is_that_of_the_reference() {
    for (share, lengths) in [
        (0.50, Lengths::Fixed(2)),
        (0.70, Lengths::Fixed(2)),
        (0.85, Lengths::Fixed(2)),
        (0.70, Lengths::UpTo(8)),
        (0.80, Lengths::UpTo(8)),
    ] {
        let (segments, segment) = (200, 64 << 10);
        let mean = match lengths {
            Lengths::Fixed(units) => units as f64,
            Lengths::UpTo(most) => (1 + most) as f64 / 2.0,
        };
        let keys = ((segments * segment / UNIT) as f64 * share / mean) as u64;
        let load = Load { segments, segment, keys, overwrites: 4 * keys, lengths };
        let (reference, measured) = (reference(load), measured(load));
        let error = measured / reference - 1.0;
        assert!(error.abs() < 0.05, "{share} {lengths:?}: {measured} for {reference}");
    }
}

/// With large segments, greedy collection of uniform overwrites writes as cyclic does (Menon, HPDC
/// 1995): 1 / (1 - u), where u is the share in use of a victim, as that of all is (u - 1) / ln u.
#[test]
fn write_amplification_is_that_of_the_closed_form() {
    let (segments, segment) = (250, 256 << 10);
    for share in [0.6, 0.75, 0.85] {
        let keys = (segments as f64 * segment as f64 / 1024.0 * share) as u64;
        let lengths = Lengths::Fixed(2);
        let load = Load { segments, segment, keys, overwrites: 6 * keys, lengths };
        // Two segments are open, and two or three are free.
        let in_use = share * segments as f64 / (segments as f64 - 4.5);
        let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
        for _ in 0..100 {
            let u: f64 = (low + high) / 2.0;
            if (u - 1.0) / u.ln() < in_use {
                low = u;
            } else {
                high = u;
            }
        }
        let expected = 1.0 / (1.0 - low);
        let measured = measured(load);
        let error = measured / expected - 1.0;
        assert!(error.abs() < 0.05, "{share}: {measured} for {expected}");
    }
}
