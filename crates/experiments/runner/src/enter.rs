//! The beginning of a program that runs experiments: it may be the first process of a guest or of a
//! software host.

use std::path::Path;

/// Has to be called first in `main` by a program that runs experiments: where the process is
/// the first one of a guest or of a software host, it does that work and does not return.
pub fn enter() {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if stasis_emulated_host::inside::is_here() {
        stasis_emulated_host::inside::main(crate::inside::run);
    }
    let first = std::env::args_os().next();
    let called = first.as_deref().map(Path::new).and_then(Path::file_name);
    if called.is_some_and(|name| name == stasis_channel::FAULT_PROGRAM) {
        stasis_guest_agent::ask_for_fault();
    }
    if called.is_some_and(|name| name == stasis_channel::CLIENT_PROGRAM) {
        stasis_guest_agent::run_client();
    }
    if std::process::id() == 1 && first.is_some_and(|name| name == "/init") {
        stasis_guest_agent::main();
    }
}
