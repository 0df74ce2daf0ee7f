//! Media of files: each run writes to an overlay, so that all runs begin with the same bytes.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use stasis_experiment::{DriveSpec, Experiment, StateSpec};
use stasis_media::{ImageSettings, MediumSpec};
use stasis_qcow2::{CreateOptions, Format};
use tempfile::TempDir;

/// Checks that the drive's medium can have an overlay, or needs none.
///
/// # Errors
/// The path of a medium that cannot, and the remedy.
pub fn check(drive: &DriveSpec, base: &Path) -> Result<()> {
    let Some(path) = drive.medium.path().map(|path| base.join(path)) else { return Ok(()) };
    if matches!(drive.medium, MediumSpec::Device { .. }) {
        bail!(
            "{}: several runs cannot begin with the same bytes of a device; take an image of it \
             (file: or qcow2:)",
            path.display()
        );
    }
    if path.exists() && (drive.has_zones() || drive.ocssd.is_some()) {
        bail!(
            "{}: the state of zones or chunks is kept beside the file, and an overlay has none; \
             use ram:SIZE",
            path.display()
        );
    }
    stasis_runner::keep::check_plain(&drive.medium, base, StateSpec::Keep)?;
    Ok(())
}

/// Replaces each medium of a file by an overlay in a new folder below `folder`, and an image that
/// is to be made by memory. Returns the folder, which goes away with the value.
///
/// # Errors
/// If an overlay cannot be made.
pub fn overlays(
    experiment: &mut Experiment,
    base: &Path,
    folder: &Path,
) -> Result<Option<TempDir>> {
    let mut made = None;
    for (index, drive) in experiment.drives.iter_mut().enumerate() {
        let (path, settings, format) = match &drive.medium {
            MediumSpec::Ram { .. } | MediumSpec::Ordered { .. } | MediumSpec::Device { .. } => {
                continue
            }
            MediumSpec::File { path, size: Some(size), .. } if !base.join(path).exists() => {
                drive.medium = MediumSpec::Ram { size: *size };
                continue;
            }
            MediumSpec::File { path, .. } => (path, ImageSettings::default(), Format::Raw),
            MediumSpec::Qcow2 { path, settings } => (path, *settings, Format::Qcow2),
        };
        let below = std::fs::canonicalize(base.join(path))
            .with_context(|| format!("cannot find {}", path.display()))?;
        let Some(below) = below.to_str() else { bail!("{}: is not UTF-8", below.display()) };
        let folder = match &mut made {
            Some(folder) => folder,
            None => made.insert(tempfile::Builder::new().prefix("overlays-").tempdir_in(folder)?),
        };
        let overlay: PathBuf = std::path::absolute(folder.path().join(format!("{index}.qcow2")))?;
        let backing = Some((below.to_owned(), Some(format)));
        stasis_qcow2::create(&overlay, &CreateOptions { backing, ..CreateOptions::default() })?;
        drive.medium = MediumSpec::Qcow2 { path: overlay, settings };
    }
    Ok(made)
}
