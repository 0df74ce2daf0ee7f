//! Tests of the controller as a guest's driver meets it.

#![allow(
    clippy::duplicate_mod,
    reason = "fuzz targets take support/hostile.rs alone, with its host"
)]

mod attachment;
mod computing;
mod delivery;
mod driver;
mod endurance;
mod enumerate;
mod errors;
mod extending;
mod format;
mod fused;
mod health;
mod holding;
mod hostile;
mod interleaved;
mod io;
mod kept;
mod key_value;
mod management;
mod media;
mod ocssd;
mod orders;
mod placement;
mod protection;
mod sanitize;
mod self_test;
mod sgl;
mod support;
mod tools;
mod vendor;
mod zoned;
mod zoned_model;
