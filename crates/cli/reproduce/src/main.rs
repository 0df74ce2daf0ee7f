//! `stasis-reproduce`, which users call as `stasis reproduce` and `stasis suite`: publications
//! repeated. It is also the first process of its guests and of the software host.

use std::process::ExitCode;

use anyhow::bail;
use stasis_program::{begin, Command};
use stasis_reproductions as reproductions;

/// The commands of the program.
#[derive(clap::Subcommand)]
enum Own {
    #[command(flatten)]
    Beside(Command),
    /// A workload for the guest, see `stasis_reproductions::load`
    #[command(subcommand, hide = true)]
    GuestLoad(reproductions::Load),
    /// One boot of the suite
    #[command(hide = true)]
    SuiteBoot(reproductions::SuiteBoot),
    /// The suite's part in the guest, see `stasis_reproductions::suite_part`
    #[command(subcommand, hide = true)]
    GuestSuite(reproductions::SuitePart),
    /// A part of the publication `controller`, in a machine of its own
    #[command(subcommand, hide = true)]
    ControllerPart(reproductions::ControllerPart),
    /// A part of the first check of KVM, in its guest
    #[command(hide = true)]
    GuestClock(stasis_precision::ClockArguments),
}

/// Commands that only the program itself calls.
const PARTS: [&str; 5] =
    ["guest-load", "suite-boot", "guest-suite", "controller-part", "guest-clock"];

fn main() -> ExitCode {
    stasis_runner::enter();
    stasis_runner::self_check::provide(stasis_precision::first_check);
    begin::program("reproduce", &["suite"], &PARTS, |own| match own {
        Own::Beside(Command::Reproduce(arguments)) => reproductions::main(&arguments),
        Own::Beside(Command::Suite(arguments)) => reproductions::suite(&arguments),
        Own::Beside(other) => bail!("{} has this command", other.program()),
        Own::GuestLoad(load) => reproductions::load(&load),
        Own::SuiteBoot(boot) => reproductions::suite_boot(&boot),
        Own::GuestSuite(part) => reproductions::suite_part(&part),
        Own::ControllerPart(part) => reproductions::controller_part(&part),
        Own::GuestClock(arguments) => stasis_precision::guest_clock(&arguments),
    })
}
