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
use stasis_function::Definition;
use stasis_qemu::probe::{probe, KvmState};
use stasis_report::{figures, FIGURES_FILE, REPORT_FILE};

use super::Arguments;
use crate::commands::guest::ensure;
use crate::commands::run;

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

/// `stasis reproduce controller`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let folder = arguments.results.clone().unwrap_or_else(|| "reproduce-controller".into());
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let path = folder.join("measured.json");
    let stop = run::stop_on_signals()?;
    let provenance = crate::provenance::Provenance::begin(true);
    let definition = Definition::parse(GUEST, "the guest's definition")?;
    let guest = ensure(&definition.recipe())?;
    let here = probe() == KvmState::Usable && nix::unistd::geteuid().is_root();
    let measured = if here {
        let limits = measure::Sizes::of(arguments.quick);
        let mut measured = measure::all(&guest, &limits)?;
        measured.place = "this machine, by its KVM".into();
        measured
    } else {
        host::measure(&guest, arguments.quick, &stop)?
    };
    let json = serde_json::to_vec_pretty(&measured).context("cannot write what was measured")?;
    std::fs::write(&path, json).with_context(|| format!("cannot write {}", path.display()))?;
    let (mut page, all) = results::findings(&measured, arguments.quick);
    page.sections.extend(provenance.section());
    page.write(&folder, REPORT_FILE)?;
    figures::write_figures(&folder, &all)?;
    print!("{}", figures::figures_table(&all).to_text());
    eprintln!("figures: {}", folder.join(FIGURES_FILE).display());
    eprintln!("report: {}", folder.join(REPORT_FILE).display());
    Ok(ExitCode::SUCCESS)
}
