//! Stock QEMU: the guest under it, in real time and without our machine.
//!
//! [`Vm`] boots the guest that `stasis-guest-image` builds, under KVM where that works
//! and else by emulation, and runs command after command in it. Around it is
//! what every use of QEMU takes: its [`process`], its monitor ([`qmp`]), and
//! the [`probe`] of `/dev/kvm`.
//!
//! Promises: no process is left behind, however this program ends. Messages of a guest or of QEMU
//! are checked, and none causes a panic.

pub mod fd;
pub mod probe;
pub mod process;
pub mod qmp;
pub mod readiness;

mod arguments;
mod checked;
mod checker;
mod config;
mod error;
mod kept;
mod last_output;
mod nbd;
mod port;
mod scratch;
mod vm;

pub use checked::{Device, Disk};
pub use checker::{Checker, Disks, Finding, Task};
pub use config::{Accelerator, Backend, Cache, Config, Drive, MIN_MEMORY};
pub use error::Error;
pub use stasis_channel::{Job, Stream};
pub use vm::{Outcome, Piece, Vm};
