//! The array gives the same answer as theory or arithmetic, where they give one.

use stasis_nand::{
    Array, ArrayConfig, ArrayOptions, Breakdown, ChannelOrder, Op, OpDone, OpKind, PlaneMode,
    Priority, Scheduling, MAX_PASSED,
};
use stasis_nand::{BusRate, CellTimes, PageAddress, PlaneId, Scope, SlcTimes, Timing, Variation};

use super::{array, cells, closed_loop, geometry, op, run};

/// 4 KiB at this rate take `TRANSFER`.
const BUS: BusRate = BusRate::per_second(100_000_000);
const TRANSFER: u64 = 40_960;

const SINGLE: ArrayOptions = ArrayOptions {
    cache_register: false,
    planes: PlaneMode::Independent,
    suspensions: 0,
    scheduling: Scheduling::Fifo,
    channel_order: ChannelOrder::Fifo,
};
const DOUBLE: ArrayOptions = ArrayOptions { cache_register: true, ..SINGLE };

fn reads(count: u32, plane: impl Fn(u32) -> u32) -> Vec<Op> {
    (0..count).map(|token| op(OpKind::Read, plane(token), u64::from(token))).collect()
}

fn ends(done: &[OpDone]) -> Vec<(u64, u64)> {
    done.iter().map(|done| (done.token, done.at)).collect()
}

#[test]
fn readers_of_a_single_register_plane_wait_for_all_others() {
    for read in [10_000, 48_000, 64_000] {
        for readers in [1, 2, 3, 16] {
            let timing = Timing::uniform(read, 1, 1, BUS);
            let mut array = array(geometry(1, 1, 1), timing, SINGLE);
            for done in closed_loop(&mut array, &reads(readers, |_| 0), 200) {
                assert_eq!(done.times.total(), u64::from(readers) * (read + TRANSFER));
                assert_eq!((done.times.cell, done.times.channel), (read, TRANSFER));
            }
        }
    }
}

#[test]
fn a_cache_register_overlaps_cells_and_channel() {
    for read in [10_000, 40_960, 64_000] {
        for readers in [1, 2, 3, 16] {
            let timing = Timing { register_copy: 500, ..Timing::uniform(read, 1, 1, BUS) };
            let mut array = array(geometry(1, 1, 1), timing, DOUBLE);
            let expected = match readers {
                1 => read + 500 + TRANSFER,
                _ => u64::from(readers) * (read.max(TRANSFER) + 500),
            };
            for done in closed_loop(&mut array, &reads(readers, |_| 0), 200) {
                assert_eq!(done.times.total(), expected, "{readers} readers, {read} ns");
            }
        }
    }
}

#[test]
fn programs_overlap_with_the_next_transfer_where_there_is_a_cache_register() {
    for program in [20_000, 900_000] {
        for writers in [2, 3, 8] {
            let writes: Vec<_> = (0..writers).map(|token| op(OpKind::Program, 0, token)).collect();
            let timing = Timing { register_copy: 500, ..Timing::uniform(1, program, 1, BUS) };
            let cycles = [(SINGLE, program + TRANSFER), (DOUBLE, program.max(TRANSFER) + 500)];
            for (options, cycle) in cycles {
                let mut array = array(geometry(1, 1, 1), timing, options);
                for done in closed_loop(&mut array, &writes, 100) {
                    assert_eq!(done.times.total(), writers * cycle, "{options:?} {program}");
                }
            }
        }
    }
}

#[test]
fn many_planes_are_as_fast_as_their_channel() {
    // Each reader has its own plane; only the channel is shared.
    for planes in [4, 16] {
        for (read, options) in [(48_000, SINGLE), (48_000, DOUBLE), (100_000, SINGLE)] {
            let mut array =
                array(geometry(1, planes, 1), Timing::uniform(read, 1, 1, BUS), options);
            let expected = (u64::from(planes) * TRANSFER).max(read + TRANSFER);
            for done in closed_loop(&mut array, &reads(planes, |token| token), 500) {
                assert_eq!(done.times.total(), expected);
            }
            let (busy, last) = (array.channel_usage().total(0), 499 * TRANSFER);
            assert!(busy >= last, "the channel never rests: {busy} of {last}");
        }
    }
    // And with a channel each, no operation waits at all.
    let mut array = array(geometry(16, 1, 1), Timing::uniform(48_000, 1, 1, BUS), SINGLE);
    for done in closed_loop(&mut array, &reads(16, |token| token), 500) {
        assert_eq!(done.times.total(), 48_000 + TRANSFER);
    }
}

#[test]
fn multi_plane_operations_share_the_cells_time() {
    let lockstep = ArrayOptions { planes: PlaneMode::Lockstep, ..SINGLE };
    let timing = Timing { command: 100, ..Timing::uniform(48_000, 900_000, 3_000_000, BUS) };
    let together = |kind, group, options| {
        let mut array = array(geometry(1, 1, 4), timing, options);
        (0..4).for_each(|plane| {
            array.submit(0, Op { group, ..op(kind, plane, u64::from(plane)) });
        });
        run(&mut array).iter().map(|done| done.at).collect::<Vec<_>>()
    };
    for options in [lockstep, ArrayOptions { cache_register: true, ..lockstep }] {
        let programs = together(OpKind::Program, 1, options);
        assert_eq!(programs, [4 * (100 + TRANSFER) + 900_000; 4]);
        assert_eq!(together(OpKind::Erase, 1, options), [400 + 3_000_000; 4]);
        let read = together(OpKind::Read, 1, options);
        assert_eq!(read, [1, 2, 3, 4].map(|nth| 400 + 48_000 + nth * TRANSFER));
        // Each alone.
        let erases = together(OpKind::Erase, 0, options);
        assert_eq!(erases, [1, 2, 3, 4].map(|nth| nth * 3_000_100));
    }
    let alone = together(OpKind::Read, 0, lockstep);
    assert_eq!(alone, [1, 2, 3, 4].map(|nth| nth * (100 + 48_000 + TRANSFER)));
    // Independent planes need no group.
    let alone = together(OpKind::Erase, 0, SINGLE);
    assert_eq!(alone, [1, 2, 3, 4].map(|nth| nth * 100 + 3_000_000));
}

#[test]
fn a_read_in_a_suspension_costs_the_program_exactly_that() {
    let timing = Timing {
        suspend: 20_000,
        resume: 5_000,
        command: 300,
        ..Timing::uniform(48_000, 900_000, 3_000_000, BUS)
    };
    let read = 300 + 48_000 + TRANSFER;
    for kind in [OpKind::Program, OpKind::Erase, OpKind::Copyback] {
        for cache_register in [false, true] {
            let options = ArrayOptions { cache_register, suspensions: 3, ..SINGLE };
            let mut array = array(geometry(1, 1, 1), timing, options);
            let alone = match kind {
                OpKind::Program => 300 + TRANSFER + 900_000,
                OpKind::Copyback => 300 + 48_000 + 900_000,
                _ => 300 + 3_000_000,
            };
            array.submit(0, op(kind, 0, 9));
            let next =
                |array: &mut Array, until| array.pop(until).map(|done| (done.token, done.at));
            // Two at once share a suspension.
            assert_eq!(next(&mut array, 200_000), None);
            array.submit(200_000, op(OpKind::Read, 0, 1));
            array.submit(200_000, op(OpKind::Read, 0, 2));
            assert_eq!(next(&mut array, 400_000), Some((1, 220_000 + read)));
            assert_eq!(next(&mut array, 500_000), Some((2, 220_000 + 2 * read)));
            // A third suspends again, and a fourth may not.
            assert_eq!(next(&mut array, 500_000), None);
            array.submit(500_000, op(OpKind::Read, 0, 3));
            array.submit(500_000, op(OpKind::Read, 0, 4));
            assert_eq!(next(&mut array, 700_000), Some((3, 520_000 + read)));
            let end = alone + 2 * 25_000 + 3 * read;
            let done = array.pop(u64::MAX).unwrap();
            assert_eq!((done.token, done.at), (9, end), "{kind:?}");
            assert_eq!(done.times.behind_reads, 2 * 25_000 + 3 * read);
            assert_eq!(next(&mut array, u64::MAX), Some((4, end + read)));
        }
    }
}

#[test]
fn what_is_nearly_over_is_not_suspended() {
    let timing = Timing { suspend: 100, ..Timing::uniform(1_000, 10_000, 1, BusRate::UNLIMITED) };
    let options = ArrayOptions { suspensions: 9, ..SINGLE };
    for (arrives, ends_at) in [(9_899, 10_999), (9_900, 11_000)] {
        let mut array = array(geometry(1, 1, 1), timing, options);
        array.submit(0, op(OpKind::Program, 0, 0));
        assert_eq!(array.pop(arrives), None);
        array.submit(arrives, op(OpKind::Read, 0, 1));
        let done = run(&mut array);
        let read = done.iter().find(|done| done.token == 1).unwrap();
        assert_eq!(read.at, ends_at);
    }
}

#[test]
fn who_is_ready_first_transfers_first_unless_reads_are() {
    // The write is ready before the reads' cells are through.
    let fifo = |scheduling| {
        let options = ArrayOptions { scheduling, ..SINGLE };
        let mut array = array(geometry(1, 4, 1), Timing::uniform(10_000, 5_000, 1, BUS), options);
        array.submit(0, op(OpKind::Program, 0, 0));
        (1..3).for_each(|plane| array.submit(0, op(OpKind::Read, plane, u64::from(plane))));
        array.submit(1, op(OpKind::Program, 3, 3));
        ends(&run(&mut array))
    };
    let first = TRANSFER + 5_000;
    assert_eq!(
        fifo(Scheduling::Fifo),
        [(0, first), (3, first + TRANSFER), (1, 3 * TRANSFER), (2, 4 * TRANSFER)]
    );
    assert_eq!(
        fifo(Scheduling::ReadFirst),
        [(0, first), (1, 2 * TRANSFER), (2, 3 * TRANSFER), (3, 4 * TRANSFER + 5_000)]
    );
}

#[test]
fn commands_wait_behind_data_where_that_comes_first() {
    // Two reads' data are ready while a transfer is under way, and a command before them.
    let reads = |channel_order| {
        let options = ArrayOptions { channel_order, ..SINGLE };
        let timing = Timing { command: 100, ..Timing::uniform(10_000, 5_000, 1, BUS) };
        let mut array = array(geometry(1, 4, 1), timing, options);
        (0..3).for_each(|plane| array.submit(0, op(OpKind::Read, plane, u64::from(plane))));
        array.submit(10_150, op(OpKind::Read, 3, 3));
        ends(&run(&mut array))
    };
    let first = 100 + 10_000 + TRANSFER;
    let data = |nth: u64, command: u64| (nth, first + command + nth * TRANSFER);
    assert_eq!(
        reads(ChannelOrder::Fifo),
        [(0, first), data(1, 100), data(2, 100), data(3, 100)],
        "the command goes first"
    );
    assert_eq!(
        reads(ChannelOrder::DataFirst),
        [(0, first), data(1, 0), data(2, 0), data(3, 100 + 10_000)],
        "the plane is idle until no data waits"
    );
}

#[test]
fn held_planes_start_housekeeping_only_and_it_is_told() {
    let timing = Timing::uniform(10_000, 20_000, 50_000, BusRate::UNLIMITED);
    for scope in [Scope::Controller, Scope::Channel(0), Scope::Plane(PlaneId(0))] {
        let mut array = array(geometry(2, 1, 1), timing, DOUBLE);
        array.hold(0, scope);
        array.submit(0, op(OpKind::Read, 0, 1));
        array.submit(0, op(OpKind::Read, 1, 2));
        array.submit(0, Op { priority: Priority::Gc, ..op(OpKind::Erase, 0, 3) });
        let outside = scope != Scope::Controller;
        let early = array.pop(49_999).map(|done| (done.token, done.at));
        assert_eq!(early, outside.then_some((2, 10_000)));
        assert_eq!(array.pop(60_000).map(|done| (done.token, done.at)), Some((3, 50_000)));
        array.release(60_000, scope);
        let read = run(&mut array).into_iter().find(|done| done.token == 1).unwrap();
        let times = Breakdown { gc: 60_000, cell: 10_000, ..Breakdown::default() };
        assert_eq!((read.at, read.times), (70_000, times));
    }
}

#[test]
fn waiting_behind_housekeeping_is_told_apart() {
    let timing = Timing::uniform(10_000, 20_000, 50_000, BUS);
    let mut array = array(geometry(1, 2, 1), timing, SINGLE);
    array.submit(0, Op { priority: Priority::Gc, ..op(OpKind::Erase, 0, 0) });
    array.submit(0, Op { priority: Priority::Gc, ..op(OpKind::Read, 1, 1) });
    array.submit(0, op(OpKind::Read, 0, 2));
    array.submit(0, op(OpKind::Read, 0, 3));
    let done = run(&mut array);
    let times = |token| done.iter().find(|done| done.token == token).unwrap().times;
    let base = Breakdown { cell: 10_000, channel: TRANSFER, ..Breakdown::default() };
    assert_eq!(times(2), Breakdown { gc: 50_000, ..base });
    assert_eq!(times(3), Breakdown { gc: 50_000, behind_reads: 10_000 + TRANSFER, ..base });
}

#[test]
fn waiting_behind_writes_and_behind_reads_is_told_apart() {
    let timing = Timing::uniform(10_000, 20_000, 50_000, BUS);
    let mut array = array(geometry(1, 1, 1), timing, SINGLE);
    array.submit(0, op(OpKind::Program, 0, 0));
    array.submit(0, op(OpKind::Read, 0, 1));
    array.submit(0, op(OpKind::Read, 0, 2));
    let done = run(&mut array);
    let times = |token| done.iter().find(|done| done.token == token).unwrap().times;
    let read = Breakdown { cell: 10_000, channel: TRANSFER, ..Breakdown::default() };
    let behind_program = Breakdown { behind_writes: TRANSFER + 20_000, ..read };
    assert_eq!(times(1), behind_program);
    assert_eq!(times(2), Breakdown { behind_reads: 10_000 + TRANSFER, ..behind_program });
}

/// Gordon and Newell's product form: `readers` that each read a random one of
/// `planes` again and again, with exponential times of mean s, see a mean of
/// s (readers + planes - 1) / planes.
#[test]
fn exponential_times_give_the_product_form() {
    const MEAN: u64 = 100_000;
    for (channels, luns, readers) in [(4, 1, 16), (4, 4, 16), (1, 1, 4), (8, 2, 64)] {
        let shape = geometry(channels, luns, 1);
        let timing = Timing::uniform(MEAN, 1, 1, BusRate::UNLIMITED);
        let variation = Variation { times: CellTimes::Exponential, ..Variation::default() };
        let config = ArrayConfig::new(shape, cells("slc"), timing);
        let mut array = Array::new(ArrayConfig { variation, seed: 7, ..config }, SINGLE);
        let planes = channels * luns;
        let mut state = 1u64;
        let mut next = |token| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            op(OpKind::Read, (state >> 33) as u32 % planes, token)
        };
        (0..readers).for_each(|token| array.submit(0, next(token)));
        let (mut sum, count) = (0, 400_000);
        for _ in 0..count {
            let done = array.pop(u64::MAX).unwrap();
            sum += done.times.total();
            array.submit(done.at, next(done.token));
        }
        let mean = sum as f64 / f64::from(count);
        let expected = MEAN as f64 * (readers as f64 + f64::from(planes) - 1.0) / f64::from(planes);
        let error = mean / expected - 1.0;
        assert!(error.abs() < 0.01, "{planes} planes, {readers} readers: {error:+.4}");
    }
}

#[test]
fn usage_is_what_operations_say_they_used() {
    let timing = Timing { command: 200, ..Timing::uniform(48_000, 900_000, 3_000_000, BUS) };
    let mut array = array(geometry(2, 2, 2), timing, DOUBLE);
    for token in 0..400 {
        let kind = [OpKind::Read, OpKind::Program, OpKind::Erase][token as usize % 3];
        array.submit(token * 1000, op(kind, (token * 7 % 8) as u32, token));
    }
    let done = run(&mut array);
    for channel in 0..2 {
        let on = done.iter().filter(|done| done.op.at.plane.0 / 4 == channel);
        let channel_time: u64 = on.map(|done| done.times.channel).sum();
        assert_eq!(array.channel_usage().total(channel), channel_time);
    }
    let last = done.last().unwrap().at;
    for lun in 0..4 {
        // Two planes work side by side: the LUN at least half of their time.
        let on = done.iter().filter(|done| done.op.at.plane.0 / 2 == lun);
        let cells: u64 = on.map(|done| done.times.cell).sum();
        let busy = array.lun_usage().total(lun);
        assert!(cells / 2 <= busy && busy <= last, "{cells} {busy} {last}");
    }
}

#[test]
fn a_copyback_uses_the_channel_for_its_command_only() {
    let timing = Timing { command: 200, ..Timing::uniform(48_000, 900_000, 1, BUS) };
    let mut array = array(geometry(1, 1, 1), timing, SINGLE);
    let at = PageAddress { plane: PlaneId(0), block: 1, page: 3 };
    array.submit(5, Op { at, ..op(OpKind::Copyback, 0, 0) });
    let times = Breakdown { cell: 948_000, channel: 200, ..Breakdown::default() };
    let done = run(&mut array);
    assert_eq!((done[0].at, done[0].times), (948_205, times));
}

#[test]
fn a_block_in_slc_mode_has_its_own_times_until_it_is_erased() {
    let timing = Timing::uniform(50_000, 900_000, 3_000_000, BusRate::UNLIMITED);
    let config = ArrayConfig {
        slc: Some(SlcTimes { read: 20_000, program: 100_000 }),
        ..ArrayConfig::new(geometry(1, 1, 1), cells("slc"), timing)
    };
    let mut array = Array::new(config, SINGLE);
    array.use_as_slc(PlaneId(0), 1);
    let (read, program, erase) = (OpKind::Read, OpKind::Program, OpKind::Erase);
    let ops =
        [(program, 1), (read, 1), (program, 0), (read, 0), (erase, 1), (program, 1), (read, 1)];
    for (kind, block) in ops {
        let op = op(kind, 0, 0);
        let at = PageAddress { block, ..op.at };
        array.submit(0, Op { at, source: at, ..op });
    }
    let took: Vec<u64> = run(&mut array).iter().map(|done| done.times.cell).collect();
    assert_eq!(took, [100_000, 20_000, 900_000, 50_000, 3_000_000, 900_000, 50_000]);
}

/// Reads of the host's without end beside one erase or one read of housekeeping at a time: whatever
/// comes first otherwise, it has its turn after so many.
#[test]
fn housekeeping_has_its_share_beside_a_plane_full_of_reads() {
    let options = ArrayOptions { scheduling: Scheduling::ReadFirst, ..DOUBLE };
    // The plane is what is waited for, and then the channel.
    for read in [90_000, 5_000] {
        let timing = Timing::uniform(read, 1, 1, BUS);
        let mut array = array(geometry(1, 1, 1), timing, options);
        let house = Op { priority: Priority::Gc, ..op(OpKind::Read, 0, 99) };
        let ops: Vec<Op> = reads(12, |_| 0).into_iter().chain([house]).collect();
        let done = closed_loop(&mut array, &ops, 4_000);
        let share = done.iter().filter(|done| done.token == 99).count() as f64 / done.len() as f64;
        let expected = 1.0 / f64::from(MAX_PASSED + 1);
        assert!((share / expected - 1.0).abs() < 0.12, "{read}: {share} for {expected}");
    }
    // Several planes share a channel, which programs of housekeeping wait for.
    let timing = Timing { command: 1_000, ..Timing::uniform(5_000, 1, 1, BUS) };
    let mut array = array(geometry(1, 4, 1), timing, options);
    let house = Op { priority: Priority::Gc, ..op(OpKind::Program, 3, 99) };
    let ops: Vec<Op> = reads(24, |token| token % 3).into_iter().chain([house]).collect();
    let done = closed_loop(&mut array, &ops, 4_000);
    assert!(done.iter().filter(|done| done.token == 99).count() > 100);
}
