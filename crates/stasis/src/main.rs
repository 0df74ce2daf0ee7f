//! The command line of Stasis, and the two other lives of its executable: the
//! first process of a guest, and that of the software KVM host.

// What is used only where guests run.
#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(dead_code))]

mod cli;
mod commands;
mod engine;
mod failure;
mod free_space;
mod program;
mod progress;
mod provenance;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
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
