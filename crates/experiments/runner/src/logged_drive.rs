//! An experiment's drive as the device of a log that another kernel wrote (dm-log-writes), and the
//! trace that such a log becomes.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use anyhow::{bail, Context, Result};
use stasis_block::units::format_size;
use stasis_crash::{read_log_writes, LoggedDevice, ReadLog, TraceWriter, TracedDrive};
use stasis_experiment::{DriveSpec, Experiment};
use stasis_media::MediumSpec;
use stasis_models::BuildContext;
use stasis_results::{ResultsFolder, TRACE_FILE};

use crate::media::OpenMedium;
use crate::plan::{device_names, PlannedDrive};
use crate::trace::{self, copy_sparse, TraceOptions};

/// Makes the trace of a run from the log `log` of the experiment's one drive, in the folder
/// `results`. `before`: the disk as it was before the log, in place of the drive's medium.
///
/// # Errors
/// If the experiment's drive is none that a log can be of, or the log is refused.
pub fn trace_of_log(
    experiment: &Experiment,
    base: &Path,
    log: &Path,
    before: Option<&Path>,
    results: &mut ResultsFolder,
) -> Result<ReadLog> {
    let [spec] = &*experiment.drives else {
        bail!(
            "--log-writes: a log is of one drive, and the experiment has {}",
            experiment.drives.len()
        );
    };
    if !experiment.machine.several().is_empty() {
        bail!("--log-writes: a log is of one machine: give it a table [machine] of its own");
    }
    let name = spec.name.clone().unwrap_or_else(|| "drive0".to_owned());
    let subject = || format!("drive {name}");
    let (device, mut traced, medium) = logged(spec, &name, base).with_context(subject)?;
    if let Some(path) = before.map(Path::to_owned).or(medium) {
        let cannot = || format!("cannot read {}", path.display());
        let there = std::fs::metadata(&path).with_context(cannot)?;
        if !there.is_file() {
            bail!("{}: it is no file; take an image of it", path.display());
        }
        if there.len() != device.capacity {
            bail!(
                "{}: it has {} and the drive {}: give the drive the size of the logged device",
                path.display(),
                format_size(there.len()),
                format_size(device.capacity)
            );
        }
        let name = TraceOptions::before(0);
        let copy = results.file(&name)?;
        let file =
            File::create(&copy).with_context(|| format!("cannot write {}", copy.display()))?;
        copy_sparse(&path, &file).with_context(|| format!("cannot copy {}", path.display()))?;
        traced.base = Some(name.into());
    }
    let path = results.file(TRACE_FILE)?;
    let cannot = || format!("cannot write {}", path.display());
    let from = File::open(log).with_context(|| format!("cannot read {}", log.display()))?;
    let file = File::create(&path).with_context(cannot)?;
    let header = trace::header(&experiment.command, experiment.seed, vec![traced], None);
    let mut writer = TraceWriter::new(BufWriter::new(file), &header).with_context(cannot)?;
    let from = BufReader::with_capacity(1 << 20, from);
    let read = read_log_writes(from, &device, &mut |frame| writer.frame(frame))
        .with_context(|| log.display().to_string())?;
    writer.finish().with_context(cannot)?;
    Ok(read)
}

/// The drive as a log's device, its description in a trace, and the file of its medium, if it has
/// one.
fn logged(
    spec: &DriveSpec,
    name: &str,
    base: &Path,
) -> Result<(LoggedDevice, TracedDrive, Option<std::path::PathBuf>)> {
    let other = "and a log of dm-log-writes is of a disk without it: leave it out";
    for (has, key) in [
        (spec.zones.is_some(), "zones"),
        (spec.ocssd.is_some(), "ocssd"),
        (spec.key_value.is_some(), "key-value"),
        (spec.programs.is_some(), "programs"),
        (spec.scheduler.is_some(), "scheduler"),
        (spec.namespaces != 1, "namespaces"),
        (!spec.namespace.is_empty(), "namespace"),
    ] {
        if has {
            bail!("it has `{key}`, {other}");
        }
    }
    let mut spec = spec.clone();
    spec.model.resolve(base)?;
    let mut medium = None;
    spec.medium = match spec.medium.or_size(spec.model.capacity(), base) {
        MediumSpec::File { path, size, .. } if !base.join(&path).exists() => {
            let size = size.with_context(|| format!("{}: no such file", path.display()))?;
            MediumSpec::Ram { size }
        }
        MediumSpec::File { path, .. } => {
            let path = base.join(path);
            let size = std::fs::metadata(&path)
                .with_context(|| format!("cannot read {}", path.display()))?
                .len();
            medium = Some(path);
            MediumSpec::Ram { size }
        }
        ram @ MediumSpec::Ram { .. } => ram,
        other => bail!(
            "its medium is {}, and a log of dm-log-writes is of a plain disk: take `ram` or `file`",
            other.label()
        ),
    };
    let held = OpenMedium::open(&spec.medium, false, base)?;
    let capacity = held.capacity;
    held.check_blocks(spec.block_size)?;
    spec.model.check(capacity)?;
    let drive = PlannedDrive {
        serial: spec.serial_number(0),
        name: name.to_owned(),
        number: 0,
        capacity,
        overlay: false,
        links: Vec::new(),
        path: 0,
        queues: 1,
        faults: Vec::new(),
        faulty: false,
        cuts: 0,
        state: None,
        on: None,
        spec,
    };
    let disk = device_names(std::iter::once(drive.spec.interface)).pop().unwrap_or_default();
    let device = trace::device(&drive, &disk, capacity)?;
    let model = drive.spec.model.build(&BuildContext { seed: 0, capacity, path: 0 })?;
    let block = drive.spec.block_size;
    let power_loss = model.power_loss().for_blocks(block);
    let discard_zeroes = held.medium.discard_zeroes();
    let traced = TracedDrive { name: drive.name, device, ..TracedDrive::default() };
    Ok((LoggedDevice { capacity, block, discard_zeroes, power_loss }, traced, medium))
}
