//! A run whose drives are traced, for power cuts: the run works on a copy of each medium, and each
//! request goes to a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use rustix::fs::{seek, SeekFrom};
use rustix::io::Errno;
use stasis_crash::{DeviceKind, Fault, TraceHeader, TracedDevice, TracedDrive};
use stasis_experiment::Interface;
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_nvme::{KeptState, ZoneState};
use stasis_qcow2::Format;
use stasis_run_events::{EventSink, RunEvent};

use crate::plan::PlannedDrive;

/// Options for the trace of a run.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// The folder of the trace; copies of media are made there.
    pub folder: PathBuf,
    /// A fault to inject.
    pub fault: Option<Fault>,
}

/// A copy of a medium, which goes away with it.
pub struct WorkingCopy {
    _path: tempfile::TempPath,
}

impl TraceOptions {
    /// Name of the file in the folder with the contents of drive `index` before the run.
    pub fn before(index: usize) -> String {
        format!("drive{index}.before")
    }

    /// Path of the trace file.
    pub fn file(&self) -> PathBuf {
        self.folder.join(stasis_results::TRACE_FILE)
    }

    /// Lets `drive` work on a copy of its medium where that is a file; the contents before the run
    /// stay in the folder.
    pub fn copy(
        &self,
        index: usize,
        drive: &mut PlannedDrive,
        traced: &mut TracedDrive,
    ) -> Result<Option<WorkingCopy>> {
        let path = match &drive.spec.medium {
            MediumSpec::Ram { .. } => return Ok(None),
            MediumSpec::Device { path, .. } => bail!(
                "{}: a run with power cuts works on a copy of each medium, and devices are not \
                 copied; take an image of it (file: or qcow2:)",
                path.display()
            ),
            MediumSpec::File { path, .. }
            | MediumSpec::Ordered { path, .. }
            | MediumSpec::Qcow2 { path, .. } => path.clone(),
        };
        let name = Self::before(index);
        let base = self.folder.join(&name);
        let kept =
            File::create(&base).with_context(|| format!("cannot write {}", base.display()))?;
        let cannot = || format!("cannot copy {}", path.display());
        copy_sparse(&path, &kept).with_context(cannot)?;
        let base = std::fs::canonicalize(&base).with_context(cannot)?;
        if let Some(top) = drive.links.first_mut() {
            top.path = base.clone();
            // Opening an image may repair it, which must not count as the run's writes.
            let options = OpenOptions {
                execution: Execution::Synchronous,
                delay: Duration::ZERO,
                base: Path::new(""),
            };
            drop(stasis_qcow2::open_links(drive.links.clone(), true, &options)?);
            stasis_qcow2::make_room(&drive.links)?;
        }
        let copy = tempfile::Builder::new()
            .prefix("working-copy-")
            .tempfile_in(&self.folder)
            .context("cannot make a copy of the medium")?;
        copy_sparse(&base, copy.as_file()).with_context(cannot)?;
        let copy = copy.into_temp_path();
        let place = std::fs::canonicalize(&copy).with_context(cannot)?;
        if let MediumSpec::File { path, .. } = &mut drive.spec.medium {
            *path = place.clone();
        }
        if let Some(top) = drive.links.first_mut() {
            top.path = place;
        }
        traced.base = Some(name.into());
        let below = drive.links.iter().skip(1);
        traced.below = below.map(|link| (link.path.clone(), link.format == Format::Raw)).collect();
        Ok(Some(WorkingCopy { _path: copy }))
    }
}

/// Copies a file into an empty one; holes stay holes.
pub fn copy_sparse(from: &Path, to: &File) -> io::Result<()> {
    let from = File::open(from)?;
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut piece = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        at = match seek(&from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            // No holes are known there.
            Err(Errno::INVAL) => at,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&from, SeekFrom::Hole(at)).unwrap_or(length);
        while at < end {
            let count = from.read_at(&mut piece[..(end - at).min(1 << 20) as usize], at)?;
            if count == 0 {
                return Ok(());
            }
            to.write_all_at(&piece[..count], at)?;
            at += count as u64;
        }
    }
    Ok(())
}

/// Describes `drive` as the guest sees it, with `name` for its first disk.
///
/// # Errors
/// The effect of a power cut on this kind of drive is not known.
pub fn device(drive: &PlannedDrive, name: &str, capacity: u64) -> Result<TracedDevice> {
    let mut device = TracedDevice {
        names: vec![name.to_owned()],
        serial: drive.serial.clone(),
        block_size: drive.block_size(),
        ..TracedDevice::default()
    };
    if drive.spec.interface == Interface::VirtioBlk {
        return Ok(device);
    }
    device.kind = DeviceKind::Nvme;
    if !drive.spec.namespace.is_empty() {
        bail!(
            "its namespaces are not all alike, and what a power cut leaves of such a drive is not \
             followed: take `namespaces = N` in place of `namespace`"
        );
    }
    // The controller's own description, whatever the sizes are rounded to.
    let namespaces = drive.controller(capacity, false).namespaces;
    let controller = name.strip_suffix("n1").unwrap_or(name);
    device.names = (1..=namespaces.len()).map(|nsid| format!("{controller}n{nsid}")).collect();
    let Some(first) = namespaces.first() else { return Ok(device) };
    device.namespace = first.bytes();
    if let Some(second) = namespaces.get(1) {
        device.namespace = second.start - first.start;
    }
    if first.key_value.is_some() {
        bail!(
            "it has key-value pairs, and what a power cut leaves of those is not modelled: take \
             `key-value` out"
        );
    }
    if first.metadata.is_some() {
        bail!(
            "its blocks have metadata, and what a power cut leaves of such a drive is not followed by \
             crash tests: take `metadata` away, or cut the power of a run (`stasis run --power-cut`)"
        );
    }
    if let Some(zones) = &first.zoned {
        if zones.zrwa.is_some() {
            bail!(
                "its zones have random write areas, and what a power cut leaves of those is not \
                 modelled: take `zrwa` out of the zones"
            );
        }
        if !drive.links.is_empty() {
            bail!(
                "its zones are on a disk image, and what a power cut leaves of those is not \
                 modelled: take a medium `ram` or `file`"
            );
        }
        device.zones = Some(zones.clone());
    }
    if let Some(state) = &drive.state {
        device.written = written(state)?;
    }
    device.unlike = drive.spec.ocssd.as_ref().map(|_| "it is an Open-Channel drive".to_owned());
    Ok(device)
}

/// Checks that a drive has the namespaces that it was made with: what is left of others after a power
/// cut is not followed.
///
/// # Errors
/// A host has created or deleted namespaces.
pub fn check_followed(state: &KeptState) -> Result<()> {
    if state.has_other_namespaces() {
        bail!(
            "a host has created or deleted namespaces of it, and a run with power cuts does not follow \
             that: make it anew with `state = \"new\"`, and leave its namespaces alone"
        );
    }
    if state.namespaces.iter().any(|namespace| namespace.metadata.is_some()) {
        bail!(
            "its blocks have metadata, and a crash test does not follow that: take a format without, \
             or cut the power of a run (`stasis run --power-cut`)"
        );
    }
    Ok(())
}

/// The zones that a drive begins with, but empty ones: the first byte of each, and the bytes that
/// are written of it.
fn written(state: &KeptState) -> Result<Vec<(u64, u64)>> {
    check_followed(state)?;
    for namespace in &state.namespaces {
        let block = namespace.block_size;
        if block != namespace.made.block_size {
            bail!(
                "an earlier run has formatted it with logical blocks of {block} bytes, and a run with \
                 power cuts does not follow that: make it anew with `block-size = {block}` and \
                 `state = \"new\"`"
            );
        }
        for zones in &namespace.zones {
            if matches!(zones.state, ZoneState::ReadOnly | ZoneState::Offline) {
                bail!(
                    "zone {} is read-only or offline, and what a power cut leaves of such a drive is \
                     not modelled: begin anew with `state = \"new\"`",
                    zones.first
                );
            }
        }
    }
    Ok(state.zone_ends())
}

/// The header of the trace of a run.
pub fn header(
    command: &[String],
    seed: u64,
    drives: Vec<TracedDrive>,
    fault: Option<Fault>,
) -> TraceHeader {
    let fault = fault.map(|fault| fault.name().to_owned());
    TraceHeader { command: command.to_vec(), seed, drives, fault }
}

/// A sink that writes the requests to the drives up to each event before the event.
pub(crate) struct Drained<'a> {
    pub stream: stasis_crash::TraceStream,
    pub events: &'a mut dyn EventSink,
}

impl Drained<'_> {
    fn drain(&mut self) -> io::Result<()> {
        let bytes = self.stream.drain();
        if bytes.is_empty() {
            return Ok(());
        }
        self.events.event(RunEvent::Trace(bytes))
    }
}

impl EventSink for Drained<'_> {
    fn event(&mut self, event: RunEvent) -> io::Result<()> {
        self.drain()?;
        self.events.event(event)
    }
}
