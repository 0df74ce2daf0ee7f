//! Faults of networks, resolved.

use stasis_block::{splitmix, Random};
use stasis_config::Mistake;
use stasis_network::{NetworkFault, NetworkSpec};

use super::kinds::NetworkFaultKind;
use super::spec::ScheduledFault;

/// Faults of networks draw other numbers than those of all else.
const NETWORKS: u64 = 0x6e65_7473;

impl ScheduledFault {
    /// The fault of a network that it describes, if it befalls that one; `number`: its place in the
    /// experiment.
    pub(super) fn on_network(
        &self,
        kind: NetworkFaultKind,
        network: &NetworkSpec,
        number: u16,
        seed: u64,
    ) -> Result<Option<NetworkFault>, Mistake> {
        let loss = match kind {
            NetworkFaultKind::Partition => self.rate.unwrap_or(1.0),
            NetworkFaultKind::SlowNetwork => 0.0,
        };
        if !(0.0..=1.0).contains(&loss) {
            return Err(Mistake::at("rate", format!("rate is {loss}, but must be 0 to 1")));
        }
        if kind == NetworkFaultKind::SlowNetwork && self.delay.unwrap_or(0) == 0 {
            return Err(Mistake::at("delay", "say by how much it is slower: give it `delay`"));
        }
        if let Some(both) = self.machines.iter().find(|name| self.peers.contains(name)) {
            let message = format!("`{both}` is among machines and peers");
            return Err(Mistake::at("peers", message));
        }
        if self.network.is_some() && self.network != network.name {
            return Ok(None);
        }
        let ports = network.ports();
        let port = |name: &String| ports.iter().position(|other| other == name);
        let side: Vec<usize> = self.machines.iter().filter_map(port).collect();
        let peers: Vec<usize> = match self.peers.is_empty() {
            true => (0..ports.len()).filter(|port| !side.contains(port)).collect(),
            false => self.peers.iter().filter_map(port).collect(),
        };
        if side.is_empty() || peers.is_empty() {
            return Ok(None);
        }
        let seed = splitmix::nth(seed ^ NETWORKS, u64::from(number) + 1);
        let later = self.within.map_or(0, |within| Random::new(seed).up_to(within));
        Ok(Some(NetworkFault {
            number,
            begin: self.begin.unwrap_or(0).saturating_add(later),
            end: self.end.map(|end| end.saturating_add(later)),
            triggered: self.is_triggered(),
            side,
            peers,
            one_way: self.one_way,
            loss,
            delay: self.delay.unwrap_or(0),
        }))
    }
}
