//! Networks between machines, in virtual time: a switch with a port for each machine, and links
//! with delay, bandwidth and faults between every two of them.
//!
//! [`NetworkSpec`] is a network as a user describes it. [`Network`] takes Ethernet frames at its
//! ports ([`Network::send`]) and hands each to its receivers when it has arrived
//! ([`Network::advance`]).
//!
//! A network can go on outside the experiment: at a port behind those of its machines, whose frames
//! cross together ([`Outside`], [`Frames`]).
//!
//! Promises:
//! - Pure: no threads, no wall clock, no I/O. The same frames at the same times arrive at the same
//!   times; what is random follows from the seed, for each direction of each link apart.
//! - No frame arrives earlier after its sending than [`Network::lookahead`]: machines may run so
//!   far ahead of each other, and delivery is exact all the same (conservative synchronization:
//!   Chandy and Misra, IEEE Transactions on Software Engineering SE-5, 1979).
//! - Memory is bounded, whatever the machines send ([`MAX_IN_FLIGHT`], [`MAX_LEARNED`]).
//!
//! The way of a frame, with a *stage* for each part that has a bandwidth: the sender's port, the
//! link if it has a bandwidth, the link's delay, the receiver's port. A stage begins to send a frame
//! when its first bit is there and the frame before has left; it ends no earlier than the frame has
//! come in whole (a cut-through switch). Frames for one port take their turns in the order in which
//! they would have come in whole. So a frame that meets no other takes its time on the wire
//! once, at the lowest bandwidth of its way, and the delay.

mod faults;
mod frame;
mod network;
mod outside;
mod red;
mod spec;
mod stage;
mod subnet;
mod switch;

pub use faults::NetworkFault;
pub use network::{Address, Counts, Delivery, Network, MAX_IN_FLIGHT};
pub use outside::{Frames, Outside, SharedOutside, FRAMES};
pub use red::RedSpec;
pub use spec::{Conditions, LinkSpec, NetworkSpec, OutsideSpec, MIN_DELAY};
pub use subnet::Subnet;
pub use switch::MAX_LEARNED;
