//! In place of Open-Channel namespaces in a program that is built without them: no namespace has
//! chunks, as a configuration with some is refused.

mod state;

use crate::context::AdminCommand;
use crate::io::IoCommand;

pub use state::{chunk_information, leave, write_failure, About, ChunkSet, Notifications};

pub const ADMIN_COMMANDS: [AdminCommand; 0] = [];
pub const IO_COMMANDS: [IoCommand; 0] = [];
