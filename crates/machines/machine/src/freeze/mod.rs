//! Freezing the guest: virtual time passes in guest mode only.
//!
//! While a vCPU runs, its TSC is `host TSC + offset`. On entry the offset is set so that the guest
//! continues where virtual time stands; on exit virtual time is what the guest's TSC was when it
//! left. The host's work between is not part of either, and the costs of entry and exit themselves
//! are subtracted ([`Costs`], which `kvm/calibrate.rs` measures).

mod costs;
mod tsc_clock;
mod tsc_scale;

pub use costs::{Costs, ExitPath};
pub use tsc_clock::Clock;
pub use tsc_scale::{host_tsc, Scale};
