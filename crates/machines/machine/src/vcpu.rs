//! Virtual processors: their state, and an engine's functions for one.

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use stasis_bare::svm::{Debug, DebugRegisters, KeptVcpu};

use crate::apic::Apic;
use crate::error::Error;
use crate::exit::Exit;
use crate::freeze::Clock;
use crate::pveoi::PvEoi;

/// The state of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessorState {
    /// Waits for a start-up message.
    Waiting,
    /// Can run.
    Runnable,
    /// Executed HLT and waits for an interrupt.
    Halted,
    /// Could run, and stands still.
    Paused,
}

/// A processor but for its KVM handle.
#[derive(Debug)]
pub struct Processor {
    /// Its local APIC.
    pub apic: Apic,
    /// Word by which its guest ends interrupts without an exit.
    pub eoi: PvEoi,
    /// Its state.
    pub state: ProcessorState,
    /// Its local time: where in virtual time it is (ticks). While it runs, its
    /// TSC shows this.
    pub time: u64,
    /// An exit that waits for its turn in virtual time, at `time`.
    pub waiting: Option<Exit>,
    /// True if others go first, as long as they are within the quantum.
    pub yields: bool,
    /// True if its last slice went beyond its end.
    pub late: bool,
    /// Since when (ticks) an interrupt of another processor's waits for it.
    pub called: Option<u64>,
}

impl Processor {
    /// Processor `index` after reset.
    pub fn new(index: u32) -> Self {
        Self {
            apic: Apic::new(index),
            eoi: PvEoi::default(),
            state: if index == 0 { ProcessorState::Runnable } else { ProcessorState::Waiting },
            time: 0,
            waiting: None,
            yields: false,
            late: false,
            called: None,
        }
    }

    /// Returns whether it has something to do, now or when its turn comes.
    pub fn is_busy(&self) -> bool {
        self.state == ProcessorState::Runnable
    }
}

/// The registers that a user is shown of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// RIP.
    pub rip: u64,
    /// RSP.
    pub rsp: u64,
    /// RFLAGS.
    pub rflags: u64,
    /// CR2, the address of the last page fault.
    pub cr2: u64,
}

/// The longest slice on the bare machine (ticks): the stop flag is looked at between.
pub const MAX_SLICE: u64 = 50_000_000;

/// End of a slice.
#[derive(Debug, PartialEq, Eq)]
pub struct SliceEnd {
    /// The exit that ended it.
    pub exit: Exit,
    /// If its time was over: by how much it was longer (ticks).
    pub overshoot: Option<u64>,
}

/// Place of a vCPU in a machine, except while a thread of the pool runs it.
pub struct VcpuSlot(Option<Box<dyn Vcpu>>);

impl VcpuSlot {
    /// With its processor.
    pub fn new(vcpu: Box<dyn Vcpu>) -> Self {
        Self(Some(vcpu))
    }

    /// Takes the processor away; nothing is to be asked of it before it is back.
    pub fn take(&mut self) -> Option<Box<dyn Vcpu>> {
        self.0.take()
    }

    /// Brings it back.
    pub fn put(&mut self, vcpu: Box<dyn Vcpu>) {
        self.0 = Some(vcpu);
    }
}

const AWAY: &str = "a processor is asked while it is in guest mode";

impl Deref for VcpuSlot {
    type Target = dyn Vcpu;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().expect(AWAY)
    }
}

impl DerefMut for VcpuSlot {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.as_deref_mut().expect(AWAY)
    }
}

/// A debugger's functions for a processor that is not in guest mode.
pub trait DebugVcpu {
    /// Sets what the processor leaves guest mode for.
    fn set(&mut self, debug: &Debug);

    /// All registers.
    fn registers(&mut self) -> DebugRegisters;

    /// Sets the general registers, RIP, RFLAGS, and the x87 and SSE state.
    fn set_registers(&mut self, registers: &DebugRegisters);

    /// The guest-physical address of a linear one in a process, by the address of its top page table (None:
    /// the one that runs), and how many bytes follow it in its page.
    fn translate(&mut self, process: Option<u64>, linear: u64) -> Option<(u64, u64)>;

    /// The next instruction runs, whatever breakpoint is there.
    fn pass_breakpoint(&mut self);

    /// The watchpoints that the guest's own debug registers leave without effect: bit n for
    /// watchpoint n.
    fn unwatched(&mut self) -> u8;
}

/// A processor as its engine has it: KVM's (`kvm`), or one of the bare machine
/// (`bare`). How a slice ends and what entering and leaving cost is the
/// engine's own. A slice may be on another thread than the one before (`vcpu_pool`).
pub trait Vcpu: Send {
    /// Returns whether the APIC is in x2APIC mode.
    fn x2apic(&mut self) -> bool;

    /// Applies an INIT message to the registers (Intel SDM vol. 3A, table 10-1): they are as after
    /// reset, except for the floating-point registers and the APIC's mode.
    fn initialize(&mut self) -> Result<(), Error>;

    /// Puts it into its state after power-on.
    fn reset(&mut self) -> Result<(), Error>;

    /// Starts in real mode at page `page`, as a start-up message requests.
    fn start_at_page(&mut self, page: u8) -> Result<(), Error>;

    /// Puts it before a kernel's 64-bit entry (`boot`).
    fn start_at_kernel(&mut self, entry: u64) -> Result<(), Error>;

    /// Returns whether an interrupt can be injected on the next entry.
    fn interruptible(&mut self) -> bool;

    /// Injects `vector` on the next entry.
    fn inject(&mut self, vector: u8) -> Result<(), Error>;

    /// Asks for an exit as soon as an interrupt can be injected.
    fn request_window(&mut self, on: bool);

    /// Makes a non-maskable interrupt happen.
    fn nmi(&mut self);

    /// The registers that a user is shown.
    fn registers(&mut self) -> Result<Registers, Error>;

    /// A debugger's hold on the processor; None where the engine has none.
    fn debug(&mut self) -> Option<&mut dyn DebugVcpu> {
        None
    }

    /// Returns the place of the data of an exit for a port, to read or to fill.
    fn port_data(&mut self) -> &mut [u8];

    /// Returns the place for the answer to a load from a device's memory.
    fn mmio_answer(&mut self) -> &mut [u8];

    /// Answers an RDMSR.
    fn answer_msr(&mut self, value: u64);

    /// A slice shorter than this (ticks) is not worth an entry.
    fn shortest(&self) -> u64;

    /// By how much a slice can end late (ticks).
    fn lateness(&self) -> u64;

    /// Sets the TSC to zero at `origin` (ticks), from the next entry on. Returns whether the engine
    /// can do so: if not, the TSC shows the time since the run's beginning.
    fn count_from(&mut self, _origin: u64) -> bool {
        false
    }

    /// Returns its state after the last exit, for [`Self::go_on_from`]; None where the engine keeps
    /// none, or an interrupt is about to go in.
    fn keep(&mut self) -> Option<KeptVcpu> {
        None
    }

    /// Goes on from a state of the same processor.
    fn go_on_from(&mut self, _kept: &KeptVcpu) {}

    /// Names the memory (guest-physical address, length in bytes) of its machine that guests have
    /// written to since the last call, on any processor; false where the engine does not know.
    fn take_written(&mut self, _found: &mut dyn FnMut(u64, u64)) -> bool {
        false
    }

    /// Lets the machines of the run use one copy of what they have alike in this range of their memory
    /// (guest-physical addresses), as far as the engine can; `equal`: all of it is known to be equal.
    ///
    /// # Safety
    /// All machines are there, and their memory's [guards](Self::guard) are set.
    unsafe fn share(&mut self, _range: Range<u64>, _equal: bool) {}

    /// Returns a callback for writes to the machine's memory by others than its guest, if the
    /// engine needs one: the writer calls it with the range before the write.
    fn guard(&self) -> Option<Arc<dyn Fn(Range<u64>) + Send + Sync>> {
        None
    }

    /// Runs the guest from where `clock` stands until `until` (ticks) or an exit of the guest, and
    /// sets `clock` to the time of that. `injecting`: an interrupt goes in.
    fn run_slice(
        &mut self,
        clock: &mut Clock,
        until: u64,
        injecting: bool,
    ) -> Result<SliceEnd, Error>;
}
