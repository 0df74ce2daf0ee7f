//! Faults of networks.

use super::super::*;
use crate::networks::tests::finish;

const MACHINES: &str = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n\
     [[machine]]\nname = 'c'\n[[machine]]\nname = 'd'\n[[network]]\nname = 'lan'\n\
     machines = ['c', 'b', 'a']\n[[network]]\nname = 'san'\nmachines = ['a', 'b']\n[[fault]]\n";

fn faults(keys: &str) -> Result<Vec<Option<NetworkFault>>, String> {
    let experiment = finish(&format!("{MACHINES}{keys}"))?;
    let fault_of = |network: &NetworkSpec| experiment.network_faults_of(network).unwrap().pop();
    Ok(experiment.networks.iter().map(fault_of).collect())
}

#[test]
fn a_fault_is_between_the_ports_of_its_machines() {
    let all = faults("kind = 'partition'\nmachines = ['a']\nbegin = '1s'\nend = '2s'").unwrap();
    let [Some(lan), Some(san)] = &all[..] else { panic!("on both networks") };
    assert_eq!((&lan.side, &lan.peers, lan.loss), (&vec![2], &vec![0, 1], 1.0));
    assert_eq!((lan.begin, lan.end, lan.one_way), (1_000_000_000, Some(2_000_000_000), false));
    assert_eq!((&san.side, &san.peers), (&vec![0], &vec![1]));
    let keys = "kind = 'slow-network'\nmachines = ['a']\npeers = ['c']\ndelay = '1ms'\n\
         one-way = true\nat-output = 'x'";
    let all = faults(keys).unwrap();
    let [Some(lan), None] = &all[..] else { panic!("on one network") };
    assert_eq!((lan.delay, lan.loss, lan.one_way, lan.triggered), (1_000_000, 0.0, true, true));
    let keys = "kind = 'partition'\nmachines = ['a']\nnetwork = 'san'\nrate = 0.5";
    assert!(matches!(&faults(keys).unwrap()[..], [None, Some(fault)] if fault.loss == 0.5));
}

#[test]
fn wrong_faults_are_refused_by_name() {
    for (keys, expected) in [
        ("kind = 'partition'", "give it `machines`: there are `a`, `b`, `c`, `d`"),
        ("kind = 'partition'\nmachines = ['e']", "there is no machine `e`"),
        ("kind = 'partition'\nmachines = ['a']\npeers = ['e']", "there is no machine `e`"),
        ("kind = 'partition'\nmachines = ['a']\npeers = ['a']", "`a` is among machines and peers"),
        ("kind = 'partition'\nmachines = ['a']\nnetwork = 'man'", "did you mean `san`?"),
        ("kind = 'partition'\nmachines = ['d']", "no network joins its machines"),
        ("kind = 'partition'\nmachines = ['a']\npeers = ['d']", "no network joins"),
        ("kind = 'partition'\nmachines = ['a']\nrate = 1.5", "1"),
        ("kind = 'partition'\nmachines = ['a']\nmachine = 'b'", "machine means nothing"),
        ("kind = 'partition'\nmachines = ['a']\ndelay = '1s'", "delay is for the kind `slow`"),
        ("kind = 'slow-network'\nmachines = ['a']", "give it `delay`"),
        ("kind = 'slow'\nmachines = ['a']\nfactor = 2", "machines is for the kind `partition`"),
        ("kind = 'partition'\nmachines = ['a']\nbegin = '2s'\nend = '1s'", "it ends at 1s"),
    ] {
        let message = faults(keys).unwrap_err();
        assert!(message.contains(expected), "{keys}: {message}");
    }
    let alone = "command = ['true']\n[[fault]]\nkind = 'partition'\nmachines = ['a']";
    let message = finish(alone).unwrap_err();
    assert!(message.contains("no [[network]] joins any"), "{message}");
}
