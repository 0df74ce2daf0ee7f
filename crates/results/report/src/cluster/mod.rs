//! What the machines of a cluster did when: their output, messages, I/Os and faults, as the page
//! shows them. All that is kept in memory is bounded.

mod density;
mod lines;
mod messages;
mod section;

use stasis_block::clock::Nanos;
use stasis_run_events::{FaultRecord, IoRecord, PacketRecord};

use density::Density;
use lines::Lines;
use messages::Messages;
pub(crate) use section::sections;

/// Limit on the faults of a machine that are marked.
const MAX_MARKS: usize = 200;

/// A machine.
#[derive(Debug, Default)]
struct Machine {
    name: String,
    /// I/Os of its drives, by their completion.
    ios: Density,
    lines: Lines,
    /// Faults of the machine and its drives: when, and which.
    faults: Vec<(Nanos, String)>,
}

/// The machines of a run, of which there are several.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    machines: Vec<Machine>,
    /// The machine of each drive that one has for itself.
    drives: Vec<Option<usize>>,
    /// The machine at each port of each network.
    ports: Vec<Vec<Option<usize>>>,
    /// The machine that each fault befalls, and how it is named.
    faults: Vec<(Option<usize>, String)>,
    messages: Messages,
}

impl Cluster {
    /// Machines of these names; `drives`: the machine of each drive, by its number.
    pub(crate) fn new(names: Vec<String>, drives: Vec<Option<usize>>) -> Self {
        let machine = |name| Machine { name, ..Machine::default() };
        let machines = names.into_iter().map(machine).collect();
        Self { machines, drives, ..Self::default() }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.machines.iter().position(|machine| machine.name == name)
    }

    /// One more network, with these machines at its ports.
    pub(crate) fn network(&mut self, machines: &[String]) {
        let ports = machines.iter().map(|name| self.place(name)).collect();
        self.ports.push(ports);
    }

    /// The run's faults: kind and target each; `drives`: the drives' names, by their numbers.
    pub(crate) fn faults(&mut self, faults: &[(String, String)], drives: &[String]) {
        let machine_of = |target: &str| {
            let drive = drives.iter().position(|name| name == target);
            let owner = drive.and_then(|drive| self.drives.get(drive).copied().flatten());
            // Of a network, the machines on the one side.
            target.split(',').find_map(|name| self.place(name)).or(owner)
        };
        let named =
            |(kind, target): &(String, String)| (machine_of(target), format!("{kind} of {target}"));
        self.faults = faults.iter().map(named).collect();
    }

    pub(crate) fn ios(&mut self, ios: &[IoRecord]) {
        for io in ios {
            let owner = self.drives.get(usize::from(io.drive)).copied().flatten();
            if let Some(machine) = owner.and_then(|owner| self.machines.get_mut(owner)) {
                machine.ios.add(io.delivered);
            }
        }
    }

    pub(crate) fn packets(&mut self, packets: &[PacketRecord]) {
        packets.iter().for_each(|packet| self.messages.packet(packet));
    }

    pub(crate) fn happened(&mut self, faults: &[FaultRecord]) {
        for record in faults {
            let Some((Some(owner), name)) = self.faults.get(usize::from(record.fault)) else {
                continue;
            };
            if let Some(machine) = self.machines.get_mut(*owner) {
                if machine.faults.len() < MAX_MARKS {
                    machine.faults.push((record.at, name.clone()));
                }
            }
        }
    }

    /// A machine's command has written `bytes`, of whole lines.
    pub(crate) fn output(&mut self, machine: usize, at: Nanos, error: bool, bytes: &[u8]) {
        if let Some(machine) = self.machines.get_mut(machine) {
            machine.lines.add(at, error, bytes);
        }
    }
}
