//! Completeness of results: a file in a folder of results marks them as complete, and names their
//! program and experiment.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Name of the file that marks a folder's results as complete, and names their program and
/// experiment.
pub const COMPLETE_FILE: &str = "complete.json";
/// Message about results that are to be gathered and are not complete.
pub const NOT_COMPLETE: &str =
    "not complete here, or of another program or other settings: run it without --gather";

/// Identity of results: the program and the experiment that made them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// Digest of the program.
    pub program: String,
    /// Digest of the experiment.
    pub experiment: String,
}

/// The digest of this program, which is read once.
///
/// # Errors
/// If the program cannot be read.
pub fn program_digest() -> Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let program = stasis_runner::program::own()?;
    let bytes =
        std::fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    Ok(KNOWN.get_or_init(|| digest(&bytes)).clone())
}

/// The digest of a value as JSON.
///
/// # Errors
/// If the value cannot be written as JSON.
pub fn digest_of(value: &impl Serialize) -> Result<String> {
    Ok(digest(&serde_json::to_vec(value).context("cannot write the experiment")?))
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks the result of removing `path`, which need not have existed.
///
/// # Errors
/// Returns the path and the reason.
pub fn gone(path: &Path, removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("cannot remove {}: {error}", path.display())
        }
        _ => Ok(()),
    }
}
