//! Runs a machine inside the software KVM host: this program, once more, on a
//! QEMU that emulates a processor with virtualization.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stasis_channel::Branch;
use stasis_drive::faults::MAX_OLD_BYTES;
use stasis_drive::power_cut::MAX_UNSETTLED;
use stasis_drive::DriveFaultKind;
use stasis_emulated_host::{Control, Host, Input, Job, Mode, PassedDrive, Snapshots, StartAt};
use stasis_experiment::Engine;
use stasis_guest_image::Lower;
use stasis_media::{MediumSpec, MAX_OVERLAY};
use stasis_network::SharedOutside;
use stasis_run_events::{DebugJob, Ending, Moment, ProfileJob, SnapshotJob};

use crate::begins::Begins;
use crate::debugged::Debugged;
use crate::first_boot;
use crate::plan::{input, PlannedChange, PlannedDrive, RunPlan};
use crate::program;
use crate::relay::Relay;
use crate::run_error::RunError;
use crate::run_setup::RunSetup;

/// Memory for the inner program and its kernel, beside the guest's.
pub const OVERHEAD: u64 = 384 << 20;
/// Limit on the memory of a machine that its first boot takes once more, for later ones (bytes): with
/// Linux 6.1 and 1 GiB some 110 MiB.
const KEPT_BOOT: u64 = 256 << 20;
/// The software host's memory is a multiple of this, so that similar
/// experiments share one saved host.
const STEP: u64 = 512 << 20;

/// Message about a missing [`cache`].
pub const NO_CACHE: &str = "no place for the software host: set HOME or XDG_CACHE_HOME to a folder";

/// Folder of the software host's kernel and booted machines, beside the guests.
pub fn cache() -> Option<PathBuf> {
    stasis_guest_image::default_cache()?.parent().map(Path::to_owned)
}

/// Job of the inner program.
#[derive(Debug, Serialize, Deserialize)]
pub struct InnerJob {
    /// The machine.
    pub plan: RunPlan,
    /// Which passed drives hold each of the run's media: one for each file of an image's chain,
    /// none where it is in RAM.
    pub passed: Vec<Vec<usize>>,
}

/// The part of a job that belongs to a run and not to its machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct LaterJob {
    /// Each machine's job, with its command.
    pub jobs: Vec<stasis_channel::Job>,
    /// Size of the files for the guests that is each machine's own (bytes).
    #[serde(default)]
    pub own: Vec<usize>,
    /// The part of the run that begins with its commands.
    #[serde(default)]
    pub begins: Begins,
    /// The wishes of a debugger.
    pub debug: Option<DebugJob>,
    /// The branch that begins at the debugger's moment in its place.
    #[serde(default)]
    pub branch: Option<Branch>,
    /// The samples to take of the run.
    pub profile: Option<ProfileJob>,
    /// The snapshots to take, if any are.
    pub snapshots: Option<SnapshotJob>,
    /// The run that this one becomes, if it does.
    #[serde(default)]
    pub change: Option<Box<PlannedChange>>,
}

/// The media of a run as the software host gets them.
struct Passed {
    drives: Vec<PassedDrive>,
    /// [`InnerJob::passed`].
    places: Vec<Vec<usize>>,
    /// Bytes of the media in RAM, of controllers' memory buffers, of what power cuts can take, and of
    /// what stale reads return.
    ram: u64,
}

impl Passed {
    fn of(plan: &RunPlan) -> Result<Self> {
        let mut passed = Self { drives: Vec::new(), places: Vec::new(), ram: 0 };
        for drive in plan.media() {
            passed.ram += drive.spec.memory_buffers();
            if drive.cuts > 0 {
                // Each change counts twice: what it wrote, and what was there before.
                passed.ram += 2 * MAX_UNSETTLED;
            }
            if drive.faults.iter().any(|fault| fault.kind == DriveFaultKind::StaleRead) {
                // Each sector is a node of a map.
                passed.ram += 2 * MAX_OLD_BYTES;
            }
            if drive.overlay {
                let most = match drive.links.is_empty() {
                    true => drive.capacity,
                    false => stasis_qcow2::largest_length(&drive.links)?,
                };
                passed.ram += most.min(MAX_OVERLAY);
            }
            let place = match &drive.spec.medium {
                MediumSpec::Ram { size } => {
                    passed.ram += size;
                    Vec::new()
                }
                MediumSpec::Qcow2 { .. } => {
                    // A device inside does not grow.
                    if !drive.overlay {
                        stasis_qcow2::make_room(&drive.links)
                            .context("cannot make room in an image")?;
                    }
                    let read_only = |depth| depth > 0 || drive.overlay;
                    let links = drive.links.iter().enumerate();
                    links.map(|(depth, link)| passed.place(&link.path, read_only(depth))).collect()
                }
                MediumSpec::File { path, .. }
                | MediumSpec::Ordered { path, .. }
                | MediumSpec::Device { path, .. } => {
                    vec![passed.place(path, drive.overlay)]
                }
            };
            passed.places.push(place);
        }
        Ok(passed)
    }

    /// The place of a file. One that is only read, such as a backing file of several images, is
    /// passed once.
    fn place(&mut self, path: &Path, read_only: bool) -> usize {
        let drive = PassedDrive { path: path.to_owned(), read_only };
        let there = self.drives.iter().position(|other| read_only && *other == drive);
        there.unwrap_or_else(|| {
            self.drives.push(drive);
            self.drives.len() - 1
        })
    }
}

/// Inputs of the guest, and the memory (bytes) that `machines` of them need for these; `archive` is
/// a file for the setup's additions to the guest.
fn inputs(setup: &RunSetup, machines: u64, archive: &Path) -> Result<(Vec<Input>, u64)> {
    let guest = setup.guest;
    let early = |name: &str, path: &Path| Input {
        name: name.into(),
        path: path.into(),
        late: false,
        // The last machine has the first boot's own.
        first_only: name == input::ROOT && machines == 1,
    };
    let mut inputs = vec![
        early(input::VMLINUX, &guest.vmlinux),
        early(input::INITRAMFS, &guest.initramfs),
        early(input::ROOT, &guest.root),
    ];
    let mut memory = 0;
    for file in &inputs {
        let length = std::fs::metadata(&file.path).map_or(0, |metadata| metadata.len());
        // Each machine has its own root file system.
        memory += length * if file.name == input::ROOT { machines } else { 1 };
    }
    let files = &setup.input.bytes;
    if !files.is_empty() {
        std::fs::write(archive, files).context("cannot write a temporary file")?;
        memory += (1 + machines) * files.len() as u64;
        inputs.push(Input {
            name: input::FILES.into(),
            path: archive.to_owned(),
            late: true,
            first_only: false,
        });
    }
    Ok((inputs, memory))
}

/// Why `plan` cannot be run once more from its beginning, if so.
fn once(plan: &RunPlan, has_terminal: bool) -> Option<String> {
    if has_terminal {
        return Some("what was typed on the terminal cannot be repeated".into());
    }
    plan.media().find(|drive| !drive.is_inside()).map(|drive| {
        format!("the run has changed the medium of {}: use medium=ram:SIZE", drive.name)
    })
}

/// Runs `plan` in a software host.
pub fn run(
    setup: &RunSetup,
    mut plan: RunPlan,
    (root, outside): (Option<Lower>, Option<SharedOutside>),
    deadline: Option<Instant>,
    relay: &mut Relay<'_>,
    stop: &Arc<AtomicBool>,
) -> Result<(), RunError> {
    let passed = Passed::of(&plan)?;
    let archive = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let (inputs, of_inputs) = inputs(setup, plan.machines.len() as u64, archive.path())?;
    let of_guests: u64 = plan.machines.iter().map(|machine| machine.spec.memory).sum();
    let coming_back = plan.machines.iter().filter(|machine| machine.comes_back);
    let of_boots: u64 = coming_back.map(|machine| machine.spec.memory.min(KEPT_BOOT)).sum();
    let memory = of_guests + of_boots + OVERHEAD + passed.ram + of_inputs;
    let cache = cache().context(NO_CACHE)?;
    let host = Host {
        mode: match setup.engine {
            Engine::Exact => Mode::Exact,
            _ => Mode::Fast,
        },
        memory: memory.next_multiple_of(STEP),
        inputs,
        drives: passed.drives,
        executable: program::for_guests()?,
        cache,
        snapshot: true,
        log: None,
    };
    let written = plan.media().filter(|drive| !drive.overlay);
    let images: Vec<PathBuf> =
        written.filter_map(|drive| Some(drive.links.first()?.path.clone())).collect();
    let (debug, profile) = (plan.debug.take(), plan.profile.take());
    let (branch, change) = (plan.branch.take(), plan.change.take());
    let snapshots = plan.snapshots.take();
    let once = once(&plan, setup.terminal.is_some());
    let jobs: Vec<_> = plan.machines.iter().map(|machine| machine.job.clone()).collect();
    let begins = Begins::take(&mut plan);
    for machine in &mut plan.machines {
        // So that the machine, up to the guest's asking for it, is the same for all commands.
        machine.job = machine.job.without_command();
        machine.spec.command.clear();
        machine.spec.variables.clear();
    }
    // The record of a run may tell of the moment that one goes to.
    let moment = debug.as_ref().map(|debug| &debug.moment);
    let goes_to = moment.or(change.as_ref().and_then(|change| change.moment.as_ref()));
    let is_told = |moment: &&Moment| matches!(moment, Moment::Output(_) | Moment::Io { .. });
    let until = goes_to.filter(is_told).cloned();
    let identity = serde_json::to_vec(&(&jobs, &begins)).context("cannot write the commands")?;
    let wish = setup.snapshots.map(|wish| Snapshots {
        identity: [&identity, &Sha256::digest(&setup.input.bytes)[..]].concat(),
        records: snapshots.is_some(),
        from: match &wish.from {
            StartAt::Begin => until.map_or(StartAt::Begin, StartAt::Moment),
            from => from.clone(),
        },
        must: wish.must,
    });
    let first = first_boot::job(&plan).map(|job| serde_json::to_vec(&job));
    let first = first.transpose().context("cannot write the job of a first boot")?;
    // A kept machine reads no bytes that may change.
    let is_served = setup.is_one_of_many && first.is_some();
    let keeps = plan.media().all(PlannedDrive::is_inside) && !is_served;
    let job = Job {
        keeps,
        first,
        snapshots: wish,
        machine: serde_json::to_vec(&InnerJob { plan, passed: passed.places })
            .context("cannot write the job")?,
        later: serde_json::to_vec(&LaterJob {
            jobs,
            own: setup.input.own.clone(),
            begins,
            debug,
            branch,
            profile,
            snapshots,
            change,
        })
        .context("cannot write the commands")?,
    };
    let of_branch = setup.branched.and_then(|branched| branched.terminal.as_ref());
    let terminal = setup.terminal.or(of_branch);
    let keyboard = terminal.map(|terminal| Arc::clone(&terminal.keyboard));
    let source = root.map(|root| -> stasis_emulated_host::Source {
        Arc::new(move |into: &mut [u8], at: u64| root.read_at(into, at))
    });
    let debugger = setup.debugged.map(Debugged::wire);
    let stop = Arc::clone(stop);
    let programs = setup.profiled.map(|profiled| -> stasis_emulated_host::Programs {
        let symbols = profiled.symbols.clone();
        Arc::new(move |path: &str| symbols.frames(path))
    });
    let control = Control { stop, deadline, keyboard, debugger, once, source, outside, programs };
    let observer = relay.observer();
    let mut progress = |step: &str, fraction: Option<f64>| {
        // An observer that fails here fails at the next event as well, and ends the run then.
        let _ = observer.step(step, fraction);
    };
    let outcome = stasis_emulated_host::run(&host, &job, relay, &control, &mut progress);
    for note in outcome.iter().flatten() {
        observer.warning(note).context("cannot write a warning")?;
    }
    for image in images {
        stasis_qcow2::trim(&image).context("cannot give an image's room back")?;
    }
    match outcome {
        Ok(_) => Ok(()),
        Err(stasis_emulated_host::Error::Stopped) => Err(RunError::Ended(Ending::Cancelled)),
        Err(stasis_emulated_host::Error::WallLimit) => Err(RunError::Ended(Ending::WallLimit)),
        Err(error) => Err(RunError::Failed(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_file_of_several_images_is_passed_once() {
        let mut passed = Passed { drives: Vec::new(), places: Vec::new(), ram: 0 };
        let place =
            |passed: &mut Passed, name: &str, read_only| passed.place(Path::new(name), read_only);
        for number in 0..6 {
            let own = place(&mut passed, &format!("{number}.qcow2"), false);
            assert_eq!(own, if number == 0 { 0 } else { number + 1 });
            assert_eq!(place(&mut passed, "base.qcow2", true), 1);
        }
        assert_eq!(passed.drives.len(), 7);
        // A medium that is written is passed anew each time.
        assert_eq!((place(&mut passed, "raw", false), place(&mut passed, "raw", false)), (7, 8));
    }
}
