//! The data structures of NVMe's specifications, byte by byte: queue entries, Identify, log pages,
//! and the data of commands.
//!
//! Each structure is written as its figure is: the byte at which a field begins, its name, and its
//! meaning ([`layout!`](stasis_layout::layout!)). Names are the specification's own, short ones where
//! it has them. The compiler checks every byte number and every size.
//!
//! Promise: plain data.

pub mod command_sets;
pub mod directives;
pub mod events;
pub mod fabrics;
pub mod features;
pub mod identify;
pub mod logs;
pub mod open_channel;
pub mod placement;
pub mod queue;
pub mod ranges;
pub mod reservations;
pub mod tcp;
pub mod zones;

pub use stasis_layout::{transmute, transmute_mut, transmute_ref};
pub use stasis_layout::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};
pub use stasis_layout::{U128, U16, U32, U64};
