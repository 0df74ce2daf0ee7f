//! Layers on layers lose nothing of the one below.

#[path = "common/probe.rs"]
mod probe;

use crate::history;
use probe::{every_method_reaches_the_layer_below, Probe};
use stasis_drive::Scheduled;
use stasis_scheduler::SchedulerSpec;

#[test]
fn an_io_tap_loses_nothing() {
    let (probe, asked) = Probe::new();
    let (mut tap, _) = history::tap(Box::new(probe));
    every_method_reaches_the_layer_below(&mut tap, &asked);
}

#[test]
fn a_scheduler_loses_nothing() {
    let (probe, asked) = Probe::new();
    let mut scheduled = Scheduled::new(&SchedulerSpec::parse("none").unwrap(), Box::new(probe));
    every_method_reaches_the_layer_below(&mut scheduled, &asked);
}
