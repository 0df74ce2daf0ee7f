//! The executable that runs where guests are: as a guest's `/init`, in the software KVM
//! host, and on the bare machine. It is static and for x86-64 Linux.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result};

/// This program's own file.
pub fn own() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// Finds the executable for guests where that is another program.
type Other = fn() -> Result<PathBuf>;
static OTHER: OnceLock<Other> = OnceLock::new();

/// Has another program be the one for guests: for a program that does not call [`crate::enter`], and so has none of
/// the code that runs there.
pub fn guests_run(other: Other) {
    OTHER.get_or_init(|| other);
}

/// The executable for guests: this one, or that of [`guests_run`].
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn for_guests() -> Result<PathBuf> {
    OTHER.get().map_or_else(own, |other| other())
}

/// The executable for guests: the same program, else the same version of Stasis, built for x86-64 Linux
/// beside this one, or the one at the path in `STASIS_GUEST_PROGRAM`.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub fn for_guests() -> Result<PathBuf> {
    const ENDING: &str = "-x86_64-linux";
    if let Some(path) = std::env::var_os("STASIS_GUEST_PROGRAM") {
        return Ok(path.into());
    }
    let own = own()?;
    let mut name = own.file_name().unwrap_or_default().to_owned();
    name.push(ENDING);
    let same = own.with_file_name(name);
    if same.is_file() {
        return Ok(same);
    }
    let path = own.with_file_name(format!("stasis{ENDING}"));
    anyhow::ensure!(
        path.is_file(),
        "{} is missing: guests need the same version of Stasis built for x86-64 Linux \
         (docs/reference/portability.md); put it there, or name it in STASIS_GUEST_PROGRAM",
        path.display()
    );
    Ok(path)
}
