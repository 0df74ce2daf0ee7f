//! A load of pairs on flash drives: stored, overwritten and retrieved, every byte compared; and what
//! the log and the drive below it write, against a log-structured reference.

#[path = "../../key-value/tests/support/reference.rs"]
#[allow(dead_code)] // it has loads of lengths that differ, too
mod reference;

use reference::{reference, Lengths, Load};
use stasis_block::clock::Nanos;
use stasis_block::units::format_size;
use stasis_key_value::KeyValue;
use stasis_models::{BuildContext, ModelSpec};
use stasis_workload::{PairCounts, PairLoad, PairsSpec, Pause, PhaseCounts, Simulation};

const VALUE: u64 = 1024;

/// So many keys with four overwrites each, on so many segments of a flash drive.
struct Setup {
    keys: u32,
    segment: u64,
    segments: u64,
    index_cache: Option<u64>,
    least_value_size: Option<u64>,
    /// Keys of the model.
    ftl: String,
}

/// Counts of the load, and bytes that the drive has programmed for each that it was asked to write.
fn run(setup: &Setup) -> (PairCounts, f64) {
    let Setup { keys, segment, segments, index_cache, least_value_size, ftl } = setup;
    let bytes = segment * segments;
    let table = format!("model = {{ kind = 'flash', capacity = {bytes}, {ftl} }}");
    let mut table: toml::Table = toml::from_str(&table).unwrap();
    let mut spec: ModelSpec = table.remove("model").unwrap().try_into().unwrap();
    spec.for_pairs();
    let shape = spec.kind().log_shape(bytes);
    let model = spec.build(&BuildContext { seed: 1, capacity: bytes, path: 0 }).unwrap();
    let log = KeyValue {
        segment: Some(*segment),
        spare_percent: 0,
        index_cache: *index_cache,
        ..KeyValue::default()
    };
    let log = shape.map_or(log, |shape| log.on_flash(bytes, (shape.erased, shape.page)));
    let (overwrites, retrieves) = (4 * u64::from(*keys), 2 * u64::from(*keys));
    let (key_size, value_size, depth) = (16, VALUE, 32);
    let spec = PairsSpec {
        keys: *keys,
        key_size,
        value_size,
        least_value_size: *least_value_size,
        overwrites,
        retrieves,
        depth,
        log,
    };
    let load = PairLoad::new(&spec, (bytes, 512), 7, 0).unwrap();
    let mut simulation = Simulation::new(model, load);
    let mut done = Vec::new();
    while simulation.run(Nanos::MAX, 4096, &mut done).unwrap() != Pause::Over {
        done.clear();
    }
    assert!(simulation.workload().is_over());
    let counts = simulation.workload().counts().clone();
    let counted: Vec<u64> = counts.phases.iter().map(|(_, phase)| phase.count).collect();
    assert_eq!(counted, [u64::from(*keys), overwrites, retrieves]);
    assert_eq!((counts.wrong, counts.failed), (0, 0));
    let inside = serde_json::to_value(simulation.model().inside(simulation.now())).unwrap();
    (counts, inside["write_amplification"].as_f64().unwrap())
}

/// The reference's write amplification of the overwrites.
fn expected(setup: &Setup) -> f64 {
    let keys = u64::from(setup.keys);
    let (segments, segment) = (setup.segments, setup.segment);
    let lengths = match setup.least_value_size {
        None => Lengths::Fixed(VALUE / 512),
        // Values of any length up to that take as many blocks.
        Some(_) => Lengths::UpTo(VALUE / 512),
    };
    reference(Load { segments, segment, keys, overwrites: 4 * keys, lengths })
}

fn overwritten(counts: &PairCounts) -> &PhaseCounts {
    &counts.phases[1].1
}

/// Zones of the log's segments, in units of a value's bytes: whole pages, and no second collection.
fn zones(segment: u64) -> String {
    format!(
        "ftl = 'zoned', zone_size = '{}', mapping_unit = '1KiB', plp = true",
        format_size(segment)
    )
}

/// Page mapping with units that are larger than values, and blocks of two planes that are so much of a
/// segment.
fn pages(segment: u64, share: u64, plp: bool) -> String {
    let pages = segment / 4096 / 2 / share;
    format!(
        "ftl = 'page', channels = 2, luns = 1, planes = 1, page_size = '4KiB', pages = {pages}, \
         plp = {plp}"
    )
}

/// The drive and its reference, for a small drive.
fn small(index_cache: Option<u64>) -> Setup {
    let segment = 64 << 10;
    let (least_value_size, ftl) = (None, zones(segment));
    Setup { keys: 12_000, segment, segments: 240, index_cache, least_value_size, ftl }
}

/// The load's bytes on the flash, for each that was stored, are those of a reference.
fn writes_as_the_reference(setup: &Setup) {
    let (counts, below) = run(setup);
    let (measured, expected) = (overwritten(&counts).log.write_amplification(), expected(setup));
    let all = measured * below;
    assert!((all / expected - 1.0).abs() < 0.05, "{measured} and {below} for {expected}");
    assert!((below - 1.0).abs() < 0.01, "{below}: nothing is collected below the log");
}

#[test]
fn page_mapping_below_a_log_moves_nothing() {
    for (segment, segments, plp) in [(64 << 10, 240, true), (128 << 10, 120, false)] {
        for share in [1, 2] {
            let ftl = pages(segment, share, plp);
            let (index_cache, least_value_size) = (None, None);
            let keys = 12_000;
            writes_as_the_reference(&Setup {
                keys,
                segment,
                segments,
                index_cache,
                least_value_size,
                ftl,
            });
        }
    }
}

#[test]
fn segments_that_are_parts_of_what_is_erased_are_collected_below() {
    // Two segments are in each block.
    let half = Setup { ftl: pages(128 << 10, 1, true), ..small(None) };
    assert!(run(&half).1 > 1.1);
}

#[test]
fn values_of_several_lengths_fill_units_and_segments() {
    let ftl = pages(64 << 10, 1, true);
    let keys = 14_000;
    writes_as_the_reference(&Setup { least_value_size: Some(1), keys, ftl, ..small(None) });
}

#[test]
fn values_fill_pages_of_zones_and_are_collected_as_the_reference() {
    let setup = small(None);
    let (counts, below) = run(&setup);
    let (measured, expected) = (overwritten(&counts).log.write_amplification(), expected(&setup));
    assert!((measured / expected - 1.0).abs() < 0.05, "{measured} for {expected}");
    // Pages that were begun are in the drive's memory.
    assert!((below - 1.0).abs() < 0.02, "{below}: each page is programmed once, when it is full");
}

#[test]
fn pages_of_the_index_are_read_and_written_by_the_drive() {
    let setup = small(Some(64 << 10));
    let (counts, below) = run(&setup);
    // 125 pages, of which memory has 16.
    let missed = 1.0 - 16.0 / 125.0;
    let each = |bytes: u64, phase: &PhaseCounts| bytes as f64 / 4096.0 / phase.count as f64;
    // A page that is asked for again before it is written stays in memory: there are more then.
    let (stores, retrieves) = (overwritten(&counts), &counts.phases[2].1);
    for (bytes, phase) in [
        (stores.log.index_read, stores),
        (stores.log.index_written, stores),
        (retrieves.log.index_read, retrieves),
    ] {
        let share = each(bytes, phase) / missed;
        assert!(share > 0.8 && share < 1.02, "{share}");
    }
    // Pages that are not full at the end are in memory.
    assert!((below - 1.0).abs() < 0.05, "{below}");
    let without = run(&small(None)).0;
    let rate = |counts: &PairCounts| {
        let PhaseCounts { count, from, until, .. } = counts.phases[2].1;
        count as f64 / (until - from) as f64
    };
    let share = rate(&counts) / rate(&without);
    assert!(share < 0.75, "a retrieve reads a page of the index first: {share}");
}

#[test]
#[ignore = "a million pairs and six million commands: make slow-test"]
fn a_million_pairs_on_flash_are_as_written_and_collected_as_the_reference() {
    let rate = |phase: &PhaseCounts| phase.count as f64 / ((phase.until - phase.from) as f64 / 1e9);
    // The segments of page mapping that the default drive has.
    let page = |plp| format!("ftl = 'page', plp = {plp}");
    let setups = [
        ("zones", 4 << 20, zones(4 << 20)),
        ("pages, plp", 8 << 20, page(true)),
        ("pages", 8 << 20, page(false)),
    ];
    for (name, segment, ftl) in setups {
        let (keys, segments) = (1_000_000, (1240 << 20) / segment);
        let (index_cache, least_value_size) = (None, None);
        let setup = Setup { keys, segment, segments, index_cache, least_value_size, ftl };
        let expected = expected(&setup);
        let (counts, below) = run(&setup);
        let measured = overwritten(&counts).log.write_amplification();
        let [store, overwrite, retrieve] =
            [0, 1, 2].map(|phase: usize| rate(&counts.phases[phase].1));
        println!(
            "{name}: write amplification of the log {measured:.3}, of the reference \
             {expected:.3}; of the drive below {below:.3}; stores a second: first {store:.0}, \
             overwriting {overwrite:.0}; retrieves {retrieve:.0}",
        );
        let all = measured * below;
        assert!((all / expected - 1.0).abs() < 0.05, "{all} for {expected}");
        assert!((below - 1.0).abs() < 0.01, "{below}");
    }
}
