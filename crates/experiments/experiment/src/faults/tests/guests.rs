//! Faults inside guests.

use super::super::*;
use crate::networks::tests::finish;

const MACHINES: &str = "command = ['true']\n[[machine]]\nname = 'a'\nmemory = '512MiB'\n\
     [[machine]]\nname = 'b'\n[[fault]]\nmachine = 'a'\n";

fn fault(keys: &str) -> Result<ScheduledGuestFault, String> {
    let experiment = finish(&format!("{MACHINES}{keys}"))?;
    let machines = experiment.machine.all();
    assert_eq!(experiment.guest_faults_of(&machines[1]), Ok(vec![]));
    let [fault] = &experiment.guest_faults_of(&machines[0]).unwrap()[..] else {
        panic!("one fault")
    };
    Ok(fault.clone())
}

#[test]
fn a_fault_is_that_of_its_guest() {
    let second = 1_000_000_000;
    let kill = fault("kind = 'kill'\nprocess = 'etcd'\nat = '1s'").unwrap();
    assert_eq!(kill.fault, GuestFault::Kill { process: "etcd".into() });
    assert_eq!((kill.begin, kill.end, kill.begins), (second as u64, None, Begins::InTime));
    let shortage = "kind = 'memory-shortage'\nmemory = '256MiB'\nbegin = '1s'\nend = '2s'";
    let shortage = fault(shortage).unwrap();
    assert_eq!(shortage.fault, GuestFault::MemoryShortage { bytes: 256 << 20 });
    assert_eq!((shortage.begin, shortage.end), (second as u64, Some(2 * second as u64)));
    for (by, by_ns) in [("5s", 5 * second), ("-1h", -3600 * second), ("-1ns", -1)] {
        let jump = format!("kind = 'clock-jump'\nby = '{by}'\nwhen = 'asked'");
        let jump = fault(&jump).unwrap();
        assert_eq!((jump.fault, jump.begins), (GuestFault::ClockJump { by_ns }, Begins::Elsewhere));
    }
    let drift = fault("kind = 'clock-drift'\nppm = -100").unwrap();
    assert_eq!((drift.fault, drift.begin), (GuestFault::ClockDrift { ppm: -100 }, 0));
    for (speaker, begins) in [("a", Begins::AtOutput), ("b", Begins::Elsewhere)] {
        let keys =
            format!("kind = 'clock-drift'\nppm = 1\nat-output = 'x'\noutput-of = '{speaker}'");
        assert_eq!(fault(&keys).unwrap().begins, begins);
    }
}

#[test]
fn the_time_of_a_kill_is_drawn_by_the_seed() {
    let at = |seed: u64| {
        let kill = "kind = 'kill'\nprocess = 'x'\nat = '1s'\nwithin = '1s'";
        let experiment = finish(&format!("seed = {seed}\n{MACHINES}{kill}")).unwrap();
        experiment.guest_faults_of(&experiment.machine.all()[0]).unwrap()[0].begin
    };
    let times: Vec<_> = (0..20).map(at).collect();
    assert!(times.iter().all(|at| (1_000_000_000..=2_000_000_000).contains(at)));
    assert!(times.iter().max().unwrap() - times.iter().min().unwrap() > 500_000_000);
}

#[test]
fn wrong_faults_are_refused_by_name() {
    for (keys, expected) in [
        ("kind = 'kill'\nat = '1s'", "give it `process`"),
        ("kind = 'kill'\nprocess = ''\nat = '1s'", "give it `process`"),
        ("kind = 'kill'\nprocess = 'etcd'", "say when it happens"),
        ("kind = 'kill'\nprocess = 'etcd'\nat = '1s'\nend = '2s'", "end means nothing"),
        ("kind = 'memory-shortage'", "give it `memory`"),
        ("kind = 'memory-shortage'\nmemory = '512MiB'", "the machine has 512MiB in all"),
        ("kind = 'memory-shortage'\nmemory = '1MiB'\nat = '1s'", "at is for the kind"),
        ("kind = 'clock-jump'\nat = '1s'", "give it `by`"),
        ("kind = 'clock-jump'\nat = '1s'\nby = '0'", "give it `by`"),
        ("kind = 'clock-jump'\nat = '1s'\nby = '5'", "by: `5`: a duration needs a unit"),
        ("kind = 'clock-jump'\nat = '1s'\nby = '-400000h'\nppm = 1", "ppm is for the kind"),
        ("kind = 'clock-jump'\nat = '1s'\nby = '4000000h'", "too far"),
        ("kind = 'clock-drift'", "give it `ppm`"),
        ("kind = 'clock-drift'\nppm = 100001", "must be -100000 to 100000"),
        ("kind = 'clock-drift'\nppm = 1\nbegin = '2s'\nend = '1s'", "it ends at 1s"),
        ("kind = 'kil'", "did you mean `kill`?"),
    ] {
        let message = fault(keys).unwrap_err();
        assert!(message.contains(expected), "{keys}: {message}");
    }
}
