//! State that a drive keeps while its power is off.

mod support;

use proptest::prelude::*;
use stasis_block::{Health, Status};
use stasis_nvme::{
    Config, KeptState, KeptZones, Namespace, Ocssd, Placement, StateError, ZoneState, Zones, Zrwa,
};
use support::*;

const WRITE: u8 = 1;
const READ: u8 = 2;
const WRITE_UNCORRECTABLE: u8 = 4;
const SEND: u8 = 0x79;
const RECEIVE: u8 = 0x7a;
const FINISH: u32 = 2;
const OPEN: u32 = 3;
const SET_EXTENSION: u32 = 0x10;
const ZRWAA: u32 = 1 << 9;

const SIZE: u64 = 64;
const BLOCK: u64 = 4096;
const ZONES: u64 = 16;

fn zoned() -> Config {
    let zones = Zones {
        max_active: Some(8),
        extension_size: 64,
        zrwa: Some(Zrwa { size: 8 * BLOCK, granularity: 2 * BLOCK, count: 2 }),
        ..Zones::new(SIZE * BLOCK)
    };
    let namespace = Namespace { zoned: Some(zones), ..Namespace::new(ZONES * SIZE, BLOCK as u32) };
    Config { namespaces: vec![namespace], ..config() }
}

fn send(action: u32, zone: u64) -> Sqe {
    Sqe { cdw13: action, ..Sqe::io(SEND, zone * SIZE, 1, DATA, 0) }
}

fn done(driver: &mut Driver, sqe: Sqe) {
    assert_eq!(driver.io(sqe).status, 0, "{sqe:?}");
}

/// The whole report of zones.
fn report(driver: &mut Driver) -> Vec<u8> {
    driver.ram.set(DATA, &[0; 4096]);
    let sqe = Sqe { cdw12: 1023, ..Sqe::io(RECEIVE, 0, 1, DATA, 0) };
    done(driver, sqe);
    driver.ram.get(DATA, 4096)
}

#[test]
fn zones_go_on_where_they_were() {
    let mut driver = Driver::with_queues(zoned(), 1, 64);
    driver.ram.set(DATA, &[7; 4096]);
    done(&mut driver, Sqe::io(WRITE, 0, 1, DATA, 0));
    done(&mut driver, send(OPEN, 1));
    done(&mut driver, send(OPEN | ZRWAA, 2));
    driver.ram.set(DATA, &[9; 4096]);
    done(&mut driver, send(SET_EXTENSION, 3));
    for zone in 4..8 {
        done(&mut driver, send(FINISH, zone));
    }
    // A zone that the medium has failed.
    driver.submit(1, Sqe::io(WRITE, 8 * SIZE, 1, DATA, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::WriteError, request.data);
    driver.reap(1);
    let state = driver.controller.kept_state();
    assert_eq!(state.namespaces[0].zones.len(), 6, "full zones are one entry: {state:?}");

    let mut driver = driver.power_cycle(zoned());
    let raw = report(&mut driver);
    let zone = |index: usize| {
        let raw = &raw[64 * (index + 1)..];
        (raw[1] >> 4, raw[2], u64::from_le_bytes(raw[24..32].try_into().unwrap()))
    };
    let restored: Vec<_> = (0..9).map(zone).collect();
    let full = (0xe, 0, u64::MAX);
    let expected = [
        (4, 0, 1),
        (1, 0, SIZE),
        (4, 8, 2 * SIZE),
        (4, 0x80, 3 * SIZE),
        full,
        full,
        full,
        full,
        (0xd, 0, u64::MAX),
    ];
    assert_eq!(restored, expected, "open zones are closed, or empty where nothing is in them");
    // Written data is read, and writes continue where they ended.
    driver.ram.set(DATA, &[0; 4096]);
    done(&mut driver, Sqe::io(READ, 0, 1, DATA, 0));
    assert_eq!(driver.ram.get(DATA, 4096), [7; 4096]);
    assert_eq!(driver.io(Sqe::io(WRITE, 0, 1, DATA, 0)).status, 0x1bc);
    done(&mut driver, Sqe::io(WRITE, 1, 1, DATA, 0));
    // Resources are held: eight can be active, and one area is taken.
    for zone in [1, 9, 10, 11, 12] {
        done(&mut driver, Sqe::io(WRITE, zone * SIZE, 1, DATA, 0));
    }
    assert_eq!(driver.io(Sqe::io(WRITE, 13 * SIZE, 1, DATA, 0)).status, 0x1bd);
    let extended = Sqe { cdw12: 1023, cdw13: 1, ..Sqe::io(RECEIVE, 3 * SIZE, 1, DATA, 0) };
    done(&mut driver, extended);
    assert_eq!(driver.ram.get(DATA + 128, 64), [9; 64]);
}

#[test]
fn formats_marks_and_chunks_are_kept() {
    let config = Config {
        namespaces: vec![
            Namespace::new(BLOCKS, 512),
            Namespace { start: BLOCKS * 512, ..Namespace::new(1001, 512) },
        ],
        ..config()
    };
    let mut driver = Driver::with_queues(config.clone(), 1, 8);
    assert!(driver.controller.kept_state().is_as_made(), "contents alone are no state");
    driver.submit(0, Sqe { opcode: 0x80, nsid: 2, cdw10: 1, ..Default::default() });
    driver.serve();
    assert_eq!(driver.reap(0)[0].status, 0);
    done(&mut driver, Sqe { nsid: 2, ..Sqe::io(WRITE_UNCORRECTABLE, 3, 2, 0, 0) });
    assert!(!driver.controller.kept_state().is_as_made());
    let mut driver = driver.power_cycle(config.clone());
    let id = driver.identify(0, 2).1;
    assert_eq!((id[26], id[0], id[26 + 102]), (1, 125, 0), "4096 bytes, 125 of them");
    for (lba, status) in [(2, 0), (3, 0x281), (4, 0x281), (5, 0)] {
        assert_eq!(driver.io(Sqe { nsid: 2, ..Sqe::io(READ, lba, 1, DATA, 0) }).status, status);
    }
    assert!(!driver.controller.kept_state().governs_contents());

    let ocssd = Ocssd::new(1, 2, 4, 8);
    let namespace = Namespace { ocssd: Some(ocssd), ..Namespace::new(64, 4096) };
    let config = Config { namespaces: vec![namespace], ..config };
    let mut driver = Driver::with_queues(config.clone(), 1, 8);
    let write = |lba: u64, blocks: u32| Sqe::io(WRITE, lba, blocks, DATA, DATA + PAGE);
    for sqe in [write(0, 2), write(8, 2), write(10, 2), write(12, 2), write(14, 2)] {
        done(&mut driver, sqe);
    }
    let kept = driver.controller.kept_state();
    let chunks: Vec<_> = kept.namespaces[0].chunks.iter().map(|c| (c.first, c.written)).collect();
    assert_eq!(chunks, [(0, 2), (1, 8)]);
    let mut driver = driver.power_cycle(config);
    assert_eq!(driver.controller.kept_state(), kept);
    assert_ne!(driver.io(write(0, 2)).status, 0, "the chunk's pointer is at 2");
    done(&mut driver, write(2, 2));
}

#[test]
fn placement_goes_on_counting() {
    let fdp = Placement::Fdp { reclaim_groups: 1, handles: 2, reclaim_unit: 64 << 10 };
    let config = Config { placement: fdp, ..config() };
    let mut driver = Driver::with_queues(config.clone(), 1, 8);
    let health = |written, erased| Health {
        media_bytes_written: written,
        media_bytes_erased: erased,
        ..Health::default()
    };
    driver.controller.set_health(&driver.ram, health(1 << 20, 1 << 20));
    let write = Sqe::io(WRITE, 0, 8, DATA, 0);
    done(&mut driver, Sqe { cdw12: write.cdw12 | 2 << 20, cdw13: 1 << 16, ..write });
    driver.controller.set_health(&driver.ram, health((1 << 20) + 8192, (1 << 20) + 65536));
    let mut driver = driver.power_cycle(config.clone());
    done(&mut driver, write);
    driver.controller.set_health(&driver.ram, health(1 << 20, 1 << 20));
    driver.controller.set_health(&driver.ram, health((1 << 20) + 4096, (1 << 20) + 65536));
    let log = |driver: &mut Driver, page: u32| {
        let sqe =
            Sqe { opcode: 2, nsid: u32::MAX, prp1: SCRATCH, cdw11: 1 << 16, ..Sqe::default() };
        assert_eq!(driver.admin(Sqe { cdw10: 15 << 16 | page, ..sqe }).status, 0);
        driver.ram.get(SCRATCH, 64)
    };
    let raw = log(&mut driver, 0x22);
    let number = |at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().unwrap());
    assert_eq!([number(0), number(16), number(32)], [8192, 12288, 131_072]);
    let usage = log(&mut driver, 0x21);
    assert_eq!((usage[8], usage[16]), (1, 1));
    // Another configuration begins anew.
    let state = driver.controller.kept_state();
    let other = Config { placement: Placement::None, ..config };
    assert_eq!(Controller::with_state(other, &state).unwrap().kept_state().fdp, None);
}

#[test]
fn the_state_of_another_drive_is_refused_by_name() {
    let state = KeptState::as_made(&zoned());
    assert!(state.governs_contents() && state.is_as_made());
    let refused = |change: &dyn Fn(&mut Namespace)| {
        let mut config = zoned();
        change(&mut config.namespaces[0]);
        Controller::with_state(config, &state).unwrap_err().to_string()
    };
    let text = refused(&|namespace| namespace.zoned = None);
    assert_eq!(
        text,
        "the drive was made with zones of 256KiB, at most 8 active, extensions of 64 bytes, 2 \
         random write areas of 32KiB by 8KiB, and now is to have no zones"
    );
    let text = refused(&|namespace| namespace.blocks -= SIZE);
    assert!(
        text.ends_with("a namespace of 4MiB, and now is to have a namespace of 3.75MiB"),
        "{text}"
    );
    let text = refused(&|namespace| namespace.zoned = Some(Zones::new(SIZE * BLOCK)));
    assert!(text.ends_with("and now is to have zones of 256KiB"), "{text}");
    let two = Config {
        namespaces: vec![
            Namespace::new(8, 512),
            Namespace { start: 4096, ..Namespace::new(8, 512) },
        ],
        ..config()
    };
    let text = Controller::with_state(two, &state).unwrap_err().to_string();
    assert!(text.contains("with 1 namespaces, and now is to have 2 namespaces"), "{text}");
    // Write protection is the user's word for this time.
    let mut read_only = zoned();
    read_only.namespaces[0].read_only = true;
    Controller::with_state(read_only, &state).unwrap();
    let newer = KeptState { version: 2, ..state };
    let error = Controller::with_state(zoned(), &newer).unwrap_err();
    assert_eq!(error, StateError::Version(2));
}

#[test]
fn a_power_cut_can_be_told_what_it_left() {
    let mut state = KeptState::as_made(&zoned());
    state.namespaces[0].zones = vec![KeptZones::one(2, ZoneState::ImplicitlyOpen, 5)];
    let mut driver = Driver::cold(zoned());
    driver.controller = Controller::with_state(zoned(), &state).unwrap();
    driver.enable();
    driver.create_pair(1, 64, 64, 1);
    assert_eq!(driver.io(Sqe::io(WRITE, 2 * SIZE + 4, 1, DATA, 0)).status, 0x1bc);
    done(&mut driver, Sqe::io(WRITE, 2 * SIZE + 5, 1, DATA, 0));
}

/// The namespace of a state file as earlier versions wrote it, with the placement given.
fn older_state(namespace: &str, placement: &str) -> KeptState {
    let text = format!(
        r#"{{"version":1,"namespaces":[{{"made":{{"start":0,"blocks":1024,"block_size":4096,
           "read_only":false,{namespace}}},"block_size":4096}}],"placement":{placement}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[test]
fn state_files_of_earlier_versions_are_read() {
    // Keys with underscores, numbers for sizes, and no default left out.
    let zones = r#""zoned":{"size":262144,"capacity":262144,"max_open":null,"max_active":8,
        "extension_size":64,"zrwa":{"size":32768,"granularity":8192,"count":2},
        "reads_cross_zones":false},"ocssd":null"#;
    older_state(zones, r#""none""#).check(&zoned()).unwrap();
    let ocssd = r#""zoned":null,"ocssd":{"groups":1,"units":2,"chunks":4,"sectors":128,
        "write_min":4,"write_optimal":4,"cached":0,"max_open":null,"max_open_per_unit":3,
        "endurance":null}"#;
    let now = Ocssd { write_min: 4, max_open_per_unit: Some(3), ..Ocssd::new(1, 2, 4, 128) };
    let namespace = Namespace { ocssd: Some(now), ..Namespace::new(1024, 4096) };
    let config = Config { namespaces: vec![namespace], ..config() };
    let state = older_state(ocssd, r#"{"streams":{"max":3}}"#);
    state.check(&config).unwrap();
    assert_eq!(state.placement, Placement::Streams { max: 3 });
    let fdp = r#"{"fdp":{"reclaim_groups":2,"handles":3,"reclaim_unit":65536}}"#;
    let fdp = older_state(ocssd, fdp).placement;
    assert_eq!(fdp, Placement::Fdp { reclaim_groups: 2, handles: 3, reclaim_unit: 65536 });
}

#[test]
fn what_was_left_to_a_default_is_no_difference() {
    let with = |zones: Zones| {
        let namespace = Namespace { zoned: Some(zones), ..Namespace::new(1024, 4096) };
        Config { namespaces: vec![namespace], ..config() }
    };
    let (implicit, explicit) =
        (Zones::new(1 << 18), Zones { capacity: Some(1 << 18), ..Zones::new(1 << 18) });
    KeptState::as_made(&with(implicit.clone())).check(&with(explicit.clone())).unwrap();
    KeptState::as_made(&with(explicit)).check(&with(implicit.clone())).unwrap();
    let less = Zones { capacity: Some(1 << 17), ..implicit.clone() };
    let error = KeptState::as_made(&with(less)).check(&with(implicit)).unwrap_err().to_string();
    assert!(error.contains("zones of 256KiB with a capacity of 128KiB"), "{error}");
}

fn any_zones() -> impl Strategy<Value = KeptZones> {
    use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};
    let states = [Empty, ImplicitlyOpen, ExplicitlyOpen, Closed, ReadOnly, Full, Offline];
    let number = || prop_oneof![4 => 0..20u64, 1 => any::<u64>()];
    let extension = prop::option::of(prop_oneof![Just(vec![1; 64]), Just(vec![1; 3])]);
    (number(), number(), 0..states.len(), number(), any::<bool>(), extension).prop_map(
        move |(first, count, state, written, zrwa, extension)| {
            let state = states[state];
            KeptZones { first, count, state, written, zrwa, extension }
        },
    )
}

proptest! {
    /// Whatever stands in a file: it is refused, or a drive can be in that state.
    #[test]
    fn no_state_panics(
        zones in prop::collection::vec(any_zones(), 0..6),
        uncorrectable in prop::collection::vec((0..9u64 << 20, 0..9u64 << 20), 0..4),
        block_size in prop_oneof![Just(512), Just(4096), any::<u32>()],
    ) {
        let mut state = KeptState::as_made(&zoned());
        let namespace = &mut state.namespaces[0];
        namespace.zones = zones;
        namespace.uncorrectable = uncorrectable;
        namespace.block_size = block_size;
        if let Ok(controller) = Controller::with_state(zoned(), &state) {
            let kept = controller.kept_state();
            let again = Controller::with_state(zoned(), &kept).unwrap();
            prop_assert_eq!(again.kept_state(), kept);
        }
    }
}
