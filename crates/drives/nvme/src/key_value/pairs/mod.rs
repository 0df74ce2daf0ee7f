//! Key-value namespaces as a controller has them.

mod commands;
mod identify;
mod namespace;
mod pair;
mod requests;

use crate::io::IoCommand;

pub use identify::fill_key_value_namespace;
pub use namespace::KeyValueNamespace;
pub use pair::Pair;

/// Every I/O command of key-value namespaces (KV 1.0 section 3) but Flush and those of reservations.
pub const IO_COMMANDS: [IoCommand; 5] =
    [commands::STORE, commands::RETRIEVE, commands::LIST, commands::DELETE, commands::EXIST];
