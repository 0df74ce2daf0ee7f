//! Compose files (compose-spec, <https://github.com/compose-spec/compose-spec>) as experiments: each service is a
//! machine with its image, networks are networks, and named volumes are drives with the model that an `x-stasis`
//! block names.
//!
//! Promise: whatever a file says is in the experiment, or named: what changes what a service does is refused, and
//! the rest is a note.

mod import;
mod interpolate;
mod kinds;
mod parts;
mod service;
mod words;
mod yaml;

pub use import::import;
pub use kinds::{ComposeError, Imported, Surroundings, MAX_FILE};
