//! A machine's source of the files of its guests' programs; the caller owns the files.

use std::sync::Arc;

/// Returns the frames of a guest's program or library ([`stasis_unwind::Table`], encoded), by its path in
/// the guest; None where they are not known.
pub type ProgramSource = Arc<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;
