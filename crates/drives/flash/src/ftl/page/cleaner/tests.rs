//! A plane is emptied, block by block.

use super::*;
use crate::ftl::page::blocks::Blocks;
use crate::ftl::page::testing::{context, drive};
use crate::ftl::page::token::KIND;
use crate::spec::{GcSpec, WearLevelling};

/// A plane of blocks of two pages of one slot, of which all but one are full: half valid, or
/// wholly where `tight`.
fn parts(blocking: Blocking, tight: bool) -> (Cleaner, Placement, Context) {
    let gc = GcSpec { foreground: 2, copyback: Some(false), blocking, ..GcSpec::default() };
    let (spec, shape) = drive(Spec { gc, ..Spec::default() }, 1, 2, 256);
    let mut blocks = Blocks::new(shape, WearLevelling::None, 0, 1);
    let mut filled = Vec::new();
    while blocks.free_in(0) > 1 {
        filled.extend(blocks.open(0));
    }
    let mut placement = Placement::new(shape, 2 * shape.blocks(), blocks, false);
    for (&block, unit) in filled.iter().zip((0..).step_by(2)) {
        placement.write(unit, shape.slot(block, 0));
        if tight {
            placement.write(unit + 1, shape.slot(block, 1));
        }
        assert!(placement.blocks_mut().begin(block, 2));
    }
    let context = context(&spec, &shape);
    (Cleaner::new(&spec, shape, 1), placement, context)
}

fn moment<'a>(now: Nanos, placement: &'a mut Placement, context: &'a mut Context) -> Moment<'a> {
    Moment { now, placement, context }
}

/// Runs the array until nothing is under way; the operations' kinds in the order of their ends.
fn run(parts: &mut (Cleaner, Placement, Context)) -> Vec<OpKind> {
    let (cleaner, placement, context) = parts;
    let mut kinds = Vec::new();
    while let Some(now) = context.array.next_event() {
        let Some(done) = context.array.pop(now) else { continue };
        kinds.push(done.op.kind);
        let moment = &mut Moment { now, placement, context };
        match done.op.kind {
            OpKind::Read => cleaner.read_done(&done, moment),
            OpKind::Erase => cleaner.erase_done(&done, moment),
            _ => {
                let page = (done.token & !KIND) as u32;
                cleaner.program_done(page, &done, moment);
            }
        }
    }
    kinds
}

#[test]
fn blocks_are_emptied_until_enough_are_free() {
    let mut parts = parts(Blocking::None, false);
    parts.0.look_at(0, &mut moment(0, &mut parts.1, &mut parts.2));
    assert!(parts.0.is_collecting());
    let kinds = run(&mut parts);
    let one = [OpKind::Read, OpKind::Program, OpKind::Erase];
    assert_eq!(kinds, [one, one].concat(), "one into an open block, and one into its rest");
    assert_eq!(parts.1.blocks().free_in(0), 2);
    assert!(!parts.0.is_collecting());
    parts.1.check();
}

#[test]
fn a_block_that_the_host_reads_is_erased_after_the_read() {
    let mut parts = parts(Blocking::Plane, false);
    let slot = parts.1.slot(0).unwrap();
    let at = parts.0.shape.page(slot);
    parts.0.read_began(parts.0.shape.block_of(slot));
    parts.0.look_at(0, &mut moment(0, &mut parts.1, &mut parts.2));
    assert_eq!(run(&mut parts), [OpKind::Read, OpKind::Program]);
    parts.0.read_ended(at, &mut moment(1_000_000_000, &mut parts.1, &mut parts.2));
    assert_eq!(run(&mut parts)[0], OpKind::Erase);
}

#[test]
fn a_plane_where_nothing_gains_is_looked_at_again_when_something_does() {
    let mut parts = parts(Blocking::None, true);
    let (cleaner, placement, context) = (&mut parts.0, &mut parts.1, &mut parts.2);
    cleaner.look_at(0, &mut moment(0, placement, context));
    assert!(!cleaner.is_collecting());
    let plane = placement.trim(7).unwrap();
    cleaner.gained(plane, &mut moment(5, placement, context));
    assert!(cleaner.is_collecting());
    assert_eq!(placement.blocks().state(placement.blocks().in_plane(0, 3)), BlockState::Collected);
}

#[test]
fn what_the_host_writes_meanwhile_is_not_moved() {
    let mut parts = parts(Blocking::None, false);
    parts.0.look_at(0, &mut moment(0, &mut parts.1, &mut parts.2));
    parts.1.trim(0);
    assert_eq!(run(&mut parts)[..2], [OpKind::Read, OpKind::Erase]);
}

#[test]
fn after_a_power_cut_the_job_begins_again() {
    let mut parts = parts(Blocking::None, false);
    let (cleaner, placement, context) = (&mut parts.0, &mut parts.1, &mut parts.2);
    cleaner.look_at(0, &mut moment(0, placement, context));
    let victim = placement.blocks().in_plane(0, 0);
    assert_eq!(placement.blocks().state(victim), BlockState::Collected);
    cleaner.power_cut(placement);
    assert_eq!(placement.blocks().state(victim), BlockState::Full);
    assert!(!cleaner.is_collecting());
    placement.check();
}
