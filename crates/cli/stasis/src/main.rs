//! The command line of Stasis, and the two other lives of its executable: the
//! first process of a guest, and that of the software KVM host.

mod arguments;
mod cli;
mod commands;
mod help;
mod separator;

use std::process::ExitCode;

fn main() -> ExitCode {
    stasis_runner::enter();
    stasis_runner::self_check::provide(stasis_precision::first_check);
    stasis_program::begin::ended(cli::main())
}
