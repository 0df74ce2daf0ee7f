//! Networks between machines: what each machine and its guest find of them.

use stasis_channel::NetworkInterface;
use stasis_experiment::{host_name, Experiment, MachineSpec};
use stasis_machine::{NetworkConfig, PortConfig};
use stasis_network::{Network, NetworkFault, NetworkSpec};

/// The interfaces of a machine, in the order of its networks.
pub fn interfaces(experiment: &Experiment, machine: &MachineSpec) -> Vec<NetworkInterface> {
    let interface = |(index, port): (usize, usize)| {
        let subnet = experiment.networks[index].subnet?;
        Some(NetworkInterface {
            port: Network::address(u8::try_from(index).ok()?, port),
            address: subnet.host(port)?,
            prefix: subnet.prefix(),
        })
    };
    experiment.networks_of(machine).filter_map(interface).collect()
}

/// The environment by which the command of one of several machines knows its own place among them,
/// and its own variables.
pub fn variables(experiment: &Experiment, machine: &MachineSpec) -> Vec<(String, String)> {
    let several = experiment.machine.several();
    let Some(place) = several.iter().position(|other| other.name == machine.name) else {
        return Vec::new();
    };
    let name = |machine: &MachineSpec| machine.name.as_deref().map(host_name).unwrap_or_default();
    let all: Vec<String> = several.iter().map(name).collect();
    let mut variables = vec![
        ("STASIS_MACHINE".into(), all[place].clone()),
        ("STASIS_NUMBER".into(), (place + 1).to_string()),
        ("STASIS_MACHINES".into(), all.join(" ")),
    ];
    if let Some(first) = interfaces(experiment, machine).first() {
        variables.push(("STASIS_ADDRESS".into(), first.address.to_string()));
    }
    variables.extend(machine.variables.clone());
    variables
}

/// The ports of a machine.
pub fn ports(networks: &[NetworkSpec], machine: &str) -> Vec<PortConfig> {
    let port = |(index, network): (usize, &NetworkSpec)| {
        let port = network.machines.iter().position(|other| other == machine)?;
        Some(PortConfig { network: index, port, mtu: network.transfer_unit() })
    };
    networks.iter().enumerate().filter_map(port).collect()
}

/// The networks of a run.
pub fn networks(
    networks: &[NetworkSpec],
    faults: &[Vec<NetworkFault>],
    seed: u64,
) -> Vec<NetworkConfig> {
    let network = |(index, spec): (usize, &NetworkSpec)| {
        let capture =
            spec.capture.map_or(usize::MAX, |bytes| bytes.try_into().unwrap_or(usize::MAX));
        let mut network = Network::new(spec, index as u8, seed);
        network.set_faults(faults.get(index).cloned().unwrap_or_default());
        NetworkConfig { network, capture }
    };
    networks.iter().enumerate().map(network).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_machine_finds_the_others() {
        let mut experiment: Experiment = stasis_config::read_text(
            "command = ['true']\n[[machine]]\nname = 'a_1'\n[[machine]]\nname = 'b'\nvariables.ROLE = 'first'\n\
             [[machine]]\nname = 'c'\n[[network]]\nname = 'lan'\nmachines = ['a_1', 'b']\n\
             [[network]]\nname = 'san'\n",
        )
        .unwrap();
        experiment.finish().unwrap();
        let hosts_of = |machine: usize| experiment.hosts_of(&experiment.machine.all()[machine]);
        let lines = |machine| {
            let line = |(address, names): (Ipv4Addr, Vec<String>)| {
                format!("{address} {}", names.join(" "))
            };
            hosts_of(machine).into_iter().map(line).collect::<Vec<_>>()
        };
        let expected = [
            "10.0.0.1 a-1 a-1.lan",
            "10.0.0.2 b b.lan",
            "10.0.1.1 a-1.san",
            "10.0.1.2 b.san",
            "10.0.1.3 c c.san",
        ];
        assert_eq!(lines(0), expected);
        assert_eq!(lines(2), ["10.0.1.1 a-1 a-1.san", "10.0.1.2 b b.san", "10.0.1.3 c c.san"]);
        let variables = variables(&experiment, &experiment.machine.all()[1]);
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            variables,
            [
                "STASIS_MACHINE=b",
                "STASIS_NUMBER=2",
                "STASIS_MACHINES=a-1 b c",
                "STASIS_ADDRESS=10.0.0.2",
                "ROLE=first"
            ]
        );
        let interfaces = interfaces(&experiment, &experiment.machine.all()[1]);
        assert_eq!(interfaces[1].address, Ipv4Addr::new(10, 0, 1, 2));
        assert_eq!(interfaces[1].port, [2, b'S', b'T', 1, 0, 1]);
        let ports = ports(&experiment.networks, "c");
        assert_eq!(ports, [PortConfig { network: 1, port: 2, mtu: 1_500 }]);
    }
}
