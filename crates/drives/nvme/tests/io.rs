//! I/O commands: data by all shapes of PRPs, errors, limits, completion queues
//! that are full, shadow doorbells.

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{Doorbells, Operation, Status};
use stasis_nvme::{Config, Namespace};

const WRITE: u8 = 1;
const READ: u8 = 2;

/// Places of a command's data in guest memory: pages in any order, the first from an offset on, and
/// the lists of these pages.
#[derive(Debug, Clone)]
struct Layout {
    blocks: u32,
    first_offset: u64,
    list_offset: u64,
    pages: Vec<u64>,
}

impl Layout {
    fn length(&self) -> usize {
        self.blocks as usize * 512
    }

    /// Writes the lists and returns PRP1 and PRP2.
    fn prps(&self, ram: &Ram) -> (u64, u64) {
        let count = (self.first_offset as usize + self.length()).div_ceil(4096);
        let page = |index: usize| DATA + self.pages[index] * PAGE;
        let prp1 = page(0) + self.first_offset;
        match count {
            1 => (prp1, 0xdead_beef),
            2 => (prp1, page(1)),
            _ => {
                let mut at = SCRATCH + self.list_offset;
                for index in 1..count {
                    if at % PAGE == PAGE - 8 && index < count - 1 {
                        // A chain to the next page, which lies elsewhere.
                        let next = (at & !(PAGE - 1)) + 3 * PAGE;
                        ram.set64(at, next);
                        at = next;
                    }
                    ram.set64(at, page(index));
                    at += 8;
                }
                (prp1, SCRATCH + self.list_offset)
            }
        }
    }

    fn pieces(&self) -> Vec<(u64, usize)> {
        let mut pieces = Vec::new();
        let (mut remaining, mut offset) = (self.length(), self.first_offset);
        for page in &self.pages {
            let length = remaining.min((PAGE - offset) as usize);
            if length == 0 {
                break;
            }
            pieces.push((DATA + page * PAGE + offset, length));
            (remaining, offset) = (remaining - length, 0);
        }
        assert_eq!(remaining, 0);
        pieces
    }

    fn put(&self, ram: &Ram, data: &[u8]) {
        let mut rest = data;
        for (address, length) in self.pieces() {
            ram.set(address, &rest[..length]);
            rest = &rest[length..];
        }
    }

    fn get(&self, ram: &Ram) -> Vec<u8> {
        self.pieces().iter().flat_map(|&(address, length)| ram.get(address, length)).collect()
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    let pages = Just((0..600).collect::<Vec<u64>>()).prop_shuffle();
    let blocks = prop_oneof![1u32..24, Just(1024), 1u32..=1024, 2000u32..=4096];
    (blocks, 0u64..1024, prop_oneof![0u64..512, 505u64..512], pages, any::<bool>()).prop_map(
        |(blocks, first, list, mut pages, sorted)| {
            if sorted {
                pages.sort(); // Contiguous memory.
            }
            Layout { blocks, first_offset: first * 4, list_offset: list * 8, pages }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Data written through one set of pages is read through another.
    #[test]
    fn data_goes_through_all_shapes_of_prps(
        (out, mut back) in (layout(), layout()),
        lba in 0u64..BLOCKS - 4096,
        seed in any::<u8>(),
    ) {
        let config = Config { max_transfer: 2 << 20, ..config() };
        let mut driver = Driver::with_queues(config, 1, 8);
        let data: Vec<u8> = (0..out.length())
            .map(|i| seed.wrapping_mul(31).wrapping_add((i / 7 + i / 4096) as u8))
            .collect();
        out.put(&driver.ram, &data);
        let (prp1, prp2) = out.prps(&driver.ram);
        prop_assert_eq!(driver.io(Sqe::io(WRITE, lba, out.blocks, prp1, prp2)).status, 0);
        let at = lba as usize * 512;
        prop_assert!(driver.disk[at..at + data.len()] == data);
        prop_assert!(driver.disk[..at].iter().all(|&byte| byte == 0));

        back.blocks = out.blocks;
        driver.ram.set(DATA, &vec![0x55; 600 * 4096]);
        let (prp1, prp2) = back.prps(&driver.ram);
        prop_assert_eq!(driver.io(Sqe::io(READ, lba, back.blocks, prp1, prp2)).status, 0);
        prop_assert!(back.get(&driver.ram) == data);
        // And not a byte beside.
        back.put(&driver.ram, &vec![0x55; data.len()]);
        prop_assert!(driver.ram.get(DATA, 600 * 4096).iter().all(|&byte| byte == 0x55));
    }

    /// Shadow doorbells under batches of any size, over many rounds of small
    /// rings: `Exact` rings at each, `Lazy` never, heads never, and nothing is
    /// lost.
    #[test]
    fn shadow_doorbells_ring_as_the_policy_says(
        policy in prop_oneof![Just(Doorbells::Exact), Just(Doorbells::Lazy)],
        size in 2u16..12,
        steps in prop::collection::vec((1u16..12, any::<bool>(), 0usize..12), 1..150),
    ) {
        let mut driver = Driver::with_queues(Config { shadow: policy, ..config() }, 2, size);
        // Values left over from before are the driver's own to keep right.
        driver.configure_shadow();
        let (mut rings, mut sent, mut got) = (0, 0u32, 0u32);
        let mut pending = Vec::new();
        for (batch, one_by_one, served) in steps {
            let room = u32::from(size - 1) - (sent - got);
            let batch = u32::from(batch).min(room);
            for index in 0..batch {
                driver.put(2, Sqe::io(READ, 0, 1, DATA, 0));
                if one_by_one || index == batch - 1 {
                    driver.ring(2);
                    rings += 1;
                }
            }
            sent += batch;
            if policy == Doorbells::Lazy {
                prop_assert!(batch == 0 || driver.controller.pop_request().is_none());
                driver.controller.pcie().poll_shadow(&driver.ram);
            }
            pending.extend(std::iter::from_fn(|| driver.controller.pop_request()));
            prop_assert_eq!(pending.len() as u32, sent - got);
            for request in pending.drain(..served.min(pending.len())) {
                driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
            }
            got += driver.reap(2).len() as u32;
            prop_assert_eq!(pending.len() as u32, sent - got);
        }
        let expected = if policy == Doorbells::Exact { rings } else { 0 };
        prop_assert_eq!((driver.tail_rings, driver.head_rings), (expected, 0));
    }

    /// Completion queues smaller than the number of completions, with heads by register or
    /// by shadow: everything arrives, in order.
    #[test]
    fn completions_wait_for_room(
        shadow in prop_oneof![Just(None), Just(Some(Doorbells::Exact)), Just(Some(Doorbells::Lazy))],
        cq_size in 2u16..6,
        taken in prop::collection::vec(1usize..5, 200),
    ) {
        let config = Config { shadow: shadow.unwrap_or_default(), ..config() };
        let mut driver = Driver::new(config);
        driver.create_pair(1, 32, cq_size, 1);
        if shadow.is_some() {
            driver.configure_shadow();
        }
        let mut expected = Vec::new();
        let mut cids = Vec::new();
        for round in 0..6 {
            for index in 0..12 {
                // Good commands and ones that fail at once.
                let lba = if (round + index) % 3 == 0 { BLOCKS } else { 0 };
                expected.push(driver.put(1, Sqe::io(READ, lba, 1, DATA, 0)));
            }
            driver.ring(1);
            if shadow == Some(Doorbells::Lazy) {
                driver.controller.pcie().poll_shadow(&driver.ram);
            }
            let mut takes = taken.iter();
            while cids.len() < expected.len() {
                driver.serve();
                let before = cids.len();
                for _ in 0..*takes.next().unwrap() {
                    cids.extend(driver.next(1).map(|cqe| cqe.cid));
                }
                prop_assert!(cids.len() > before, "a completion is there");
                driver.ring_head(1);
            }
            prop_assert!(driver.next(1).is_none());
        }
        cids.sort();
        prop_assert_eq!(cids, expected);
        prop_assert_eq!(driver.controller.in_flight(), 0);
    }
}

#[test]
fn wrong_prps_are_told() {
    let mut driver = Driver::with_queues(Config { max_transfer: 2 << 20, ..config() }, 1, 8);
    let outside = RAM as u64;
    driver.ram.set64(SCRATCH, DATA + 8);
    driver.ram.set64(SCRATCH + PAGE - 8, DATA + 16);
    // A list that is a chain to itself: ends when the length does.
    let itself = 0x8000;
    for entry in 0..512 {
        driver.ram.set64(itself + entry * 8, itself);
    }
    for (prp1, prp2, blocks, status) in [
        (DATA + 1, 0, 1, 0x013),
        (DATA + 2, 0, 1, 0x013),
        (DATA, DATA + 4, 16, 0x013),
        (DATA + 4, DATA + 4, 8, 0x013),
        (DATA, SCRATCH + 4, 24, 0x013),
        (DATA, SCRATCH, 24, 0x013),
        (DATA, SCRATCH + PAGE - 8, 24, 0x013),
        (outside, 0, 1, 0x004),
        (outside - 256, outside, 1, 0x004),
        (u64::MAX - 511, 0, 1, 0x004),
        (u64::MAX - 3, 0, 1, 0x004),
        (DATA, outside, 16, 0x004),
        (DATA, outside, 24, 0x004),
        (DATA, u64::MAX - 7, 24, 0x004),
        (DATA, itself, 4096, 0),
        (DATA, itself + PAGE - 8, 4096, 0),
    ] {
        for opcode in [WRITE, READ] {
            let before = driver.asked.len();
            let cqe = driver.io(Sqe::io(opcode, 0, blocks, prp1, prp2));
            assert_eq!(cqe.status, status, "{opcode}: {prp1:x} {prp2:x} {blocks}");
            if opcode == WRITE {
                assert_eq!(driver.asked.len() - before, usize::from(status == 0));
                for entry in 0..512 {
                    driver.ram.set64(itself + entry * 8, itself);
                }
                driver.disk.fill(0);
            }
        }
        for entry in 0..512 {
            driver.ram.set64(itself + entry * 8, itself);
        }
    }
    assert_eq!(driver.controller.in_flight(), 0);
}

#[test]
fn commands_are_checked() {
    let namespaces = vec![
        Namespace::new(BLOCKS, 512),
        Namespace { start: BLOCKS * 512, read_only: true, ..Namespace::new(100, 4096) },
    ];
    let config = Config { namespaces, max_transfer: 64 << 10, ..config() };
    let mut driver = Driver::with_queues(config, 1, 8);
    let good = Sqe::io(READ, 0, 1, DATA, 0);
    let dataset = Sqe { opcode: 9, cdw11: 4, ..good };
    for (sqe, status, dnr) in [
        (good, 0, false),
        (Sqe { opcode: 3, ..good }, 0x001, true),
        (Sqe { opcode: 0x80, ..good }, 0x001, true),
        (Sqe { flags: 1, ..good }, 0x002, true),
        (Sqe { flags: 0xc0, ..good }, 0x002, true),
        (Sqe { nsid: 0, ..good }, 0x00b, true),
        (Sqe { nsid: 3, ..good }, 0x002, true),
        (Sqe { nsid: 129, ..good }, 0x00b, true),
        (Sqe { nsid: u32::MAX, ..good }, 0x00b, true),
        (Sqe { nsid: 3, opcode: 0, ..good }, 0x002, true),
        (Sqe { nsid: 3, ..dataset }, 0x002, true),
        (Sqe::io(READ, BLOCKS - 1, 2, DATA, 0), 0x080, true),
        (Sqe::io(READ, BLOCKS, 1, DATA, 0), 0x080, true),
        (Sqe::io(READ, u64::MAX, 1, DATA, 0), 0x080, true),
        (Sqe::io(8, BLOCKS - 1, 2, DATA, 0), 0x080, true),
        (Sqe::io(READ, 0, 129, DATA, SCRATCH), 0x002, true),
        (Sqe { nsid: 2, opcode: WRITE, ..good }, 0x020, true),
        (Sqe { nsid: 2, opcode: 8, ..good }, 0x020, true),
        (Sqe { nsid: 2, ..dataset }, 0x020, true),
        (Sqe { nsid: 2, opcode: 0, ..good }, 0, false),
    ] {
        let cqe = driver.io(sqe);
        assert_eq!((cqe.status, cqe.dnr), (status, dnr), "{sqe:x?}");
    }
}

#[test]
fn requests_say_what_the_command_asked() {
    let namespaces = vec![
        Namespace::new(BLOCKS, 512),
        Namespace { start: BLOCKS * 512, ..Namespace::new(100, 4096) },
    ];
    let mut driver = Driver::with_queues(Config { namespaces, ..config() }, 2, 8);
    let fua = 1 << 30;
    let command = |driver: &mut Driver, sqe| {
        driver.submit(2, sqe);
        let request = driver.controller.pop_request().unwrap();
        let command = request.command;
        assert_eq!(request.queue, 2);
        driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
        assert_eq!(driver.reap(2)[0].status, 0);
        (command.operation, command.offset, command.length, command.fua)
    };
    let of_two = Sqe { nsid: 2, ..Sqe::io(WRITE, 3, 1, DATA, 0) };
    let place = BLOCKS * 512 + 12288;
    assert_eq!(command(&mut driver, of_two), (Operation::Write, place, 4096, false));
    let forced = Sqe { cdw12: fua, ..Sqe::io(WRITE, 3, 1, DATA, 0) };
    assert_eq!(command(&mut driver, forced), (Operation::Write, 1536, 512, true));
    let forced = Sqe { cdw12: fua | 7, ..Sqe::io(READ, 1, 8, DATA, 0) };
    assert_eq!(command(&mut driver, forced), (Operation::Read, 512, 4096, true));
    // Write Zeroes is not bounded by the largest transfer.
    let zeroes = Sqe { cdw12: 8191, ..Sqe::io(8, 0, 1, 0, 0) };
    assert_eq!(command(&mut driver, zeroes), (Operation::WriteZeroes, 0, 4 << 20, false));
    let flush = Sqe { opcode: 0, nsid: 2, ..Default::default() };
    assert_eq!(command(&mut driver, flush), (Operation::Flush, 0, 0, false));
    // With the volatile write cache off every write is forced.
    assert_eq!(driver.set_feature(6, 0).status, 0);
    assert!(command(&mut driver, of_two).3);
    assert!(command(&mut driver, zeroes).3);
    assert!(!command(&mut driver, Sqe::io(READ, 1, 8, DATA, 0)).3);
    // A flush of all namespaces completes with the last.
    assert_eq!(driver.set_feature(6, 1).status, 0);
    driver.submit(1, Sqe { opcode: 0, nsid: u32::MAX, ..Default::default() });
    for _ in 0..2 {
        assert!(driver.next(1).is_none());
        let request = driver.controller.pop_request().unwrap();
        assert_eq!(request.command.operation, Operation::Flush);
        driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    }
    assert_eq!(driver.reap(1)[0].status, 0);
}

#[test]
fn errors_of_the_medium_reach_the_guest() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    driver.ram.set(DATA, &[9; 512]);
    for (opcode, error, status) in
        [(READ, Status::ReadError, 0x281), (WRITE, Status::WriteError, 0x280)]
    {
        driver.submit(1, Sqe::io(opcode, 77, 1, DATA, 0));
        let request = driver.controller.pop_request().unwrap();
        driver.controller.complete(&driver.ram, request.tag, error, request.data);
        let cqe = driver.reap(1)[0];
        assert_eq!((cqe.status, cqe.dnr), (status, false));
    }
    assert_eq!(driver.ram.get(DATA, 512), [9; 512], "no data with an error");
    let log = driver.log(1, 64);
    assert_eq!((log[16], log[24]), (77, 1), "block and namespace");
    assert_eq!(driver.controller.statistics().media_errors, 1, "a failed write lost no data");
    // A drive that gives back too little.
    driver.submit(1, Sqe::io(READ, 0, 1, DATA, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, vec![0; 100]);
    assert_eq!(driver.reap(1)[0].status, 0x281);
}

#[test]
fn interrupts_follow_their_queues() {
    let mut driver = Driver::new(config());
    driver.create_pair(1, 8, 8, 3);
    driver.create_pair(2, 8, 8, 64);
    assert_eq!(driver.interrupts(), [0], "of the admin queue");
    // Pair 3 has its interrupts disabled.
    let cq = QUEUES + 3 * 0x20000 + 0x10000;
    let create = Sqe { opcode: 5, prp1: cq, cdw10: 7 << 16 | 3, cdw11: 1, ..Default::default() };
    assert_eq!(driver.admin(create).status, 0);
    assert_eq!(driver.create_sq(3, 8, 3).status, 0);
    let sq = cq - 0x10000;
    driver.pairs.push(Pair {
        id: 3,
        sq,
        cq,
        sq_size: 8,
        cq_size: 8,
        tail: 0,
        head: 0,
        phase: true,
        last_cid: 0,
    });
    driver.interrupts();
    for queue in [2, 1, 3, 2] {
        driver.submit(queue, Sqe::io(READ, 0, 1, DATA, 0));
    }
    assert!(driver.interrupts().is_empty());
    driver.serve();
    assert_eq!(driver.interrupts(), [3, 64]);
    assert_eq!(driver.reap(3).len(), 1);
    let completions = driver.reap(2);
    assert_eq!((completions[0].sq_id, completions[0].sq_head, completions[1].sq_head), (2, 2, 2));
}

#[test]
fn coalesced_interrupts_come_in_time() {
    let mut driver = Driver::with_queues(Config { interrupt_coalescing: true, ..config() }, 1, 8);
    assert_eq!(driver.set_feature(8, 5 << 8 | 3).status, 0);
    driver.interrupts();
    driver.controller.set_time(1_000);
    driver.io(Sqe::io(READ, 0, 1, DATA, 0));
    assert!(driver.interrupts().is_empty());
    assert_eq!(driver.controller.next_deadline(), Some(501_000));
    driver.controller.set_time(501_000);
    assert_eq!(driver.interrupts(), [1]);
    for _ in 0..4 {
        assert!(driver.interrupts().is_empty());
        driver.io(Sqe::io(READ, 0, 1, DATA, 0));
    }
    assert_eq!(driver.interrupts(), [1]);
    assert_eq!(driver.controller.next_deadline(), None);
}

#[test]
fn what_is_in_flight_is_bounded() {
    let config = Config { max_in_flight_bytes: 2 << 20, ..config() };
    let mut driver = Driver::with_queues(config, 2, 64);
    driver.ram.set(SCRATCH, &DATA.to_le_bytes().repeat(512));
    // 60 writes of 256 KiB, all of the same memory: 15 MiB.
    for queue in [1, 2] {
        for _ in 0..30 {
            driver.put(queue, Sqe::io(WRITE, 0, 512, DATA, SCRATCH));
        }
        driver.ring(queue);
    }
    let (mut done, mut most) = (0, 0);
    let mut held = std::collections::VecDeque::new();
    loop {
        held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
        most = most.max(held.len());
        let Some(request) = held.pop_front() else { break };
        driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
        done += 1;
    }
    assert_eq!(done, 60);
    assert_eq!(most, 7, "room for one more of the largest transfer is kept");
    assert_eq!(driver.reap(1).len() + driver.reap(2).len(), 60);
}

#[test]
fn a_queue_of_wrong_doorbells_goes_on() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    for (offset, value) in [
        (8, 8),
        (8, u32::MAX),
        (8, 0x1_0001),
        (12, 1),
        (12, 8),
        (12, u32::MAX),
        (16, 1),
        (0x2ffc, 1),
    ] {
        driver.write32(0x1000 + offset, value);
    }
    assert_eq!(driver.io(Sqe::io(READ, 0, 1, DATA, 0)).status, 0);
    // By shadow: an invalid tail fetches nothing.
    driver.configure_shadow();
    driver.ram.set32(SHADOW + 8, 8);
    driver.controller.pcie().poll_shadow(&driver.ram);
    driver.ram.set32(SHADOW + 8, 0x1_0001);
    driver.controller.pcie().poll_shadow(&driver.ram);
    assert!(driver.controller.pop_request().is_none());
    driver.ram.set32(SHADOW + 8, driver.pairs[1].tail.into());
    assert_eq!(driver.io(Sqe::io(READ, 0, 1, DATA, 0)).status, 0);
    assert!(!driver.controller.pcie().has_failed());
}

#[test]
fn doorbell_buffers_are_checked() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    for (prp1, prp2) in [
        (0, EVENTS),
        (SHADOW, 0),
        (SHADOW + 8, EVENTS),
        (SHADOW, EVENTS + 4),
        (RAM as u64, EVENTS),
        (SHADOW, u64::MAX - 4095),
    ] {
        let sqe = Sqe { opcode: 0x7c, prp1, prp2, ..Default::default() };
        assert_eq!(driver.admin(sqe).status, 0x002, "{prp1:x} {prp2:x}");
        assert!(!driver.controller.pcie().has_shadow());
    }
    driver.configure_shadow();
    // A queue made anew does not start from its predecessor's shadow.
    driver.io(Sqe::io(READ, 0, 1, DATA, 0));
    for opcode in [0, 4] {
        assert_eq!(driver.admin(Sqe { opcode, cdw10: 1, ..Default::default() }).status, 0);
    }
    driver.create_pair(1, 8, 8, 1);
    driver.controller.pcie().poll_shadow(&driver.ram);
    assert!(driver.controller.pop_request().is_none());
    for _ in 0..20 {
        assert_eq!(driver.io(Sqe::io(READ, 0, 1, DATA, 0)).status, 0);
    }
    let config = Config { shadow_doorbells: false, ..config() };
    let mut driver = Driver::new(config);
    let sqe = Sqe { opcode: 0x7c, prp1: SHADOW, prp2: EVENTS, ..Default::default() };
    assert_eq!(driver.admin(sqe).status, 0x001);
    assert_eq!(driver.identify(1, 0).1[257] & 1, 0);
    assert_eq!(driver.log(5, 4096)[0x7c * 4], 0);
}

#[test]
fn no_command_is_begun_while_a_completion_waits() {
    let mut driver = Driver::new(config());
    driver.create_pair(1, 64, 2, 1);
    // Each fails at once, and there is room for one completion.
    for _ in 0..20 {
        driver.put(1, Sqe { opcode: 0x7f, ..Default::default() });
    }
    for _ in 0..1000 {
        driver.ring(1);
    }
    // The tenth was not looked at yet: the driver can still change it.
    let other = Sqe { cid: 10, nsid: 9, ..Default::default() };
    driver.ram.set(driver.pairs[1].sq + 9 * 64, &other.to_bytes());
    for cid in 1..=20 {
        let completions = driver.reap(1);
        assert_eq!((completions.len(), completions[0].cid, completions[0].sq_head), (1, cid, cid));
        assert_eq!(completions[0].status, if cid == 10 { 0x002 } else { 0x001 });
    }
}

#[test]
fn memory_that_goes_away_fails_the_controller() {
    type Loss = fn(&mut Driver);
    let losses: [(Loss, usize); 4] = [
        // The submission queue, the completion queue, both doorbell buffers.
        (|driver| driver.ring(1), QUEUES as usize),
        (|driver| driver.serve(), QUEUES as usize + 0x30000),
        (|driver| driver.write32(0x1008, 1), SHADOW as usize),
        (|driver| driver.controller.pcie().poll_shadow(&driver.ram), SHADOW as usize),
    ];
    for (index, (act, bytes)) in losses.into_iter().enumerate() {
        let mut driver = Driver::with_queues(config(), 1, 8);
        if index == 1 {
            driver.submit(1, Sqe { opcode: 0, nsid: 1, ..Default::default() });
        } else {
            driver.put(1, Sqe { opcode: 0, nsid: 1, ..Default::default() });
        }
        if index >= 2 {
            driver.configure_shadow();
            driver.shadow = None;
        }
        driver.ram.bytes.borrow_mut().truncate(bytes);
        act(&mut driver);
        assert!(driver.controller.pcie().has_failed(), "case {index}");
        assert_eq!(driver.read32(0x1c), 3);
        driver.serve();
        driver.ram.bytes.borrow_mut().resize(RAM, 0);
        driver.disable();
        driver.enable();
        driver.create_pair(1, 8, 8, 1);
        assert_eq!(driver.io(Sqe::io(READ, 0, 1, DATA, 0)).status, 0);
    }
}
