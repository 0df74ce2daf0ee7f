//! Description of the NVMe side of a drive that is to be served: a subsystem, or the only
//! controller of one.

use stasis_nvme::KeptState;

/// Makes the NVMe side of a drive, given its size in bytes and whether discarded bytes read as
/// zeroes.
pub type MakeNvme<N> = Box<dyn FnOnce(u64, bool) -> Result<NewNvme<N>, String> + Send>;

/// Keeps the state of an NVMe drive beside its medium, once all else is durable.
pub type KeepState = Box<dyn FnOnce(KeptState) -> Result<(), String> + Send>;

/// Keeps the state of an NVMe drive as it is now, for a server that is killed after it.
pub type FollowState = Box<dyn FnMut(KeptState) -> Result<(), String> + Send>;

/// A subsystem or a controller that is to be served.
pub struct NewNvme<N> {
    /// It, in the state that was kept of it.
    pub nvme: N,
    /// Keeps its state when the server ends; `None`: there is no place for it.
    pub keep: Option<KeepState>,
    /// Keeps its state before each completion that depends on it; `None`: that is not wanted.
    pub follow: Option<FollowState>,
}

/// Keeps the state of a drive in use, before a host sees what depends on it.
pub(crate) struct Follower {
    /// `None`: that is not wanted, or cannot be done any more.
    follow: Option<FollowState>,
    /// The changes that were kept.
    followed: u64,
}

impl Follower {
    /// Starts with a drive whose state has changed so many times.
    pub(crate) fn new(follow: Option<FollowState>, changes: u64) -> Self {
        Self { follow, followed: changes }
    }

    /// Returns whether the state is kept before completions.
    pub(crate) fn is_wanted(&self) -> bool {
        self.follow.is_some()
    }

    /// Keeps the state of the drive `name` if it has changed: `changes`, how often.
    pub(crate) fn keep(&mut self, name: &str, changes: u64, state: impl FnOnce() -> KeptState) {
        let Some(follow) = self.follow.as_mut().filter(|_| changes != self.followed) else {
            return;
        };
        self.followed = changes;
        if let Err(error) = follow(state()) {
            let message = format!(
                "{error}; from now on its zones and namespaces do not survive a server that is \
                 killed, and the next one will say so"
            );
            crate::log::warn(name, &message);
            self.follow = None;
        }
    }
}

/// The message that a drive of `count` namespaces has no namespace `nsid`.
pub(crate) fn missing_namespace(nsid: u32, count: u32) -> String {
    format!("it has no namespace {nsid}: it has {count}, counted from 1")
}
