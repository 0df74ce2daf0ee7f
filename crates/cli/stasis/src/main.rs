//! The command line of Stasis, and the two other lives of its executable: the
//! first process of a guest, and that of the software KVM host.

mod arguments;
mod cli;
mod commands;
mod help;
mod here;
mod metrics;
mod separator;

use std::process::ExitCode;

use stasis_runner::failure::{self, Code};
use stasis_terminal::{answer, FAILURE, STOPPED};

fn main() -> ExitCode {
    stasis_runner::enter();
    stasis_runner::self_check::provide(stasis_precision::first_check);
    match cli::main() {
        Ok(code) => code,
        Err(error) => {
            let (code, message) = (Code::of(&error), failure::told(&error));
            stasis_terminal::say!("stasis: {message}");
            let status = match code {
                Code::Stopped => STOPPED,
                _ => FAILURE,
            };
            answer::fail(code, &message, status);
            ExitCode::from(status)
        }
    }
}
