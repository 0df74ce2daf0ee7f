//! The machine's devices, and who answers an access to a port or an address.

mod channel;
pub mod cmos;
mod io_apic;
mod nvme;
mod serial;

pub use channel::{ChannelDevice, Told};
pub use cmos::Cmos;
pub use io_apic::IoApic;
pub use nvme::NvmeDevice;
pub use serial::Serial;
