//! Errors of a virtual machine, each with advice for the user.

use crate::probe::KvmState;
use crate::qmp::QmpError;
use stasis_channel::ProtocolError;
use std::io;
use std::path::PathBuf;

/// Why a machine did not start, or a command not run to its end. After any of
/// them the machine is of no further use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// QEMU is not installed.
    #[error("qemu-system-x86_64 is not installed: install Debian's package qemu-system-x86")]
    QemuMissing,
    /// KVM was asked for and does not work.
    #[error("KVM cannot be used: {0}")]
    Kvm(KvmState),
    /// A file could not be used.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// The attempted action.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The guest's root, which is read where it lies, is not what it was.
    #[error("the guest's root cannot be read: {cause}")]
    Root {
        /// The file, and its fault.
        cause: String,
    },
    /// The operating system refused something that is not about a file.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The guest did not come up in time.
    #[error("the guest was not ready within {seconds} s; the end of its console:\n{console}")]
    Boot {
        /// Time waited.
        seconds: u64,
        /// The last lines.
        console: String,
    },
    /// The machine ended while it was still wanted.
    #[error("the virtual machine ended by itself; the end of what it said:\n{output}")]
    Ended {
        /// The last lines of the guest's console and of QEMU.
        output: String,
    },
    /// The guest did not answer.
    #[error("the guest has not answered for {seconds} s; the end of its console:\n{console}")]
    Silent {
        /// Time waited.
        seconds: u64,
        /// The last lines.
        console: String,
    },
    /// The guest could not make its drives ready for a check, newly started.
    #[error("the guest of the check cannot get its drives ready: {reason}")]
    NotReady {
        /// Why.
        reason: String,
    },
    /// The guest broke the channel's protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A frame that cannot be one.
    #[error("from the guest: a frame of {length} bytes, longer than any can be; its agent is damaged or hostile")]
    Frame {
        /// The length it gives.
        length: usize,
    },
    /// The monitor does not do what it should.
    #[error(transparent)]
    Monitor(#[from] QmpError),
    /// Stopped by [`crate::Config::stop`].
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// For `map_err` on what is not about a file.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
