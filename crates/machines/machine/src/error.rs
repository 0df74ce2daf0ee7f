//! Errors of a machine, from its making to its end.

use crate::boot::BootError;

/// Why a machine could not be made or could not continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// KVM refused.
    #[error("KVM: cannot {0}: {1}; `stasis doctor` says what this machine can do")]
    Kvm(&'static str, #[source] std::io::Error),
    /// KVM lacks something.
    #[error(
        "KVM on this machine lacks {0}; use --engine softkvm or exact, or a Linux of 6.1 or later"
    )]
    Missing(&'static str),
    /// The host has not enough memory.
    #[error(
        "cannot get {0} MiB of memory for the guest: {1}; use a smaller --memory or drive in RAM"
    )]
    Memory(u64, #[source] std::io::Error),
    /// The kernel cannot be booted.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// A drive's controller cannot be made.
    #[error("drive {0}: {1}")]
    Drive(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// Too many of something.
    #[error("{0}")]
    Limit(String),
    /// The host's timer could not be made.
    #[error("cannot make a timer: {0}")]
    Timer(#[source] std::io::Error),
    /// The host gives no more threads.
    #[error("cannot make a thread for processors: {0}")]
    Threads(#[source] std::io::Error),
    /// The event stream could not be written.
    #[error("cannot write the results: {0}")]
    EventSink(#[source] std::io::Error),
    /// A part of the machine or of its task could not be read.
    #[error("cannot read what the machine needs: {0}")]
    Input(#[source] std::io::Error),
    /// A network no longer leads outside.
    #[error("a network that leads outside: {0}")]
    Outside(#[source] std::io::Error),
    /// The guest did what no guest can do here.
    #[error("the guest's processor stopped: {0}")]
    Guest(String),
    /// The bare machine does not repeat itself.
    #[error("{0}")]
    NotExact(#[source] stasis_bare::svm::NotExact),
    /// The guest's memory is not where it can be mapped.
    #[error("{0}")]
    NotMappable(#[source] stasis_bare::svm::NotMappable),
    /// No run can go on from a first boot, for this reason.
    #[error("no boot can be kept: {0}")]
    Unfit(&'static str),
    /// A defect of this program.
    #[error("internal error: {0}; please report it")]
    Internal(&'static str),
}

impl Error {
    /// Makes an error of a KVM call.
    pub(crate) fn kvm(call: &'static str) -> impl Fn(kvm_ioctls::Error) -> Self {
        move |error| Self::Kvm(call, std::io::Error::from_raw_os_error(error.errno()))
    }
}
