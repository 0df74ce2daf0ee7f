//! Tests of drives, with models and media, by their layers.

mod atomicity;
mod barrier;
mod changes;
mod common;
mod cuts;
mod decorators;
mod faults;
mod flash;
mod flush_barriers;
#[path = "common/history.rs"]
mod history;
mod kill;
mod metadata;
mod power_cut;
mod scheduled;
mod shared;
mod simulation;
#[path = "../../nvme/tests/support/mod.rs"]
mod support;
mod turns;
mod watched;
