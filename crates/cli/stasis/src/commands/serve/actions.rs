//! What the control interface asks for: drives of descriptions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{bail, Context, Result};
use serde_json::Value;
use stasis_block::units::parse_size;
use stasis_experiment::DriveSpec;
use stasis_media::MediumSpec;
use stasis_models::{Model, ModelSpec};
use stasis_runner::failure;
use stasis_serve::control::Actions;
use stasis_serve::{NewDrive, OpenStore};

use super::drives;
use super::results::Writing;

/// The drives as they were described.
pub struct Known {
    base: PathBuf,
    folder: PathBuf,
    seed: u64,
    /// With their numbers, by name.
    drives: Mutex<BTreeMap<String, (DriveSpec, usize)>>,
    /// Where the I/Os of drives that come later are written down.
    results: Option<Writing>,
    replaced: AtomicBool,
}

impl Known {
    /// No drives yet.
    pub fn new(base: PathBuf, folder: PathBuf, seed: u64, results: Option<Writing>) -> Self {
        let drives = Mutex::default();
        Self { base, folder, seed, drives, results, replaced: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (DriveSpec, usize)>> {
        self.drives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub fn add(&self, spec: &DriveSpec, index: usize) {
        let name = spec.name.clone().unwrap_or_else(|| format!("drive{index}"));
        self.lock().insert(name, (spec.clone(), index));
    }

    /// The I/Os of a drive are written down, if any are.
    pub fn write_down(&self, drive: &mut NewDrive) {
        if let Some(results) = &self.results {
            results.add(drive);
        }
    }

    /// Whether another server has taken this one's place.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    fn describe(&self, description: Value, create: bool) -> Result<NewDrive> {
        let mut spec = match description {
            Value::String(word) => DriveSpec::parse(&word)?,
            table => serde_json::from_value(table).context("the drive's table")?,
        };
        if let MediumSpec::File { path, size, .. } | MediumSpec::Ordered { path, size, .. } =
            &mut spec.medium
        {
            let there = self.base.join(&*path).exists();
            match (create, there) {
                (true, true) => bail!("{} is there already: attach it", path.display()),
                (true, false) if size.is_none() => {
                    bail!("say how large {} is to be: size = \"1GiB\"", path.display())
                }
                (false, false) => bail!("there is no {}: create it", path.display()),
                // What is there keeps its size.
                (false, true) => *size = None,
                (true, false) => {}
            }
        }
        let index = self.lock().values().map(|(_, index)| index + 1).max().unwrap_or(0);
        let name = spec.name.get_or_insert_with(|| format!("drive{index}")).clone();
        let mut drive = drives::new(&spec, index, self.seed, &self.base, &self.folder)?;
        self.write_down(&mut drive);
        self.lock().insert(name, (spec, index));
        Ok(drive)
    }

    fn another_size(&self, name: &str, size: &str) -> Result<OpenStore> {
        let bytes = parse_size(size)?;
        let mut drives = self.lock();
        let (spec, index) = drives.get_mut(name).with_context(|| format!("no drive `{name}`"))?;
        spec.model.check(bytes)?;
        match &mut spec.medium {
            MediumSpec::File { path, size, .. } => {
                *size = Some(bytes);
                let path = self.base.join(&*path);
                let open = drives::new(spec, *index, self.seed, &self.base, &self.folder)?.open;
                Ok(Box::new(move || {
                    let file = std::fs::OpenOptions::new().write(true).open(&path);
                    let sized = file.and_then(|file| {
                        file.set_len(bytes)?;
                        file.sync_all()
                    });
                    sized.map_err(|error| format!("cannot resize {}: {error}", path.display()))?;
                    open()
                }))
            }
            _ => bail!("only drives on files can get another size"),
        }
    }
}

impl Actions for Known {
    fn drive(&self, description: Value, create: bool) -> Result<NewDrive, String> {
        self.describe(description, create).map_err(|error| failure::told(&error))
    }

    fn model(
        &self,
        name: &str,
        capacity: u64,
        description: Value,
    ) -> Result<(String, Option<Box<dyn Model>>), String> {
        let build = || -> Result<_> {
            let mut spec: ModelSpec = serde_json::from_value(description).context("the model")?;
            spec.resolve(&self.base)?;
            let mut drives = self.lock();
            let known = drives.get_mut(name);
            let (seed, path) = known.as_ref().map_or((self.seed, 0), |(drive, index)| {
                let index = u16::try_from(*index).unwrap_or(0);
                (stasis_runner::drive_seed(self.seed, index), drive.path.unwrap_or(0))
            });
            let model = drives::build(&spec, seed, capacity, path)?;
            let label = spec.label();
            if let Some((drive, _)) = known {
                drive.model = spec;
            }
            Ok((label, model))
        };
        build().map_err(|error| failure::told(&error))
    }

    fn resize(&self, name: &str, size: &str) -> Result<OpenStore, String> {
        self.another_size(name, size).map_err(|error| failure::told(&error))
    }

    fn lasting(&self) -> Result<(), String> {
        let drives = self.lock();
        let gone =
            drives.iter().find(|(_, (spec, _))| matches!(spec.medium, MediumSpec::Ram { .. }));
        match gone {
            Some((name, _)) => Err(format!(
                "drive {name} is in memory, which another server does not get; detach it first"
            )),
            None => Ok(()),
        }
    }

    fn replaced(&self) {
        self.replaced.store(true, Ordering::Relaxed);
        // As if it were asked to stop, which it is.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    }
}
