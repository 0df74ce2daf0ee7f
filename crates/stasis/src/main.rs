//! The command line of Stasis, and the two other lives of its executable: the
//! first process of a guest, and that of the software KVM host.

mod cli;
mod commands;
mod engine;
mod failure;

use std::process::ExitCode;

fn main() -> ExitCode {
    if stasis_softkvm::inside::is_here() {
        stasis_softkvm::inside::main(engine::inside::run);
    }
    let first = std::env::args_os().next();
    if std::process::id() == 1 && first.is_some_and(|name| name == "/init") {
        stasis_guest::agent::main();
    }
    match cli::main() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stasis: {}", failure::told(&error));
            ExitCode::from(cli::FAILURE)
        }
    }
}
