//! Ben-Yehuda, Borovik, Factor, Rom, Traeger, Yassour: "Adding advanced storage controller
//! functionality via low-overhead virtualization": the cost of a virtual machine on the controller,
//! by trap and interrupt and by polling.
//!
//! The figures are ratios of measurements on the bare controller and with each way of running the
//! guest, so each [`Subject`] is measured in all ways by [`measure`], in one run on one machine:
//! this one where it has KVM and its user is root, else a software host ([`host`]).

mod blocks;
mod files;
mod guest;
mod host;
pub mod measure;
mod measured;
pub mod packets;
mod published;
mod results;
mod shell;
mod steady;
mod subject;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{bail, Context, Result};
use stasis_qemu_vm::probe::{probe, KvmState};
use stasis_runner::batch::{digest_of, KeptResults, Stopped};
use stasis_runner::failure;
use stasis_storage_function::Definition;
use stasis_terminal::ensure_guest;

use crate::publication::Publication;
use crate::reproduction::{Findings, Part, Reproduction};
use guest::GUEST;
use measured::Measured;
use subject::Subject;

/// Name of the file with the measurements of a subject.
const MEASURED_FILE: &str = "measured.json";

/// A part of the measurement that is a separate process of this program.
#[derive(Debug, clap::Subcommand)]
pub enum OwnPart {
    /// Measure everything here, as root; prints JSON
    Measure(measure::Arguments),
    /// Answer the requests of `Send`
    Serve(packets::Serve),
    /// Send requests to an answerer, and print their rate
    Send(packets::Send),
}

/// `stasis controller-part`.
pub fn part(part: &OwnPart) -> Result<ExitCode> {
    match part {
        OwnPart::Measure(arguments) => measure::main(arguments),
        OwnPart::Serve(arguments) => packets::serve(arguments),
        OwnPart::Send(arguments) => packets::send(arguments),
    }
}

/// Ben-Yehuda et al.: "Adding advanced storage controller functionality via low-overhead
/// virtualization", 2012
pub struct Controller;

impl Publication for Controller {
    fn name(&self) -> &'static str {
        "controller"
    }

    fn parts(&self, request: &Reproduction) -> Result<Vec<Part>> {
        Subject::ALL.into_iter().map(|subject| part_of(subject, request.quick)).collect()
    }

    fn run(&self, request: &Reproduction, names: &[String]) -> Result<Vec<(String, String)>> {
        let mut failed = Vec::new();
        for subject in Subject::ALL.into_iter().filter(|one| names.iter().any(|n| n == one.name()))
        {
            let message = match measured(request, subject) {
                Err(error) if error.is::<Stopped>() => return Err(error),
                Err(error) => failure::told(&error),
                Ok(measured) if measured.failed.is_empty() => continue,
                Ok(measured) => measured.failed.join("; "),
            };
            failed.push((subject.name().to_owned(), message));
        }
        Ok(failed)
    }

    fn measure(&self, request: &Reproduction) -> Result<Findings> {
        let (mut all, mut failed) = (Measured::default(), Vec::new());
        for subject in Subject::ALL {
            match measured(request, subject) {
                Ok(measured) => all = all.with(measured),
                Err(error) if error.is::<Stopped>() => return Err(error),
                Err(error) => failed.push((subject.name().to_owned(), failure::told(&error))),
            }
        }
        Ok(Findings { failed, ..results::findings(&all, request.quick) })
    }
}

/// Describes a subject for a program that measures it elsewhere. The guest has kernel modules,
/// which a table `[guest]` cannot name, so the measuring program makes the guest.
fn part_of(subject: Subject, quick: bool) -> Result<Part> {
    let recipe = Definition::parse(GUEST, "the guest's definition")?.recipe();
    Ok(Part {
        name: subject.name().to_owned(),
        what: subject.what().to_owned(),
        digest: digest_of(&(subject, quick, recipe))?,
        guests: Vec::new(),
        memory: host::MEMORY,
        timed: Some(subject.name()),
    })
}

/// Returns the measurements of a subject, and makes them now if they are not complete. Measurements
/// are complete only if none failed.
fn measured(request: &Reproduction, subject: Subject) -> Result<Measured> {
    let kept = KeptResults::new(&request.folder, request.force, request.gather)?;
    let digest = part_of(subject, request.quick)?.digest;
    let read = |folder: &Path, (): ()| {
        Ok(serde_json::from_slice(&std::fs::read(folder.join(MEASURED_FILE))?)?)
    };
    if let Some(done) = kept.find(subject.name(), &digest, read) {
        return Ok(done);
    }
    let begun = kept.begin(subject.name(), &digest)?;
    let measured = measure_now(request, subject);
    if request.stop.load(Ordering::Relaxed) {
        bail!(Stopped);
    }
    let measured = measured?;
    let path = begun.folder.join(MEASURED_FILE);
    serde_json::to_vec_pretty(&measured)
        .map_err(std::io::Error::from)
        .and_then(|json| std::fs::write(&path, json))
        .with_context(|| format!("cannot write {}", path.display()))?;
    if measured.failed.is_empty() {
        begun.complete(())?;
    }
    Ok(measured)
}

fn measure_now(request: &Reproduction, subject: Subject) -> Result<Measured> {
    let definition = Definition::parse(GUEST, "the guest's definition")?;
    let guest = ensure_guest(&definition.recipe(), &request.stop)?;
    if probe() != KvmState::Usable || !rustix::process::geteuid().is_root() {
        return host::measure(&guest, request.quick, subject, &request.stop);
    }
    let mut measured = measure::all(&guest, &measure::Sizes::of(request.quick), subject)?;
    measured.place = "this machine, by its KVM".into();
    Ok(measured)
}
