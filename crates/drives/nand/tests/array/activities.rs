//! An array's activities against the times of its operations.

use std::collections::HashMap;

use proptest::prelude::*;
use stasis_block::timeline::Step;
use stasis_nand::{Activity, Array, ArrayConfig, OpDone, Part, PlaneMode};

use super::against_reference::{actions, options, timings, Action, CHANNELS, LUNS, PLANES};
use super::{cells, geometry};

/// Submits operations until all have ended; returns them and the activities of the parts.
fn work(array: &mut Array, actions: &[(u64, Action)]) -> (Vec<OpDone>, Vec<Activity>) {
    let (mut now, mut tokens, mut ended, mut did) = (0, 0, Vec::new(), Vec::new());
    let mut holds = Vec::new();
    for (delay, action) in actions {
        now += delay;
        match action {
            Action::Submit(op) => {
                array.submit(now, stasis_nand::Op { token: tokens, ..*op });
                tokens += 1;
            }
            Action::Hold(scope, true) => {
                array.hold(now, *scope);
                holds.push(*scope);
            }
            Action::Hold(..) => {
                if let Some(scope) = holds.pop() {
                    array.release(now, scope);
                }
            }
        }
        assert_eq!(array.take_activities(|activity| did.push(activity)), 0);
    }
    holds.into_iter().for_each(|scope| array.release(now, scope));
    ended.extend(std::iter::from_fn(|| array.pop(u64::MAX)));
    array.take_activities(|activity| did.push(activity));
    (ended, did)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// A part does one step at a time, in the order of the reports; the activities of an operation
    /// add up to the operation's times; and watching changes nothing.
    #[test]
    fn parts_do_one_thing_at_a_time(
        actions in actions(),
        timing in timings(),
        options in options(),
    ) {
        let make = || {
            let shape = geometry(CHANNELS, LUNS, PLANES);
            Array::new(ArrayConfig::new(shape, cells("(Lu)*"), timing), options)
        };
        let (unseen, nothing) = work(&mut make(), &actions);
        prop_assert!(nothing.is_empty(), "kept, though nobody asked");
        let mut array = make();
        array.watch();
        let (ended, did) = work(&mut array, &actions);
        prop_assert_eq!(&unseen, &ended);

        let mut until: HashMap<Part, u64> = HashMap::new();
        let (mut in_cells, mut on_channel) = (HashMap::new(), HashMap::new());
        for activity in &did {
            prop_assert!(activity.begin <= activity.end, "{activity:?}");
            let last = until.insert(activity.part, activity.end).unwrap_or(0);
            prop_assert!(last <= activity.begin, "{activity:?} begins before {last}");
            let took = activity.end - activity.begin;
            match (activity.part, activity.step) {
                (Part::Unit(unit), Step::Cells) => {
                    *in_cells.entry(activity.number).or_insert(0) += took;
                    prop_assert_eq!(unit, activity.at.plane.0 / array.planes_of_unit());
                }
                (Part::Unit(_), Step::Register | Step::Suspend | Step::Resume) => {}
                (Part::Channel(channel), Step::Command | Step::DataIn | Step::DataOut) => {
                    *on_channel.entry(activity.number).or_insert(0) += took;
                    prop_assert_eq!(channel, array.geometry().channel(activity.at.plane));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        for done in &ended {
            let channel = on_channel.get(&done.token).copied().unwrap_or(0);
            prop_assert_eq!(channel, done.times.channel, "{:?}", done);
            // One plane of a multi-plane operation stands for all.
            let cells = in_cells.get(&done.token).copied();
            let one_of_several = options.planes == PlaneMode::Lockstep && cells.is_none();
            prop_assert!(one_of_several || cells.unwrap_or(0) == done.times.cell, "{:?}", done);
        }
    }
}

/// Activities that are not taken in time are counted.
#[test]
fn what_is_too_much_is_counted() {
    let timing = stasis_nand::Timing::preset("slc").unwrap();
    let mut array = super::array(geometry(1, 1, 1), timing, stasis_nand::ArrayOptions::default());
    array.watch();
    let read = super::op(stasis_nand::OpKind::Read, 0, 0);
    super::closed_loop(&mut array, &[read], 40_000);
    let mut kept = 0;
    let lost = array.take_activities(|_| kept += 1);
    assert_eq!(kept, 1 << 16);
    assert!(lost > 0);
    assert_eq!(array.take_activities(|_| kept += 1), 0, "both are told once");
    assert_eq!(kept, 1 << 16);
}
