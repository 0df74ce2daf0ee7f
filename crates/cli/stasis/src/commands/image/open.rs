//! Opens an image for work outside of time.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use stasis_drive::Drive;
use stasis_media::{Execution, OpenOptions};
use stasis_qcow2::{Image, Settings, ZeroLatency};

/// Opens an image for work outside of time.
pub fn open(path: &Path, writable: bool, snapshot: Option<&str>) -> Result<Image> {
    let options = OpenOptions {
        execution: Execution::Synchronous,
        delay: Duration::ZERO,
        base: Path::new(""),
    };
    let (opening, medium) = stasis_qcow2::open_files(path, writable, &options)?;
    let model = Box::new(ZeroLatency::default());
    let drive = Box::new(Drive::new(0, "image".into(), model, medium));
    let image = match snapshot {
        Some(name) => opening.open_snapshot(drive, name),
        None => opening.open(drive, Settings::default()),
    };
    image.with_context(|| format!("cannot open {}", path.display()))
}
