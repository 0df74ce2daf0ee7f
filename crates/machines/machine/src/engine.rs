//! Interface of the engines that run guests.

use std::ops::Range;

use crate::error::Error;
use crate::freeze::Costs;
use crate::memory::GuestMemory;
use crate::pvclock::Reads;
use crate::vcpu::Vcpu;

/// A range of guest memory: its guest-physical address, its length, and its
/// address in the host.
pub type Region = (u64, u64, u64);

/// The processors of all machines, in the order in which these were added.
pub type Processors = Vec<Vec<Box<dyn Vcpu>>>;

/// The processors of a machine.
#[derive(Debug, Clone, Copy)]
pub struct MachineProcessors {
    /// Their number.
    pub count: u32,
    /// Their way of reading the time.
    pub reads: Reads,
    /// True if their guest may draw random numbers from outside.
    pub random: bool,
    /// True if the engine is to tell which memory their guest writes.
    pub notes_writes: bool,
}

/// An engine while machines are made.
pub trait Engine {
    /// Adds a machine. With `notes_writes` the engine, if it can, tells which memory
    /// the guest [has written](crate::vcpu::Vcpu::take_written). `code`: where the guest's kernel has
    /// its code, which machines may [share](crate::vcpu::Vcpu::share).
    ///
    /// # Safety
    /// The regions' host memory must live longer than the machine's processors,
    /// and not be borrowed while one runs.
    unsafe fn add_machine(
        &mut self,
        regions: &[Region],
        code: &[Range<u64>],
        processors: MachineProcessors,
    ) -> Result<(), Error>;

    /// Ticks of the TSC in a millisecond of the host's.
    fn khz(&mut self) -> Result<u64, Error>;

    /// Finds what entering and leaving costs, on the first processor; uses
    /// memory that the kernel overwrites later.
    fn calibrate(&mut self, memory: &GuestMemory) -> Result<Costs, Error>;

    /// The processors, once calibrated.
    fn processors(&mut self) -> Result<Processors, Error>;
}
