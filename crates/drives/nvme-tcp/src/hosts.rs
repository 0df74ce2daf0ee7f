//! The hosts that may come.

use stasis_nvme::fabrics::DiscoveryEntry;
use stasis_nvme_auth::Verifier;

use crate::authentication::Authentication;

/// The hosts that may come, and the subsystems that they discover.
#[derive(Debug, Default)]
pub struct Hosts {
    /// The NQNs of the hosts that may connect, beside those that authenticate; if there are none
    /// of both: all.
    pub allowed: Vec<String>,
    pub authentication: Option<Authentication>,
    pub entries: Vec<DiscoveryEntry>,
}

impl Hosts {
    /// Returns whether the host of this name may connect.
    pub fn allow(&self, nqn: &str) -> bool {
        match &self.authentication {
            Some(authentication) if authentication.knows(nqn) => true,
            None if self.allowed.is_empty() => true,
            _ => self.allowed.iter().any(|allowed| allowed == nqn),
        }
    }

    /// The verifier of a queue of the host `nqn`; `None` if it needs not authenticate.
    pub fn verifier(&self, nqn: &str, subsystem: &str) -> Option<Verifier> {
        self.authentication.as_ref()?.verifier(nqn, subsystem)
    }
}
