//! Random operations, holds and priorities against the slow reference.

use proptest::prelude::*;
use stasis_nand::{
    Array, ArrayConfig, ArrayOptions, ChannelOrder, Op, OpKind, OpStatus, PlaneMode, Priority,
    Scheduling, Scope,
};
use stasis_nand::{BusRate, PageAddress, PageType, PlaneId, Timing};

use super::reference::Reference;
use super::{cells, geometry};

pub(super) const CHANNELS: u32 = 2;
pub(super) const LUNS: u32 = 2;
pub(super) const PLANES: u32 = 3;

#[derive(Debug, Clone)]
pub(super) enum Action {
    Submit(Op),
    Hold(Scope, bool),
}

fn operations() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        4 => Just(OpKind::Read),
        3 => Just(OpKind::Program),
        1 => Just(OpKind::Erase),
        2 => Just(OpKind::Copyback),
    ];
    let priority =
        prop_oneof![3 => Just(Priority::Read), 2 => Just(Priority::Write), 1 => Just(Priority::Gc)];
    // Few planes are busy, so that much waits.
    let plane = prop_oneof![3 => 0u32..3, 1 => 0..CHANNELS * LUNS * PLANES];
    let bytes = prop_oneof![1 => Just(0u32), 5 => 1u32..12];
    (kind, priority, plane, 0u32..4, 0u32..4, bytes, 0u32..3).prop_map(
        |(kind, priority, plane, page, from, bytes, group)| {
            let at = PageAddress { plane: PlaneId(plane), block: 0, page };
            let source = PageAddress { page: from, ..at };
            Op { kind, at, source, bytes, priority, token: 0, group }
        },
    )
}

pub(super) fn actions() -> impl Strategy<Value = Vec<(u64, Action)>> {
    let scope = prop_oneof![
        Just(Scope::Controller),
        (0..CHANNELS).prop_map(Scope::Channel),
        (0..CHANNELS * LUNS * PLANES).prop_map(|plane| Scope::Plane(PlaneId(plane))),
    ];
    let action = prop_oneof![
        9 => operations().prop_map(Action::Submit),
        1 => (scope, any::<bool>()).prop_map(|(scope, held)| Action::Hold(scope, held)),
    ];
    let delay = prop_oneof![3 => Just(0u64), 2 => 1u64..6, 1 => 1u64..60];
    prop::collection::vec((delay, action), 1..60)
}

pub(super) fn timings() -> impl Strategy<Value = Timing> {
    let small = || prop_oneof![1 => Just(0u64), 3 => 1u64..5];
    let cell = || prop_oneof![1 => Just(0u64), 4 => 1u64..12];
    let bus =
        prop_oneof![1 => Just(BusRate::UNLIMITED), 5 => Just(BusRate::per_second(1_000_000_000))];
    ((cell(), cell()), (1u64..40, 1u64..40), 1u64..50, bus, (small(), small(), small(), small()))
        .prop_map(|(read, program, erase, bus, (command, register_copy, suspend, resume))| {
            let mut timing = Timing::uniform(0, 0, erase, bus);
            timing.set(PageType(0), read.0, program.0);
            timing.set(PageType(1), read.1, program.1);
            Timing { command, register_copy, suspend, resume, ..timing }
        })
}

pub(super) fn options() -> impl Strategy<Value = ArrayOptions> {
    let planes = prop_oneof![Just(PlaneMode::Independent), Just(PlaneMode::Lockstep)];
    let scheduling = prop_oneof![Just(Scheduling::Fifo), Just(Scheduling::ReadFirst)];
    let channel_order = prop_oneof![Just(ChannelOrder::Fifo), Just(ChannelOrder::DataFirst)];
    (any::<bool>(), planes, 0u8..4, scheduling, channel_order).prop_map(
        |(cache_register, planes, suspensions, scheduling, channel_order)| ArrayOptions {
            cache_register,
            planes,
            suspensions,
            scheduling,
            channel_order,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Every operation ends at the reference's time, with the reference's breakdown of its time,
    /// however late the array is asked.
    #[test]
    fn ends_and_breakdowns_are_those_of_the_reference(
        actions in actions(),
        timing in timings(),
        options in options(),
        asked in prop::collection::vec(any::<bool>(), 60),
    ) {
        let shape = geometry(CHANNELS, LUNS, PLANES);
        let config = ArrayConfig::new(shape, cells("(Lu)*"), timing);
        let mut array = Array::new(config, options);
        let mut reference = Reference::new(shape, cells("(Lu)*"), timing, options);
        let (mut now, mut tokens, mut ended, mut holds) = (0, 0, Vec::new(), Vec::new());
        for (index, (delay, action)) in actions.into_iter().enumerate() {
            now += delay;
            while reference.now < now {
                reference.tick();
            }
            if asked[index] && delay > 0 {
                ended.extend(std::iter::from_fn(|| array.pop(now - 1)));
            }
            match action {
                Action::Submit(op) => {
                    let op = Op { token: tokens, ..op };
                    tokens += 1;
                    reference.submit(op);
                    array.submit(now, op);
                }
                Action::Hold(scope, true) => {
                    holds.push(scope);
                    reference.hold(scope, true);
                    array.hold(now, scope);
                }
                Action::Hold(..) => {
                    if let Some(scope) = holds.pop() {
                        reference.hold(scope, false);
                        array.release(now, scope);
                    }
                }
            }
        }
        for scope in holds {
            reference.hold(scope, false);
            array.release(now, scope);
        }
        for _ in 0..20_000 {
            if reference.is_done() { break; }
            reference.tick();
        }
        prop_assert!(reference.is_done(), "the reference comes to an end");
        while let Some(next) = array.next_event() {
            let before = ended.len();
            ended.extend(std::iter::from_fn(|| array.pop(next)));
            prop_assert!(ended[before..].iter().all(|done| done.at == next));
        }
        prop_assert!(ended.is_sorted_by_key(|done| done.at));
        prop_assert_eq!(array.in_flight(), 0);
        ended.sort_by_key(|done| done.token);
        let got: Vec<_> = ended.iter().map(|done| (done.token, done.op, done.at, done.times)).collect();
        let expected: Vec<_> = reference.runs.iter()
            .map(|run| (run.op.token, run.op, run.ended, run.times))
            .collect();
        prop_assert_eq!(got, expected);
        prop_assert!(ended.iter().all(|done| done.status == OpStatus::Ok && done.retries == 0));
    }
}
