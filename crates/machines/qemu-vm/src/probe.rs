//! Can this machine's `/dev/kvm` run a 64-bit guest?
//!
//! The file's existence proves little: some machines have a KVM that opens, runs real mode and
//! hangs at the first 64-bit instruction. So a few 64-bit instructions are run, in a child process
//! that is killed if it takes long.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod child;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod program;

use std::fmt;

/// The state of `/dev/kvm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvmState {
    /// KVM runs 64-bit guests and moves their clock.
    Usable,
    /// There is no `/dev/kvm`.
    NoDevice,
    /// This user may not open it.
    NoPermission,
    /// KVM is there but lacks an ability.
    Broken {
        /// The missing ability.
        reason: String,
    },
}

impl fmt::Display for KvmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvmState::Usable => write!(f, "/dev/kvm runs 64-bit guests"),
            KvmState::NoDevice => write!(f, "there is no /dev/kvm"),
            KvmState::NoPermission => write!(
                f,
                "/dev/kvm may not be opened: add yourself to the group kvm \
                 (`adduser USER kvm` as root) and log in again"
            ),
            KvmState::Broken { reason } => write!(f, "/dev/kvm is of no use here: {reason}"),
        }
    }
}

/// Probes `/dev/kvm`; takes at most about 3 s.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn probe() -> KvmState {
    use std::io::ErrorKind;
    /// Longest that the guest's few instructions may take. Where KVM works they
    /// take about a millisecond, inside the software host some 20 ms.
    const MAX_TIME: std::time::Duration = std::time::Duration::from_secs(2);
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return KvmState::NoDevice,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return KvmState::NoPermission,
        Err(error) => return KvmState::Broken { reason: format!("it cannot be opened: {error}") },
    }
    match child::run(MAX_TIME, || program::run().err().unwrap_or_default()) {
        Ok(reason) if reason.is_empty() => KvmState::Usable,
        Ok(reason) => KvmState::Broken { reason },
        Err(error) => KvmState::Broken { reason: format!("the probe failed: {error}") },
    }
}

/// Reports that guests' instructions need another processor than this computer's.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub fn probe() -> KvmState {
    KvmState::Broken { reason: "guests are x86-64, this computer is not an x86-64 Linux".into() }
}
