//! Histories of clients, and the contradictions that a history holds.
//!
//! * A [`History`] has the operations of clients with beginning and end, from the lines that clients wrote: JSON as in
//!   `history.jsonl`, or Jepsen's EDN. [`Line`] is one such line.
//! * [`checkers`] are functions from a history to a [`Judgement`]: contradictions to what a set, a register, a bank,
//!   lists of transactions or a queue promise, or to progress after faults.
//!
//! Promises:
//! * A contradiction is one whatever the operations without a known outcome did.
//! * A checker that cannot decide says so with the reason; it never calls such a history valid.
//! * Lines may hold anything: nothing panics, and each line, each history and each search has a limit.
//! * A judgement is a function of the history.

pub mod checkers;
mod edn;
mod error;
mod history;
mod judgement;
mod line;
mod operation;

pub use error::HistoryError;
pub use history::{History, MAX_LINE, MAX_OPERATIONS};
pub use judgement::{Contradiction, Judgement, MAX_CONTRADICTIONS};
pub use line::{Kind, Line};
pub use operation::{Moment, Operation, Outcome};
