//! State that drives keep between runs beside their data: zones, formats and placement, in a state
//! file beside each medium that lasts.
//!
//! The file is written whole or not at all. Where contents are valid only together with the state
//! (zones, chunks), the file is marked as in use during a run: if the run is cut off, the next one
//! does not take old pointers for new ones.

mod follow;
mod medium;

pub use follow::Follow;

use follow::MAX_LENGTH;
use medium::EXTENSION;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use stasis_crash::TracedDevice;
use stasis_experiment::{DriveSpec, Interface, StateSpec};
use stasis_media::MediumSpec;
use stasis_nvme::{Config, KeptState, Namespace};

/// The form of the file; another one is refused.
const FORM: &str = "stasis drive state 1";
/// The model whose inside is not kept.
const FLASH: &str = "flash";

/// A state file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    /// [`FORM`].
    form: String,
    /// True if a run has begun to change the drive and has not ended.
    in_use: bool,
    /// Place of the state before each completion that depends on it, in the files of [`follow`]:
    /// the boot of the host and the medium's file ([`follow::moment`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    /// The medium's contents, by a sample, as the last run left them.
    medium: String,
    /// The drive's state.
    state: KeptState,
}

/// The medium of a drive before a run touches it.
#[derive(Debug)]
pub struct Before {
    /// Place of the state file, for a medium that keeps a state.
    file: Option<PathBuf>,
    /// The medium's file or device.
    medium: PathBuf,
    /// True if the medium existed already.
    existed: bool,
    /// The content of the state file.
    found: Option<StateFile>,
    /// The sample of the medium, where there is a state file.
    sample: String,
    /// True if the medium has data, where it is an image in qcow2 without a state file.
    image_holds_data: bool,
    /// True if the state file is kept apart from the medium, which another one may have replaced.
    apart: bool,
}

impl Before {
    /// Looks at the medium of a drive; `None` where it is gone at the end of the run.
    pub fn look(medium: &MediumSpec, base: &Path) -> Result<Option<Self>> {
        let Some(path) = medium.path() else { return Ok(None) };
        let path = std::path::absolute(base.join(path))?;
        let file = medium::state_file(medium, &path);
        let existed = fs::metadata(&path).is_ok();
        let mut found = match &file {
            Some(file) if existed => read(file)?,
            _ => None,
        };
        if let (Some(found), Some(file)) = (&mut found, &file) {
            // Until the host is started anew: what was not synchronized may be lost then.
            let same = found.current.is_some() && found.current == follow::moment(&path);
            match follow::last(file).filter(|_| same && found.in_use) {
                Some(state) => found.state = state,
                None => found.current = None,
            }
        }
        let sample = match &found {
            Some(_) => medium::sample(&path)?,
            None => String::new(),
        };
        let image_holds_data = match medium {
            MediumSpec::Qcow2 { .. } if found.is_none() => {
                let image = stasis_qcow2::find(&path)?;
                image.links.len() > 1 || image.report.allocated > 0
            }
            _ => false,
        };
        let apart = matches!(medium, MediumSpec::Device { .. });
        Ok(Some(Self { file, medium: path, existed, found, sample, image_holds_data, apart }))
    }
}

impl Before {
    /// Returns whether there is data where the drive's zones or chunks begin.
    fn holds_data(&self, config: &Config, spec: &DriveSpec) -> Result<bool> {
        match spec.medium {
            MediumSpec::Qcow2 { .. } => Ok(self.image_holds_data),
            _ => medium::holds_data(&self.medium, config),
        }
    }

    /// Checks that a drive can start from the state that was found.
    fn check(&self, found: &StateFile, spec: &DriveSpec, config: &Config) -> Result<()> {
        // The whole state is checked, and not only whether it fits the drive.
        if let Err(error) = stasis_nvme::Subsystem::with_state(config.clone(), &found.state) {
            bail!("{error}: make the drive as it was, or {BEGIN_NEW}");
        }
        let governs = found.state.governs_contents();
        if found.in_use && found.state.has_pairs() {
            bail!(
                "the last run on this drive was cut off, and where its pairs lie is known at the end \
                 of a run only: restore the medium and this file, or {BEGIN_NEW}"
            );
        }
        if spec.state == StateSpec::Last || !governs && !self.apart {
            return Ok(());
        }
        if found.in_use && found.current.is_some() && !self.apart {
            return Ok(());
        }
        if found.in_use {
            bail!(
                "the last run on this drive was cut off, so where its zones or chunks end is not \
                 known: take them as they were before that run with `state = \"last\"`, or \
                 {BEGIN_NEW}"
            );
        }
        if self.sample != found.medium {
            bail!(
                "{} has changed since the run that left this state: restore it, or {BEGIN_NEW}",
                self.medium.display()
            );
        }
        Ok(())
    }
}

/// The state that a drive keeps, from before a run to its end.
#[derive(Debug)]
pub struct Keep {
    /// The state file; none where there is no place for one.
    file: Option<PathBuf>,
    medium: PathBuf,
    /// The file as it was before the run.
    before: Option<StateFile>,
    /// True if the drive starts without that state.
    discards: bool,
    /// The drive's initial state.
    pub state: KeptState,
    /// Remarks for the user before the run.
    pub notes: Vec<&'static str>,
}

impl Keep {
    /// Determines the initial state of a drive on the medium in `before`. `spec`: the drive, with
    /// the files of its model read; `config`: its controller.
    ///
    /// # Errors
    /// Another kind of drive has written the medium, or its state is not known.
    pub fn of(before: Before, spec: &DriveSpec, config: &Config) -> Result<Option<Self>> {
        let of_file =
            || before.file.as_ref().map_or(String::new(), |file| file.display().to_string());
        let found = before.found.as_ref().filter(|_| spec.state != StateSpec::New);
        let discards = spec.state == StateSpec::New && before.found.is_some();
        if spec.interface != Interface::Nvme {
            if let Some(file) = &before.file {
                plain(file, found)?;
            }
            // Such a drive keeps bytes only: there is at most an old state to discard.
            let Before { file, medium, found, .. } = before;
            let state = KeptState::as_made(config);
            let keep = Self { file, medium, before: found, discards, state, notes: Vec::new() };
            return Ok(discards.then_some(keep));
        }
        let mut notes = Vec::new();
        let state = match found {
            None => {
                let state = KeptState::as_made(config);
                let is_new = !before.existed || spec.state == StateSpec::New;
                if state.governs_contents() && !is_new && before.holds_data(config, spec)? {
                    bail!(
                        "{} holds data, and nothing says where the drive's zones or chunks end: \
                         another kind of drive has written it. Take a new medium, or {BEGIN_NEW}",
                        before.medium.display()
                    );
                }
                state
            }
            Some(found) => {
                before.check(found, spec, config).with_context(of_file)?;
                if found.state.fdp.is_some() && found.state.placement != config.placement {
                    notes.push(
                        "its placement is another one than in the last run: reclaim units and \
                         what FDP counts begin anew",
                    );
                }
                found.state.clone()
            }
        };
        if spec.model.kind().name() == FLASH {
            let keeps = spec.model.kind().state_file().is_some();
            if state.has_pairs() && !keeps && spec.state != StateSpec::New {
                bail!(
                    "its pairs are kept, but its flash model begins anew: keep its state (`state = \
                     \"ssd.state\"` of the model), take another model or a medium ram, or {BEGIN_NEW}"
                );
            }
            if state.has_regions() && !state.is_as_made() {
                bail!(
                    "{}: zones or chunks hold data, but a flash model does not keep what its \
                     blocks hold: take another model, or {BEGIN_NEW}",
                    of_file()
                );
            }
            if !keeps {
                notes.push(
                    "its medium keeps bytes, but the flash model begins as `precondition` says: \
                 mapping, wear and bad blocks of earlier runs are not kept",
                );
            }
        }
        if before.file.is_none() && state.governs_contents() {
            notes.push(
                "there is no place for its state (HOME and XDG_STATE_HOME are not set): zones, \
                 chunks or pairs are lost at the end of the run",
            );
        }
        let Before { file, medium, found, .. } = before;
        Ok(Some(Self { file, medium, before: found, discards, state, notes }))
    }

    /// The machine is about to change the drive.
    pub fn begin(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if !self.state.governs_contents() {
            // However this run ends, the old state says nothing of what is there then.
            return if self.discards { remove(file) } else { Ok(()) };
        }
        write(
            file,
            &self.medium,
            &StateFile {
                form: FORM.into(),
                in_use: true,
                current: None,
                medium: String::new(),
                state: self.state.clone(),
            },
        )
    }

    /// Returns whether the state can be kept while the drive is in use: in a state file beside the
    /// medium, which nobody replaces there.
    pub fn can_follow(&self) -> bool {
        // A state of pairs is long, and changes with each of them.
        !self.state.has_pairs()
            && self.file.as_ref().is_some_and(|file| file.parent() == self.medium.parent())
    }

    /// As [`Keep::begin`], for a carrier that keeps the state in what this returns before each
    /// completion that depends on it.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn begin_following(&self) -> Result<Follow> {
        let file = self.file.as_deref().context("there is no place for the drive's state")?;
        let goes_on = self.before.as_ref().is_some_and(|before| before.current.is_some());
        let mut follow = Follow::new(file, goes_on)?;
        follow.put(&self.state)?;
        let current = follow::moment(&self.medium);
        let (medium, state) = (String::new(), self.state.clone());
        let begun = StateFile { form: FORM.into(), in_use: true, current, medium, state };
        write(file, &self.medium, &begun)?;
        Ok(follow)
    }

    /// The machine has not begun.
    pub fn revert(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        match &self.before {
            Some(before) => write(file, &self.medium, before),
            None => remove(file),
        }
    }

    /// The machine has ended, and left the drive in `state`.
    pub fn end(&self, state: KeptState) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        // The state of a new drive needs no file.
        if state.is_as_made() && !state.governs_contents() {
            return remove(file);
        }
        let medium = medium::sample(&self.medium)?;
        let ended = StateFile { form: FORM.into(), in_use: false, current: None, medium, state };
        write(file, &self.medium, &ended)?;
        follow::remove(file);
        Ok(())
    }
}

/// Leaves the state file of a zoned drive beside `image`, which holds what a power cut left of it, so
/// that a run on the image goes on there. `device`: what the drive was, with `capacity` bytes;
/// `written`: of each zone that is not empty, its first byte on the drive and the bytes before its
/// write pointer. A drive without zones needs no such file.
///
/// # Errors
/// No such drive can go on from these zones, or the file cannot be written.
pub fn leave_zones(
    image: &Path,
    device: &TracedDevice,
    capacity: u64,
    written: &[(u64, u64)],
) -> Result<()> {
    let Some(zones) = &device.zones else { return Ok(()) };
    let block = u64::from(device.block());
    let made = |(start, bytes): (u64, u64)| Namespace {
        start,
        zoned: Some(zones.clone()),
        ..Namespace::new(bytes / block, device.block())
    };
    let namespaces = device.namespaces(capacity).into_iter().map(made).collect();
    let config = Config { namespaces, ..Config::default() };
    let mut state = KeptState::as_made(&config);
    state.cut_zones(written);
    stasis_nvme::Subsystem::with_state(config, &state)?;
    let file = medium::beside(image);
    let medium = medium::sample(image)?;
    write(
        &file,
        image,
        &StateFile { form: FORM.into(), in_use: false, current: None, medium, state },
    )
}

/// The name of the state file that [`leave_zones`] leaves of the image `name`.
pub fn state_file(name: &str) -> String {
    format!("{name}.{EXTENSION}")
}

/// Checks that a plain block device, which has neither zones nor chunks, can use `medium`, whose
/// path is below `base`. Returns the state file to discard, if the drive is to begin anew.
///
/// # Errors
/// A drive with zones or chunks has written the medium, or its state cannot be read.
pub fn check_plain(medium: &MediumSpec, base: &Path, state: StateSpec) -> Result<Option<PathBuf>> {
    let Some(path) = medium.path().map(|path| base.join(path)) else { return Ok(None) };
    let Some(file) = medium::state_file(medium, &path) else { return Ok(None) };
    if fs::metadata(&path).is_err() {
        return Ok(None);
    }
    let found = read(&file)?;
    if state == StateSpec::New {
        return Ok(found.map(|_| file));
    }
    plain(&file, found.as_ref())?;
    Ok(None)
}

/// Deletes a state file that [`check_plain`] has returned.
///
/// # Errors
/// The file cannot be deleted.
pub fn discard(file: &Path) -> Result<()> {
    remove(file)
}

/// The folder of block devices' state files; `None` where there is none.
pub fn devices_folder() -> Option<PathBuf> {
    medium::of_devices()
}

/// Refuses the state of a drive with zones or chunks for a plain block device.
fn plain(file: &Path, found: Option<&StateFile>) -> Result<()> {
    if found.is_some_and(|found| found.state.governs_contents()) {
        bail!(
            "{}: an NVMe drive with zones or chunks has written the medium, which is no plain \
             block device's: run it as that drive, or {BEGIN_NEW}",
            file.display()
        );
    }
    Ok(())
}

/// Advice on how to start a drive without the state that was kept.
const BEGIN_NEW: &str = "begin anew with `state = \"new\"` (`--drive ...,state=new`)";

fn read(file: &Path) -> Result<Option<StateFile>> {
    let unreadable = || format!("cannot read {}", file.display());
    let length = match fs::metadata(file) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(unreadable),
    };
    let damaged = |why: &str| {
        anyhow::anyhow!(
            "{} is no state of a drive that this program can read ({why}): delete it to begin anew",
            file.display()
        )
    };
    if length > MAX_LENGTH {
        return Err(damaged(&format!("it has {length} bytes")));
    }
    let bytes = fs::read(file).with_context(unreadable)?;
    let state: StateFile =
        serde_json::from_slice(&bytes).map_err(|error| damaged(&error.to_string()))?;
    if state.form != FORM {
        return Err(damaged(&format!("its form is {:?}", state.form)));
    }
    Ok(Some(state))
}

/// Writes the file whole, or leaves the old one; with the medium's permissions.
fn write(file: &Path, medium: &Path, state: &StateFile) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let written = (|| -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        let mut text = serde_json::to_vec(state)?;
        text.push(b'\n');
        new.write_all(&text)?;
        let of_medium = fs::metadata(medium)?;
        if of_medium.is_file() {
            new.as_file().set_permissions(of_medium.permissions())?;
        }
        new.as_file().sync_all()?;
        new.persist(file)?;
        File::open(folder)?.sync_all()
    })();
    written.with_context(|| format!("cannot write the drive's state to {}", file.display()))
}

fn remove(file: &Path) -> Result<()> {
    follow::remove(file);
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", file.display()))
        }
        _ => Ok(()),
    }
}
