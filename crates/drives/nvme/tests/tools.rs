//! The commands, features and logs that tools ask for: firmware, power states, telemetry, persistent
//! events, the state of blocks.

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{Health, Operation, Status};
use stasis_nvme::{Config, KeptState, PowerState, PowerStates};

const SEQUENCE_ERROR: u16 = 0x00c;
const INVALID_FIELD: u16 = 0x002;
const READ: u8 = 2;

fn word(raw: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([raw[at], raw[at + 1]])
}

fn dword(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(raw[at..at + 4].try_into().unwrap())
}

fn long(raw: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(raw[at..at + 8].try_into().unwrap())
}

/// A read of a block that ends with a failure of the medium.
fn fail_read(driver: &mut Driver, lba: u64) {
    driver.submit(1, Sqe::io(READ, lba, 1, DATA, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::ReadError, request.data);
    assert_eq!(driver.reap(1)[0].status, 0x281);
}

/// Turns the power off and on.
fn power_cycle(driver: &mut Driver, config: Config) -> KeptState {
    let json = serde_json::to_string(&driver.controller.kept_state()).unwrap();
    let state: KeptState = serde_json::from_str(&json).unwrap();
    driver.controller = Controller::with_state(config, &state).unwrap();
    driver.enable();
    state
}

mod firmware {
    use super::*;

    const INVALID_SLOT: u16 = 0x106;
    const INVALID_IMAGE: u16 = 0x107;
    const OVERLAPPING: u16 = 0x114;

    fn image(revision: &str, size: usize) -> Vec<u8> {
        let mut image: Vec<u8> = (0..size).map(|at| at as u8).collect();
        image[..8].copy_from_slice(b"STASISFW");
        image[8..16].copy_from_slice(format!("{revision:8}").as_bytes());
        image[16..20].copy_from_slice(&(size as u32).to_le_bytes());
        image[20..24].fill(0);
        let sum = image.chunks(4).map(|raw| dword(raw, 0)).fold(0u32, u32::wrapping_add);
        image[20..24].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
        image
    }

    fn piece(driver: &mut Driver, offset: usize, data: &[u8]) -> u16 {
        driver.ram.set(DATA, data);
        let (cdw10, cdw11) = (data.len() as u32 / 4 - 1, offset as u32 / 4);
        let sqe = Sqe { opcode: 0x11, prp1: DATA, cdw10, cdw11, ..Default::default() };
        driver.admin(sqe).status
    }

    fn download(driver: &mut Driver, image: &[u8]) {
        for (index, part) in image.chunks(4096).enumerate() {
            assert_eq!(piece(driver, index * 4096, part), 0);
        }
    }

    fn commit(driver: &mut Driver, action: u32, slot: u32) -> u16 {
        driver.admin(Sqe { opcode: 0x10, cdw10: action << 3 | slot, ..Default::default() }).status
    }

    /// AFI, the slots' revisions, and that of Identify.
    fn slots(driver: &mut Driver) -> (u8, [String; 3], String) {
        let text = |raw: &[u8]| String::from_utf8(raw.to_vec()).unwrap().replace('\0', "");
        let log = driver.log(3, 512);
        assert!(log[32..].iter().all(|&byte| byte == 0), "there are three");
        let revisions = [1, 2, 3].map(|slot| text(&log[8 * slot..8 * slot + 8]).trim_end().into());
        (log[0], revisions, text(&driver.identify(1, 0).1[64..72]).trim_end().into())
    }

    #[test]
    fn an_image_goes_to_its_slot_and_a_reset_makes_it_active() {
        let mut driver = Driver::new(config());
        let id = driver.identify(1, 0).1;
        assert_eq!((id[256] & 4, id[260], id[319]), (4, 1 | 3 << 1 | 1 << 4, 0xff));
        let revisions = |first: &str, second: &str, third: &str| {
            [first.to_owned(), second.to_owned(), third.to_owned()]
        };
        assert_eq!(slots(&mut driver), (1, revisions("1.0", "", ""), "1.0".into()));
        // Not of whole pages, as `nvme fw-download` sends it.
        download(&mut driver, &image("2.0-beta", 10_004));
        assert_eq!(commit(&mut driver, 1, 2), 0);
        assert_eq!(
            slots(&mut driver),
            (1 | 2 << 4, revisions("1.0", "2.0-beta", ""), "1.0".into())
        );
        driver.disable();
        driver.enable();
        assert_eq!(slots(&mut driver), (2, revisions("1.0", "2.0-beta", ""), "2.0-beta".into()));
        // Slot 0: one that is free, and without activation.
        download(&mut driver, &image("3", 4096));
        assert_eq!(commit(&mut driver, 0, 0), 0);
        assert_eq!(slots(&mut driver), (2, revisions("1.0", "2.0-beta", "3"), "2.0-beta".into()));
        // Back to the drive's own, and that is kept without power.
        assert_eq!(commit(&mut driver, 2, 1), 0);
        assert_eq!(slots(&mut driver).0, 2 | 1 << 4);
        let state = power_cycle(&mut driver, config());
        assert!(!state.is_as_made());
        assert_eq!(slots(&mut driver), (1, revisions("1.0", "2.0-beta", "3"), "1.0".into()));
    }

    #[test]
    fn activation_without_a_reset_is_an_event() {
        let mut driver = Driver::new(config());
        assert_eq!(dword(&driver.identify(1, 0).1, 92) & 1 << 9, 1 << 9, "OAES");
        assert_eq!(driver.set_feature(11, 1 << 9).status, 0);
        let event = driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
        download(&mut driver, &image("now", 24));
        let committed =
            driver.submit(0, Sqe { opcode: 0x10, cdw10: 3 << 3 | 3, ..Default::default() });
        let ended = driver.reap(0);
        let result = |cid| ended.iter().find(|cqe| cqe.cid == cid).map(|cqe| cqe.result);
        assert_eq!([result(event), result(committed)], [Some(3 << 16 | 1 << 8 | 2), Some(0)]);
        assert_eq!(slots(&mut driver).2, "now");
        // Without a new image too.
        assert_eq!(commit(&mut driver, 3, 1), 0);
        assert_eq!(slots(&mut driver).2, "1.0");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut driver = Driver::new(config());
        let good = image("4", 512);
        assert_eq!(commit(&mut driver, 0, 2), INVALID_IMAGE, "there is none");
        assert_eq!(commit(&mut driver, 2, 3), INVALID_IMAGE, "the slot is empty");
        assert_eq!(commit(&mut driver, 2, 0), INVALID_SLOT);
        for (action, slot, status) in [
            (0, 1, INVALID_SLOT),
            (1, 4, INVALID_SLOT),
            (0, 7, INVALID_SLOT),
            (6, 2, INVALID_FIELD),
        ] {
            download(&mut driver, &good);
            assert_eq!(commit(&mut driver, action, slot), status, "{action} {slot}");
            driver.disable();
            driver.enable();
        }
        let mut wrong_sum = good.clone();
        wrong_sum[100] ^= 1;
        let longer = [&good[..], &[0; 4]].concat();
        let mut other = good.clone();
        other[0] = b'X';
        for bad in [&wrong_sum[..], &longer, &other, &good[..508], &image("        ", 512)] {
            download(&mut driver, bad);
            assert_eq!(commit(&mut driver, 1, 2), INVALID_IMAGE);
        }
        // The end first, and once.
        assert_eq!(piece(&mut driver, 256, &good[256..]), 0);
        assert_eq!(piece(&mut driver, 252, &good[252..260]), OVERLAPPING);
        assert_eq!(piece(&mut driver, 1 << 20, &good), INVALID_FIELD, "beyond the largest");
        assert_eq!(commit(&mut driver, 1, 2), INVALID_IMAGE, "its beginning is missing");
        assert_eq!(piece(&mut driver, 256, &good[256..]), 0);
        assert_eq!(piece(&mut driver, 0, &good[..256]), 0);
        assert_eq!(commit(&mut driver, 1, 2), 0);
    }
}

mod power {
    use super::*;

    const US: u64 = 1000;
    const MS: u64 = 1000 * US;

    fn drive() -> Config {
        let state = |milliwatts, entry, exit, operational| PowerState {
            milliwatts,
            entry: entry * US,
            exit: exit * US,
            operational,
        };
        let power_states = vec![
            state(8_000, 0, 0, true),
            state(3_000, 100, 200, true),
            state(50, 2_000, 1_500, false),
            state(5, 5_000, 9_000, false),
        ];
        Config { power_states: PowerStates::new(power_states).unwrap(), ..config() }
    }

    fn transitions(entries: [(u32, u32); 4]) -> Vec<u8> {
        let raw = entries.map(|(to, after)| u64::from(to << 3 | after << 8).to_le_bytes());
        [raw.concat(), vec![0; 224]].concat()
    }

    fn set_transitions(driver: &mut Driver, table: &[u8], on: u32) -> u16 {
        driver.ram.set(SCRATCH, table);
        let sqe = Sqe { opcode: 9, prp1: SCRATCH, cdw10: 12, cdw11: on, ..Default::default() };
        driver.admin(sqe).status
    }

    /// Returns the time after `now` until the drive gets a read that comes then.
    fn delay(driver: &mut Driver, now: u64) -> u64 {
        driver.controller.set_time(now);
        driver.submit(1, Sqe::io(READ, 0, 1, DATA, 0));
        let mut at = now;
        if let Some(deadline) = driver.controller.next_deadline() {
            assert!(driver.controller.pop_request().is_none(), "not before its time");
            driver.controller.set_time(deadline - 1);
            assert!(driver.controller.pop_request().is_none());
            driver.controller.set_time(deadline);
            at = deadline;
        }
        driver.serve();
        assert_eq!(driver.reap(1)[0].status, 0);
        assert_eq!(driver.controller.next_deadline(), None);
        at - now
    }

    #[test]
    fn they_are_told_and_leaving_them_takes_its_time() {
        let mut driver = Driver::with_queues(drive(), 1, 8);
        let id = driver.identify(1, 0).1;
        assert_eq!((id[263], id[265]), (3, 1), "NPSS and APSTA");
        let descriptor = |number: usize| &id[2048 + 32 * number..2048 + 32 * number + 32];
        assert_eq!((word(descriptor(0), 0), descriptor(0)[3]), (800, 0));
        let fields = |number: usize| {
            let raw = descriptor(number);
            (word(raw, 0), raw[3], dword(raw, 4), dword(raw, 8))
        };
        assert_eq!(fields(2), (5, 2, 2_000, 1_500), "50 mW");
        assert_eq!(fields(3), (50, 3, 5_000, 9_000), "5 mW, in units of 0.1 mW");
        // Linux's table: deeper after longer.
        let table = transitions([(2, 100), (2, 100), (3, 2000), (0, 0)]);
        assert_eq!(set_transitions(&mut driver, &table, 1), 0);
        let get = Sqe { opcode: 10, prp1: SCRATCH, cdw10: 12, ..Default::default() };
        assert_eq!(driver.admin(get).result, 1);
        assert_eq!(driver.ram.get(SCRATCH, 256), table);
        assert_eq!(delay(&mut driver, 50 * MS), 0);
        assert_eq!(delay(&mut driver, 149 * MS), 0, "idle for 99 ms");
        assert_eq!(delay(&mut driver, 250 * MS), 2_500 * US, "1 ms into the entry");
        assert_eq!(delay(&mut driver, 500 * MS), 1_500 * US);
        assert_eq!(delay(&mut driver, 10_000 * MS), 9_000 * US);
        driver.controller.set_time(20_000 * MS);
        assert_eq!(driver.get_feature(2, 0).result, 3, "an admin command does not wake it");
        // Off, and by hand: into a state, and out of it.
        assert_eq!(set_transitions(&mut driver, &table, 0), 0);
        assert_eq!(driver.set_feature(2, 1 | 5 << 5).status, 0);
        assert_eq!(driver.get_feature(2, 0).result, 1 | 5 << 5, "with the workload hint");
        assert_eq!(delay(&mut driver, 20_000 * MS), (9_000 + 100) * US);
        assert_eq!(delay(&mut driver, 90_000 * MS), 0);
        assert_eq!(driver.set_feature(2, 4).status, INVALID_FIELD, "there is none");
        // A reset is the first state, and no transitions.
        assert_eq!(set_transitions(&mut driver, &table, 1), 0);
        driver.disable();
        driver.enable();
        assert_eq!(driver.admin(get).result, 0);
        assert_eq!(driver.get_feature(2, 0).result, 0);
    }

    #[test]
    fn transitions_that_lead_nowhere_are_refused() {
        let mut driver = Driver::new(drive());
        for wrong in [(1, 1), (4, 1), (0, 1)] {
            let table = transitions([wrong, (0, 0), (0, 0), (0, 0)]);
            assert_eq!(set_transitions(&mut driver, &table, 1), INVALID_FIELD, "{wrong:?}");
        }
        let mut driver = Driver::new(config());
        let table = transitions([(0, 0); 4]);
        assert_eq!(set_transitions(&mut driver, &table, 0), INVALID_FIELD, "there is one state");
        assert_eq!(driver.identify(1, 0).1[263..266], [0, 1, 0]);
    }

    /// The simplest reference: a clock that ticks every 100 us.
    #[derive(Default)]
    struct Reference {
        state: usize,
        // The rest of the transition under way, and how long the drive has been idle.
        transition: u64,
        idle: u64,
    }

    proptest! {
        #[test]
        fn delays_are_those_of_a_clock_that_ticks(
            idle in prop::collection::vec(0..400u64, 1..12),
            table in [1..30u32, 1..30, 1..30],
        ) {
            let states = drive().power_states.states().to_vec();
            let entries = [(2, table[0]), (2, table[1]), (3, table[2]), (0, 0)];
            let mut driver = Driver::with_queues(drive(), 1, 8);
            set_transitions(&mut driver, &transitions(entries), 1);
            let mut reference = Reference::default();
            let mut now = 0;
            const TICK: u64 = 100 * US;
            for idle in idle {
                for _ in 0..idle {
                    let Reference { state, transition, idle } = &mut reference;
                    let (to, after) = entries[*state];
                    let due = after > 0 && *idle == u64::from(after) * MS;
                    if *transition == 0 && due {
                        *transition = states[*state].exit + states[to as usize].entry;
                        (*state, *idle) = (to as usize, 0);
                    }
                    match *transition {
                        0 => *idle += TICK,
                        _ => *transition -= TICK,
                    }
                }
                now += idle * TICK;
                let (to, after) = entries[reference.state];
                if reference.transition == 0 && reference.idle == u64::from(after) * MS && after > 0 {
                    let from = reference.state;
                    reference.transition = states[from].exit + states[to as usize].entry;
                    reference.state = to as usize;
                }
                let expected = reference.transition + states[reference.state].exit;
                let taken = delay(&mut driver, now);
                prop_assert_eq!(taken, expected, "at {} in {}", now, reference.state);
                now += taken;
                reference = Reference::default();
            }
        }
    }
}

mod telemetry {
    use super::*;

    const TELEMETRY_CHANGED: u32 = 8 << 16 | 2 << 8 | 2;

    fn get(driver: &mut Driver, identifier: u32, offset: u32, bytes: u32) -> (u16, Vec<u8>) {
        let sqe = Sqe {
            opcode: 2,
            prp1: DATA,
            prp2: DATA + PAGE,
            cdw10: (bytes / 4 - 1) << 16 | identifier,
            cdw12: offset,
            ..Default::default()
        };
        let status = driver.admin(sqe).status;
        (status, driver.ram.get(DATA, bytes as usize))
    }

    /// The areas in words, as their last blocks delimit them.
    fn areas(log: &[u8]) -> Vec<String> {
        let ends = [8, 10, 12].map(|at| (usize::from(word(log, at)) + 1) * 512);
        let starts = [512, ends[0], ends[1]];
        let text = |(start, end): (usize, usize)| {
            String::from_utf8(log[start..end].to_vec()).unwrap().trim_end_matches('\0').to_owned()
        };
        starts.into_iter().zip(ends).map(text).collect()
    }

    #[test]
    fn a_host_captures_the_drives_state() {
        const CREATE: u32 = 1 << 8;
        let mut driver = Driver::with_queues(config(), 1, 8);
        assert_eq!(driver.identify(1, 0).1[261] & 1 << 3, 1 << 3, "LPA");
        let (status, log) = get(&mut driver, 7, 0, 512);
        assert_eq!((status, log[0], &log[8..14], log[381]), (0, 7, &[0; 6][..], 0), "none yet");
        driver.io(Sqe::io(1, 0, 8, DATA, 0));
        driver.io(Sqe::io(READ, 0, 1, DATA, 0));
        driver.io(Sqe::io(READ, BLOCKS, 1, DATA, 0));
        driver.controller.set_time(7_000_000);
        assert_eq!(get(&mut driver, 7 | CREATE, 0, 512).0, 0);
        // Nothing is in it that happens later.
        driver.io(Sqe::io(1, 0, 8, DATA, 0));
        let (_, log) = get(&mut driver, 7, 0, 4096);
        assert_eq!(log[381], 1, "the first");
        let areas = areas(&log);
        for line in [
            "time_ns 7000000",
            "bytes_read 512",
            "bytes_written 4096",
            "firmware 1.0",
            "media_errors 0",
        ] {
            assert!(areas[0].lines().any(|area_line| area_line == line), "{line}: {}", areas[0]);
        }
        assert!(
            areas[1].starts_with("namespace 1 start 0 blocks 8192 block_size 512"),
            "{areas:?}"
        );
        assert!(areas[2].contains("status 0x6080 namespace 1 lba 8192"), "{areas:?}");
        assert_eq!(get(&mut driver, 7, 512, 512).1, log[512..1024], "in parts");
        for (offset, bytes) in [(4, 512), (0, 516), (0, 4)] {
            assert_eq!(get(&mut driver, 7, offset, bytes).0, INVALID_FIELD);
        }
    }

    #[test]
    fn the_controller_captures_its_state_when_the_medium_fails() {
        let mut driver = Driver::with_queues(config(), 1, 8);
        assert_eq!(driver.set_feature(11, 1 << 10).status, 0);
        let event = driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
        assert_eq!(get(&mut driver, 8, 0, 512).1[382..384], [0, 0]);
        fail_read(&mut driver, 5);
        let events = driver.reap(0);
        assert_eq!((events[0].cid, events[0].result), (event, TELEMETRY_CHANGED));
        // A second failure does not replace what nobody has read.
        fail_read(&mut driver, 6);
        let retained = get(&mut driver, 8 | 1 << 15, 0, 512).1;
        assert_eq!(retained[382..384], [1, 1]);
        let log = get(&mut driver, 8, 0, 2048).1;
        assert!(log[384..512].starts_with(b"the medium could not be read\0"));
        assert!(areas(&log)[0].contains("media_errors 1\n"));
        assert_eq!(get(&mut driver, 8, 0, 512).1[382..384], [0, 1], "it was read");
        let health = Health { read_only: true, ..Health::default() };
        driver.controller.set_health(&driver.ram, health);
        assert_eq!(get(&mut driver, 8, 0, 512).1[382..384], [1, 2]);
    }
}

mod events {
    use super::*;

    /// The log: its header, and the events, newest first: type and data.
    fn read(driver: &mut Driver) -> (Vec<u8>, Vec<(u8, Vec<u8>)>) {
        let get = |action: u32, offset: u32, bytes: u32| Sqe {
            opcode: 2,
            prp1: DATA,
            prp2: DATA + PAGE,
            cdw10: (bytes / 4 - 1) << 16 | action << 8 | 13,
            cdw12: offset,
            ..Default::default()
        };
        assert_eq!(driver.admin(get(0, 0, 512)).status, SEQUENCE_ERROR, "no context");
        assert_eq!(driver.admin(get(1, 0, 512)).status, 0);
        assert_eq!(driver.admin(get(1, 0, 512)).status, SEQUENCE_ERROR, "there is one");
        let header = driver.ram.get(DATA, 512);
        let length = long(&header, 8) as u32;
        let mut log = Vec::new();
        while log.len() < length as usize {
            assert_eq!(driver.admin(get(0, log.len() as u32, 4096)).status, 0);
            log.extend(driver.ram.get(DATA, 4096));
        }
        log.truncate(length as usize);
        assert_eq!(driver.admin(get(2, 0, 512)).status, 0);
        assert_eq!(log[..512], header);
        let mut events = Vec::new();
        let mut rest = &log[512..];
        while !rest.is_empty() {
            let (head, length) = (usize::from(rest[2]) + 3, usize::from(word(rest, 22)));
            assert!(log[480 + usize::from(rest[0] / 8)] >> (rest[0] % 8) & 1 == 1, "supported");
            events.push((rest[0], rest[head..head + length].to_vec()));
            rest = &rest[head + length..];
        }
        assert_eq!(dword(&log, 4) as usize, events.len());
        (header, events)
    }

    fn kinds(events: &[(u8, Vec<u8>)]) -> Vec<u8> {
        events.iter().map(|(kind, _)| *kind).collect()
    }

    fn admin(driver: &mut Driver, sqe: Sqe) -> u16 {
        driver.submit(0, sqe);
        driver.serve();
        driver.reap(0)[0].status
    }

    #[test]
    fn what_happens_to_the_drive_is_logged_and_kept() {
        let mut driver = Driver::with_queues(config(), 1, 8);
        let (header, events) = read(&mut driver);
        let id = driver.identify(1, 0).1;
        assert_eq!((id[261] & 1 << 4, dword(&id, 352)), (1 << 4, 1), "LPA and PELS");
        assert_eq!((header[0], header[16], word(&header, 18)), (13, 2, 492));
        assert_eq!(header[56..76], id[4..24], "serial number");
        assert_eq!(header[116..372], id[768..1024], "NQN");
        assert_eq!(kinds(&events), [4, 1], "power-on, and the counters then");
        assert_eq!((&events[0].1[..8], events[0].1.len()), (&b"1.0     "[..], 44));
        assert_eq!(events[1].1.len(), 512);
        assert!(driver.controller.kept_state().is_as_made(), "nothing to keep");

        driver.controller.set_time(3_000_000_000);
        driver.ram.set(SCRATCH, &1_000_000u64.to_le_bytes());
        let set = Sqe { opcode: 9, prp1: SCRATCH, cdw10: 14, ..Default::default() };
        assert_eq!(driver.admin(set).status, 0);
        driver.disable();
        driver.enable();
        driver.create_pair(1, 8, 8, 1);
        let (_, events) = read(&mut driver);
        assert_eq!(kinds(&events), [4, 3, 4, 1]);
        assert_eq!([long(&events[1].1, 0), long(&events[1].1, 8)], [3000, 3000]);
        assert!(driver.controller.kept_state().is_as_made(), "nor here");

        let changes = driver.controller.state_changes();
        fail_read(&mut driver, 77);
        assert!(driver.controller.state_changes() > changes);
        let format = Sqe { opcode: 0x80, nsid: 1, cdw10: 1, ..Default::default() };
        assert_eq!(admin(&mut driver, format), 0);
        let sanitize = Sqe { opcode: 0x84, cdw10: 2, ..Default::default() };
        assert_eq!(admin(&mut driver, sanitize), 0);
        assert_eq!(
            driver.admin(Sqe { opcode: 0x10, cdw10: 2, ..Default::default() }).status,
            0x107
        );
        driver.controller.set_temperature(&driver.ram, 360);
        let (_, events) = read(&mut driver);
        let expected = [0x0d, 0x0d, 2, 0x0a, 9, 8, 7, 0x0c, 5, 4, 3, 4, 1];
        assert_eq!(kinds(&events), expected);
        assert_eq!([&events[0].1[..], &events[1].1], [[7, 2], [17, 1]], "degrees and thresholds");
        assert_eq!(events[2].1[16..20], [0, 2, 1, 7], "action, slot and status");
        assert_eq!((word(&events[3].1, 0), word(&events[3].1, 2)), (0xffff, 1 | 1 << 8));
        assert_eq!([dword(&events[6].1, 0), dword(&events[6].1, 8)], [1, 1], "namespace, Dword 10");
        let error = &events[8].1;
        assert_eq!((word(error, 0), word(error, 4)), (0x0a, 0x281));
        assert_eq!((dword(error, 8), long(error, 12)), (1, 77));

        // The power goes: what was logged is still there, below the next power-on.
        let kept = power_cycle(&mut driver, config());
        assert_eq!(kept.events.len(), expected.len());
        let (_, events) = read(&mut driver);
        assert_eq!(kinds(&events), [&[4, 1], &expected[..]].concat());
    }

    #[test]
    fn namespaces_and_fatal_states_are_logged() {
        let mut driver = Driver::new(config());
        let delete = Sqe { opcode: 0x0d, nsid: 1, cdw10: 1, ..Default::default() };
        assert_eq!(admin(&mut driver, delete), 0);
        let mut page = vec![0; 4096];
        page[0..8].copy_from_slice(&64u64.to_le_bytes());
        page[8..16].copy_from_slice(&64u64.to_le_bytes());
        page[26] = 1;
        driver.ram.set(SCRATCH, &page);
        let create = Sqe { opcode: 0x0d, prp1: SCRATCH, ..Default::default() };
        assert_eq!(driver.admin(create).status, 0);
        let (_, events) = read(&mut driver);
        assert_eq!(kinds(&events), [6, 6, 4, 1]);
        let change = |data: &[u8]| {
            (dword(data, 0), long(data, 8), long(data, 24), data[32], dword(data, 44))
        };
        assert_eq!(change(&events[1].1), (1, BLOCKS, BLOCKS, 0, 1), "deleted");
        assert_eq!(change(&events[0].1), (0, 64, 64, 1, 1), "created");
        // Admin queues where there is no memory.
        driver.disable();
        driver.write64(0x28, 1 << 40);
        driver.write32(0x14, 4 << 20 | 6 << 16 | 1);
        assert_eq!(driver.read32(0x1c) & 2, 2);
        driver.disable();
        driver.enable();
        let (_, events) = read(&mut driver);
        assert_eq!((events[1].0, word(&events[1].1, 0)), (5, 9));
    }

    #[test]
    fn the_log_is_bounded_and_errors_do_not_drive_out_the_rest() {
        let mut driver = Driver::with_queues(config(), 1, 8);
        (0..200).for_each(|lba| fail_read(&mut driver, lba));
        let (_, events) = read(&mut driver);
        assert_eq!(kinds(&events).iter().filter(|&&kind| kind == 5).count(), 64);
        for _ in 0..2000 {
            driver.disable();
            driver.enable();
        }
        let (header, events) = read(&mut driver);
        assert!((60 << 10..=64 << 10).contains(&long(&header, 8)), "{}", long(&header, 8));
        assert_eq!(kinds(&events)[..2], [4, 4]);
    }
}

mod blocks {
    use super::*;

    const SCAN: u32 = 0x10;
    const KNOWN: u32 = 0x11;

    fn command(action: u32, lba: u64, blocks: u32, dwords: u32) -> Sqe {
        Sqe {
            opcode: 0x86,
            nsid: 1,
            prp1: SCRATCH,
            cdw10: lba as u32,
            cdw12: dwords - 1,
            cdw13: action << 24 | blocks,
            ..Default::default()
        }
    }

    /// Completes the requests; the medium cannot read `bad` blocks.
    fn serve(driver: &mut Driver, bad: &[u64]) {
        while let Some(request) = driver.controller.pop_request() {
            let stasis_block::Command { operation, offset, length, .. } = request.command;
            let of_piece = |lba: &&u64| (offset..offset + length).contains(&(**lba * 512));
            let failed = bad.iter().find(of_piece).filter(|_| operation == Operation::Verify);
            let ended = match failed {
                Some(lba) => stasis_nvme::Ended {
                    status: Status::ReadError,
                    failed_at: lba * 512 - offset,
                    ..Status::ReadError.into()
                },
                None => Status::Ok.into(),
            };
            driver.controller.complete(&driver.ram, request.tag, ended, request.data);
        }
    }

    /// Returns whether the list is whole, and its runs of blocks.
    fn list(driver: &mut Driver, sqe: Sqe, bad: &[u64]) -> (bool, Vec<(u64, u32)>) {
        driver.fill_scratch(0);
        driver.submit(0, sqe);
        serve(driver, bad);
        let ended = driver.reap(0);
        assert_eq!((ended.len(), ended[0].status), (1, 0));
        let raw = driver.ram.get(SCRATCH, 4096);
        assert!(matches!(raw[4], 1 | 2));
        let run = |raw: &[u8]| (long(raw, 0), dword(raw, 8));
        (raw[4] == 2, raw[8..].chunks(16).take(dword(&raw, 0) as usize).map(run).collect())
    }

    fn mark(driver: &mut Driver, lba: u64, blocks: u32) {
        assert_eq!(driver.io(Sqe::io(4, lba, blocks, 0, 0)).status, 0);
    }

    #[test]
    fn blocks_that_cannot_be_read_are_known_or_found() {
        let mut driver = Driver::with_queues(config(), 1, 8);
        assert_eq!(word(&driver.identify(1, 0).1, 256) & 1 << 9, 1 << 9, "OACS");
        let known = command(KNOWN, 0, 0, 1024);
        assert_eq!(list(&mut driver, known, &[]), (true, vec![]));
        let before = driver.log(14, 64);
        assert_eq!((dword(&before, 0), dword(&before, 4)), (16, 0));
        mark(&mut driver, 10, 4);
        fail_read(&mut driver, 14);
        fail_read(&mut driver, 100);
        assert_eq!(list(&mut driver, known, &[]), (true, vec![(10, 5), (100, 1)]));
        let log = driver.log(14, 64);
        assert_eq!([dword(&log, 0), dword(&log, 4), dword(&log, 8)], [64, 1, 6]);
        assert_ne!(word(&log, 14), word(&before, 14), "another generation");
        assert_eq!((dword(&log, 16), dword(&log, 20), log[24]), (1, 2, 0x11));
        assert_eq!(
            [(long(&log, 32), dword(&log, 40)), (long(&log, 48), dword(&log, 56))],
            [(10, 5), (100, 1)]
        );
        // A scan finds the others, which are known then.
        let scan = command(SCAN, 12, 2000, 1024);
        let bad = [14, 15, 16, 100, 500, 2011, 2012];
        let found = (true, vec![(12, 5), (100, 1), (500, 1), (2011, 1)]);
        assert_eq!(list(&mut driver, scan, &bad), found);
        let part = command(KNOWN, 16, 485, 1024);
        assert_eq!(list(&mut driver, part, &[]), (true, vec![(16, 1), (100, 1), (500, 1)]));
        // Two of them fit.
        let short = Sqe { cdw12: 9, ..part };
        assert_eq!(list(&mut driver, short, &[]), (false, vec![(16, 1), (100, 1)]));
        let short = Sqe { cdw12: 9, ..scan };
        assert_eq!(list(&mut driver, short, &bad), (false, vec![(12, 5), (100, 1)]));
        // Blocks that are read well, or written, are good.
        assert_eq!(driver.io(Sqe::io(READ, 100, 1, DATA, 0)).status, 0);
        assert_eq!(driver.io(Sqe::io(1, 10, 6, DATA, 0)).status, 0);
        let remaining = (true, vec![(16, 1), (500, 1), (2011, 1)]);
        assert_eq!(list(&mut driver, known, &[]), remaining);
        assert_eq!(
            list(&mut driver, command(SCAN, 0, 0, 1024), &[]),
            remaining,
            "they are not asked for"
        );
    }

    #[test]
    fn a_scan_can_be_refused_aborted_and_overtaken() {
        let mut driver = Driver::with_queues(config(), 1, 8);
        for (sqe, status) in [
            (command(KNOWN, BLOCKS, 0, 8), 0x080),
            (command(KNOWN, BLOCKS - 1, 2, 8), 0x080),
            (command(0x12, 0, 0, 8), INVALID_FIELD),
            (Sqe { nsid: 3, ..command(KNOWN, 0, 0, 8) }, INVALID_FIELD),
            (Sqe { nsid: 200, ..command(KNOWN, 0, 0, 8) }, 0x00b),
            (command(SCAN, 0, 0, 1 << 20), INVALID_FIELD),
        ] {
            assert_eq!(driver.admin(sqe).status, status, "{sqe:?}");
        }
        let scan = driver.submit(0, command(SCAN, 0, 0, 8));
        let piece = driver.controller.pop_request().unwrap();
        let abort = Sqe { opcode: 8, cdw10: u32::from(scan) << 16, ..Default::default() };
        driver.submit(0, abort);
        let ended = driver.reap(0);
        assert_eq!((ended[0].cid, ended[0].status, ended[1].result), (scan, 7, 0));
        driver.controller.complete(&driver.ram, piece.tag, Status::Ok, piece.data);
        assert!(driver.controller.pop_request().is_none() && driver.reap(0).is_empty());
        // As many as there can be; a reset ends them.
        (0..8).for_each(|_| {
            driver.submit(0, command(SCAN, 0, 0, 8));
        });
        assert_eq!(driver.admin(command(SCAN, 0, 0, 8)).status, 0x006);
        driver.disable();
        driver.enable();
        driver.serve();
        assert!(driver.reap(0).is_empty());
        assert_eq!(driver.controller.in_flight(), 0);
        // A format comes between two pieces.
        driver.submit(0, command(SCAN, 0, 0, 8));
        let format = driver.submit(0, Sqe { opcode: 0x80, nsid: 1, ..Default::default() });
        serve(&mut driver, &[0]);
        let ended = driver.reap(0);
        assert_eq!(ended.iter().map(|cqe| cqe.status).collect::<Vec<_>>(), [0x084, 0]);
        assert_eq!(ended[1].cid, format);
    }
}
