//! The engine of the place where this program runs: KVM, or the bare machine where the program is on
//! one.

use crate::bare::BareEngine;
use crate::engine::Engine;
use crate::error::Error;
use crate::kvm::KvmEngine;

/// Opens it.
pub fn open() -> Result<Box<dyn Engine>, Error> {
    if stasis_bare::is_here() {
        return Ok(Box::new(BareEngine::open()?));
    }
    Ok(Box::new(KvmEngine::open()?))
}
