//! An NVMe/TCP target: a subsystem of [`stasis_nvme`] whose hosts come by TCP, independent of who
//! carries the bytes.
//!
//! The carrier (a server's thread, or a test) opens a connection by [`Target::open`], gives it the
//! bytes that have come ([`Target::receive`]), and sends those that it has ([`Target::output`]). It
//! carries the requests of [`Target::pop_request`] to a drive and returns them by
//! [`Target::complete`].
//!
//! Promises:
//! - Linux's own `nvme-tcp` connects: discovery, several I/O queues, data in capsules and on
//!   request (R2T), digests of headers and data, Keep Alive, asynchronous events, authentication by
//!   [`stasis_nvme_auth`]. All command sets of the controller pass.
//! - Pure: no threads, no wall clock, no I/O. The same calls have the same results.
//! - Nothing that a host sends can make it panic, loop without bound, or use memory without bound.
//!   A fault of the protocol ends the connection on which it came, with a reason by name, and no
//!   other host's.
//!
//! References are to the "NVM Express TCP Transport Specification, revision 1.0" of 2021-05-18,
//! cited as "NVMe/TCP 1.0" with the section.

mod arena;
mod authentication;
mod connection;
mod fault;
mod hosts;
mod pdu;
mod target;

pub use authentication::{Authentication, PowerId};
pub use connection::MAX_OUTPUT;
pub use fault::Fault;
pub use target::{ConnectionId, Target, MAX_CONNECTIONS};
