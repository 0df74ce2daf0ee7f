//! Programs of the guest's users that are the agent under another name.

use std::fs;

use nix::mount::{mount, MsFlags};

use crate::AgentError;

/// Folder of the programs: the first of Debian's path for users (login.defs, ENV_PATH).
const FOLDER: &str = "/usr/local/bin";

/// Makes the program of this name.
pub(crate) fn put(name: &str) -> Result<(), AgentError> {
    let program = format!("{FOLDER}/{name}");
    let file = |e: std::io::Error| AgentError::new("make", program.clone(), e);
    fs::create_dir_all(FOLDER).map_err(file)?;
    fs::write(&program, "").map_err(file)?;
    // The agent's own file lies below the root; a copy of it would take time and memory.
    let flags = MsFlags::MS_BIND;
    mount(Some("/proc/self/exe"), program.as_str(), None::<&str>, flags, None::<&str>)
        .map_err(|e| AgentError::new("mount", program.clone(), e))
}
