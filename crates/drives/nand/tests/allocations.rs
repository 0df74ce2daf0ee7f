//! Once it is warm, the NAND array allocates nothing per operation.

use stasis_nand::{
    Array, ArrayConfig, ArrayOptions, ChannelOrder, Op, OpKind, PlaneMode, Priority, Scheduling,
    Scope,
};
use stasis_nand::{
    CellPattern, Fault, FaultRule, Faults, Geometry, PageAddress, PlaneId, Timing, Variation,
};

/// Keeps 64 operations of all kinds in flight until `count` ended.
fn work(array: &mut Array, state: &mut u64, count: u32) {
    let mut next = |token| {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let bits = (*state >> 24) as u32;
        let at =
            PageAddress { plane: PlaneId(bits % 16), block: bits >> 4 & 7, page: bits >> 7 & 31 };
        let kind = match bits >> 12 & 15 {
            0 => OpKind::Erase,
            1 => OpKind::Copyback,
            2..6 => OpKind::Program,
            _ => OpKind::Read,
        };
        let priority = [Priority::Read, Priority::Write, Priority::Gc][(bits >> 16) as usize % 3];
        Op { kind, at, source: at, bytes: 4096, priority, token, group: 1 + (bits >> 18 & 1) }
    };
    while array.in_flight() < 64 {
        let now = array.next_event().unwrap_or(0);
        array.submit(now, next(0));
    }
    for round in 0..count {
        let done = array.pop(u64::MAX).unwrap();
        if round % 100 == 0 {
            array.hold(done.at, Scope::Channel(round / 100 % 2));
        } else if round % 100 == 10 {
            array.release(done.at, Scope::Channel(round / 100 % 2));
        }
        array.submit(done.at, next(done.token));
    }
}

#[test]
fn a_warm_array_allocates_nothing() {
    let geometry = Geometry {
        channels: 2,
        luns: 4,
        planes: 2,
        blocks: 8,
        pages: 32,
        page_size: 4096,
        oob_size: 0,
    };
    let options = ArrayOptions {
        cache_register: true,
        planes: PlaneMode::Lockstep,
        suspensions: 4,
        scheduling: Scheduling::ReadFirst,
        channel_order: ChannelOrder::DataFirst,
    };
    let cells = CellPattern::parse("tlc", 32).unwrap();
    let timing = Timing { command: 200, ..Timing::preset("tlc").unwrap() };
    let variation = Variation { page: 0.05, ..Variation::default() };
    let faults = Faults::new(vec![FaultRule::new(Fault::FailedProgram).rate(0.1)]);
    let config = ArrayConfig { variation, faults, ..ArrayConfig::new(geometry, cells, timing) };
    let mut array = Array::new(config, options);
    let mut state = 1;
    work(&mut array, &mut state, 50_000);
    let measured = allocation_counter::measure(|| {
        work(&mut array, &mut state, 50_000);
    });
    assert_eq!(measured.count_total, 0);

    // Nor while activities are taken.
    array.watch();
    let mut watched = |rounds| {
        for _ in 0..rounds {
            work(&mut array, &mut state, 1000);
            assert_eq!(array.take_activities(|_| {}), 0);
        }
    };
    watched(50);
    assert_eq!(allocation_counter::measure(|| watched(50)).count_total, 0);
}
