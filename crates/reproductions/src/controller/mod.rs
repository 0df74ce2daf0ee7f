//! Ben-Yehuda, Borovik, Factor, Rom, Traeger, Yassour: "Adding advanced storage
//! controller functionality via low-overhead virtualization": what a virtual
//! machine on the controller costs, by trap and interrupt and by polling.
//!
//! The parts are measured by [`measure`] in one run on one machine: this one where
//! it has KVM and its user is root, else a software host ([`host`]).

mod blocks;
mod files;
mod host;
pub mod measure;
mod measured;
pub mod packets;
mod published;
mod results;
mod shell;
mod steady;

use std::process::ExitCode;

use anyhow::{Context, Result};
use stasis_qemu_vm::probe::{probe, KvmState};
use stasis_storage_function::Definition;
use stasis_terminal::ensure_guest;

use crate::publication::Publication;
use crate::request::{Findings, Request};

/// The definition of the guest, which is the software host's system as well.
const GUEST: &str = include_str!("guest.toml");

/// A part that runs by itself, of this program.
#[derive(Debug, clap::Subcommand)]
pub enum Part {
    /// Measure everything here, as root; prints JSON
    Measure(measure::Arguments),
    /// Answer what `Send` asks
    Serve(packets::Serve),
    /// Ask an answerer, and print what it took
    Send(packets::Send),
}

/// `stasis controller-part`.
pub fn part(part: &Part) -> Result<ExitCode> {
    match part {
        Part::Measure(arguments) => measure::main(arguments),
        Part::Serve(arguments) => packets::serve(arguments),
        Part::Send(arguments) => packets::send(arguments),
    }
}

/// Ben-Yehuda et al.: "Adding advanced storage controller functionality via low-overhead
/// virtualization", 2012
pub struct Controller;

impl Publication for Controller {
    fn name(&self) -> &'static str {
        "controller"
    }

    fn citation(&self) -> &'static str {
        "Ben-Yehuda et al.: \"Adding advanced storage controller functionality via \
         low-overhead virtualization\", 2012"
    }

    /// It runs in real time, so that it is no list of experiments.
    fn measure(&self, request: &Request) -> Result<Findings> {
        let folder = &request.folder;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let path = folder.join("measured.json");
        let definition = Definition::parse(GUEST, "the guest's definition")?;
        let guest = ensure_guest(&definition.recipe())?;
        let here = probe() == KvmState::Usable && nix::unistd::geteuid().is_root();
        let measured = if here {
            let limits = measure::Sizes::of(request.quick);
            let mut measured = measure::all(&guest, &limits)?;
            measured.place = "this machine, by its KVM".into();
            measured
        } else {
            host::measure(&guest, request.quick, &request.stop)?
        };
        let json =
            serde_json::to_vec_pretty(&measured).context("cannot write what was measured")?;
        std::fs::write(&path, json).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(results::findings(&measured, request.quick))
    }
}
