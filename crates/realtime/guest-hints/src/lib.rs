//! Coordination on a real host: guests under stock QEMU report when their BFQ raises weights, and
//! the host's own BFQ prefers the cgroup of a guest that does (vIrtical D3.6, chapter 9, with
//! Linux's schedulers as they are).
//!
//! In a guest, [`guest_end`] turns the observations of a
//! `stasis_guest_agent::bfq_tracer::BfqTracer` into the messages of [`hint_message`], and [`guest`]
//! sends them through a virtio port. On the host, [`host`] receives from several guests,
//! [`host_end`] checks each one's messages, [`mapping`] bounds the help they get, [`cgroup`] sets
//! and restores weights, and [`drive`] keeps the drive's own queue short meanwhile.
//!
//! Promises: `hint_message`, `guest_end`, `host_end` and `mapping` are pure: no clock, no I/O.
//! A guest's message is checked and costs the host a bounded time, and nothing of it panics.
//! Changed settings are restored, however the program ends.

pub mod cgroup;
pub mod drive;
pub mod guest;
pub mod guest_end;
pub mod hint_message;
pub mod host;
pub mod host_end;
pub mod mapping;
pub mod report;

mod error;
mod link;
mod port;
mod saved_state;

pub use error::Error;
