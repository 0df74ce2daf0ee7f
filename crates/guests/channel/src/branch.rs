//! Another way from a moment of a run on: a command of its own beside what runs in the guest.

use serde::{Deserialize, Serialize};

use crate::Job;

/// A branch of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The number of the machine whose guest runs the command.
    pub machine: usize,
    /// The command and its surroundings, in a guest that is set up already.
    pub job: Job,
    /// The call of the guest's agent.
    pub call: Call,
}

/// Places in a Linux kernel by which a machine calls the agent, which sleeps while its command
/// runs: the kernel takes an interrupt, whose handler calls a function that sends SIGINT to process
/// 1, as it does when Ctrl-Alt-Del is pressed. Linear addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The pointer to the function of the interrupt that a platform has for itself:
    /// [`Call::CALLBACK`].
    pub callback: u64,
    /// The function: [`Call::FUNCTION`].
    pub function: u64,
}

impl Call {
    /// The name of the pointer (Linux, arch/x86/kernel/irq.c).
    pub const CALLBACK: &str = "x86_platform_ipi_callback";
    /// The name of the function (Linux, kernel/reboot.c).
    pub const FUNCTION: &str = "ctrl_alt_del";
    /// The interrupt's vector: X86_PLATFORM_IPI_VECTOR (Linux, arch/x86/include/asm/irq_vectors.h).
    pub const VECTOR: u8 = 0xf7;
}
