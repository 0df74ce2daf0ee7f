//! Networks between the machines of an experiment.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use stasis_config::Mistake;
use stasis_network::{NetworkSpec, Subnet};

use crate::names::{check_name, is_name, missing, once, placed};
use crate::variables::{self, Properties, Variables, ADDRESS, NAME, NUMBER};
use crate::{Experiment, MachineSpec};

/// Limit on the networks of an experiment: a byte of each port's address is for them.
const MAX_NETWORKS: usize = 32;
/// Limit on the ports of a network.
const MAX_PORTS: usize = 32;

/// The name of a machine as a host's: underscores and dots are no part of one.
pub fn host_name(machine: &str) -> String {
    machine.replace(['_', '.'], "-")
}

impl Experiment {
    /// Addresses and names of the machines that a machine shares a network with, itself included. The
    /// plain name of a machine is its address on the first such network; `MACHINE.NETWORK` is that on
    /// each.
    pub fn hosts_of(&self, machine: &MachineSpec) -> Vec<(Ipv4Addr, Vec<String>)> {
        let mut hosts: Vec<(Ipv4Addr, Vec<String>)> = Vec::new();
        let mut named = BTreeSet::new();
        for (index, _) in self.networks_of(machine) {
            let network = &self.networks[index];
            let Some(subnet) = network.subnet else { continue };
            for (port, other) in network.machines.iter().enumerate() {
                let Some(address) = subnet.host(port) else { continue };
                let name = host_name(other);
                let full = format!("{name}.{}", network.name.as_deref().unwrap_or_default());
                let plain = named.insert(other).then_some(name);
                hosts.push((address, plain.into_iter().chain([full]).collect()));
            }
        }
        hosts
    }

    /// The variables of a machine's command and files; none where there is one machine only.
    pub fn variables_of(&self, machine: &MachineSpec) -> Variables {
        let hosts = self.hosts_of(machine);
        let properties_of = |(place, other): (usize, &MachineSpec)| {
            let machine = other.name.clone().unwrap_or_default();
            let name = host_name(&machine);
            let mut properties: Properties = other.variables.clone();
            let address = hosts.iter().find(|(_, names)| names.contains(&name));
            properties.extend(address.map(|(at, _)| (ADDRESS.to_owned(), at.to_string())));
            properties.insert(NUMBER.to_owned(), (place + 1).to_string());
            properties.insert(NAME.to_owned(), name);
            (machine, properties)
        };
        let machines: BTreeMap<_, _> =
            self.machine.several().iter().enumerate().map(properties_of).collect();
        let own = machine.name.as_ref().and_then(|name| machines.get(name)).cloned();
        Variables { own: own.unwrap_or_default(), machines }
    }

    /// The command of a machine, with its variables' values.
    ///
    /// # Errors
    /// Names the word, the line in it and the variable that stands for nothing.
    pub fn command_of(&self, machine: &MachineSpec) -> Result<Vec<String>, Mistake> {
        let command = if machine.command.is_empty() { &self.command } else { &machine.command };
        let variables = self.variables_of(machine);
        let word = |(place, word): (usize, &String)| {
            variables.fill(word).map_err(|wrong| {
                let (number, line) = (place + 1, wrong.line);
                let message = format!("command: word {number}, line {line}: {}", wrong.message);
                Mistake::at(place, message).inside("command")
            })
        };
        command.iter().enumerate().map(word).collect()
    }

    /// Checks the variables of machines and their use in commands.
    pub(crate) fn check_commands(&self) -> Result<(), Mistake> {
        for (index, machine) in self.machine.all().iter().enumerate() {
            let with_machine = |mistake: Mistake| match &machine.name {
                Some(name) => mistake.said_of(format_args!("machine {name}")),
                None => mistake,
            };
            let own = |mistake: Mistake| with_machine(mistake).within(self.machine_place(index));
            variables::check(&machine.variables).map_err(own)?;
            let command = self.command_of(machine);
            command.map_err(|mistake| match machine.command.is_empty() {
                true => with_machine(mistake),
                false => own(mistake),
            })?;
        }
        Ok(())
    }

    /// The networks that a machine is on, each with the machine's port.
    pub fn networks_of<'a>(
        &'a self,
        machine: &'a MachineSpec,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let name = machine.name.as_ref();
        let port = move |network: &NetworkSpec| {
            network.machines.iter().position(|other| Some(other) == name)
        };
        let networks = self.networks.iter().enumerate();
        networks.filter_map(move |(index, network)| Some((index, port(network)?)))
    }

    /// Gives every network its name, its machines and its addresses.
    pub(crate) fn settle_networks(&mut self) {
        let all: Vec<String> =
            self.machine.several().iter().filter_map(|machine| machine.name.clone()).collect();
        for (index, network) in self.networks.iter_mut().enumerate() {
            network.name.get_or_insert_with(|| format!("net{index}"));
            if network.machines.is_empty() {
                network.machines.clone_from(&all);
            }
            // One network too many is an error of its own.
            let index = u8::try_from(index).unwrap_or(u8::MAX);
            network.subnet.get_or_insert_with(|| Subnet::of_network(index));
        }
    }

    pub(crate) fn check_networks(&self) -> Result<(), Mistake> {
        if self.networks.is_empty() {
            return Ok(());
        }
        let machines = self.machine.several();
        if machines.is_empty() {
            let message = "[[network]] joins several machines: give them tables [[machine]]";
            return Err(Mistake::at(0, message).inside("network"));
        }
        if self.networks.len() > MAX_NETWORKS {
            let count = self.networks.len();
            let message = format!("{count} networks, but there can be {MAX_NETWORKS} at most");
            return Err(Mistake::at(MAX_NETWORKS, message).inside("network"));
        }
        let all = placed("network", &self.networks);
        once("networks", all.map(|(place, network)| (place, &network.name)))?;
        let names = || machines.iter().filter_map(|machine| machine.name.as_deref());
        for (index, network) in self.networks.iter().enumerate() {
            let name = network.name.as_deref().unwrap_or_default();
            let with_network = |mistake: Mistake| {
                mistake.said_of(format_args!("network {name}")).inside(index).inside("network")
            };
            check_name(name).map_err(with_network)?;
            let on: Vec<&str> = network.machines.iter().map(String::as_str).collect();
            let of_machine =
                |at: usize, message| with_network(Mistake::at(at, message).inside("machines"));
            if let Some((at, machine)) =
                on.iter().enumerate().find(|(_, name)| !names().any(|other| other == **name))
            {
                return Err(of_machine(at, missing("machine", machine, names())));
            }
            if let Some((at, twice)) =
                on.iter().enumerate().find(|(at, name)| on[..*at].contains(name))
            {
                return Err(of_machine(at, format!("the machine `{twice}` is on it twice")));
            }
            let count = network.ports().len();
            if on.is_empty() || count > MAX_PORTS {
                let message = format!("{count} machines, but it joins 1 to {MAX_PORTS}");
                return Err(with_network(Mistake::at("machines", message)));
            }
            for (at, port) in network.outside.iter().enumerate() {
                let name = port.name();
                if !is_name(name) || names().any(|machine| machine == name) {
                    let message = format!(
                        "outside `{name}`: its name must have letters, digits, `-`, `_` and `.` \
                         only, and be no machine's"
                    );
                    return Err(with_network(
                        Mistake::at("name", message).inside(at).inside("outside"),
                    ));
                }
            }
            network.check().map_err(with_network)?;
            let meets = |other: &&NetworkSpec| match (other.subnet, network.subnet) {
                (Some(other), Some(subnet)) => other.meets(subnet),
                _ => false,
            };
            if let Some(other) = self.networks[..index].iter().find(meets) {
                let other = other.name.as_deref().unwrap_or_default();
                let message = format!("its subnet has addresses of the network {other}");
                return Err(with_network(Mistake::at("subnet", message)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::Experiment;

    const GOOD: &str = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n\
         [[machine]]\nname = 'c'\n[[network]]\nname = 'lan'\n\
         [[network]]\nmachines = ['c', 'b']\nsubnet = '192.168.7.0/24'\n";

    /// The experiment of a text, finished.
    pub(crate) fn finish(text: &str) -> Result<Experiment, String> {
        let mut experiment: Experiment =
            stasis_config::read_text(text).map_err(|error| error.to_string())?;
        experiment.finish().map_err(|error| error.to_string())?;
        Ok(experiment)
    }

    #[test]
    fn a_network_is_named_and_has_every_machine() {
        let experiment = finish(GOOD).unwrap();
        let [lan, other] = &experiment.networks[..] else { panic!("two networks") };
        assert_eq!(lan.machines, ["a", "b", "c"]);
        assert_eq!(lan.subnet.unwrap().to_string(), "10.0.0.0/24");
        assert_eq!(other.name.as_deref(), Some("net1"));
        let ports_of = |machine: usize| {
            experiment.networks_of(&experiment.machine.all()[machine]).collect::<Vec<_>>()
        };
        assert_eq!(ports_of(0), [(0, 0)]);
        assert_eq!(ports_of(1), [(0, 1), (1, 1)]);
        assert_eq!(ports_of(2), [(0, 2), (1, 0)]);
    }

    #[test]
    fn a_command_knows_its_own_machine_and_the_others() {
        let text =
            "command = ['serve', '{{machine.name}} {{machine.address}} {{machine.b.address}}']\n\
             [[machine]]\nname = 'a_1'\nvariables = { role = 'first' }\n\
             [[machine]]\nname = 'b'\n\
             command = [\"{{machine.number}} {{machine.a_1.name}} {{machine.a_1.role}}\"]\n\
             [[machine]]\nname = 'c'\ncommand = ['true']\n\
             [[network]]\nmachines = ['b', 'a_1']\n[[network]]\nmachines = ['c', 'b']\n";
        let experiment = finish(text).unwrap();
        let command_of = |machine: usize| experiment.command_of(&experiment.machine.all()[machine]);
        assert_eq!(command_of(0).unwrap(), ["serve", "a-1 10.0.0.2 10.0.0.1"]);
        assert_eq!(command_of(1).unwrap(), ["2 a-1 first"]);
        for (from, to, expected) in [
            (
                "machine.number",
                "machine.numbre",
                "machine b: command: word 1, line 1: there is no variable `machine.numbre`; did \
                 you mean `machine.number`?",
            ),
            ("{{machine.number}}", "\\n{{machine.c.role}}", "line 2: there is no variable"),
            ("'true'", "'{{machine.a_1.address}}'", "machine c: command: word 1, line 1: `machine"),
            ("role =", "name =", "machine a_1: variables: `name` is there already"),
        ] {
            assert!(text.contains(from), "{from}");
            let message = finish(&text.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(expected), "{from} -> {to}: {message}");
        }
        let one = finish("command = ['{{machine.name}}']\n").unwrap_err();
        assert!(one.contains("several machines, in [[machine]]"), "{one}");
    }

    #[test]
    fn wrong_networks_are_refused_by_name() {
        for (from, to, expected) in [
            ("'lan'", "'l n'", "letters, digits"),
            ("'lan'", "'net1'", "two networks have the name `net1`"),
            ("['c', 'b']", "['c', 'bb']", "there is no machine `bb`; did you mean `b`?"),
            ("['c', 'b']", "['c', 'c']", "twice"),
            ("192.168.7.0/24", "10.0.0.0/16", "addresses of the network lan"),
            ("192.168.7.0/24", "192.168.7.1/24", "begins at 192.168.7.0"),
            ("subnet", "delay = '10ns'\nsubnet", "network net1: from c to b: delay is 10ns"),
            ("subnet", "loss = 2\nsubnet", "1"),
            ("subnet", "los = 0.2\nsubnet", "did you mean `loss`?"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let message = finish(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(expected), "{from} -> {to}: {message}");
        }
        let one = "command = ['true']\n[[network]]\n";
        assert!(finish(one).unwrap_err().contains("[[machine]]"));
    }
}
