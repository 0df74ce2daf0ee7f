//! What a power cut can leave of a drive, and what each way to be durable
//! promised.

mod check;
mod file;
mod frame;
mod plant;
mod witness;

pub use check::{Check, StateReader, Verdict};
pub use file::{FileError, Head, HeadDrive, RecordReader, RecordWriter};
pub use frame::{Damaged, Frame, Level};
pub use plant::{Plant, Planted};
pub use witness::Stream;
