//! Histories from their lines, and checkers on histories of simulated stores.

mod append;
mod bank;
mod common;
mod edn;
mod lines;
mod progress;
mod queue;
mod register;
mod set;
