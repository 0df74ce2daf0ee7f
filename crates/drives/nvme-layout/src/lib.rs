//! The data structures of NVMe's specifications, byte by byte: queue entries, Identify, log pages,
//! and the data of commands.
//!
//! Each structure is written as its figure is: the byte at which a field begins, its name, and its
//! meaning. Names are the specification's own, short ones where it has them. The compiler checks
//! every byte number and every size ([`layout!`]), and numbers are little-endian on every computer.
//!
//! Promise: plain data. A structure has no invalid contents, so bytes of a host are one, and one is
//! bytes, without a copy: [`FromBytes`], [`IntoBytes`], [`transmute_mut!`].
//!
//! Figures are of the "NVM Express Base Specification" 2.0 or 2.1, unless another one is named.

mod layout;

pub mod command_sets;
pub mod directives;
pub mod events;
pub mod fabrics;
pub mod identify;
pub mod logs;
pub mod open_channel;
pub mod placement;
pub mod queue;
pub mod ranges;
pub mod reservations;
pub mod zones;

pub use zerocopy::little_endian::{U128, U16, U32, U64};
pub use zerocopy::{transmute, transmute_mut, transmute_ref, FromBytes, FromZeros, IntoBytes};
