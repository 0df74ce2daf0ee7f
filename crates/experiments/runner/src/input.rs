//! Files from this machine for the guest, as one tar archive.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use stasis_experiment::GuestSpec;

/// Where the guest has the command's standard input until it starts.
pub const STDIN: &str = "/run/stasis-stdin";

/// Packs the files of `guest` ("SOURCE" or "SOURCE:DESTINATION") and its standard
/// input; relative sources start at `base`, relative destinations at the guest's
/// /root. Empty where there are none.
pub fn pack(guest: &GuestSpec, base: &Path) -> Result<Vec<u8>> {
    let files = &guest.files;
    if files.is_empty() && guest.stdin.is_none() {
        return Ok(Vec::new());
    }
    let mut archive = tar::Builder::new(Vec::new());
    // The same files make the same archive, whoever owns them and since when.
    archive.mode(tar::HeaderMode::Deterministic);
    for word in files {
        let (source, destination) = match word.split_once(':') {
            Some((source, destination)) => (source, PathBuf::from(destination)),
            None => {
                let name = Path::new(word).file_name();
                (word.as_str(), PathBuf::from(name.context(format!("--file {word}: no name"))?))
            }
        };
        let path = base.join(source);
        let destination = Path::new("/root").join(destination);
        let inside = destination.strip_prefix("/").unwrap_or(&destination);
        let context = || format!("cannot copy {} into the guest", path.display());
        if path.is_dir() {
            archive.append_dir_all(inside, &path).with_context(context)?;
        } else {
            archive.append_path_with_name(&path, inside).with_context(context)?;
        }
    }
    if let Some(path) = &guest.stdin {
        let path = base.join(path);
        let context = || format!("cannot read the standard input {}", path.display());
        archive
            .append_path_with_name(&path, STDIN.trim_start_matches('/'))
            .with_context(context)?;
    }
    archive.into_inner().context("cannot pack the files for the guest")
}
