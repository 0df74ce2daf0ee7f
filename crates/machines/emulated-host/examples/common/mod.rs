//! Shared by the examples: a program that runs itself inside the software host.

use stasis_emulated_host::inside::{self, Inside};

/// `inner` inside the software host, `outer` outside.
pub fn main(
    inner: fn(&mut Inside, Vec<u8>),
    outer: fn() -> Result<(), Box<dyn std::error::Error>>,
) {
    if inside::is_here() {
        inside::main(inner);
    }
    if let Err(error) = outer() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// Time stamp counter: under the exact mode, instructions since power-on.
pub fn clock() -> u64 {
    // SAFETY: rdtsc has no effect on memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}
