//! Write amplification, against the simplest log-structured reference and a closed form.

#[path = "support/reference.rs"]
mod reference;

use reference::{reference, Lengths, Load, UNIT};
use stasis_block::Random;
use stasis_key_value::{Condition, Key, Layout, Store, Task};

/// A drive that does everything at once.
fn go_on(store: &mut Store) {
    while let Some(task) = store.next_task() {
        match task {
            Task::Copy { to, .. } => store.copied(to, true),
            Task::Discard { offset, .. } => store.discarded(offset),
            Task::Write { offset, .. } => store.written(offset, true),
            Task::Flush => store.flushed(true),
        }
    }
}

/// The store, with such a drive.
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
        go_on(&mut store);
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

/// Uniform keys find their page in memory as often as memory holds it, and a page that a store has
/// changed is written when it leaves: each page that is read for a store has another one written.
#[test]
fn traffic_of_the_index_is_that_of_the_closed_form() {
    let keys = 20_000u64;
    for share in [0.25, 0.9] {
        let layout = Layout::new(64 << 20, 256 << 10, UNIT, (4096, keys as u32), 0).unwrap();
        let pages = layout.with_index(0).unwrap().index.unwrap().pages;
        assert_eq!(pages, 209, "128 entries each, three quarters of them taken");
        let cached = (f64::from(pages) * share).round();
        let mut store = Store::new(layout.with_index(cached as u64 * 4096).unwrap());
        let mut random = Random::new(8);
        let put = |store: &mut Store, key: u64| {
            let key = Key::new(&key.to_be_bytes()).unwrap();
            if let Some(read) = store.look_up(&key) {
                store.page_read(read.page, read.offset);
            }
            let place = store.place(1024).unwrap();
            store.store(key, place, Condition::Always).unwrap();
            go_on(store);
        };
        (0..keys).for_each(|key| put(&mut store, key));
        let before = store.statistics();
        let count = 3 * keys;
        (0..count).for_each(|_| put(&mut store, random.below(keys)));
        let stores = store.statistics().since(&before);
        assert!(stores.segments_collected > 30, "{stores:?}");
        // Collection moves pages of the index, too, and reads none.
        let missed = 1.0 - cached / f64::from(pages);
        for bytes in [stores.index_read, stores.index_written] {
            let of_store = bytes as f64 / 4096.0 / count as f64;
            assert!((of_store - missed).abs() < 0.03 * missed, "{of_store} for {missed}");
        }
        assert_eq!(stores.index_hits + stores.index_read / 4096, count);
        // Retrieves change nothing: a page that stores have changed is written, once.
        let before = store.statistics();
        for _ in 0..count {
            let key = Key::new(&random.below(keys).to_be_bytes()).unwrap();
            if let Some(read) = store.look_up(&key) {
                store.page_read(read.page, read.offset);
            }
            go_on(&mut store);
        }
        let retrieves = store.statistics().since(&before);
        assert!(retrieves.index_written <= u64::from(pages) * 4096, "{retrieves:?}");
        let of_retrieve = retrieves.index_read as f64 / 4096.0 / count as f64;
        assert!((of_retrieve - missed).abs() < 0.03 * missed, "{of_retrieve} for {missed}");
    }
}
