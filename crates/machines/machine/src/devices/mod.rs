//! The machine's devices, and who answers an access to a port or an address.

mod channel;
pub mod cmos;
mod controller;
mod drive;
mod io_apic;
mod network;
mod nvme;
mod serial;
mod urgent;
mod virtio;

pub use channel::{AgentEvent, ChannelDevice, Command, CommandSource};
pub use cmos::Cmos;
pub use controller::DriveController;
pub use drive::DriveDevice;
pub use io_apic::IoApic;
pub use network::{NetworkDevice, PortConfig};
pub use nvme::NvmeController;
pub use serial::Serial;
pub use virtio::VirtioController;
