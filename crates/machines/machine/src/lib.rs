//! Virtual machines, on KVM or on the bare machine, whose one clock belongs to the experiment.
//!
//! Guest time passes only while a processor runs guest code. Whatever the host
//! does between an exit and the next entry takes none (`freeze`); timers,
//! completions and interrupts are events of virtual time; and while every
//! processor is idle, the clock jumps to the next event. The processors run in
//! turn on one thread and at once in virtual time: each has its own place on
//! the timeline, at most a quantum from the others', and what it asks of a
//! device takes place when all others have come as far. The clock that the
//! guest reads is one for all of them, and never goes back (`pvclock`).
//!
//! Promises:
//! - An I/O's completion becomes visible to the guest at the time that its drive's model gives,
//!   whatever the medium or the host does.
//! - Guests are hostile: no access, register value or request of theirs makes
//!   this crate panic or touch memory that is not theirs.
//! - On the bare machine a guest's run depends only on this crate's inputs.
//!
//! Guests are x86-64, and run on x86-64 Linux: elsewhere this crate is empty.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod acpi;
mod apic;
mod bare;
mod boot;
mod cpuid;
mod devices;
mod engine;
mod engine_here;
mod error;
mod exit;
mod freeze;
mod kvm;
mod layout;
mod machine;
mod memory;
mod pci;
mod pvclock;
mod pveoi;
mod statistics;
mod utilization;
mod vcpu;
mod vcpu_pool;

pub use boot::BootError;
pub use devices::{Command, CommandSource, PortConfig};
pub use error::Error;
pub use machine::{
    first_boot, run, BeginSource, Beginning, Change, ChangeConfig, ChangeSource, Config,
    Controller, DebugConfig, DebugSource, Dependency, DependencyState, DriveChange, DriveConfig,
    Failure, FailureKind, FirstBoot, FirstBootConfig, MachineChange, MachineConfig, MachineFaults,
    ModelChange, NetworkConfig, PathFault, Pause, ProfileSource, ProgramSource, Resumed, Rewind,
    SnapshotConfig, SnapshotSource, Speed, Stop, TakeSnapshot, TimelineConfig, Trigger,
    TriggerConfig, MAX_WINDOW,
};

/// Limit on the processors of a machine.
pub const MAX_PROCESSORS: u32 = 64;
