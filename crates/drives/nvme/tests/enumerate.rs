//! Every opcode, feature, log page and Identify structure, against the tables of
//! `docs/reference/nvme.md` and against what the drive itself tells of them.

#[path = "support/offered.rs"]
mod offered;

use crate::support::*;
use offered::table;
use stasis_block::VendorError;
use stasis_nvme::{Config, EnduranceGroup, KeyValue, Namespace, Ocssd, Placement, Programs, Zones};

const ABORTED_OPCODE: u16 = 0x001;
const INVALID_FIELD: u16 = 0x002;
const INVALID_LOG_PAGE: u16 = 0x109;

/// Drives, and what they have.
fn drives() -> Vec<(&'static str, Config)> {
    let zoned = Namespace { zoned: Some(Zones::new(64 << 10)), ..Namespace::new(1024, 4096) };
    let ocssd = Some(Ocssd::new(2, 4, 8, 64));
    let chunks = Namespace { ocssd, ..Namespace::new(2 * 4 * 8 * 64, 4096) };
    let log = Some(KeyValue { segment: Some(64 << 10), ..KeyValue::default() });
    let pairs = Namespace { key_value: log, ..Namespace::new(4096, 512) };
    vec![
        ("key-value", Config { namespaces: vec![pairs], ..config() }),
        ("nothing", config()),
        ("zones", Config { namespaces: vec![zoned], ..config() }),
        (
            "FDP",
            Config {
                placement: Placement::Fdp { reclaim_groups: 1, handles: 4, reclaim_unit: 1 << 20 },
                ..config()
            },
        ),
        ("groups", grouped(&[1], false)),
        ("sets", grouped(&[1, 2], true)),
        ("streams", Config { placement: Placement::Streams { max: 4 }, ..config() }),
        ("metadata", Config { metadata: true, ..config() }),
        ("Open-Channel", Config { namespaces: vec![chunks], ..config() }),
        ("programs", Config { programs: Some(Programs::default()), ..config() }),
        (
            "power states",
            Config {
                power_states: "8W/idle:5mW:5ms:9ms".to_owned().try_into().unwrap(),
                ..config()
            },
        ),
    ]
}

/// A drive with a namespace in each of these endurance groups, in sets of their numbers or in none.
fn grouped(groups: &[u16], with_sets: bool) -> Config {
    let namespace = |(index, &endurance_group): (u64, &u16)| {
        let nvm_set = if with_sets { endurance_group } else { 0 };
        let plain = Namespace::new(1024, 512);
        Namespace { start: index * 1024 * 512, endurance_group, nvm_set, ..plain }
    };
    let group = |&id: &u16| EnduranceGroup { id, placement: Placement::None };
    Config {
        namespaces: (0..).zip(groups).map(namespace).collect(),
        endurance_groups: groups.iter().map(group).collect(),
        ..config()
    }
}

/// The command set of a drive's namespace.
fn set_of(has: &str) -> u32 {
    match has {
        "key-value" => 1,
        "zones" => 2,
        _ => 0,
    }
}

fn dwords(log: &[u8]) -> Vec<u32> {
    log.chunks_exact(4).map(|raw| u32::from_le_bytes(raw.try_into().unwrap())).collect()
}

/// Compares the answer of `asked` for each identifier with the table, and with the drive's own log
/// if it has one.
fn compare(
    heading: &str,
    has: &str,
    log: Option<&[u32]>,
    mut asked: impl FnMut(u8) -> Option<bool>,
) {
    let rows = table(heading);
    for code in 0..=255u8 {
        let row = rows.get(&code);
        let expected = row.is_some_and(|row| row.is_offered(&["PCIe", has]));
        let name = row.map_or("unnamed", |row| &row.name);
        let subject = format!("{heading}: {code:02x}h, {name}, of a drive with {has}");
        if let Some(offered) = asked(code) {
            assert_eq!(offered, expected, "{subject}: its answer");
        }
        if let Some(log) = log {
            let dword = log[usize::from(code)];
            assert_eq!(dword & 1 != 0, expected, "{subject}: its log");
            assert!(dword & 1 != 0 || dword == 0, "{subject}: effects of what is not there");
        }
    }
}

#[test]
fn admin_commands_are_those_of_the_table() {
    for (has, config) in drives() {
        let mut driver = Driver::new(config);
        let effects = dwords(&driver.log(5, 4096)[..1024]);
        // Bits 31:20 are reserved in revision 1.4, which VS names.
        assert!(effects.iter().all(|dword| dword >> 20 == 0), "{effects:x?}");
        compare("Admin commands", has, Some(&effects), |opcode| {
            driver.submit(0, Sqe { opcode, nsid: 1, prp1: SCRATCH, ..Default::default() });
            while let Some(vendor) = driver.controller.pop_vendor() {
                let refused = Err(VendorError::Opcode);
                driver.controller.complete_vendor(&driver.ram, vendor.tag, refused, &[]);
            }
            driver.serve();
            // A request for an event waits.
            let end = driver.reap(0).pop();
            Some(end.is_none_or(|cqe| cqe.status != ABORTED_OPCODE))
        });
    }
}

#[test]
fn io_commands_are_those_of_the_table() {
    for (has, config) in drives() {
        let set = set_of(has);
        let chunks = has == "Open-Channel";
        let mut driver = Driver::with_queues(config, 1, 8);
        let log = Sqe {
            opcode: 2,
            prp1: SCRATCH,
            cdw10: 1023 << 16 | 5,
            cdw14: set << 24,
            ..Default::default()
        };
        assert_eq!(driver.admin(log).status, 0);
        let effects = dwords(&driver.ram.get(SCRATCH, 4096)[1024..2048]);
        // An Open-Channel namespace has commands of its own, listed beside the others.
        let of_pairs = has == "key-value";
        let heading =
            if of_pairs { "I/O commands of key-value namespaces" } else { "I/O commands" };
        if !chunks {
            compare(heading, has, Some(&effects), |opcode| {
                let sqe = Sqe { opcode, ..Sqe::io(opcode, 0, 1, DATA, 0) };
                Some(driver.io(sqe).status != ABORTED_OPCODE)
            });
            continue;
        }
        for opcode in 0..=255u8 {
            let answered = driver.io(Sqe::io(opcode, 0, 1, DATA, 0)).status != ABORTED_OPCODE;
            assert!(
                !answered || effects[usize::from(opcode)] & 1 != 0,
                "{opcode:02x}h is not told"
            );
            let of_chunks = [0, 1, 2, 9, 0x90, 0x91, 0x92, 0x93].contains(&opcode);
            assert_eq!(answered, of_chunks, "{opcode:02x}h");
        }
    }
}

#[test]
fn io_commands_of_memory_and_compute_namespaces_are_those_of_their_tables() {
    let (_, config) = drives().into_iter().find(|(has, _)| *has == "programs").unwrap();
    for (nsid, set, heading) in
        [(2, 3, "I/O commands of memory namespaces"), (3, 4, "I/O commands of compute namespaces")]
    {
        let mut driver = Driver::with_queues(config.clone(), 1, 8);
        let log = Sqe {
            opcode: 2,
            prp1: SCRATCH,
            cdw10: 1023 << 16 | 5,
            cdw14: set << 24,
            ..Default::default()
        };
        assert_eq!(driver.admin(log).status, 0);
        let effects = dwords(&driver.ram.get(SCRATCH, 4096)[1024..2048]);
        compare(heading, "programs", Some(&effects), |opcode| {
            driver.submit(1, Sqe { opcode, nsid, prp1: DATA, ..Default::default() });
            // Without bytes nothing is moved, and no time passes.
            let end = driver.reap(1).pop().expect("it ends at once");
            Some(end.status != ABORTED_OPCODE)
        });
    }
}

#[test]
fn features_are_those_of_the_table() {
    for (has, config) in drives() {
        let mut driver = Driver::new(config);
        let supported = dwords(&driver.log(0x12, 1024));
        let scopes = supported.iter().filter(|dword| *dword & 1 != 0).map(|dword| dword >> 20);
        assert!(scopes.into_iter().all(|scope| scope.count_ones() == 1), "{supported:x?}");
        compare("Features", has, Some(&supported), |identifier| {
            let get = |select: u32| Sqe {
                opcode: 10,
                nsid: 1,
                prp1: SCRATCH,
                cdw10: select << 8 | u32::from(identifier),
                cdw11: 1,
                ..Default::default()
            };
            let current = driver.admin(get(0)).status == 0;
            let capabilities = driver.admin(get(3));
            assert_eq!(capabilities.status == 0, current, "{identifier:02x}h");
            if current {
                let of_namespace = capabilities.result & 2 != 0;
                assert_eq!(supported[usize::from(identifier)] >> 20 & 1 != 0, of_namespace);
            }
            // The status of a missing feature is the same for reading and setting it.
            let set = Sqe { opcode: 9, nsid: 0, prp1: SCRATCH, ..get(0) };
            if !current {
                assert_eq!(driver.admin(set).status, INVALID_FIELD, "{identifier:02x}h");
            }
            Some(current)
        });
    }
}

#[test]
fn log_pages_are_those_of_the_table() {
    for (has, config) in drives() {
        let mut driver = Driver::new(config);
        let supported = dwords(&driver.log(0, 1024));
        compare("Log pages", has, Some(&supported), |identifier| {
            let get = Sqe {
                opcode: 2,
                prp1: SCRATCH,
                cdw10: 127 << 16 | u32::from(identifier),
                cdw11: 1 << 16,
                ..Default::default()
            };
            Some(driver.admin(get).status != INVALID_LOG_PAGE)
        });
    }
}

#[test]
fn identify_structures_are_those_of_the_table() {
    for (has, config) in drives() {
        let mut driver = Driver::new(config);
        let set = set_of(has);
        compare("Identify", has, None, |cns| {
            let of_list = matches!(cns, 0x02 | 0x07 | 0x10 | 0x13 | 0x19 | 0x1a);
            let sqe = Sqe {
                opcode: 6,
                nsid: if of_list { 0 } else { 1 },
                prp1: SCRATCH,
                cdw10: cns.into(),
                cdw11: set << 24,
                ..Default::default()
            };
            Some(driver.admin(sqe).status != INVALID_FIELD)
        });
    }
}
