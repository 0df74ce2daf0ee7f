//! Key-value namespaces, by the "NVM Express Key Value Command Set Specification, revision 1.0",
//! cited as "KV 1.0" with the section.
//!
//! The crate `key-value` has the pairs' index and their log; [`pairs`] is the way of commands to it,
//! and of its work to the drive, in a program that is built with the feature `key-value`. The index is
//! the controller's memory, as that of a drive whose memory outlasts the loss of power. Values are as
//! durable as blocks are: a Flush makes them so, or their writes do where the host has turned the
//! volatile write cache off. What collection has copied is flushed before pairs lie there, and before
//! their old segment is discarded: no pair is lost that was durable.

#[cfg(feature = "key-value")]
mod pairs;
#[cfg(not(feature = "key-value"))]
#[path = "no_pairs/mod.rs"]
mod pairs;

pub use pairs::{fill_key_value_namespace, KeyValueNamespace, Pair, IO_COMMANDS};
pub use stasis_key_value::{KeptPairs, KeyValue, KeyValueError};

/// Command Set Identifier of the Key Value command set.
pub const CSI: u8 = 1;
