//! What a power cut can leave of a drive, and what each way to be durable
//! promised.

mod check;

pub use check::{Check, StateReader, Verdict};
