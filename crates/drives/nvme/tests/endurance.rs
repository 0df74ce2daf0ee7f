//! Endurance groups and NVM sets: their lists, what each reports of itself, its events, and data
//! placement by group.

use crate::support::*;
use stasis_block::{Health, Operation};
use stasis_nvme::{Config, EnduranceGroup, KeptState, Namespace, Placement};

const INVALID_FIELD: u16 = 0x002;
const COMMAND_SEQUENCE: u16 = 0x00c;
const FDP_DISABLED: u16 = 0x029;
const MANAGEMENT: u8 = 0x0d;
const FDP: Placement = Placement::Fdp { reclaim_groups: 1, handles: 3, reclaim_unit: 64 << 10 };
/// Bytes of each namespace.
const EACH: u64 = 1 << 20;

/// Namespaces of 1 MiB in these groups and sets; groups of odd numbers place data.
fn config_of(homes: &[(u16, u16)]) -> Config {
    let namespace = |(index, &(endurance_group, nvm_set)): (u64, &(u16, u16))| {
        let plain = Namespace::new(EACH / 512, 512);
        Namespace { start: index * EACH, endurance_group, nvm_set, ..plain }
    };
    let mut groups: Vec<u16> = homes.iter().map(|home| home.0).filter(|id| *id != 0).collect();
    groups.dedup();
    let group =
        |id: u16| EnduranceGroup { id, placement: if id % 2 == 1 { FDP } else { Placement::None } };
    Config {
        namespaces: (0..).zip(homes).map(namespace).collect(),
        endurance_groups: groups.into_iter().map(group).collect(),
        ..config()
    }
}

/// Three groups, the last in the specification's order being the one with the highest number, and
/// four sets, of which group 1 has two.
const HOMES: [(u16, u16); 5] = [(1, 7), (1, 7), (1, 3), (2, 9), (0xfffe, 0xfffe)];

fn driver() -> Driver {
    Driver::with_queues(config_of(&HOMES), 1, 8)
}

fn word(raw: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([raw[at], raw[at + 1]])
}

fn long(raw: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(raw[at..at + 8].try_into().unwrap())
}

/// An Identify list from an identifier on.
fn list(driver: &mut Driver, cns: u32, from: u16) -> Vec<u8> {
    let sqe =
        Sqe { opcode: 6, prp1: SCRATCH, cdw10: cns, cdw11: from.into(), ..Default::default() };
    driver.fill_scratch(0xee);
    assert_eq!(driver.admin(sqe).status, 0);
    driver.ram.get(SCRATCH, 4096)
}

/// A log page of an endurance group.
fn log_of(driver: &mut Driver, page: u32, group: u16) -> Result<Vec<u8>, u16> {
    let sqe = Sqe {
        opcode: 2,
        prp1: SCRATCH,
        cdw10: 127 << 16 | page,
        cdw11: u32::from(group) << 16,
        ..Default::default()
    };
    match driver.admin(sqe).status {
        0 => Ok(driver.ram.get(SCRATCH, 512)),
        status => Err(status),
    }
}

#[test]
fn the_controller_lists_groups_and_sets_from_each_identifier_on() {
    let mut driver = driver();
    let controller = driver.identify(1, 0).1;
    assert_eq!(controller[96] & (1 << 2 | 1 << 4), 1 << 2 | 1 << 4, "CTRATT");
    assert_eq!((word(&controller, 338), word(&controller, 340)), (0xfffe, 0xfffe));
    let homes: Vec<_> = (1..=5).map(|nsid| driver.identify(0, nsid).1).collect();
    let homes: Vec<_> = homes.iter().map(|page| (word(page, 102), word(page, 100))).collect();
    assert_eq!(homes, HOMES);
    for from in 0..=0xffffu16 {
        // All that are near something, and some between.
        if from > 12 && from < 0xfff0 && from % 997 != 0 {
            continue;
        }
        let page = list(&mut driver, 0x19, from);
        let groups: Vec<u16> = [1, 2, 0xfffe].into_iter().filter(|id| *id >= from).collect();
        let listed: Vec<u16> =
            (1..=usize::from(word(&page, 0))).map(|at| word(&page, at * 2)).collect();
        assert_eq!(listed, groups, "from {from}");
        assert!(page[2 + 2 * listed.len()..].iter().all(|byte| *byte == 0), "from {from}");
        let page = list(&mut driver, 0x04, from);
        let sets: Vec<(u16, u16, u64)> =
            [(3, 1, EACH), (7, 1, 2 * EACH), (9, 2, EACH), (0xfffe, 0xfffe, EACH)]
                .into_iter()
                .filter(|set| set.0 >= from)
                .collect();
        let listed: Vec<_> = page[128..].chunks(128).take(page[0].into()).collect();
        let listed: Vec<_> =
            listed.iter().map(|raw| (word(raw, 0), word(raw, 2), long(raw, 16))).collect();
        assert_eq!(listed, sets, "from {from}");
    }
}

#[test]
fn a_drive_without_groups_tells_none() {
    let mut driver = Driver::new(config());
    let controller = driver.identify(1, 0).1;
    assert_eq!((controller[96], word(&controller, 338), word(&controller, 340)), (0, 0, 0));
    let namespace = driver.identify(0, 1).1;
    assert_eq!((word(&namespace, 100), word(&namespace, 102)), (0, 0));
    for cns in [0x04, 0x19] {
        assert_eq!(driver.identify(cns, 0).0, INVALID_FIELD);
    }
    assert_eq!(log_of(&mut driver, 9, 1), Err(0x109));
    assert_eq!(driver.get_feature(0x18, 1).status, INVALID_FIELD);
}

#[test]
fn each_group_reports_what_is_its_own() {
    let mut driver = driver();
    let write = |nsid, blocks| Sqe { nsid, ..Sqe::io(1, 0, blocks, DATA, DATA + PAGE) };
    for (nsid, blocks) in [(1, 8), (3, 8), (4, 16), (4, 8)] {
        assert_eq!(driver.io(write(nsid, blocks)).status, 0);
    }
    assert_eq!(driver.io(Sqe { nsid: 4, ..Sqe::io(2, 0, 8, DATA, 0) }).status, 0);
    // An error of a namespace: beyond its end.
    assert_eq!(driver.io(Sqe { nsid: 4, ..Sqe::io(2, EACH, 1, DATA, 0) }).status, 0x080);
    // The parts of the drive in the order of bytes: sets 7, 3, 9 and FFFEh.
    let health = |spare, used, written| Health {
        available_spare: spare,
        percentage_used: used,
        media_bytes_written: written,
        ..Health::default()
    };
    let parts = [
        health(90, 3, 2_000_000_000),
        health(80, 1, 3_000_000_000),
        health(100, 0, 0),
        Health { read_only: true, ..health(50, 140, 7) },
    ];
    driver.controller.set_parts_health(&driver.ram, &parts);
    let statistics = |driver: &mut Driver, group| {
        let log = log_of(driver, 9, group).unwrap();
        let counts = [48, 64, 80, 96, 112, 144, 160, 176].map(|at| long(&log, at));
        ([log[0], log[3], log[4], log[5]], counts)
    };
    // Data units round up; reads, writes, errors, capacity, and what of it is free.
    assert_eq!(statistics(&mut driver, 1), ([0, 80, 10, 3], [0, 1, 5, 0, 2, 0, 3 * EACH, 0]));
    assert_eq!(statistics(&mut driver, 2), ([0, 100, 10, 0], [1, 1, 0, 1, 2, 1, EACH, 0]));
    assert_eq!(statistics(&mut driver, 0xfffe), ([8, 50, 10, 140], [0, 0, 1, 0, 0, 0, EACH, 0]));
    for none in [0, 3, 0xfffd, 0xffff] {
        assert_eq!(log_of(&mut driver, 9, none), Err(INVALID_FIELD), "group {none}");
    }
    assert_eq!(driver.log(2, 512)[6], 8, "the SMART log has the warnings of all groups");
}

#[test]
fn a_group_has_an_event_of_the_warnings_that_were_asked_for() {
    let mut driver = driver();
    let aggregate = |driver: &mut Driver| {
        let log = driver.log(0x0f, 64);
        let count = long(&log, 0) as usize;
        (0..count).map(|index| word(&log, 8 + 2 * index)).collect::<Vec<u16>>()
    };
    assert_eq!(driver.identify(1, 0).1[93] & 1 << 6, 1 << 6, "OAES bit 14");
    for group in [0u16, 3, 0xffff] {
        assert_eq!(driver.set_feature(0x18, u32::from(group) | 1 << 16).status, INVALID_FIELD);
    }
    assert_eq!(driver.set_feature(0x18, 2 | 2 << 16).status, INVALID_FIELD, "temperature");
    assert_eq!(driver.set_feature(0x18, 2 | 1 << 16).status, 0);
    assert_eq!(driver.set_feature(0x18, 1 | 8 << 16).status, 0);
    assert_eq!(driver.get_feature(0x18, 2).result, 2 | 1 << 16);
    assert_eq!(driver.get_feature(0x18, 0xfffe).result, 0xfffe);
    assert_eq!(driver.set_feature(0x0b, 1 << 14).status, 0);
    driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
    driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
    let worn = Health { available_spare: 5, ..Health::default() };
    let good = Health::default();
    // Group 1 has the same warning, of which nobody asked for events; FFFEh too.
    driver.controller.set_parts_health(&driver.ram, &[worn, good, worn, worn]);
    let events = driver.reap(0);
    assert_eq!((events.len(), events[0].result), (1, 0x0f_0602), "one event, which names the log");
    assert_eq!(aggregate(&mut driver), [2]);
    assert_eq!(aggregate(&mut driver), [2], "the log stays until the group's is read");
    log_of(&mut driver, 9, 1).unwrap();
    assert_eq!(aggregate(&mut driver), [2]);
    log_of(&mut driver, 9, 2).unwrap();
    assert_eq!(aggregate(&mut driver), [0u16; 0]);
    // A warning that persists is no event; one that holds when it is first asked for is.
    driver.controller.set_parts_health(&driver.ram, &[worn, good, worn, worn]);
    assert!(driver.reap(0).is_empty());
    driver.submit(0, Sqe { opcode: 9, cdw10: 0x18, cdw11: 1 | 1 << 16, ..Default::default() });
    let events: Vec<u64> = driver.reap(0).iter().map(|cqe| u64::from(cqe.result)).collect();
    assert!(events.contains(&0x0f_0602), "{events:x?}");
    assert_eq!(aggregate(&mut driver), [1]);
}

#[test]
fn data_is_placed_by_the_group_of_a_namespace() {
    let mut driver = driver();
    let write = |nsid, handle: u32| {
        let sqe = Sqe::io(1, 0, 8, DATA, 0);
        Sqe { nsid, cdw12: sqe.cdw12 | 2 << 20, cdw13: handle << 16, ..sqe }
    };
    for (nsid, status) in [(1, 0), (3, 0), (4, INVALID_FIELD), (5, INVALID_FIELD)] {
        assert_eq!(driver.io(write(nsid, 2)).status, status, "namespace {nsid}");
    }
    let statistics = log_of(&mut driver, 0x22, 1).unwrap();
    assert_eq!(long(&statistics, 0), 2 * 4096, "both namespaces of the group");
    let usage = log_of(&mut driver, 0x21, 1).unwrap();
    assert_eq!([usage[8], usage[16], usage[24]], [1, 1, 1], "namespaces have all");
    for page in 0x20..=0x23 {
        let refused = if page == 0x20 { INVALID_FIELD } else { FDP_DISABLED };
        assert_eq!(log_of(&mut driver, page, 2), Err(refused), "{page:x}");
        assert_eq!(log_of(&mut driver, page, 0xfffe), Err(refused), "{page:x}");
        assert_eq!(log_of(&mut driver, page, 0xffff), Err(INVALID_FIELD), "{page:x}");
        assert_eq!(log_of(&mut driver, page, 0), Err(INVALID_FIELD), "{page:x}");
    }
    for (group, expected) in [(1, Ok(1)), (2, Ok(0)), (0, Err(()))] {
        let cqe = driver.get_feature(0x1d, group);
        let enabled = if cqe.status == 0 { Ok(cqe.result) } else { Err(()) };
        assert_eq!(enabled, expected, "group {group}");
    }
    let receive =
        |nsid| Sqe { opcode: 0x12, nsid, prp1: DATA, cdw10: 1, cdw11: 31, ..Default::default() };
    assert_eq!(driver.io(receive(2)).status, 0);
    assert_eq!(driver.io(receive(4)).status, FDP_DISABLED);
}

#[test]
fn placement_is_switched_while_a_group_is_empty() {
    let mut driver = Driver::with_queues(config_of(&[(1, 0), (2, 0)]), 1, 8);
    let set = |driver: &mut Driver, group, cdw12| {
        let sqe = Sqe { opcode: 9, cdw10: 0x1d, cdw11: group, cdw12, ..Default::default() };
        driver.admin(sqe).status
    };
    assert_eq!(set(&mut driver, 1, 0), COMMAND_SEQUENCE, "it has a namespace");
    delete(&mut driver, 1);
    delete(&mut driver, 2);
    assert_eq!(set(&mut driver, 3, 0), INVALID_FIELD);
    assert_eq!(set(&mut driver, 1, 1 | 1 << 8), INVALID_FIELD, "there is one configuration");
    assert_eq!(set(&mut driver, 2, 1), INVALID_FIELD, "it cannot place data");
    assert_eq!(set(&mut driver, 1, 0), 0);
    assert_eq!(log_of(&mut driver, 0x21, 1), Err(FDP_DISABLED));
    assert!(log_of(&mut driver, 0x20, 1).is_ok());
    let kept: KeptState = driver.controller.kept_state();
    let written = serde_json::to_string(&kept).unwrap();
    let kept: KeptState = serde_json::from_str(&written).unwrap();
    let again = Controller::with_state(config_of(&[(1, 0), (2, 0)]), &kept).unwrap();
    assert_eq!(again.kept_state(), kept, "it stays so without power");
    assert!(kept.groups[0].fdp.disabled);
    assert_eq!(set(&mut driver, 1, 1), 0);
    assert!(log_of(&mut driver, 0x21, 1).is_ok());
}

fn delete(driver: &mut Driver, nsid: u32) {
    driver.submit(0, Sqe { opcode: MANAGEMENT, nsid, cdw10: 1, ..Default::default() });
    driver.serve();
    assert_eq!(driver.reap(0)[0].status, 0);
}

/// Creates a namespace of `bytes` in a group and a set; returns its number.
fn create(driver: &mut Driver, bytes: u64, (group, set): (u16, u16)) -> Result<u32, u16> {
    let mut page = vec![0; 4096];
    for at in [0, 8] {
        page[at..at + 8].copy_from_slice(&(bytes / 512).to_le_bytes());
    }
    page[100..102].copy_from_slice(&set.to_le_bytes());
    page[102..104].copy_from_slice(&group.to_le_bytes());
    driver.ram.set(SCRATCH, &page);
    let cqe = driver.admin(Sqe { opcode: MANAGEMENT, prp1: SCRATCH, ..Default::default() });
    if cqe.status == 0 {
        Ok(cqe.result)
    } else {
        Err(cqe.status)
    }
}

#[test]
fn a_new_namespace_lies_in_its_group_and_set() {
    let mut driver = driver();
    for nsid in 1..=5 {
        delete(&mut driver, nsid);
    }
    let free = long(&list(&mut driver, 0x04, 7)[128..], 32);
    assert_eq!(free, 2 * EACH, "the set is free");
    for wrong in [(1, 9), (0, 7), (2, 7), (3, 0), (0xffff, 0), (1, 0xffff)] {
        assert_eq!(create(&mut driver, EACH, wrong), Err(INVALID_FIELD), "{wrong:?}");
    }
    // Set 3 has room for one, and group 1 for three in all.
    assert_eq!(create(&mut driver, EACH, (1, 3)), Ok(1));
    assert_eq!(create(&mut driver, 4096, (1, 3)), Err(0x115));
    assert_eq!(create(&mut driver, 2 * EACH, (1, 0)), Ok(2));
    assert_eq!(create(&mut driver, 4096, (1, 0)), Err(0x115));
    // Anywhere: the first with room, which is not in two sets.
    assert_eq!(create(&mut driver, 2 * EACH, (0, 0)), Err(0x115));
    assert_eq!(create(&mut driver, EACH, (0, 0)), Ok(3));
    let homes: Vec<_> = (1..=3).map(|nsid| driver.identify(0x11, nsid).1).collect();
    let homes: Vec<_> = homes.iter().map(|page| (word(page, 102), word(page, 100))).collect();
    assert_eq!(homes, [(1, 3), (1, 7), (2, 9)]);
    let log = log_of(&mut driver, 9, 1).unwrap();
    assert_eq!((long(&log, 160), long(&log, 176)), (3 * EACH, 0));
    // The same after a loss of power.
    let kept = driver.controller.kept_state();
    let again = Controller::with_state(config_of(&HOMES), &kept).unwrap();
    assert_eq!(again.kept_state(), kept);
    let mut moved = kept.clone();
    moved.created[0].namespace.made.nvm_set = 9;
    let refused = Controller::with_state(config_of(&HOMES), &moved).unwrap_err().to_string();
    assert!(refused.contains("outside its endurance group"), "{refused}");
}

#[test]
fn a_flush_names_the_part_of_its_namespace() {
    let mut driver = driver();
    for nsid in [1, 4, 5] {
        assert_eq!(driver.io(Sqe { nsid, ..Default::default() }).status, 0);
    }
    let flushes: Vec<u64> = driver.asked.iter().map(|command| command.offset).collect();
    assert!(driver.asked.iter().all(|command| command.operation == Operation::Flush));
    assert_eq!(flushes, [0, 3 * EACH, 4 * EACH]);
}

#[test]
fn groups_that_cannot_be_are_refused() {
    let refused = |config: Config| Controller::new(config).unwrap_err().to_string();
    let changed = |change: fn(&mut Config)| {
        let mut config = config_of(&HOMES);
        change(&mut config);
        refused(config)
    };
    for (config, expected) in [
        (config_of(&[(1, 0), (2, 0), (1, 0)]), "given twice"),
        (config_of(&[(1, 1), (1, 2), (1, 1)]), "NVM set 1 must lie one behind the other"),
        (config_of(&[(1, 1), (2, 1)]), "NVM set 1 must lie one behind"),
        (config_of(&[(1, 1), (1, 0)]), "namespace 2 is in NVM set 0"),
        (config_of(&[(1, 0xffff)]), "namespace 1 is in NVM set 65535"),
        (config_of(&[(0xffff, 0)]), "endurance group 65535 must have a number"),
        (config_of(&[(1, 0), (0, 0)]), "namespace 2 is in endurance group 0"),
        (config_of(&[(0, 1)]), "namespace 1 is in NVM set 1"),
    ] {
        let message = refused(config);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    for (message, expected) in [
        (changed(|config| config.placement = FDP), "places data, and so does the drive"),
        (changed(|config| config.endurance_groups.truncate(2)), "65534, which is none"),
        (changed(|config| config.namespaces.truncate(3)), "no namespace is in endurance group 2"),
        (
            changed(|config| config.endurance_groups[0].placement = Placement::Streams { max: 2 }),
            "has streams",
        ),
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
