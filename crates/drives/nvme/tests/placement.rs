//! Which data belongs together: streams, and Flexible Data Placement.

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{Health, Operation};
use stasis_nvme::{Config, Namespace, Placement};

const WRITE: u8 = 1;
const COPY: u8 = 0x19;
const DIRECTIVE_SEND: u8 = 0x19;
const DIRECTIVE_RECEIVE: u8 = 0x1a;
const MANAGEMENT_RECEIVE: u8 = 0x12;
const MANAGEMENT_SEND: u8 = 0x1d;

fn with(placement: Placement) -> Driver {
    let namespaces = vec![
        Namespace::new(BLOCKS, 512),
        Namespace { start: BLOCKS * 512, ..Namespace::new(64, 4096) },
    ];
    Driver::with_queues(Config { namespaces, placement, ..config() }, 1, 16)
}

/// Two groups of three handles, units of 64 KiB.
fn fdp() -> Driver {
    with(Placement::Fdp { reclaim_groups: 2, handles: 3, reclaim_unit: 64 << 10 })
}

fn write(directive: u32, specific: u32, blocks: u32) -> Sqe {
    let sqe = Sqe::io(WRITE, 0, blocks, DATA, DATA);
    Sqe { cdw12: sqe.cdw12 | directive << 20, cdw13: specific << 16, ..sqe }
}

/// The stream of a write's request to the drive; the status if the write is refused.
fn stream(driver: &mut Driver, sqe: Sqe) -> Result<u16, u16> {
    driver.asked.clear();
    match driver.io(sqe).status {
        0 => Ok(driver.asked[0].stream),
        status => Err(status),
    }
}

fn number<const N: usize>(raw: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&raw[at..at + N]);
    u64::from_le_bytes(bytes)
}

#[test]
fn without_placement_there_are_no_directives() {
    let mut driver = with(Placement::None);
    let id = driver.identify(1, 0).1;
    assert_eq!((id[256] & 1 << 5, number::<4>(&id, 96)), (0, 0));
    assert_eq!(stream(&mut driver, write(0, 5, 8)), Ok(0));
    assert_eq!(stream(&mut driver, write(1, 5, 8)), Err(0x002));
    assert_eq!(stream(&mut driver, write(2, 1, 8)), Err(0x002));
    let send = Sqe { opcode: DIRECTIVE_SEND, nsid: 1, cdw11: 1, ..Default::default() };
    assert_eq!(driver.admin(send).status, 0x001);
    assert_eq!(driver.admin(Sqe { opcode: DIRECTIVE_RECEIVE, ..send }).status, 0x001);
    for opcode in [MANAGEMENT_RECEIVE, MANAGEMENT_SEND] {
        assert_eq!(driver.io(Sqe { opcode, nsid: 1, ..Default::default() }).status, 0x001);
    }
    for page in [0x09, 0x20, 0x21, 0x22, 0x23] {
        let log = Sqe { opcode: 2, cdw10: page, cdw11: 1 << 16, prp1: SCRATCH, ..send };
        assert_eq!(driver.admin(log).status, 0x109);
    }
    assert_eq!(driver.get_feature(0x1d, 1).status, 0x002);
    assert_eq!(driver.identify(0x19, 0).0, 0x002);
}

#[test]
fn configurations_are_checked() {
    let fdp = |reclaim_groups, handles, reclaim_unit| Placement::Fdp {
        reclaim_groups,
        handles,
        reclaim_unit,
    };
    for placement in [
        Placement::Streams { max: 0 },
        Placement::Streams { max: 1025 },
        fdp(0, 1, 4096),
        fdp(65, 1, 4096),
        fdp(1, 0, 4096),
        fdp(1, 129, 4096),
        fdp(1, 1, 0),
        fdp(1, 1, 5000),
    ] {
        let config = Config { placement, ..config() };
        assert!(Controller::new(config).is_err(), "{placement:?}");
    }
}

mod streams {
    use super::*;

    fn directive(opcode: u8, nsid: u32, kind: u32, operation: u32, cdw12: u32) -> Sqe {
        Sqe {
            opcode,
            nsid,
            prp1: SCRATCH,
            cdw10: 7,
            cdw11: kind << 8 | operation,
            cdw12,
            ..Default::default()
        }
    }

    fn enable(driver: &mut Driver, nsid: u32, on: u32) -> u16 {
        driver.admin(directive(DIRECTIVE_SEND, nsid, 0, 1, 1 << 8 | on)).status
    }

    /// MSL, NSSA, NSSO, NSA, NSO.
    fn parameters(driver: &mut Driver, nsid: u32) -> [u64; 5] {
        assert_eq!(driver.admin(directive(DIRECTIVE_RECEIVE, nsid, 1, 1, 0)).status, 0);
        let data = driver.ram.get(SCRATCH, 32);
        [0, 2, 4, 22, 24].map(|at| number::<2>(&data, at))
    }

    fn open(driver: &mut Driver, nsid: u32) -> Vec<u64> {
        driver.fill_scratch(0);
        assert_eq!(driver.admin(directive(DIRECTIVE_RECEIVE, nsid, 1, 2, 0)).status, 0);
        let data = driver.ram.get(SCRATCH, 32);
        (0..number::<2>(&data, 0) as usize).map(|i| number::<2>(&data, 2 + 2 * i)).collect()
    }

    #[test]
    fn a_write_opens_its_stream() {
        let mut driver = with(Placement::Streams { max: 3 });
        assert_eq!(driver.identify(1, 0).1[256] & 1 << 5, 1 << 5, "OACS");
        assert_eq!(stream(&mut driver, write(1, 5, 8)), Err(0x002), "not enabled");
        assert_eq!(driver.admin(directive(DIRECTIVE_RECEIVE, 1, 0, 1, 0)).status, 0);
        assert_eq!(driver.ram.get(SCRATCH, 1), [3]);
        assert_eq!(enable(&mut driver, 1, 1), 0);
        let all = Sqe { cdw10: 1023, ..directive(DIRECTIVE_RECEIVE, 1, 0, 1, 0) };
        assert_eq!(driver.admin(all).status, 0);
        assert_eq!(driver.ram.get(SCRATCH + 32, 1), [3], "enabled");
        for (specific, opened) in [
            (5, vec![5]),
            (0, vec![5]),
            (6, vec![5, 6]),
            (5, vec![6, 5]),
            (7, vec![6, 5, 7]),
            // One more than there can be closes the one not written longest.
            (0xffff, vec![5, 7, 0xffff]),
        ] {
            assert_eq!(stream(&mut driver, write(1, specific, 8)), Ok(specific as u16));
            assert_eq!(open(&mut driver, 1), opened);
        }
        assert_eq!(stream(&mut driver, write(0, 9, 8)), Ok(0));
        assert_eq!(stream(&mut driver, write(2, 1, 8)), Err(0x002));
        assert_eq!(parameters(&mut driver, 1), [3, 3, 3, 0, 0]);
        let release = Sqe { cdw11: 7 << 16 | 1 << 8 | 1, ..directive(DIRECTIVE_SEND, 1, 1, 1, 0) };
        assert_eq!(driver.admin(release).status, 0);
        assert_eq!(open(&mut driver, 1), [5, 0xffff]);
        assert_eq!(enable(&mut driver, 1, 0), 0);
        assert_eq!(stream(&mut driver, write(1, 5, 8)), Err(0x002));
    }

    #[test]
    fn resources_are_allocated_and_released() {
        let mut driver = with(Placement::Streams { max: 4 });
        let allocate = |nsid, count| directive(DIRECTIVE_RECEIVE, nsid, 1, 3, count);
        assert_eq!(driver.admin(allocate(1, 2)).status, 0x002, "not enabled");
        assert_eq!(enable(&mut driver, u32::MAX, 1), 0);
        assert_eq!(driver.admin(allocate(1, 3)).result, 3);
        assert_eq!(driver.admin(allocate(1, 1)).status, 0x002, "once");
        assert_eq!(parameters(&mut driver, 1), [4, 1, 0, 3, 0]);
        assert_eq!(parameters(&mut driver, 2), [4, 1, 0, 0, 0]);
        for specific in 1..=4 {
            assert_eq!(stream(&mut driver, write(1, specific, 8)), Ok(specific as u16));
        }
        assert_eq!(open(&mut driver, 1), [2, 3, 4]);
        assert_eq!(parameters(&mut driver, 1), [4, 1, 0, 3, 3]);
        assert_eq!(driver.admin(allocate(2, 9)).result, 1, "as many as there are");
        let release = directive(DIRECTIVE_SEND, 2, 1, 2, 0);
        assert_eq!(driver.admin(release).status, 0);
        assert_eq!(parameters(&mut driver, 2), [4, 1, 0, 0, 0]);
        let of_two = Sqe { nsid: 2, ..write(1, 77, 1) };
        assert_eq!(stream(&mut driver, of_two), Ok(77));
        assert_eq!(parameters(&mut driver, 2), [4, 1, 1, 0, 0]);
        assert_eq!(driver.admin(allocate(2, 1)).status, 0x17f, "the last one is in use");
        // A reset disables everything.
        driver.disable();
        driver.enable();
        assert_eq!(parameters(&mut driver, 1), [4, 4, 0, 0, 0]);
        for sqe in [
            directive(DIRECTIVE_SEND, 1, 1, 9, 0),
            directive(DIRECTIVE_SEND, 1, 0, 1, 2 << 8 | 1),
            directive(DIRECTIVE_SEND, 1, 3, 1, 0),
            directive(DIRECTIVE_RECEIVE, 1, 1, 9, 0),
            directive(DIRECTIVE_RECEIVE, 1, 2, 1, 0),
        ] {
            assert_eq!(driver.admin(sqe).status, 0x002, "{sqe:x?}");
        }
        assert_eq!(driver.admin(directive(DIRECTIVE_SEND, 3, 1, 1, 0)).status, 0x002);
        assert_eq!(driver.admin(directive(DIRECTIVE_RECEIVE, 0, 1, 1, 0)).status, 0x00b);
    }
}

/// A log page of the endurance group.
fn log(driver: &mut Driver, identifier: u32, length: u32) -> Vec<u8> {
    let sqe = Sqe {
        opcode: 2,
        prp1: SCRATCH,
        cdw10: (length / 4 - 1) << 16 | identifier,
        cdw11: 1 << 16,
        ..Default::default()
    };
    driver.fill_scratch(0);
    assert_eq!(driver.admin(sqe).status, 0, "log {identifier:x}");
    driver.ram.get(SCRATCH, length as usize)
}

/// Room in blocks, by placement identifier and handle.
fn units(driver: &mut Driver) -> Vec<(u64, u64, u64)> {
    let sqe = Sqe {
        opcode: MANAGEMENT_RECEIVE,
        nsid: 1,
        prp1: SCRATCH,
        cdw10: 1,
        cdw11: 1023,
        ..Default::default()
    };
    assert_eq!(driver.io(sqe).status, 0);
    let data = driver.ram.get(SCRATCH, 4096);
    let entry = |index: usize| {
        let raw = &data[16 + 32 * index..][..32];
        (number::<2>(raw, 0), number::<2>(raw, 2), number::<8>(raw, 8))
    };
    (0..number::<2>(&data, 14) as usize).map(entry).collect()
}

#[test]
fn identify_and_logs_describe_the_placement() {
    let mut driver = fdp();
    let id = driver.identify(1, 0).1;
    assert_eq!((number::<4>(&id, 96), number::<2>(&id, 340)), (1 << 19 | 1 << 4, 1));
    assert_eq!(number::<2>(&driver.identify(0, 2).1, 102), 1, "ENDGID");
    assert_eq!(driver.identify(0x19, 0).1[..4], [1, 0, 1, 0]);
    let log20 = log(&mut driver, 0x20, 16 + 64 + 12);
    assert_eq!((number::<2>(&log20, 0), number::<4>(&log20, 4)), (0, 92));
    let configuration = &log20[16..];
    assert_eq!((number::<2>(configuration, 0), configuration[2]), (76, 0x81), "one group bit");
    assert_eq!(
        (number::<4>(configuration, 4), number::<2>(configuration, 8)),
        (2, 3),
        "groups and handles"
    );
    assert_eq!(number::<8>(configuration, 16), 64 << 10);
    assert_eq!(configuration[64..], [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    let receive = Sqe {
        opcode: DIRECTIVE_RECEIVE,
        nsid: 1,
        prp1: SCRATCH,
        cdw10: 15,
        cdw11: 1,
        ..Default::default()
    };
    assert_eq!(driver.admin(receive).status, 0);
    assert_eq!((driver.ram.get(SCRATCH, 1), driver.ram.get(SCRATCH + 32, 1)), (vec![5], vec![5]));
    // Lengths of more than a transfer, and where they are in the command.
    let place = |driver: &mut Driver| number::<2>(&driver.log(1, 64), 14);
    assert_eq!(driver.admin(Sqe { cdw10: u32::MAX, ..receive }).status, 0x002);
    assert_eq!(place(&mut driver), 40);
    let units = Sqe { opcode: MANAGEMENT_RECEIVE, cdw10: 1, cdw11: u32::MAX, ..receive };
    assert_eq!((driver.io(units).status, place(&mut driver)), (0x002, 44));
    let effects = driver.log(5, 4096);
    assert_eq!((effects[0x1a * 4], effects[1024 + 0x12 * 4], effects[1024 + 0x1d * 4]), (1, 1, 1));
    // Another endurance group is not there.
    for (page, group) in [(0x20, 0), (0x22, 2), (0x09, 0)] {
        let sqe = Sqe { opcode: 2, prp1: SCRATCH, cdw10: page, cdw11: group << 16, ..receive };
        assert_eq!(driver.admin(sqe).status, 0x002);
    }
}

#[test]
fn writes_go_where_their_identifier_says() {
    let mut driver = fdp();
    let fresh = |identifier, handle| (identifier, handle, 128);
    let all = [(0, 0), (1, 1), (2, 2), (0x8000, 0), (0x8001, 1), (0x8002, 2)];
    assert_eq!(units(&mut driver), all.map(|(identifier, handle)| fresh(identifier, handle)));
    assert_eq!(stream(&mut driver, write(2, 1, 16)), Ok(1));
    assert_eq!(stream(&mut driver, write(2, 0x8002, 9)), Ok(0x8002));
    assert_eq!(stream(&mut driver, write(0, 0x8002, 3)), Ok(0), "no directive: the first");
    assert_eq!(stream(&mut driver, write(1, 1, 1)), Err(0x002), "no streams");
    let room = |driver: &mut Driver| units(driver).iter().map(|unit| unit.2).collect::<Vec<_>>();
    assert_eq!(room(&mut driver), [125, 112, 128, 128, 128, 119]);
    // A full reclaim unit is followed by the next; a write can cross the border.
    for _ in 0..7 {
        assert_eq!(stream(&mut driver, write(2, 1, 16)), Ok(1));
    }
    assert_eq!(room(&mut driver)[1], 128);
    driver.ram.set(SCRATCH, &DATA.to_le_bytes().repeat(512));
    let large = Sqe { prp2: SCRATCH, ..write(2, 0x8002, 128 + 120) };
    assert_eq!(stream(&mut driver, large), Ok(0x8002));
    assert_eq!(room(&mut driver)[5], 127);
    let of_two = Sqe { nsid: 2, ..write(2, 2, 2) };
    assert_eq!(stream(&mut driver, of_two), Ok(2));
    assert_eq!(room(&mut driver)[2], 112, "in blocks of the namespace that asks");
    let used = log(&mut driver, 0x21, 32);
    assert_eq!((number::<2>(&used, 0), used[8], used[16], used[24]), (3, 1, 1, 1));
    // A copy is placed too.
    driver.ram.set(SCRATCH, &[0; 32]);
    let copy = Sqe { opcode: COPY, cdw10: 100, prp1: SCRATCH, cdw12: 2 << 20, ..write(2, 2, 1) };
    driver.asked.clear();
    assert_eq!(driver.io(copy).status, 0);
    assert_eq!((driver.asked[0].operation, driver.asked[0].stream), (Operation::Copy, 2));
}

#[test]
fn statistics_count_what_host_and_medium_wrote() {
    let mut driver = fdp();
    let health = |bytes| Health { media_bytes_written: bytes, ..Health::default() };
    for _ in 0..3 {
        assert_eq!(stream(&mut driver, write(2, 1, 16)), Ok(1));
    }
    let counts = |driver: &mut Driver| {
        let log = log(driver, 0x22, 64);
        (number::<8>(&log, 0), number::<8>(&log, 16))
    };
    assert_eq!(counts(&mut driver), (24 << 10, 24 << 10), "a drive without an inside");
    // Bytes that a drive had written before are not the host's.
    let mut driver = fdp();
    driver.controller.set_health(&driver.ram, health(1 << 30));
    assert_eq!(stream(&mut driver, write(2, 1, 16)), Ok(1));
    driver.controller.set_health(&driver.ram, health((1 << 30) + 12288));
    assert_eq!(counts(&mut driver), (8 << 10, 12288));
    let group = log(&mut driver, 0x09, 512);
    assert_eq!((group[3], number::<8>(&group, 80)), (100, 2), "units of 10^9 bytes");
    assert_eq!(number::<8>(&group, 160), BLOCKS * 512 + 64 * 4096);
}

#[test]
fn events_are_logged_if_asked_for() {
    let mut driver = fdp();
    driver.controller.set_time(5_000_000);
    let feature = |opcode: u8, handle: u32, kinds: u32, enable: u32| Sqe {
        opcode,
        nsid: 1,
        prp1: SCRATCH,
        cdw10: 0x1e,
        cdw11: kinds << 16 | handle,
        cdw12: enable,
        ..Default::default()
    };
    let update = |driver: &mut Driver, identifiers: &[u16]| {
        let raw: Vec<u8> = identifiers.iter().flat_map(|id| id.to_le_bytes()).collect();
        driver.ram.set(SCRATCH, &raw);
        let cdw10 = (identifiers.len() as u32 - 1) << 16 | 1;
        let send =
            Sqe { opcode: MANAGEMENT_SEND, nsid: 1, prp1: SCRATCH, cdw10, ..Default::default() };
        driver.io(send).status
    };
    let events = |driver: &mut Driver| {
        let log = log(driver, 0x123, 4096);
        let count = number::<4>(&log, 0) as usize;
        log[64..64 + 64 * count].chunks_exact(64).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    // Not asked for: no event, though the unit is left half full.
    assert_eq!(stream(&mut driver, write(2, 0x8001, 16)), Ok(0x8001));
    assert_eq!(update(&mut driver, &[0x8001]), 0);
    assert_eq!(units(&mut driver)[4].2, 128);
    assert!(events(&mut driver).is_empty());

    driver.ram.set(SCRATCH, &[0, 3]);
    assert_eq!(driver.admin(feature(9, 1, 2, 1)).status, 0);
    driver.ram.set(SCRATCH, &[3]);
    assert_eq!(driver.admin(feature(9, 0, 1, 1)).status, 0);
    let got = driver.admin(feature(10, 0, 8, 0));
    assert_eq!((got.status, got.result), (0, 2));
    assert_eq!(driver.ram.get(SCRATCH, 4), [0, 0, 3, 1], "supported, and enabled");
    // A full unit is no event; the handle of the others is not asked for.
    assert_eq!(update(&mut driver, &[1]), 0);
    for identifier in [0x8001, 2] {
        assert_eq!(stream(&mut driver, write(2, identifier, 16)), Ok(identifier as u16));
    }
    assert_eq!(update(&mut driver, &[0x8001, 2]), 0);
    assert_eq!(stream(&mut driver, write(2, 3, 16)), Ok(0), "no such handle: the first");
    let logged = events(&mut driver);
    assert_eq!(logged.len(), 2);
    assert_eq!((logged[0][0], logged[0][1], number::<2>(&logged[0], 2)), (0, 7, 0x8001));
    assert_eq!(
        (number::<8>(&logged[0], 4), number::<4>(&logged[0], 12)),
        (5, 1),
        "time, namespace"
    );
    assert_eq!((number::<2>(&logged[0], 32), logged[0][34]), (1, 1), "group and handle");
    assert_eq!((logged[1][0], logged[1][1], number::<2>(&logged[1], 2)), (3, 3, 3));
    assert_eq!(number::<4>(&log(&mut driver, 0x23, 64), 0), 0, "none of the controller's");
    // The log keeps the last 63.
    for index in 0..70 {
        assert_eq!(stream(&mut driver, write(2, 100 + index, 1)), Ok(0));
    }
    let logged = events(&mut driver);
    assert_eq!(
        (logged.len(), number::<2>(&logged[0], 2), number::<2>(&logged[62], 2)),
        (63, 107, 169)
    );

    // Nothing is done by halves.
    assert_eq!(stream(&mut driver, write(2, 2, 16)), Ok(2));
    assert_eq!(update(&mut driver, &[2, 3]), 0x002);
    assert_eq!(units(&mut driver)[2].2, 112);
    assert_eq!(update(&mut driver, &[0; 7]), 0x002, "more than there are");
    driver.ram.set(SCRATCH, &[0x81]);
    assert_eq!(driver.admin(feature(9, 1, 1, 1)).status, 0x002, "unknown event");
    assert_eq!(driver.admin(feature(9, 3, 1, 1)).status, 0x002, "unknown handle");
    // Placement that is on cannot be changed while there are namespaces.
    let mode = Sqe { cdw10: 0x1d, cdw11: 1, ..feature(10, 0, 0, 0) };
    assert_eq!(driver.admin(mode).result, 1);
    assert_eq!(driver.admin(Sqe { opcode: 9, cdw12: 0, ..mode }).status, 0x00c);
    // It is saved, as `nvme fdp feature` asks, and can be named so without namespaces only.
    let saves = Sqe { opcode: 9, cdw10: 0x1d | 1 << 31, cdw12: 0, ..mode };
    assert_eq!(driver.admin(saves).status, 0x00c);
    assert_eq!(
        driver.admin(Sqe { cdw10: 0x1d | 3 << 8, ..mode }).result,
        5,
        "saveable, changeable"
    );
    for nsid in [1, 2] {
        let delete = Sqe { opcode: 0x0d, nsid, cdw10: 1, ..Default::default() };
        driver.submit(0, delete);
        driver.serve();
        assert_eq!(driver.reap(0)[0].status, 0);
    }
    assert_eq!(log(&mut driver, 0x21, 32)[8], 0, "no namespace has a handle");
    assert_eq!(driver.admin(saves).status, 0);
    assert_eq!(driver.admin(mode).result, 0);
    assert_eq!(driver.admin(Sqe { cdw12: 1, ..saves }).status, 0);
    assert_eq!(driver.admin(mode).result, 1);
    assert_eq!(driver.admin(Sqe { cdw11: 2, ..mode }).status, 0x002);
    let unknown = Sqe { opcode: MANAGEMENT_RECEIVE, nsid: 1, cdw10: 9, ..Default::default() };
    assert_eq!(driver.io(unknown).status, 0x002);
}

#[test]
fn a_created_namespace_has_the_handles_of_its_list() {
    let mut driver = fdp();
    let usage = |driver: &mut Driver| {
        let log = log(driver, 0x21, 32);
        [log[8], log[16], log[24]]
    };
    assert_eq!(usage(&mut driver), [1, 1, 1], "before the first write");
    for nsid in [1, 2] {
        driver.submit(0, Sqe { opcode: 0x0d, nsid, cdw10: 1, ..Default::default() });
        driver.serve();
        assert_eq!(driver.reap(0)[0].status, 0);
    }
    let create = |driver: &mut Driver, count: u16, handles: &[u16]| {
        let mut page = vec![0; 4096];
        (page[0], page[8]) = (64, 64);
        page[392..394].copy_from_slice(&count.to_le_bytes());
        for (place, handle) in page[512..].chunks_exact_mut(2).zip(handles) {
            place.copy_from_slice(&handle.to_le_bytes());
        }
        driver.ram.set(SCRATCH, &page);
        let cqe = driver.admin(Sqe { opcode: 0x0d, prp1: SCRATCH, ..Default::default() });
        if cqe.status == 0 {
            let mut list = vec![0; 4096];
            list[0] = 1;
            driver.ram.set(SCRATCH, &list);
            let nsid = cqe.result;
            let attach = Sqe { opcode: 0x15, nsid, prp1: SCRATCH, ..Default::default() };
            assert_eq!(driver.admin(attach).status, 0);
        }
        cqe.status
    };
    // A handle that there is not, one twice, more than a list can have.
    for (count, handles) in [(1, &[3][..]), (2, &[1, 1]), (129, &[0]), (4, &[0, 1, 2, 0])] {
        assert_eq!(create(&mut driver, count, handles), 0x02a, "{handles:?}");
    }
    assert_eq!(usage(&mut driver), [0, 0, 0]);
    assert_eq!(create(&mut driver, 0, &[]), 0);
    assert_eq!(usage(&mut driver), [2, 0, 0], "the controller has chosen it");
    assert_eq!(create(&mut driver, 2, &[2, 1]), 0);
    assert_eq!(usage(&mut driver), [2, 1, 1]);
    // Placement handles 0 and 1 are reclaim unit handles 2 and 1, in each of two groups.
    let within = |nsid: u32, sqe: Sqe| Sqe { nsid, ..sqe };
    assert_eq!(stream(&mut driver, within(2, write(0, 0, 1))), Ok(2));
    assert_eq!(stream(&mut driver, within(2, write(2, 0, 1))), Ok(2));
    assert_eq!(stream(&mut driver, within(2, write(2, 0x8001, 1))), Ok(0x8001));
    assert_eq!(
        stream(&mut driver, within(2, write(2, 2, 1))),
        Ok(2),
        "none: the first of the list"
    );
    assert_eq!(stream(&mut driver, within(1, write(2, 1, 1))), Ok(0), "it has one");
    let receive = Sqe {
        opcode: MANAGEMENT_RECEIVE,
        nsid: 2,
        prp1: SCRATCH,
        cdw10: 1,
        cdw11: 1023,
        ..Default::default()
    };
    assert_eq!(driver.io(receive).status, 0);
    let raw = driver.ram.get(SCRATCH, 16 + 4 * 32);
    assert_eq!(number::<2>(&raw, 14), 4);
    let units: Vec<_> =
        raw[16..].chunks(32).map(|raw| (number::<2>(raw, 0), number::<2>(raw, 2))).collect();
    assert_eq!(units, [(0, 2), (1, 1), (0x8000, 2), (0x8001, 1)]);
    // It outlasts the power.
    let kept = driver.controller.kept_state();
    let handles: Vec<_> = kept.created.iter().map(|made| made.handles.clone()).collect();
    assert_eq!(handles, [vec![], vec![2, 1]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The room of a handle's unit against counting block by block.
    #[test]
    fn units_fill_block_by_block(
        writes in prop::collection::vec((0..3u32, 0..2u32, 1..300u32), 1..20),
    ) {
        let mut driver = fdp();
        driver.ram.set(SCRATCH + 0x1000, &DATA.to_le_bytes().repeat(512));
        let mut reference = [128u64; 6];
        for (handle, group, blocks) in writes {
            let sqe = write(2, group << 15 | handle, blocks);
            let sqe = Sqe { prp2: if blocks > 16 { SCRATCH + 0x1000 } else { DATA }, ..sqe };
            prop_assert!(stream(&mut driver, sqe).is_ok());
            let room = &mut reference[(group * 3 + handle) as usize];
            for _ in 0..blocks {
                *room = if *room == 1 { 128 } else { *room - 1 };
            }
            let room: Vec<u64> = units(&mut driver).iter().map(|unit| unit.2).collect();
            prop_assert_eq!(&room[..], &reference[..]);
        }
    }
}
