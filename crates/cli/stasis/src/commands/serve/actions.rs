//! Actions that the control interface requests: drives from descriptions.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use serde_json::Value;
use stasis_block::units::format_size;
use stasis_config::Mistake;
use stasis_drive::DriveFault;
use stasis_experiment::{DriveSpec, ScheduledFault};
use stasis_media::{MediumSpec, MIN_CAPACITY, SECTOR};
use stasis_ordered_disk::OrderedDisk;
use stasis_results::{FaultCourse, PlannedFault};
use stasis_runner::failure;
use stasis_serve::control::Actions;
use stasis_serve::{Made, NewDrive};

use super::open_drive::{self, Planned};
use super::results::Writing;

/// Source of drives that are asked for later.
pub struct Later {
    base: PathBuf,
    folder: PathBuf,
    seed: u64,
    /// File in which their I/Os are written down.
    results: Option<Writing>,
    /// Number of the next fault.
    faults: AtomicU16,
    replaced: AtomicBool,
}

/// A fault of a drive, without its number among the server's.
pub fn served_fault(fault: &ScheduledFault) -> Result<DriveFault, Mistake> {
    let mut fault = fault.of_drive(0)?;
    if fault.triggered {
        let message = "a served drive's fault begins by time, or by its drive's command: leave \
                       `name`, `when`, `at-io`, `at-packet` and `at-output` out, and say `begin` or `first`";
        return Err(message.into());
    }
    // Its times count from when the drive is told.
    fault.triggered = true;
    Ok(fault)
}

impl Later {
    /// Files are below `base`, sockets in `folder`.
    pub fn new(base: PathBuf, folder: PathBuf, seed: u64, results: Option<Writing>) -> Self {
        let (faults, replaced) = (AtomicU16::new(0), AtomicBool::new(false));
        Self { base, folder, seed, results, faults, replaced }
    }

    /// One more fault of the drive `name`: its happenings are written down.
    pub fn number(&self, name: &str, fault: DriveFault) -> Result<DriveFault> {
        let next = |number: u16| number.checked_add(1);
        let number = self.faults.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let number = number.map_err(|_| anyhow!("a server has {} faults at most", u16::MAX))?;
        let (kind, target) = (fault.kind.name().to_owned(), name.to_owned());
        let planned = PlannedFault { kind, target, course: FaultCourse::Befalls };
        self.results.as_ref().map_or(Ok(()), |results| results.add_fault(planned))?;
        Ok(DriveFault { number, ..fault })
    }

    /// Returns whether another server has taken this one's place.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    fn read_fault(&self, name: &str, description: Value) -> Result<DriveFault> {
        let fault: ScheduledFault = stasis_config::read_table(description).context("the fault")?;
        match &fault.drive {
            Some(drive) if drive != name => {
                bail!("the fault is of drive {drive}, and the request of {name}: leave one out")
            }
            _ => served_fault(&fault).map_err(|mistake| anyhow!("the fault: {mistake}")),
        }
    }

    fn describe(&self, description: Value, create: bool, index: usize) -> Result<NewDrive> {
        let mut spec = match description {
            Value::String(word) => DriveSpec::parse(&word)?,
            table => DriveSpec::from_table(table)?,
        };
        // A client of the interface does not wait for files that another program holds.
        let (base, folder) = (&self.base, &self.folder);
        let patience = Duration::ZERO;
        let new = |spec: &_| {
            open_drive::new(spec, open_drive::How::Plain, index, self.seed, base, folder, patience)
        };
        let made = match create {
            true => {
                // All that can be wrong with the rest, before anything is made.
                new(&spec)?;
                make(&mut spec, base)?
            }
            false => {
                check_there(&spec, base)?;
                Made::default()
            }
        };
        let Planned { new, shown, .. } = new(&spec)?;
        let mut drive = NewDrive { made, ..new };
        if let Some(results) = &self.results {
            results.add(&mut drive, shown);
        }
        Ok(drive)
    }
}

/// Makes the medium of a drive, which is not there yet.
fn make(spec: &mut DriveSpec, base: &Path) -> Result<Made> {
    let model = &spec.model;
    match &mut spec.medium {
        MediumSpec::Ram { .. } => Ok(Made::default()),
        MediumSpec::Qcow2 { path, .. } => {
            bail!("make {0} with `stasis image create`, then attach it", path.display())
        }
        MediumSpec::Device { path, .. } => {
            bail!("{} is there already: attach it", path.display())
        }
        medium @ (MediumSpec::File { .. } | MediumSpec::Ordered { .. }) => {
            let ordered = matches!(medium, MediumSpec::Ordered { .. });
            let (MediumSpec::File { path, size, .. } | MediumSpec::Ordered { path, size, .. }) =
                medium
            else {
                bail!("no medium of a file");
            };
            let place = base.join(&*path);
            if std::fs::symlink_metadata(&place).is_ok() {
                bail!("{} is there already: attach it", path.display());
            }
            let Some(size) = size.take() else {
                bail!("say how large {} is to be: size = \"1GiB\"", path.display());
            };
            if size < MIN_CAPACITY || !size.is_multiple_of(SECTOR) {
                bail!(
                    "{}: a size of {size} bytes: a drive has at least {}, and a multiple of \
                     {SECTOR} bytes",
                    path.display(),
                    format_size(MIN_CAPACITY)
                );
            }
            model.check(size)?;
            if ordered {
                OrderedDisk::create(&place, size)?;
                return Ok(Made::new(place));
            }
            let failed = |operation: &str| format!("cannot {operation} {}", path.display());
            let mut options = File::options();
            let file = options.write(true).create_new(true).open(&place);
            let file = file.with_context(|| failed("make"))?;
            let made = Made::new(place);
            let sized = file.set_len(size).and_then(|()| file.sync_all());
            sized.with_context(|| failed("give its size to"))?;
            Ok(made)
        }
    }
}

/// Refuses a file that is not there, and one that the model cannot have.
fn check_there(spec: &DriveSpec, base: &Path) -> Result<()> {
    let (MediumSpec::File { path, .. } | MediumSpec::Ordered { path, .. }) = &spec.medium else {
        return Ok(());
    };
    match std::fs::metadata(base.join(path)) {
        Err(_) => bail!("there is no {}: create it", path.display()),
        Ok(found) => Ok(spec.model.check(found.len())?),
    }
}

impl Actions for Later {
    fn numbered(&self, drive: &str, fault: DriveFault) -> Result<DriveFault, String> {
        self.number(drive, fault).map_err(|error| failure::told(&error))
    }

    fn fault(&self, drive: &str, description: Value) -> Result<DriveFault, String> {
        self.read_fault(drive, description).map_err(|error| failure::told(&error))
    }

    fn drive(&self, description: Value, create: bool, index: usize) -> Result<NewDrive, String> {
        self.describe(description, create, index).map_err(|error| failure::told(&error))
    }

    fn replaced(&self) {
        self.replaced.store(true, Ordering::Relaxed);
        // As if it were asked to stop, which it is.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }
}
