//! Why a processor left guest mode, as a value: the request of an exit can then wait for its turn
//! in virtual time. The engines `kvm` and `exact` have the same exits.

/// Why a processor left guest mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// Its slice was ended from outside, or its time is over.
    Interrupted,
    /// HLT.
    Halt,
    /// An interrupt can be injected now.
    Window,
    /// WRMSR of a register that is not the processor's own.
    MsrWrite {
        /// The register.
        number: u32,
        /// The value.
        value: u64,
    },
    /// RDMSR, to be answered.
    MsrRead {
        /// The register.
        number: u32,
    },
    /// A store to a device's memory.
    MmioWrite {
        /// Guest-physical address.
        address: u64,
        /// The bytes stored, and how many of them are valid.
        data: ([u8; 8], usize),
    },
    /// A load from a device's memory, to be answered.
    MmioRead {
        /// Guest-physical address.
        address: u64,
    },
    /// OUT; the data are in the exit's place for data.
    PortWrite {
        /// The port.
        port: u16,
    },
    /// IN, to be answered.
    PortRead {
        /// The port.
        port: u16,
    },
    /// A triple fault.
    Shutdown,
    /// An event that a debugger has asked for ([`crate::svm::Vcpu::set_debug`]).
    Debug(DebugEvent),
    /// An exit that is not supported.
    Unsupported(String),
}

/// An event that a debugger waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DebugEvent {
    /// The instruction at RIP is a breakpoint; it has not run.
    Breakpoint,
    /// The instruction that has just run has accessed a watched address: bit n is set for
    /// watchpoint n.
    Watch(u8),
}
