//! The software KVM host: where `/dev/kvm` is missing or cannot run a 64-bit
//! guest, the program re-runs itself inside stock QEMU, which emulates a
//! processor with AMD-V and boots a stock Debian kernel whose `/init` is the
//! program itself.
//!
//! Promises:
//! - [`run`] hands a job to the inner side and its event stream back, and leaves no
//!   process behind, however it ends.
//! - In [`Mode::Exact`] one instruction is one nanosecond, and nothing from outside reaches the
//!   inner side while it runs, but for a stop, passed drives, the bytes of a source, and the input
//!   of a terminal that the job asks for: two runs of one job are the same run, instruction by
//!   instruction.
//! - A flush inside on a passed drive has reached the file when it returns.
//! - A booted machine is kept and restored for later runs: the software host with its Linux, and in
//!   the exact mode the guest before it gets its task.
//! - Under the exact mode a job that continues from a snapshot is the job that never stopped.
//!
//! The inner side is x86-64 Linux; the outer side may be another computer.
//!
//! The page `docs/explanation/softkvm.md` describes the technique.

// The code that only the inner side uses.
#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(dead_code))]

mod cache;
mod error;
mod exact;
mod executable;
mod fd;
mod first;
mod host;
mod initramfs;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod inside;
mod items;
mod kept;
mod linux;
mod packet;
mod prepare;
mod qemu;
mod relay;
mod repeats;
mod requirements;
mod run;
mod saved;
mod snapshots;

pub use cache::{forget_kernel, forget_machines, kept, Kind};
pub use error::Error;
pub use host::{
    Control, Host, Input, Job, Mode, PassedDrive, Programs, Snapshots, Source, StartAt,
};
pub use prepare::{prepare, Kernel};
pub use requirements::{requirements, Requirements};
pub use run::{boot, run};
