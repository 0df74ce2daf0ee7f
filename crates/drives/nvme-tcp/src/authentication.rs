//! Who has to authenticate, and the commands of it (NVMe 2.0 section 6.1 and 6.2, and 8.13).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use stasis_nvme::fabrics::{CapsuleFault, OPCODE};
use stasis_nvme_auth::{Group, Power, Randomness, Secrets, Verifier};
use stasis_nvme_layout::queue::AuthenticationEntry;
use stasis_nvme_layout::transmute;

/// Fabrics Command Types.
mod kind {
    pub const SEND: u8 = 0x05;
    pub const RECEIVE: u8 = 0x06;
}

/// Security Protocol Specific 0 and 1, and the Security Protocol.
const PROTOCOL: [u8; 3] = [0x01, 0x01, 0xe9];

/// Authentication and Security Requirements (AUTHREQ) in the result of Connect: the host is to
/// authenticate on the queue (ATR).
pub const REQUIRED: u32 = 1 << 17;

/// The hosts that are to authenticate, and how.
#[derive(Debug)]
pub struct Authentication {
    secrets: BTreeMap<String, Arc<Secrets>>,
    groups: Arc<[Group]>,
    random: Randomness,
    /// Powers to be computed, each with its number.
    powers: VecDeque<(PowerId, Power)>,
    last: u64,
}

/// Names a power that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerId(u64);

/// Progress of an authentication command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// The command ends once a power is computed.
    Waits(PowerId),
}

impl Authentication {
    /// Authentication of the hosts with these NQNs. `groups`: those that are taken, in the order in
    /// which they are preferred.
    pub fn new(secrets: BTreeMap<String, Secrets>, groups: Vec<Group>, random: Randomness) -> Self {
        let secrets = secrets.into_iter().map(|(nqn, secrets)| (nqn, Arc::new(secrets)));
        Self {
            secrets: secrets.collect(),
            groups: groups.into(),
            random,
            powers: VecDeque::new(),
            last: 0,
        }
    }

    /// Returns whether the host of this name has a secret.
    pub fn knows(&self, nqn: &str) -> bool {
        self.secrets.contains_key(nqn)
    }

    /// The verifier of a queue of the host `nqn`; `None` if it needs not authenticate.
    pub fn verifier(&self, nqn: &str, subsystem: &str) -> Option<Verifier> {
        let secrets = Arc::clone(self.secrets.get(nqn)?);
        Some(Verifier::new(secrets, Arc::clone(&self.groups), nqn, subsystem))
    }

    /// Carries out an authentication command, whose data is `data`.
    ///
    /// # Errors
    /// An invalid field, or there is nothing to receive.
    pub fn execute(
        &mut self,
        verifier: &mut Verifier,
        raw: &[u8; 64],
        data: &mut [u8],
    ) -> Result<Progress, CapsuleFault> {
        let AuthenticationEntry { fctype, protocol, length, .. } = transmute!(*raw);
        let length = length.get() as usize;
        if protocol != PROTOCOL || length == 0 || length != data.len() {
            return Err(CapsuleFault::Field);
        }
        if fctype == kind::SEND {
            verifier.send(data, &mut self.random);
            let Some(power) = verifier.take_power() else { return Ok(Progress::Done) };
            self.last += 1;
            let id = PowerId(self.last);
            self.powers.push_back((id, power));
            return Ok(Progress::Waits(id));
        }
        let message = verifier.outgoing().ok_or(CapsuleFault::Sequence)?;
        let (first, rest) = data.split_at_mut_checked(message.len()).ok_or(CapsuleFault::Field)?;
        first.copy_from_slice(message);
        rest.fill(0);
        verifier.taken();
        Ok(Progress::Done)
    }

    /// The next power that is to be computed.
    pub fn next_power(&mut self) -> Option<(PowerId, Power)> {
        self.powers.pop_front()
    }

    /// Forgets a power that no connection waits for any more.
    pub fn forget(&mut self, id: PowerId) {
        self.powers.retain(|(other, _)| *other != id);
    }
}

/// Returns whether a command is one of authentication.
pub fn is_authentication(raw: &[u8; 64]) -> bool {
    let AuthenticationEntry { opc, fctype, .. } = transmute!(*raw);
    opc == OPCODE && matches!(fctype, kind::SEND | kind::RECEIVE)
}
