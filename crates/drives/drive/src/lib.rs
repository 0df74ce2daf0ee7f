//! A drive: a model that decides *when* a command completes, and a medium that holds the bytes.
//!
//! Promises:
//! - Target times are the model's alone. The medium starts on a command when it
//!   is submitted, in real time; where it is not done by the command's virtual
//!   time, [`Drive::advance`] waits, and the guest's time stands still.
//! - Commands complete in the order of the model's completions.
//! - A flush that has completed with [`stasis_block::Status::Ok`] has made
//!   durable everything that was submitted before it.
//! - An error of the medium is the status of its command, at the command's own
//!   time, and of no other.
//! - The effect of a power cut is defined in one place, [`power_cut`], for every drive by the
//!   description that its model gives.
//! - Once it has seen its deepest queue, a drive allocates nothing per command.

mod control;
mod done;
mod drive;
pub mod faults;
mod flush_barriers;
mod io_tap;
mod join;
mod layer;
pub mod power_cut;
mod scheduled;
mod shared;
mod turns;

pub use control::{Control, Look};
pub use done::{Done, LayerTimes};
pub use drive::Drive;
pub use faults::{DriveFault, DriveFaultKind, FaultChange, Faults};
pub use flush_barriers::FlushBarriers;
pub use io_tap::{IoTap, TraceSink};
pub use join::{InFlight, Join};
pub use layer::{put_before, Decorator, Layer, Properties};
pub use power_cut::{
    CutChoice, CutState, PowerCuts, Sampling, Survival, VolatileCache, WritePointers, MAX_NAMED,
};
pub use scheduled::{Scheduled, Tenant, TenantGroup};
pub use shared::{LoadSpec, Region, Schedule, SharedDrive, TenantHandle, VirtualDisk};
