//! Errors of the agent.

use std::io;

use stasis_channel::ClientError;

use crate::bfq_tracer::TraceError;

/// Reason why the agent could not do its work. The message reaches the user, through
/// the channel or the console.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A system call failed.
    #[error("in the guest: cannot {action} {on}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The object of the action.
        on: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The channel's PCI device is not there.
    #[error(
        "no channel device (PCI 5354:0001) found: this initramfs runs only in a Stasis machine"
    )]
    NoChannel,
    /// A device that should be there did not appear in time.
    #[error("in the guest: {name} did not appear within {seconds} s of virtual time; the guest's kernel may lack its driver")]
    NoDevice {
        /// Its path.
        name: String,
        /// Time waited.
        seconds: u64,
    },
    /// A port of a network has no interface.
    #[error("in the guest: no network interface has the address {0}; the guest's kernel may lack the driver virtio_net")]
    NoInterface(String),
    /// The root's file system is not a Linux's.
    #[error("the root has no Linux: its file system of {file_system} has neither /bin nor /usr")]
    NoLinux {
        /// Its kind.
        file_system: String,
    },
    /// The guest has less than the machine.
    #[error(
        "in the guest: {online} of {vcpus} processors came online; the guest's kernel says more \
         (--console)"
    )]
    Processors {
        /// The number that came online.
        online: usize,
        /// The number that the machine has.
        vcpus: usize,
    },
    /// The command never begins.
    #[error("the command cannot begin: {reason}")]
    Never {
        /// Why.
        reason: String,
    },
    /// The channel failed.
    #[error(transparent)]
    Channel(#[from] ClientError),
    /// BFQ cannot be watched.
    #[error("in the guest: {0}")]
    Watch(#[from] TraceError),
}

impl AgentError {
    /// Makes the error of a failed system call.
    pub fn new(action: &'static str, on: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { action, on: on.into(), source: source.into() }
    }
}
