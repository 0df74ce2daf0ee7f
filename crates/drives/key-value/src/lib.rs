//! A key-value store on the bytes of a drive: values in a log, whose segments are collected, and an
//! index of them in memory.
//!
//! The store asks, and others do: it says where a value is to be written and read, and which bytes
//! are to be copied and discarded ([`Task`]), so that any model of a drive times it and any medium
//! holds the bytes. It never sees a value.
//!
//! Promises:
//! - Pure: no threads, no wall clock, no I/O, no randomness. The same calls have the same results.
//! - A pair that was stored is there until it is stored anew or deleted. A store takes effect when
//!   its value is written, whole or not at all; collection changes no pair.
//! - Pages of an index that the drive's memory does not hold are read before what needs them, and
//!   written as they leave it ([`Store::look_up`], [`Layout::with_index`]).
//! - A store outlives its controller as [`KeptPairs`]: one that takes them over has the same pairs in
//!   the same places. Others are refused, whatever they are.
//! - Memory is bounded by [`Layout::max_keys`] and by the number of segments, whatever is stored.
//! - Space: whatever the order of stores and deletions, pairs of [`Layout::capacity`] bytes together
//!   have room, once collection has done its work.

// Without the store, its layout is checked only.
#![cfg_attr(not(feature = "store"), allow(dead_code))]

mod config;
mod kept;
mod layout;
#[cfg(feature = "store")]
mod store;

pub use config::{KeyValue, KeyValueError};
pub use kept::KeptPairs;
pub use layout::{Index, Layout, LayoutError, MIN_SEGMENTS};
#[cfg(feature = "store")]
pub use store::{
    Condition, Key, PageRead, Place, Refusal, Statistics, Store, Task, Value, Writer, MAX_KEY,
};
