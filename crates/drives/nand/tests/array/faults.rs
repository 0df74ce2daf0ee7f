//! Faults are reported, take their time, and repeat with the same seed.

use stasis_nand::faults::Where;
use stasis_nand::{Array, ArrayConfig, ArrayOptions, Op, OpDone, OpKind, OpStatus};
use stasis_nand::{
    BusRate, Fault, FaultRule, Faults, PageAddress, PlaneId, Retry, Timing, Variation,
};

use super::{cells, geometry, op, run};

const BUS: BusRate = BusRate::per_second(100_000_000);
const TRANSFER: u64 = 40_960;
const READ: u64 = 48_000;
const PROGRAM: u64 = 900_000;
const ERASE: u64 = 3_000_000;

fn array(variation: Variation, rules: Vec<FaultRule>, seed: u64) -> Array {
    let timing = Timing::uniform(READ, PROGRAM, ERASE, BUS);
    let config = ArrayConfig::new(geometry(2, 1, 1), cells("slc"), timing);
    let faults = Faults::new(rules);
    Array::new(ArrayConfig { variation, faults, seed, ..config }, ArrayOptions::default())
}

/// One operation of each kind on plane `plane`, one after the other.
fn each_kind(array: &mut Array, plane: u32) -> Vec<OpDone> {
    let kinds = [OpKind::Read, OpKind::Program, OpKind::Erase, OpKind::Copyback];
    let mut now = 0;
    let ends = kinds.map(|kind| {
        array.submit(now, op(kind, plane, now));
        let done = array.pop(u64::MAX).unwrap();
        now = done.at;
        done
    });
    ends.to_vec()
}

fn statuses(done: &[OpDone]) -> Vec<OpStatus> {
    done.iter().map(|done| done.status).collect()
}

#[test]
fn each_fault_ends_what_it_concerns_and_takes_its_time() {
    use OpStatus::{EraseFailed, Ok, ProgramFailed, Uncorrectable};
    let whole = [READ + TRANSFER, PROGRAM + TRANSFER, ERASE, READ + PROGRAM];
    for (fault, expected, times) in [
        (
            Fault::UncorrectableRead,
            [Uncorrectable, Ok, Ok, Uncorrectable],
            [whole[0], whole[1], whole[2], READ],
        ),
        (Fault::FailedProgram, [Ok, ProgramFailed, Ok, ProgramFailed], whole),
        (Fault::FailedErase, [Ok, Ok, EraseFailed, Ok], whole),
        (
            Fault::DeadDie,
            [Uncorrectable, ProgramFailed, EraseFailed, Uncorrectable],
            [0, TRANSFER, 0, 0],
        ),
        (
            Fault::Stuck(7_000_000),
            [Ok; 4],
            // Both halves of a copyback stand still.
            [
                whole[0] + 7_000_000,
                whole[1] + 7_000_000,
                whole[2] + 7_000_000,
                whole[3] + 14_000_000,
            ],
        ),
    ] {
        let place = Where { channel: Some(1), ..Where::default() };
        let mut array = array(Variation::default(), vec![FaultRule::new(fault).at(place)], 1);
        let healthy = each_kind(&mut array, 0);
        assert_eq!(statuses(&healthy), [Ok; 4], "{fault:?}");
        assert_eq!(healthy.iter().map(|done| done.times.total()).collect::<Vec<_>>(), whole);
        let mut array = self::array(
            Variation::default(),
            vec![FaultRule::new(fault).at(Where { channel: Some(1), ..Where::default() })],
            1,
        );
        let struck = each_kind(&mut array, 1);
        assert_eq!(statuses(&struck), expected, "{fault:?}");
        let took: Vec<_> = struck.iter().map(|done| done.times.total()).collect();
        assert_eq!(took, times, "{fault:?}");
    }
}

#[test]
fn corrupted_reads_differ_and_repeat() {
    let draw = |seed| {
        let rule = FaultRule::new(Fault::CorruptedRead).rate(0.5);
        let mut array = array(Variation::default(), vec![rule], seed);
        (0..200).for_each(|token| array.submit(0, op(OpKind::Read, 0, token)));
        statuses(&run(&mut array))
    };
    let one = draw(1);
    assert_eq!(one, draw(1));
    assert_ne!(one, draw(2));
    let mut seeds: Vec<_> = one
        .iter()
        .filter_map(|status| match status {
            OpStatus::Corrupted { seed } => Some(*seed),
            _ => None,
        })
        .collect();
    assert!((60..140).contains(&seeds.len()), "{}", seeds.len());
    let count = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), count, "each is wrong in its own way");
}

#[test]
fn faults_can_come_later_and_pass() {
    let mut array = array(Variation::default(), vec![], 1);
    array.inject(FaultRule::new(Fault::FailedErase).during(ERASE..3 * ERASE).times(1));
    (0..4).for_each(|token| array.submit(0, op(OpKind::Erase, 0, token)));
    let expected = [OpStatus::Ok, OpStatus::EraseFailed, OpStatus::Ok, OpStatus::Ok];
    assert_eq!(statuses(&run(&mut array)), expected);
    assert_eq!((array.erases(PlaneId(0), 0), array.erases(PlaneId(0), 1)), (4, 0));
}

#[test]
fn worn_and_old_blocks_need_retries_and_then_give_up() {
    let retry = Retry {
        wear: 4.0,
        rated_erases: 1000,
        retention: 2.0,
        rated_age: 1 << 50,
        age: 0,
        limit: 6,
    };
    let mean = |retry, erases| {
        let variation = Variation { retry: Some(retry), ..Variation::default() };
        let mut array = array(variation, vec![], 3);
        (0..16).for_each(|block| array.set_erases(PlaneId(0), block, erases));
        for token in 0..2000 {
            let at = PageAddress {
                plane: PlaneId(0),
                block: token as u32 % 16,
                page: token as u32 / 16 % 32,
            };
            array.submit(0, Op { at, ..op(OpKind::Read, 0, token) });
        }
        let done = run(&mut array);
        for done in &done {
            assert_eq!(done.times.cell, READ * (u64::from(done.retries) + 1));
        }
        let failed = done.iter().filter(|done| done.status == OpStatus::Uncorrectable).count();
        (done.iter().map(|done| f64::from(done.retries)).sum::<f64>() / 2000.0, failed)
    };
    assert_eq!(mean(retry, 0), (0.0, 0));
    let (retries, failed) = mean(retry, 500);
    // Pages differ by a factor uniform in 0.5 to 1.5: five deviations of 512 of them.
    assert!(
        (retries - 2.0).abs() < 5.0 * (2.0 / 12f64.sqrt() / 512f64.sqrt() + 0.5 / 2000f64.sqrt())
    );
    assert_eq!(failed, 0);
    let (retries, failed) = mean(retry, 5000);
    assert_eq!((retries, failed), (6.0, 2000));
    let old = Retry { age: 1 << 51, wear: 0.0, ..retry };
    let (retries, _) = mean(old, 0);
    assert!((retries - 4.0).abs() < 0.4, "{retries}");
}

#[test]
fn an_erase_makes_the_data_of_a_block_young() {
    let retry = Retry {
        wear: 0.0,
        rated_erases: 1,
        retention: 4.0,
        rated_age: 1 << 40,
        age: 1 << 40,
        limit: 9,
    };
    let variation = Variation { retry: Some(retry), ..Variation::default() };
    let mut array = array(variation, vec![], 3);
    array.submit(0, op(OpKind::Read, 0, 0));
    array.submit(0, op(OpKind::Erase, 0, 1));
    array.submit(0, op(OpKind::Read, 0, 2));
    let retries: Vec<_> = run(&mut array).iter().map(|done| done.retries).collect();
    assert!(retries[0] >= 2, "{retries:?}");
    assert_eq!(retries[2], 0, "{retries:?}");
}

#[test]
fn cells_differ_from_place_to_place_and_stay_so() {
    let times = |seed| {
        let variation = Variation { page: 0.05, block: 0.05, chip: 0.05, ..Variation::default() };
        let mut array = array(variation, vec![], seed);
        for token in 0..64 {
            let page = token as u32 % 32;
            let at = PageAddress { plane: PlaneId(0), block: 0, page };
            array.submit(0, Op { at, ..op(OpKind::Read, 0, token) });
        }
        run(&mut array).iter().map(|done| done.times.cell).collect::<Vec<_>>()
    };
    let one = times(1);
    assert_eq!(one[..32], one[32..]);
    let mut different = one[..32].to_vec();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 24);
    assert_ne!(one, times(2));
}
