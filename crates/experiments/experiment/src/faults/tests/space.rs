//! Faults that are drawn from a space.

use super::super::*;
use crate::networks::tests::finish;
use stasis_drive::CutChoice;
use std::collections::BTreeSet;

const MACHINES: &str = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine.drive]]\n\
     name = 'first'\ncontrollers = 2\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[machine.drive]]\nname = 'virtio'\n\
     interface = 'virtio-blk'\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[machine]]\nname = 'b'\n\
     [[machine.drive]]\nname = 'second'\ncontrollers = 2\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[machine]]\n\
     name = 'c'\n[[network]]\nname = 'lan'\n";

fn drawn(seed: u64, space: &str) -> Result<Vec<ScheduledFault>, String> {
    let experiment = finish(&format!("seed = {seed}\n{MACHINES}[fault-space]\n{space}"))?;
    assert_eq!(experiment.fault_space, None, "it is drawn once");
    Ok(experiment.faults)
}

/// Keys that a kind needs besides its time and what it befalls.
fn needed(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Drive(DriveFaultKind::Slow) => ", factor = 2",
        FaultKind::Drive(DriveFaultKind::NamespaceResized) => ", size = '8KiB'",
        FaultKind::Guest(GuestFaultKind::Kill) => ", process = 'x'",
        FaultKind::Guest(GuestFaultKind::MemoryShortage) => ", memory = '1MiB'",
        FaultKind::Guest(GuestFaultKind::ClockJump) => ", by = '5s'",
        FaultKind::Guest(GuestFaultKind::ClockDrift) => ", ppm = 5",
        FaultKind::Network(kinds::NetworkFaultKind::SlowNetwork) => ", delay = '1ms'",
        _ => "",
    }
}

#[test]
fn each_kind_is_drawn_in_its_time_on_all_that_it_can_befall() {
    const BEGIN: u64 = 2_000_000_000;
    for kind in FaultKind::all() {
        let times = "begin = '2s'\nwithin = '10s'\nshortest = '100ms'\nlongest = '1s'";
        let more = needed(kind);
        let name = kind.name();
        let space = format!("draws = 10\n{times}\nfault = [{{ kind = '{name}'{more} }}]");
        let mut targets = BTreeSet::new();
        let mut starts = BTreeSet::new();
        for seed in 0..6 {
            let faults = drawn(seed, &space).unwrap();
            assert_eq!(faults.len(), 10);
            for fault in faults {
                assert_eq!(fault.kind, name);
                targets.insert(fault.target());
                let start = fault.begin.or(fault.at).unwrap();
                assert!((BEGIN..=6 * BEGIN).contains(&start), "{name} at {start}");
                starts.insert(start);
                let lasts = fault.end.map(|end| end - start).or(fault.restart);
                assert!(lasts.is_none_or(|lasts| (100_000_000..=1_000_000_000).contains(&lasts)));
                assert_eq!(lasts.is_some(), kind.takes("end") || kind.takes("restart"), "{name}");
            }
        }
        assert!(starts.len() > 55, "{name}: {} times", starts.len());
        assert_eq!(drawn(3, &space), drawn(3, &space));
        let all: &[&str] = match kind {
            // Faults of an NVMe drive only.
            FaultKind::Drive(kind) if kind.is_of_path() || kind.delivery().is_some() => {
                &["first", "second"]
            }
            FaultKind::Drive(_) => &["first", "second", "virtio"],
            FaultKind::Network(_) => &["a", "a,b", "a,c", "b", "b,c", "c"],
            _ => &["a", "b", "c"],
        };
        assert_eq!(targets.iter().map(String::as_str).collect::<Vec<_>>(), all, "{name}");
    }
}

#[test]
fn a_space_can_be_of_some_machines_and_drives_and_faults_keep_what_they_say() {
    let space = "draws = 30\nwithin = '1min'\nlongest = '1s'\nmachines = ['a', 'b']\n\
         drives = ['second']\nfault = [{ kind = 'power-cut', leaves = 'most', restart = '7s' }, \
         { kind = 'read-error', rate = 0.5 }, { kind = 'bit-rot', drive = 'first', times = 3 }, \
         { kind = 'partition', machines = ['c'], one-way = true }]";
    let mut kinds = BTreeSet::new();
    for fault in drawn(1, space).unwrap() {
        match fault.kind.as_str() {
            "power-cut" => {
                assert!(["a", "b"].contains(&fault.target().as_str()));
                assert_eq!(fault.restart, Some(7_000_000_000));
                assert_eq!(fault.leaves, Some(CutChoice::Most));
            }
            "read-error" => assert_eq!((fault.target(), fault.rate), ("second".into(), Some(0.5))),
            "bit-rot" => assert_eq!((fault.target(), fault.times), ("first".into(), Some(3))),
            _ => assert_eq!((fault.target(), fault.one_way), ("c".into(), true)),
        }
        kinds.insert(fault.kind);
    }
    assert_eq!(kinds.len(), 4);
}

#[test]
fn drawn_faults_join_those_of_the_schedule_and_do_not_meet() {
    let text = format!(
        "{MACHINES}[[fault]]\nkind = 'pause'\nmachine = 'a'\nbegin = '1s'\nend = '2s'\n\
         [fault-space]\ndraws = 9\nwithin = '5s'\nlongest = '500ms'\nfault = [{{ kind = 'pause' }}]"
    );
    let experiment = finish(&text).unwrap();
    assert_eq!(experiment.faults.len(), 10);
    // `finish` has refused pauses that meet.
    for machine in experiment.machine.all().iter() {
        experiment.pauses_of(machine).unwrap();
    }
    let alone = finish(
        "command = ['true']\n[fault-space]\ndraws = 1\nwithin = '1s'\nlongest = '1s'\n\
         fault = [{ kind = 'power-cut' }]",
    );
    assert_eq!(alone.unwrap().faults[0].machine, None);
}

#[test]
fn wrong_spaces_are_refused_by_name() {
    let cut = "within = '1s'\nlongest = '1s'\nfault = [{ kind = 'power-cut' }]";
    for (space, expected) in [
        ("within = '1s'".to_owned(), "draws is 0, but must be 1 to 1024"),
        (format!("draws = 1025\n{cut}"), "from 1 to 1024"),
        ("draws = 1\nfault = [{ kind = 'pause' }]".into(), "give it `within`"),
        ("draws = 1\nwithin = '1s'".into(), "it has no fault"),
        (format!("draws = 1\nmachines = ['d']\n{cut}"), "there is no machine `d`"),
        (format!("draws = 1\ndrives = ['frist']\n{cut}"), "did you mean `first`?"),
        ("draws = 1\nwithin = '1s'\nfault = [{ kind = 'pause' }]".into(), "give the space `longest`"),
        (
            "draws = 1\nwithin = '1s'\nshortest = '2s'\nlongest = '1s'\nfault = [{ kind = 'pause' }]"
                .into(),
            "shortest is 2s, but longest is 1s",
        ),
        (
            "draws = 1\nwithin = '1s'\nlongest = '1s'\nfault = [{ kind = 'pause', begin = '1s' }]"
                .into(),
            "fault 0: begin is given, but a space draws",
        ),
        (
            "draws = 1\nwithin = '1s'\nfault = [{ kind = 'kill' }]".into(),
            "fault-space: fault 0: say which",
        ),
        (
            "draws = 1\nwithin = '1s'\nlongest = '1s'\nfault = [{ kind = 'slow', delay = '1s', \
             drive = 'third' }]"
                .into(),
            "there is no drive `third`",
        ),
        (
            "draws = 1\nwithin = '1s'\nlongest = '1s'\nfault = [{ kind = 'pause', at-output = 'x' }]"
                .into(),
            "at-output is given",
        ),
        (
            "draws = 9\nwithin = '1s'\nshortest = '1s'\nlongest = '1s'\nfault = [{ kind = 'pause' }]"
                .into(),
            "do not fit into 1s",
        ),
        (
            "draws = 1\nwithin = '1s'\nlongest = '1s'\ndrives = ['virtio']\n\
             fault = [{ kind = 'gone' }]"
                .into(),
            "has no slot",
        ),
    ] {
        let message = drawn(1, &space).unwrap_err();
        assert!(message.contains("fault-space"), "{message}");
        assert!(message.contains(expected), "{space}: {message}");
    }
    let none = finish(
        "command = ['true']\n[fault-space]\ndraws = 1\nwithin = '1s'\nlongest = '1s'\n\
         fault = [{ kind = 'gone' }]",
    );
    assert!(none.unwrap_err().contains("there is no drive that it can befall"));
}
