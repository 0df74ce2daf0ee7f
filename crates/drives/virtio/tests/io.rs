//! Requests: their effect on the disk, and their report to the driver.

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{Command, Doorbells, Operation, Status};
use stasis_virtio::{feature, Config, Fault, OutOfMemoryRange};

#[test]
fn a_write_is_read_back_over_any_pieces() {
    let mut driver = Driver::new(config());
    let pattern: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
    driver.ram.set(DATA, &pattern);
    let pieces = [(DATA, 100), (DATA + 100, 4000), (DATA + 4100, 4092)];
    let end = driver.io(OUT, 8, &pieces, &[]);
    assert_eq!((end.status, end.length), (OK, 1));
    let pieces = [(DATA + 0x10000, 512), (DATA + 0x20000, 7000), (DATA + 0x30000, 680)];
    let end = driver.io(IN, 8, &[], &pieces);
    assert_eq!((end.status, end.length), (OK, 8193));
    let mut read = driver.ram.bytes(DATA + 0x10000, 512);
    read.extend(driver.ram.bytes(DATA + 0x20000, 7000));
    read.extend(driver.ram.bytes(DATA + 0x30000, 680));
    assert_eq!(read, pattern);
    assert_eq!(driver.interrupts(), [0]);
    assert_eq!(driver.read8(0x1000), 0, "MSI-X has no use for the ISR");
}

#[test]
fn a_header_may_be_in_pieces_and_carries_the_priority() {
    let mut driver = Driver::new(config());
    // Class real-time, level 3 (linux/ioprio.h); the upper half is no priority.
    let priority = 7 << 16 | 1 << 13 | 3;
    for (kind, readable, writable, operation) in [
        (OUT, vec![(DATA, 512)], vec![], Operation::Write),
        (IN, vec![], vec![(DATA, 512)], Operation::Read),
        (FLUSH, vec![], vec![], Operation::Flush),
    ] {
        for step in [1, 3, 16] {
            driver.put_with(0, kind, priority, 5, &readable, &writable, step).unwrap();
            driver.kick(0);
            let request = driver.device.pop_request().unwrap();
            assert_eq!(request.command.operation, operation);
            assert_eq!(request.command.priority, 1 << 13 | 3);
            driver.device.complete(&driver.ram, request.tag, Status::Ok, request.data);
            assert_eq!(driver.reap(0)[0].status, OK);
        }
    }
}

#[test]
fn the_identifier_is_padded_and_may_be_cut_off() {
    let mut driver = Driver::new(config());
    driver.ram.fill(DATA, 64, 0xee);
    assert_eq!(driver.io(GET_ID, 0, &[], &[(DATA, 20)]).length, 21);
    assert_eq!(driver.ram.bytes(DATA, 21), b"TEST0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xee");
    assert_eq!(driver.io(GET_ID, 0, &[], &[(DATA + 32, 3)]).length, 4);
    assert_eq!(driver.ram.bytes(DATA + 32, 4), b"TES\xee");
    // More room than it needs: the status is not next to it.
    assert_eq!(driver.io(GET_ID, 0, &[], &[(DATA, 64)]).length, 20);
}

#[test]
fn the_write_cache_can_be_turned_off() {
    let forced = |driver: &mut Driver| {
        assert_eq!(driver.io(OUT, 0, &[(DATA, 512)], &[]).status, OK);
        driver.asked.last().unwrap().fua
    };
    let mut driver = Driver::new(config());
    assert!(!forced(&mut driver));
    driver.write8(SPACE + 32, 0);
    assert_eq!(driver.read8(SPACE + 32), 0);
    assert!(forced(&mut driver));
    let zeroes = driver.ranges(&[(0, 8, 0)]);
    driver.io(WRITE_ZEROES, 0, &[zeroes], &[]);
    assert!(driver.asked.last().unwrap().fua);
    driver.write8(SPACE + 32, 1);
    assert!(!forced(&mut driver));
    // Nobody could flush: everything is durable at once (section 5.2.6.2).
    let mut driver = Driver::without(config(), &[feature::FLUSH, feature::CONFIG_WCE]);
    driver.write8(SPACE + 32, 0);
    assert_eq!(driver.read8(SPACE + 32), 1, "not negotiated");
    assert!(forced(&mut driver));
    assert!(forced(&mut Driver::new(Config { volatile_write_cache: false, ..config() })));
}

#[test]
fn ranges_become_commands_that_end_as_one() {
    let mut driver = Driver::new(config());
    driver.disk.fill(0xff);
    let ranges = driver.ranges(&[(8, 8, 0), (0, 0, 0), (100, 1, 0)]);
    driver.put(0, DISCARD, 0, &[ranges], &[]).unwrap();
    driver.kick(0);
    let requests: Vec<_> = std::iter::from_fn(|| driver.device.pop_request()).collect();
    let commands: Vec<_> = requests.iter().map(|request| request.command).collect();
    let discard =
        |sector: u64, sectors: u64| Command::new(Operation::Discard, sector * 512, sectors * 512);
    assert_eq!(commands, [discard(8, 8), discard(100, 1)]);
    for (request, status) in requests.into_iter().zip([Status::WriteError, Status::Ok]) {
        assert!(driver.reap(0).is_empty(), "not before the last");
        driver.device.complete(&driver.ram, request.tag, status, request.data);
    }
    assert_eq!(driver.reap(0)[0].status, IO_ERROR, "if any fails");

    // To write zeroes that may deallocate: only where it then reads as zeroes.
    for (discard_zeroes, operation) in [(false, Operation::WriteZeroes), (true, Operation::Discard)]
    {
        let mut driver = Driver::new(Config { discard_zeroes, ..config() });
        assert_eq!(driver.read8(SPACE + 56), u8::from(discard_zeroes));
        let ranges = driver.ranges(&[(8, 8, 1), (16, 8, 0)]);
        assert_eq!(driver.io(WRITE_ZEROES, 0, &[ranges], &[]).status, OK);
        assert_eq!(driver.asked[0], Command::new(operation, 4096, 4096));
        assert_eq!(driver.asked[1], Command::new(Operation::WriteZeroes, 8192, 4096));
    }
}

#[test]
fn requests_that_cannot_be_are_answered_and_reach_no_drive() {
    let last = CAPACITY / 512;
    let far = 0x1_0000_0000;
    for wce in [true, false] {
        let mut driver = Driver::new(Config { volatile_write_cache: wce, ..config() });
        let cases = [
            (IN, last, vec![], vec![(DATA, 512)], IO_ERROR),
            (IN, last - 1, vec![], vec![(DATA, 1024)], IO_ERROR),
            (IN, u64::MAX, vec![], vec![(DATA, 512)], IO_ERROR),
            (IN, u64::MAX / 512, vec![], vec![(DATA, 512)], IO_ERROR),
            (IN, 0, vec![], vec![], IO_ERROR),
            (IN, 0, vec![], vec![(DATA, 500)], IO_ERROR),
            (IN, 0, vec![], vec![(DATA, u32::MAX - 511)], IO_ERROR),
            (OUT, last, vec![(DATA, 512)], vec![], IO_ERROR),
            (OUT, 0, vec![(far, 512)], vec![], IO_ERROR),
            (OUT, 0, vec![(u64::MAX - 100, 512)], vec![], IO_ERROR),
            (OUT, 0, vec![(DATA, 513)], vec![], IO_ERROR),
            (GET_ID, 0, vec![], vec![(far, 20)], IO_ERROR),
            (2, 0, vec![], vec![(DATA, 512)], UNSUPPORTED),
            (14, 0, vec![(DATA, 16)], vec![], UNSUPPORTED),
            (u32::MAX, 0, vec![], vec![], UNSUPPORTED),
            (DISCARD, 0, vec![driver.ranges(&[(0, 8, 0)])], vec![], OK),
            (DISCARD, 0, vec![(DATA, 15)], vec![], IO_ERROR),
            (DISCARD, 0, vec![(DATA, 16 * 257)], vec![], IO_ERROR),
            (DISCARD, 0, vec![(far, 16)], vec![], IO_ERROR),
        ];
        for (kind, sector, readable, writable, status) in cases {
            let end = driver.io(kind, sector, &readable, &writable);
            assert_eq!(end.status, status, "{kind} {sector} {readable:?} {writable:?}");
            let whole = u32::from(writable.is_empty());
            assert_eq!(end.length, if status == OK { 1 } else { whole });
        }
        for (kind, range, status) in [
            (DISCARD, (0, 8, 1), UNSUPPORTED),
            (WRITE_ZEROES, (0, 8, 2), UNSUPPORTED),
            (DISCARD, (last - 7, 8, 0), IO_ERROR),
            (DISCARD, (u64::MAX, 1, 0), IO_ERROR),
            (DISCARD, (0, u32::MAX, 0), IO_ERROR),
            (WRITE_ZEROES, (0, 1 << 17, 0), IO_ERROR),
        ] {
            let ranges = driver.ranges(&[range]);
            assert_eq!(driver.io(kind, 0, &[ranges], &[]).status, status, "{kind} {range:?}");
        }
        assert_eq!(driver.asked.len(), 1, "{:?}", driver.asked);
        assert_eq!(driver.device.device().fault(), None);
    }
    let mut driver = Driver::new(Config { read_only: true, ..config() });
    for kind in [OUT, DISCARD, WRITE_ZEROES] {
        assert_eq!(driver.io(kind, 0, &[(DATA, 512)], &[]).status, IO_ERROR);
    }
    assert_eq!(driver.io(IN, 0, &[], &[(DATA, 512)]).status, OK);
    // Each refusal is reported to those who keep a record.
    let mut refused = Vec::new();
    while let Some(one) = driver.device.pop_refused() {
        refused.push((one.command.operation, one.command.length, one.code));
    }
    let expected = [(Operation::Write, 512), (Operation::Discard, 0), (Operation::WriteZeroes, 0)];
    assert_eq!(refused, expected.map(|(operation, bytes)| (operation, bytes, IO_ERROR.into())));
}

#[test]
fn errors_of_the_drive_and_lost_memory_fail_the_request() {
    let mut driver = Driver::new(config());
    for (status, data) in [(Status::ReadError, vec![1; 512]), (Status::Ok, vec![1; 100])] {
        driver.put(0, IN, 0, &[], &[(DATA, 512)]).unwrap();
        driver.kick(0);
        let request = driver.device.pop_request().unwrap();
        driver.device.complete(&driver.ram, request.tag, status, data);
        let end = driver.reap(0)[0];
        assert_eq!((end.status, end.length), (IO_ERROR, 0));
        assert_eq!(driver.ram.bytes(DATA, 512), [0; 512]);
    }
    // The data's end is outside memory: found when it is delivered.
    let end = driver.io(IN, 0, &[], &[(RAM as u64 - 512, 1024)]);
    assert_eq!((end.status, end.length), (IO_ERROR, 0));
    assert_eq!(driver.device.device().statistics().failed, 3);
    assert_eq!(driver.device.device().fault(), None);
}

/// A descriptor: its place, and its content.
type Raw = (u64, u64, u32, u16, u16);

fn describe(driver: &Driver, descriptors: &[Raw]) {
    for &(at, address, length, flags, next) in descriptors {
        driver.ram.set(at, &address.to_le_bytes());
        driver.ram.set(at + 8, &length.to_le_bytes());
        driver.ram.set16(at + 12, flags);
        driver.ram.set16(at + 14, next);
    }
}

#[test]
fn chains_that_cannot_be_need_a_reset() {
    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const TABLE: u16 = 4;
    const FIRST: u64 = QUEUES;
    const SECOND: u64 = QUEUES + 16;
    let outside = OutOfMemoryRange { address: RAM as u64, length: 1 };
    let cases: [(&str, &[Raw], Fault); 11] = [
        ("next", &[(FIRST, DATA, 16, NEXT, 500)], Fault::Descriptor(500)),
        (
            "loop",
            &[(FIRST, DATA, 16, NEXT, 1), (SECOND, DATA + 0x1000, 16, NEXT, 0)],
            Fault::Endless,
        ),
        ("order", &[(FIRST, DATA, 16, NEXT | WRITE, 1), (SECOND, DATA, 16, 0, 0)], Fault::Order),
        ("no status", &[(FIRST, DATA, 16, 0, 0)], Fault::Request),
        ("no header", &[(FIRST, DATA, 15, NEXT, 1), (SECOND, DATA, 1, WRITE, 0)], Fault::Request),
        (
            "status outside",
            &[(FIRST, DATA, 16, NEXT, 1), (SECOND, RAM as u64, 1, WRITE, 0)],
            Fault::Memory(outside),
        ),
        ("table's length", &[(FIRST, DATA, 24, TABLE, 0)], Fault::Indirect),
        ("table too long", &[(FIRST, DATA, 16 * 129, TABLE, 0)], Fault::Indirect),
        ("table with a next", &[(FIRST, DATA, 16, TABLE | NEXT, 0)], Fault::Indirect),
        (
            "table in a table",
            &[(FIRST, DATA, 16, TABLE, 0), (DATA, DATA, 16, TABLE, 0)],
            Fault::Indirect,
        ),
        (
            "table that loops",
            &[(FIRST, DATA, 16, TABLE, 0), (DATA, DATA, 16, NEXT, 0)],
            Fault::Endless,
        ),
    ];
    for (name, descriptors, fault) in cases {
        let mut driver = Driver::new(config());
        describe(&driver, descriptors);
        driver.make_available(0, 0);
        driver.notify(0);
        assert_eq!(driver.device.device().fault(), Some(fault), "{name}");
        assert_eq!(driver.read8(20), 15 | 64, "{name}");
        assert_eq!(driver.interrupts(), [2], "{name}");
        assert_eq!(driver.device.device().in_flight(), 0);
        // It does nothing more until it is reset.
        driver.put(1, FLUSH, 0, &[], &[]).unwrap();
        driver.notify(1);
        assert!(driver.device.pop_request().is_none(), "{name}");
        driver.start(&[]);
        assert_eq!(driver.io(FLUSH, 0, &[], &[]).status, OK, "{name}");
    }
    let mut driver = Driver::new(config());
    driver.make_available(0, 128);
    driver.notify(0);
    assert_eq!(driver.device.device().fault(), Some(Fault::Descriptor(128)));
    // More than the queue has room for.
    let mut driver = Driver::new(config());
    driver.ram.set16(QUEUES + 0x4002, 129);
    driver.notify(0);
    assert_eq!(driver.device.device().fault(), Some(Fault::Available(129)));
    // The same chain again and again, while it is at the drive.
    let mut driver = Driver::new(config());
    let head = driver.put(0, FLUSH, 0, &[], &[]).unwrap();
    (0..128).for_each(|_| driver.make_available(0, head));
    driver.notify(0);
    assert_eq!(driver.device.device().fault(), Some(Fault::Available(129)));
    // An indirect descriptor where none was negotiated.
    let mut driver = Driver::without(config(), &[feature::INDIRECT_DESC]);
    describe(&driver, &[(QUEUES, DATA, 16, 4, 0)]);
    driver.make_available(0, 0);
    driver.notify(0);
    assert_eq!(driver.device.device().fault(), Some(Fault::Indirect));
}

#[test]
fn normal_descriptors_may_come_before_an_indirect_one() {
    let mut driver = Driver::new(config());
    describe(
        &driver,
        &[
            (QUEUES, DATA, 16, 1, 1), // the header
            (QUEUES + 16, DATA + 0x1000, 32, 4, 0),
            (DATA + 0x1000, DATA + 0x2000, 512, 1 | 2, 1),
            (DATA + 0x1010, DATA + 0x3000, 1, 2, 0),
        ],
    );
    driver.disk[..512].fill(9);
    driver.make_available(0, 0);
    driver.notify(0);
    driver.serve();
    assert_eq!(driver.ram.bytes(DATA + 0x2000, 512), [9; 512]);
    assert_eq!(driver.ram.bytes(DATA + 0x3000, 1), [OK]);
}

#[test]
fn exact_notifies_every_submission_and_lazy_none() {
    for unknown in [vec![], vec![feature::EVENT_IDX]] {
        let mut exact = Driver::without(config(), &unknown);
        let lazy = Config { notify: Doorbells::Lazy, ..config() };
        let mut lazy = Driver::without(lazy, &unknown);
        // Around the 16-bit indices.
        for round in 0..70_000u32 {
            let busy = round % 7 == 0;
            assert_eq!(exact.io(FLUSH, 0, &[], &[]).status, OK);
            lazy.put(0, FLUSH, 0, &[], &[]).unwrap();
            assert!(!lazy.kick(0), "round {round}");
            if busy {
                lazy.put(0, FLUSH, 0, &[], &[]).unwrap();
                assert!(!lazy.kick(0), "round {round}");
            }
            lazy.device.poll(&lazy.ram);
            lazy.serve();
            assert_eq!(lazy.reap(0).len(), 1 + usize::from(busy));
        }
        assert_eq!((exact.kicks, lazy.kicks), (70_000, 0));
        assert_eq!(exact.device.device().statistics().notifications, 70_000);
    }
}

#[test]
fn interrupts_come_when_the_driver_wants_them() {
    for unknown in [vec![], vec![feature::EVENT_IDX]] {
        let events = unknown.is_empty();
        let mut driver = Driver::without(config(), &unknown);
        let batch = |driver: &mut Driver, count| {
            for _ in 0..count {
                driver.put(0, FLUSH, 0, &[], &[]).unwrap();
            }
            driver.kick(0);
            driver.serve();
            driver.reap(0);
            !driver.interrupts().is_empty()
        };
        let used = driver.used(0);
        driver.want_interrupt(0, used);
        assert!(batch(&mut driver, 3));
        let used = driver.used(0);
        driver.want_interrupt(0, if events { used.wrapping_add(3) } else { u16::MAX });
        assert!(!batch(&mut driver, 3), "not yet");
        if !events {
            driver.want_interrupt(0, 0);
        }
        assert!(batch(&mut driver, 1));
        let sent = driver.device.device().statistics().interrupts;
        assert_eq!(sent, if events { 2 } else { 4 });
    }
}

#[test]
fn what_is_held_is_bounded_and_what_waited_goes_on() {
    let bytes = 62 * (16 << 10);
    let mut driver = Driver::new(Config { max_in_flight_bytes: bytes + 4096, ..config() });
    for queue in [0, 1] {
        for sector in 0..20 {
            driver.put(queue, IN, 8 * sector, &[], &[(DATA, 4096)]).unwrap();
        }
        driver.kick(queue);
    }
    let mut ends = 0;
    let mut rounds = 0;
    while ends < 40 {
        let mut held: Vec<_> = std::iter::from_fn(|| driver.device.pop_request()).collect();
        let total: usize = held.iter().map(|request| request.data.len()).sum();
        assert!((4096..=bytes + 4096).contains(&total), "{total}");
        assert!(driver.device.device().is_behind() || ends + held.len() == 40);
        for mut request in held.drain(..) {
            driver.perform(&mut request);
            driver.device.complete(&driver.ram, request.tag, Status::Ok, request.data);
        }
        ends += driver.reap(0).len() + driver.reap(1).len();
        rounds += 1;
    }
    assert!(rounds > 10, "only {rounds} rounds");
}

/// A driver's action in one step.
#[derive(Debug, Clone)]
enum Step {
    Write { queue: u16, sector: u64, sectors: u64, value: u8, pieces: u32 },
    Read { queue: u16, sector: u64, sectors: u64, pieces: u32 },
    Zero { queue: u16, sector: u64, sectors: u64, unmap: bool },
    Flush { queue: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = (0..2u16, 0..200u64, 1..20u64);
    let step = prop_oneof![
        4 => (place.clone(), any::<u8>(), 1..9u32).prop_map(
            |((queue, sector, sectors), value, pieces)| Step::Write { queue, sector, sectors, value, pieces }),
        4 => (place.clone(), 1..9u32).prop_map(
            |((queue, sector, sectors), pieces)| Step::Read { queue, sector, sectors, pieces }),
        1 => (place, any::<bool>()).prop_map(
            |((queue, sector, sectors), unmap)| Step::Zero { queue, sector, sectors, unmap }),
        1 => (0..2u16).prop_map(|queue| Step::Flush { queue }),
    ];
    prop::collection::vec(step, 1..60)
}

/// `length` bytes at `base` in about `count` pieces, every other at another
/// place, and the driver's content there.
fn split(base: u64, length: u32, count: u32) -> Vec<Piece> {
    let part = (length / count).max(1);
    (0..length)
        .step_by(part as usize)
        .enumerate()
        .map(|(index, at)| {
            (base + u64::from(at) + (index as u64 % 2) * 0x10_0000, part.min(length - at))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any requests in any pieces, done in batches and in the drive's order, leave and find the
    /// content of a plain disk; each ends once.
    #[test]
    fn the_disk_is_as_a_plain_one(
        steps in steps(),
        indirect in any::<bool>(),
        events in any::<bool>(),
        discard_zeroes in any::<bool>(),
        lazy in any::<bool>(),
        batch in 1usize..12,
        seed in any::<u64>(),
    ) {
        let notify = if lazy { Doorbells::Lazy } else { Doorbells::Exact };
        let mut unknown = Vec::new();
        if !indirect { unknown.push(feature::INDIRECT_DESC); }
        if !events { unknown.push(feature::EVENT_IDX); }
        let mut driver = Driver::without(Config { discard_zeroes, notify, ..config() }, &unknown);
        let mut plain = vec![0u8; driver.disk.len()];
        for chunk in steps.chunks(batch) {
            let mut expected = std::collections::HashMap::new();
            // Heads of each queue's chains, in the order in which they were put there.
            let mut heads = [(); 2].map(|()| std::collections::VecDeque::new());
            let mut asked = 0;
            for (index, step) in chunk.iter().enumerate() {
                let base = DATA + 0x1_0000 * index as u64;
                let put = match *step {
                    Step::Write { queue, sector, sectors, value, pieces } => {
                        let pieces = split(base, sectors as u32 * 512, pieces);
                        for &(address, length) in &pieces {
                            driver.ram.fill(address, length as usize, value);
                        }
                        (queue, driver.put(queue, OUT, sector, &pieces, &[]))
                    }
                    Step::Read { queue, sector, sectors, pieces } => {
                        let pieces = split(base, sectors as u32 * 512, pieces);
                        for &(address, length) in &pieces {
                            driver.ram.fill(address, length as usize, 0xa5);
                        }
                        (queue, driver.put(queue, IN, sector, &[], &pieces))
                    }
                    Step::Zero { queue, sector, sectors, unmap } => {
                        driver.ram.set(base, &sector.to_le_bytes());
                        driver.ram.set(base + 8, &(sectors as u32).to_le_bytes());
                        driver.ram.set(base + 12, &u32::from(unmap).to_le_bytes());
                        (queue, driver.put(queue, WRITE_ZEROES, 0, &[(base, 16)], &[]))
                    }
                    Step::Flush { queue } => (queue, driver.put(queue, FLUSH, 0, &[], &[])),
                };
                let (queue, Some(head)) = put else { continue };
                expected.insert((queue, head), (step.clone(), base));
                heads[usize::from(queue)].push_back(head);
                asked += 1;
                driver.kick(queue);
            }
            driver.device.poll(&driver.ram);
            // The drive does them in a different order.
            let mut requests = Vec::new();
            while let Some(request) = driver.device.pop_request() {
                requests.push((heads[usize::from(request.queue)].pop_front().unwrap(), request));
            }
            prop_assert_eq!(requests.len(), asked);
            let order = seed as usize % requests.len().max(1);
            requests.rotate_left(order);
            let mut found = std::collections::HashMap::new();
            for (head, mut request) in requests {
                match expected[&(request.queue, head)].0 {
                    Step::Write { sector, sectors, value, .. } => {
                        plain[sector as usize * 512..][..sectors as usize * 512].fill(value);
                    }
                    Step::Zero { sector, sectors, .. } => {
                        plain[sector as usize * 512..][..sectors as usize * 512].fill(0);
                    }
                    Step::Read { sector, sectors, .. } => {
                        let bytes = plain[sector as usize * 512..][..sectors as usize * 512].to_vec();
                        found.insert((request.queue, head), bytes);
                    }
                    Step::Flush { .. } => {}
                }
                driver.perform(&mut request);
                driver.device.complete(&driver.ram, request.tag, Status::Ok, request.data);
            }
            prop_assert!(driver.disk == plain);
            let mut ended = 0;
            for queue in 0..2 {
                for end in driver.reap(queue) {
                    ended += 1;
                    prop_assert_eq!(end.status, OK);
                    let (step, base) = &expected[&(queue, end.head)];
                    if let Step::Read { sectors, pieces, .. } = *step {
                        let bytes = &found[&(queue, end.head)];
                        prop_assert_eq!(end.length as usize, bytes.len() + 1);
                        let mut read = Vec::new();
                        for (address, length) in split(*base, sectors as u32 * 512, pieces) {
                            read.extend(driver.ram.bytes(address, length as usize));
                        }
                        prop_assert!(&read == bytes, "data of {step:?}");
                    }
                }
            }
            prop_assert_eq!(ended, asked);
            prop_assert_eq!(driver.device.device().in_flight(), 0);
        }
    }
}
