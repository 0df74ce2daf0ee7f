//! Tests of the target as a host's initiator meets it.

mod ana;
mod attachment;
mod authentication;
mod computing;
mod faults;
mod host;
mod hostile;
mod metadata;
mod orders;
mod reservations;
mod support;
