//! The hash of a batch's point: SHA-256 of all that decides its results.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde::Serialize;
use stasis_guest_image::sha256::digest;

/// The digest of this program, which is read once.
pub(super) fn program_digest() -> Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let program = crate::program::own()?;
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
