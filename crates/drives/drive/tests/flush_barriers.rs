//! Barriers by flushes: a command behind one reaches the layer below after a flush of those before
//! it, and nothing else waits.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{Latencies, Moody};
use proptest::prelude::*;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::{Done, Drive, FlushBarriers, IoTap, Layer, TraceSink};
use stasis_media::{FaultPlan, Faults, Ram};

/// Commands to the layer below, and those of them that succeeded.
#[derive(Default)]
struct Trace {
    events: Vec<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Asked(u64, Operation, u64),
    Ended(u64, Status),
}

struct Sink(Rc<RefCell<Trace>>);

impl TraceSink for Sink {
    fn request(&mut self, place: u64, _: Nanos, command: &Command, _: &[u8]) {
        self.0.borrow_mut().events.push(Event::Asked(place, command.operation, command.offset));
    }

    fn completion(&mut self, place: u64, _: Nanos, status: Status) {
        self.0.borrow_mut().events.push(Event::Ended(place, status));
    }
}

fn layer(drive: Drive) -> (FlushBarriers, Rc<RefCell<Trace>>) {
    let trace = Rc::default();
    let tap = IoTap::new(Box::new(drive), Box::new(Sink(Rc::clone(&trace))));
    (FlushBarriers::new(Box::new(tap)), trace)
}

fn run_out(layer: &mut FlushBarriers, done: &mut Vec<Done>) {
    while let Some(at) = layer.next_event() {
        layer.advance(at, done);
    }
    assert_eq!(layer.in_flight(), 0);
}

proptest! {
    /// Every change has a distinct offset, by which it is recognized below.
    #[test]
    fn a_flush_of_what_was_before_parts_what_a_barrier_parts(
        seed in any::<u64>(),
        steps in prop::collection::vec((0..8u8, 0..30_000u64), 1..80),
    ) {
        let drive = Drive::new(
            0, "d".into(), Latencies::new(seed, 50_000), Box::new(Moody::new(seed, 1 << 20).0),
        );
        let (mut layer, trace) = layer(drive);
        let (mut done, mut now) = (Vec::new(), 0);
        // Each change's offset, with the number of barriers before it.
        let (mut changes, mut barriers) = (Vec::new(), 0);
        for (number, &(kind, pause)) in steps.iter().enumerate() {
            now += pause;
            layer.advance(now, &mut done);
            let offset = number as u64 * 512;
            let command = match kind {
                0..3 => Command::new(Operation::Write, offset, 512),
                3 => Command::new(Operation::Discard, offset, 512),
                4 => Command::new(Operation::Read, 0, 512),
                5 => Command::flush(),
                _ => Command::barrier(),
            };
            match command.operation {
                Operation::Write | Operation::Discard => changes.push((offset, barriers)),
                Operation::Barrier => barriers += 1,
                _ => {}
            }
            let moves = matches!(command.operation, Operation::Write | Operation::Read);
            let data = vec![1; if moves { 512 } else { 0 }];
            layer.submit(now, Request::new(number as u32, command, data));
        }
        run_out(&mut layer, &mut done);
        prop_assert_eq!(done.len(), steps.len());
        for ended in &done {
            prop_assert_eq!(ended.status, Status::Ok);
            prop_assert_eq!(ended.order, u64::from(ended.tag));
            if ended.command.operation == Operation::Barrier {
                prop_assert_eq!(ended.at, ended.submit);
            }
        }
        let events = &trace.borrow().events;
        let asked = |offset| events.iter().position(|event| {
            matches!(event, Event::Asked(_, operation, at)
                if *operation != Operation::Flush && *at == offset)
        }).unwrap();
        for &(earlier, before) in &changes {
            for &(later, after) in changes.iter().filter(|(_, after)| *after > before) {
                let (first, second) = (asked(earlier), asked(later));
                prop_assert!(first < second, "{earlier} {before}, {later} {after}");
                let parted = events[first..second].iter().any(|event| {
                    let Event::Asked(place, Operation::Flush, _) = event else { return false };
                    events[first..second].contains(&Event::Ended(*place, Status::Ok))
                });
                prop_assert!(parted, "{earlier} and {later}: {events:?}");
            }
        }
    }
}

fn write(layer: &mut FlushBarriers, tag: u32, offset: u64) {
    let command = Command::new(Operation::Write, offset, 512);
    layer.submit(0, Request::new(tag, command, vec![1; 512]));
}

fn barrier(layer: &mut FlushBarriers, tag: u32) {
    let command = Command::barrier();
    layer.submit(0, Request::new(tag, command, vec![]));
}

#[test]
fn a_barrier_after_no_change_and_before_none_asks_for_nothing() {
    let medium = Box::new(Ram::new(1 << 20));
    let (mut layer, trace) = layer(Drive::new(0, "d".into(), Latencies::new(1, 9), medium));
    let mut done = Vec::new();
    write(&mut layer, 0, 0);
    (1..9).for_each(|tag| barrier(&mut layer, tag));
    run_out(&mut layer, &mut done);
    let flushes = |trace: &Trace| {
        let flush = |event: &&Event| matches!(event, Event::Asked(_, Operation::Flush, _));
        trace.events.iter().filter(flush).count()
    };
    assert_eq!((done.len(), flushes(&trace.borrow())), (9, 0));
    write(&mut layer, 0, 512);
    run_out(&mut layer, &mut done);
    assert_eq!(flushes(&trace.borrow()), 1);
    // Outside of time as well.
    assert_eq!(layer.instant(Command::barrier(), vec![]).0, Status::Ok);
    let command = Command::new(Operation::Write, 0, 512);
    assert_eq!(layer.instant(command, vec![1; 512]).0, Status::Ok);
    assert_eq!(flushes(&trace.borrow()), 2);
}

#[test]
fn where_the_order_is_lost_no_later_change_is_made() {
    let plan = FaultPlan { flush_rate: 1.0, ..FaultPlan::default() };
    let medium = Box::new(Faults::new(Ram::new(1 << 20), plan));
    let (mut layer, trace) = layer(Drive::new(0, "d".into(), Latencies::new(1, 9), medium));
    let mut done = Vec::new();
    write(&mut layer, 0, 0);
    barrier(&mut layer, 1);
    write(&mut layer, 2, 512);
    run_out(&mut layer, &mut done);
    write(&mut layer, 3, 1024);
    run_out(&mut layer, &mut done);
    let failed = |tag| done.iter().any(|done| done.tag == tag && done.status != Status::Ok);
    assert!(failed(2) && failed(3), "{done:?}");
    let events = &trace.borrow().events;
    let later = |event: &Event| matches!(event, Event::Asked(_, Operation::Write, 512 | 1024));
    assert!(!events.iter().any(later), "{events:?}");
}
