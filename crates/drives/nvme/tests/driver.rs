//! The controller under a driver that works as Linux's does: setting up,
//! admin commands, and the life of the controller.

use crate::support::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, ConfigError, Namespace};

#[test]
fn registers_tell_what_is_offered() {
    let mut driver = Driver::cold(Config { queue_entries: 128, ..config() });
    assert_eq!(driver.read32(0x08), 0x10400, "version 1.4");
    let capabilities = u64::from(driver.read32(0)) | u64::from(driver.read32(4)) << 32;
    assert_eq!(capabilities & 0xffff, 127, "MQES");
    assert_eq!(capabilities >> 16 & 1, 1, "CQR");
    assert_eq!(capabilities >> 32 & 0xf, 0, "DSTRD");
    assert_eq!(capabilities >> 37 & 1, 1, "NVM command set");
    assert_eq!(capabilities >> 48 & 0xff, 0, "4 KiB pages only");
    let mut whole = [0; 8];
    driver.controller.read_register(0, &mut whole);
    assert_eq!(u64::from_le_bytes(whole), capabilities);
    // Other widths, misaligned and far accesses read zero and do no harm.
    for (offset, width) in [(0, 1), (0, 2), (2, 4), (0, 16), (u64::MAX - 3, 4), (u64::MAX, 8)] {
        let mut raw = vec![0xaa; width];
        driver.controller.read_register(offset, &mut raw);
        assert!(raw.iter().all(|&byte| byte == 0));
        driver.controller.write_register(&driver.ram, offset, &raw);
    }
    driver.write64(0x28, 0x1234_5678_9abc_d123);
    assert_eq!((driver.read32(0x28), driver.read32(0x2c)), (0x9abc_d000, 0x1234_5678));
    driver.enable();
    driver.write64(0x28, 0);
    assert_eq!(driver.read32(0x28), ADMIN_SQ as u32, "fixed while enabled");
}

#[test]
fn a_controller_that_cannot_be_enabled_fails() {
    let cc = 4 << 20 | 6 << 16 | 1;
    // CC, AQA, ASQ, ACQ: a page of 8 KiB, a command set, an arbitration, an
    // entry size, queues of one entry, queues outside memory.
    for (cc, aqa, asq, acq) in [
        (cc | 1 << 7, 0x1f_001f, ADMIN_SQ, ADMIN_CQ),
        (cc | 1 << 4, 0x1f_001f, ADMIN_SQ, ADMIN_CQ),
        (cc | 1 << 11, 0x1f_001f, ADMIN_SQ, ADMIN_CQ),
        (cc ^ 1 << 16, 0x1f_001f, ADMIN_SQ, ADMIN_CQ),
        (cc, 0x1f_0000, ADMIN_SQ, ADMIN_CQ),
        (cc, 0x1f, ADMIN_SQ, ADMIN_CQ),
        (cc, 0xfff_0fff, RAM as u64 - PAGE, ADMIN_CQ),
        (cc, 0xfff_0fff, ADMIN_SQ, RAM as u64 - PAGE),
        (cc, 0x1f_001f, u64::MAX, ADMIN_CQ),
    ] {
        let mut driver = Driver::cold(config());
        driver.write32(0x24, aqa);
        driver.write64(0x28, asq);
        driver.write64(0x30, acq);
        driver.write32(0x14, cc);
        assert_eq!(driver.read32(0x1c), 2, "{cc:x} {aqa:x} {asq:x} {acq:x}");
        assert!(driver.controller.pcie().has_failed());
        driver.write32(0x1000, 1);
        driver.write32(0x14, cc & !1);
        assert_eq!(driver.read32(0x1c), 0, "a reset clears it");
        driver.enable();
    }
}

#[test]
fn configurations_are_checked() {
    let namespace = Namespace::new;
    let at = |start| Namespace { start, ..namespace(8, 512) };
    let bad = [
        Config { serial: String::new(), ..config() },
        Config { serial: "x".repeat(21), ..config() },
        Config { model: "Größe".into(), ..config() },
        Config { firmware: "123456789".into(), ..config() },
        Config { queue_pairs: 0, ..config() },
        Config { queue_pairs: 65, ..config() },
        Config { queue_entries: 1, ..config() },
        Config { queue_entries: 1025, ..config() },
        Config { max_transfer: 12288, ..config() },
        Config { max_transfer: 4096, ..config() },
        Config { max_in_flight_bytes: 4096, ..config() },
        Config { namespaces: vec![], ..config() },
        Config { namespaces: vec![namespace(1, 512); 129], ..config() },
        Config { namespaces: vec![namespace(0, 512)], ..config() },
        Config { namespaces: vec![namespace(1, 1024)], ..config() },
        Config { namespaces: vec![namespace(1 << 52, 4096)], ..config() },
        Config { namespaces: vec![at(u64::MAX)], ..config() },
        Config { namespaces: vec![at(0), at(4095)], ..config() },
        Config { namespaces: vec![at(4096), at(0), at(1)], ..config() },
    ];
    for config in bad {
        assert!(Controller::new(config.clone()).is_err(), "{config:?}");
    }
    let error = Controller::new(Config { queue_pairs: 99, ..config() }).unwrap_err();
    assert!(matches!(error, ConfigError::Number { field: "queue_pairs", value: 99, .. }));
    assert_eq!(error.to_string(), "NVMe queue_pairs is 99, but must be 1 to 64");
}

#[test]
fn identify_describes_controller_and_namespaces() {
    let mut driver = Driver::new(Config {
        namespaces: vec![
            Namespace::new(1000, 512),
            Namespace { start: 1000 * 512, read_only: true, ..Namespace::new(2000, 4096) },
        ],
        max_transfer: 1 << 20,
        ..config()
    });
    let (status, id) = driver.identify(1, 0);
    assert_eq!(status, 0);
    assert_eq!(&id[4..24], b"TEST0               ");
    // Vendor and subsystem vendor: as in the PCI function.
    assert_eq!(id[0..4], [0x54, 0x53, 0x54, 0x53]);
    assert_eq!(&id[24..41], b"Stasis NVMe drive");
    assert_eq!(id[77], 8, "MDTS 1 MiB");
    assert_eq!(id[80..84], 0x10400u32.to_le_bytes());
    assert_eq!(id[111], 1, "an I/O controller");
    assert_eq!(id[257] & 1, 1, "Doorbell Buffer Config");
    assert_eq!((id[512], id[513]), (0x66, 0x44));
    assert_eq!(id[516..520], 128u32.to_le_bytes(), "NN: as many as can be created");
    assert_eq!(id[525], 7, "volatile write cache, flush of all");
    assert!(id[768..].starts_with(b"nqn.2014-08.org.nvmexpress:uuid:"));

    for (nsid, blocks, format, protected) in [(1, 1000u64, 0, 0), (2, 2000, 1, 1)] {
        let (status, id) = driver.identify(0, nsid);
        assert_eq!(status, 0);
        for at in [0, 8, 16] {
            assert_eq!(id[at..at + 8], blocks.to_le_bytes());
        }
        assert_eq!((id[25], id[26], id[99]), (2, format, protected));
        assert_eq!((id[130], id[134], id[138]), (9, 12, 14), "512, 4096 and 16384 bytes");
        let (nguid, eui64) = (id[104..120].to_vec(), id[120..128].to_vec());
        let (status, list) = driver.identify(3, nsid);
        assert_eq!(status, 0);
        assert_eq!((list[0], list[1], &list[4..12]), (1, 8, &eui64[..]));
        assert_eq!((list[12], list[13], &list[16..32]), (2, 16, &nguid[..]));
        assert_eq!((list[32], list[33]), (3, 16));
        assert!(list[52..].iter().all(|&byte| byte == 0));
    }
    let (_, list) = driver.identify(2, 0);
    assert_eq!(list[..12], [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    let (_, list) = driver.identify(2, 1);
    assert_eq!(list[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
    for (cns, nsid, status) in [
        (0, 0, 0x0b),
        (0, 3, 0),
        (0, 129, 0x0b),
        // The capabilities of all namespaces.
        (0, u32::MAX, 0),
        (3, 3, 0x0b),
        (2, u32::MAX, 0x0b),
        (6, 0, 0x02),
        (0xff, 0, 0x02),
    ] {
        assert_eq!(driver.identify(cns, nsid).0, status, "CNS {cns} NSID {nsid}");
    }
    assert!(driver.identify(6, 0).0 != 0);
}

#[test]
fn queues_are_created_and_deleted_in_order() {
    let mut driver = Driver::new(Config { queue_pairs: 4, queue_entries: 64, ..config() });
    let cq = |cdw10: u32, cdw11: u32, prp1: u64| Sqe {
        opcode: 5,
        cdw10,
        cdw11,
        prp1,
        ..Default::default()
    };
    let sq = |cdw10, cdw11, prp1| Sqe { opcode: 1, ..cq(cdw10, cdw11, prp1) };
    for (sqe, status) in [
        (cq(7 << 16, 3, QUEUES), 0x101),
        (cq(7 << 16 | 5, 3, QUEUES), 0x101),
        (cq(7 << 16 | 0xffff, 3, QUEUES), 0x101),
        (cq(1, 3, QUEUES), 0x102),
        (cq(64 << 16 | 1, 3, QUEUES), 0x102),
        (cq(7 << 16 | 1, 2, QUEUES), 0x002),
        (cq(7 << 16 | 1, 5 << 16 | 3, QUEUES), 0x108),
        (cq(7 << 16 | 1, 3, QUEUES + 8), 0x013),
        (cq(7 << 16 | 1, 3, RAM as u64), 0x002),
        (cq(7 << 16 | 1, 3, u64::MAX - 4095), 0x002),
        (sq(7 << 16 | 1, 1 << 16 | 1, QUEUES), 0x100),
        (cq(7 << 16 | 1, 4 << 16 | 3, QUEUES), 0),
        (cq(7 << 16 | 1, 3, QUEUES), 0x101),
        (sq(7 << 16 | 1, 1, QUEUES), 0x100),
        (sq(7 << 16 | 1, 9 << 16 | 1, QUEUES), 0x100),
        (sq(7 << 16 | 1, 1 << 16, QUEUES), 0x002),
        // Several submission queues to one completion queue, any priority.
        (sq(7 << 16 | 1, 1 << 16 | 1, QUEUES), 0),
        (sq(63 << 16 | 4, 1 << 16 | 7, QUEUES), 0),
        (Sqe { opcode: 4, cdw10: 1, ..Default::default() }, 0x10c),
        (Sqe { opcode: 4, cdw10: 0, ..Default::default() }, 0x101),
        (Sqe { opcode: 4, cdw10: 2, ..Default::default() }, 0x101),
        (Sqe { opcode: 0, cdw10: 0, ..Default::default() }, 0x101),
        (Sqe { opcode: 0, cdw10: 2, ..Default::default() }, 0x101),
        (Sqe { opcode: 0, cdw10: 1, ..Default::default() }, 0),
        (Sqe { opcode: 0, cdw10: 1, ..Default::default() }, 0x101),
        (Sqe { opcode: 4, cdw10: 1, ..Default::default() }, 0x10c),
        (Sqe { opcode: 0, cdw10: 4, ..Default::default() }, 0),
        (Sqe { opcode: 4, cdw10: 1, ..Default::default() }, 0),
        (Sqe { opcode: 0x7f, ..Default::default() }, 0x001),
        (Sqe { opcode: 6, flags: 1, ..Default::default() }, 0x002),
        (Sqe { opcode: 6, flags: 0x40, ..Default::default() }, 0x002),
    ] {
        assert_eq!(driver.admin(sqe).status, status, "{sqe:x?}");
    }
    // Entry sizes that are not set.
    driver.disable();
    driver.enable();
    driver.write32(0x14, 1);
    assert_eq!(driver.admin(cq(7 << 16 | 1, 3, QUEUES)).status, 0x102);
}

#[test]
fn features_keep_what_they_are_given() {
    let mut driver = Driver::new(config());
    // Queues: all of them, whatever is asked.
    assert_eq!(driver.set_feature(7, 3 << 16 | 3).result, 63 << 16 | 63);
    assert_eq!(driver.set_feature(7, 0xffff).status, 0x002);
    for (identifier, default, value) in [
        (0x01, 7, 0x0102_0300),
        (0x05, 0, 0x1234),
        (0x06, 1, 0),
        (0x08, 0, 0x0a05),
        (0x0a, 0, 1),
        (0x0b, 0, 2),
    ] {
        assert_eq!(driver.get_feature(identifier, 0).result, default, "{identifier}");
        assert_eq!(driver.set_feature(identifier, value).status, 0, "{identifier}");
        assert_eq!(driver.get_feature(identifier, 0).result, value, "{identifier}");
        assert_eq!(driver.get_feature(1 << 8 | identifier, 0).result, default);
        assert_eq!(driver.get_feature(2 << 8 | identifier, 0).result, default);
        assert_eq!(driver.get_feature(3 << 8 | identifier, 0).result & 5, 4, "changeable");
        assert_eq!(driver.get_feature(4 << 8 | identifier, 0).status, 0x002);
        assert_eq!(driver.set_feature(1 << 31 | identifier, value).status, 0x10d);
    }
    // Interrupt vectors: 65 of them.
    assert_eq!(driver.set_feature(9, 1 << 16 | 64).status, 0);
    assert_eq!(driver.get_feature(9, 64).result, 1 << 16 | 64);
    assert_eq!(driver.get_feature(9, 63).result, 63);
    assert_eq!(driver.get_feature(9, 65).status, 0x002);
    // Power state 0 only; no autonomous transitions, no LBA ranges.
    assert_eq!(driver.set_feature(2, 0).status, 0);
    for (identifier, value) in [(2, 1), (3, 0), (5, 1 << 16), (0x0c, 0), (0x0f, 0), (0xc0, 0)] {
        assert_eq!(driver.set_feature(identifier, value).status, 0x002, "{identifier}");
    }
    let of_one = Sqe { opcode: 9, nsid: 1, cdw10: 6, cdw11: 1, ..Default::default() };
    assert_eq!(driver.admin(of_one).status, 0x10f);
    assert_eq!(driver.admin(Sqe { cdw10: 5, ..of_one }).status, 0);
    assert_eq!(driver.admin(Sqe { cdw10: 5, nsid: 2, ..of_one }).status, 0x002);
    // A reset brings the defaults back.
    driver.disable();
    driver.enable();
    assert_eq!(driver.get_feature(6, 0).result, 1);
    // After queues were created their number is fixed.
    driver.create_pair(1, 8, 8, 1);
    assert_eq!(driver.set_feature(7, 0).status, 0x00c);
    // Without a cache there is nothing to turn off.
    let mut driver = Driver::new(Config { volatile_write_cache: false, ..config() });
    assert_eq!(driver.get_feature(6, 0).status, 0x002);
    assert_eq!(driver.identify(1, 0).1[525] & 1, 0);
}

#[test]
fn the_timestamp_runs_in_virtual_time() {
    let mut driver = Driver::new(config());
    let at = |driver: &mut Driver| {
        let sqe = Sqe { opcode: 10, cdw10: 0x0e, prp1: SCRATCH, ..Default::default() };
        assert_eq!(driver.admin(sqe).status, 0);
        u64::from_le_bytes(driver.ram.get(SCRATCH, 8).try_into().unwrap())
    };
    driver.controller.set_time(5_000_000);
    assert_eq!(at(&mut driver), 5);
    driver.ram.set64(SCRATCH, 1_700_000_000_000);
    let set = Sqe { opcode: 9, cdw10: 0x0e, prp1: SCRATCH, ..Default::default() };
    assert_eq!(driver.admin(set).status, 0);
    driver.controller.set_time(12_000_000);
    assert_eq!(at(&mut driver), 1_700_000_000_007 | 1 << 49);
    driver.controller.set_time(0);
    assert_eq!(at(&mut driver), 1_700_000_000_007 | 1 << 49, "time does not go back");
}

#[test]
fn logs_tell_what_happened() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    let health = driver.log(2, 512);
    assert_eq!((health[0], u16::from_le_bytes([health[1], health[2]])), (0, 313));
    assert_eq!(health[112], 1, "power cycles");
    // 2000 units of 512 bytes are two data units, and one more block a third.
    for _ in 0..4 {
        for sqe in [Sqe::io(1, 0, 500, DATA, DATA + PAGE), Sqe::io(2, 0, 1, DATA, 0)] {
            let mut sqe = sqe;
            if sqe.opcode == 1 {
                sqe.prp2 = SCRATCH;
                for page in 0..63 {
                    driver.ram.set64(SCRATCH + page * 8, DATA + page * PAGE);
                }
            }
            assert_eq!(driver.io(sqe).status, 0);
        }
    }
    let health = driver.log(2, 512);
    let count = |at: usize| u128::from_le_bytes(health[at..at + 16].try_into().unwrap());
    assert_eq!((count(32), count(48), count(64), count(80)), (1, 2, 4, 4));

    // A failed command is the latest of the error log.
    assert_eq!(driver.io(Sqe::io(2, BLOCKS, 1, DATA, 0)).status, 0x080);
    assert_eq!(driver.identify(0x77, 0).0, 0x002);
    let errors = driver.log(1, 4096);
    let (latest, before) = (&errors[..64], &errors[64..128]);
    assert_eq!((latest[0], before[0]), (2, 1), "counted");
    assert_eq!((latest[8], before[8]), (0, 1), "queue");
    let field = u16::from_le_bytes([before[12], before[13]]);
    assert_eq!(field >> 1 & 0x7ff, 0x080);
    assert_eq!(u16::from_le_bytes([before[14], before[15]]), 40, "where");
    assert_eq!(before[24], 1, "namespace");
    assert!(errors[128..].iter().all(|&byte| byte == 0));

    let firmware = driver.log(3, 512);
    assert_eq!((firmware[0], &firmware[8..16]), (1, &b"1.0     "[..]));
    let effects = driver.log(5, 4096);
    let effect = |at: usize| effects[at];
    assert_eq!((effect(6 * 4), effect(0x7c * 4), effect(0x81 * 4)), (1, 1, 0));
    assert_eq!((effect(1024), effect(1024 + 4), effect(1024 + 3 * 4)), (1, 3, 0));
    driver.log(4, 4096);

    let log = |cdw10, cdw12| Sqe {
        opcode: 2,
        nsid: u32::MAX,
        prp1: SCRATCH,
        cdw10,
        cdw12,
        ..Default::default()
    };
    driver.fill_scratch(0xee);
    for (sqe, status) in [
        (log(127 << 16 | 0x70, 0), 0x109),
        (log(127 << 16 | 2, 2), 0x002),
        (log(127 << 16 | 2, 516), 0x002),
        (Sqe { cdw11: 0xffff, ..log(0xffff << 16 | 2, 0) }, 0x002),
        (Sqe { nsid: 2, ..log(127 << 16 | 2, 0) }, 0x002),
        (Sqe { nsid: 129, ..log(127 << 16 | 2, 0) }, 0x00b),
        (log(3 << 16 | 3, 8), 0),
    ] {
        assert_eq!(driver.admin(sqe).status, status, "{sqe:x?}");
    }
    assert_eq!(driver.ram.get(SCRATCH, 17), *b"1.0     \0\0\0\0\0\0\0\0\xee", "from its offset");
}

#[test]
fn events_wait_for_requests_and_requests_for_events() {
    let mut driver = Driver::new(config());
    let request = Sqe { opcode: 0x0c, ..Default::default() };
    let cids: Vec<_> = (0..4).map(|_| driver.submit(0, request)).collect();
    assert!(driver.reap(0).is_empty());
    assert_eq!(driver.admin(request).status, 0x105, "too many");
    // A doorbell that is not there, then a value that cannot be.
    driver.write32(0x1000 + 8, 1);
    driver.write32(0x1000, 32);
    let completions = driver.reap(0);
    assert_eq!(completions.len(), 1, "masked until the log is read");
    assert_eq!(
        (completions[0].cid, completions[0].status, completions[0].result),
        (cids[0], 0, 0x01_0000)
    );
    driver.log(1, 64);
    driver.write32(0x1000, 32);
    assert_eq!(driver.reap(0)[0].result, 0x01_0100);
    // The last request is aborted.
    let abort = |cid: u16| Sqe { opcode: 8, cdw10: u32::from(cid) << 16, ..Default::default() };
    driver.submit(0, abort(cids[3]));
    let completions = driver.reap(0);
    assert_eq!((completions[0].cid, completions[0].status), (cids[3], 0x007));
    assert_eq!((completions[1].status, completions[1].result), (0, 0));
    assert_eq!(driver.admin(abort(cids[3])).result, 1, "nothing to abort");
    // Temperature, if asked for.
    driver.controller.set_temperature(&driver.ram, 350);
    assert!(driver.reap(0).is_empty());
    driver.submit(0, Sqe { opcode: 9, cdw10: 0x0b, cdw11: 2, ..Default::default() });
    let completions = driver.reap(0);
    assert_eq!((completions[0].cid, completions[0].result), (cids[2], 0x02_0101));
    assert_eq!(driver.log(2, 512)[0], 2, "critical warning");
    driver.controller.set_temperature(&driver.ram, 300);
    assert_eq!(driver.set_feature(4, 1 << 20 | 301).status, 0);
    assert_eq!(driver.log(2, 512)[0], 2, "too cold");
    assert_eq!(driver.get_feature(4, 1 << 20).result, 301);
    assert_eq!(driver.set_feature(4, 3 << 16).status, 0x002);
}

#[test]
fn a_reset_of_the_function_forgets_every_register() {
    let mut driver = Driver::with_queues(config(), 1, 16);
    let cid = driver.submit(1, Sqe::io(2, 0, 8, DATA, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.controller.pcie().reset_function();
    for register in [0x14, 0x1c, 0x24, 0x28, 0x2c, 0x30, 0x34] {
        let mut value = [0xff; 4];
        driver.controller.read_register(register, &mut value);
        assert_eq!(value, [0; 4], "register {register:#x}");
    }
    driver.ram.set(DATA, &[7; 4096]);
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    assert_eq!(driver.ram.get(DATA, 4096), [7; 4096], "command {cid} is forgotten");
    // A driver starts it again as at first.
    driver.enable();
    assert_eq!(driver.admin(Sqe { opcode: 8, ..Default::default() }).status, 0);
}

#[test]
fn in_flight_commands_end_with_abort_deletion_and_reset() {
    let mut driver = Driver::with_queues(config(), 2, 16);
    driver.ram.set(DATA, &[7; 4096]);
    // Abort: the command no longer touches the guest's memory.
    let cid = driver.submit(1, Sqe::io(2, 0, 8, DATA, 0));
    let request = driver.controller.pop_request().unwrap();
    let abort = u32::from(cid) << 16 | 1;
    assert_eq!(driver.admin(Sqe { opcode: 8, cdw10: abort, ..Default::default() }).result, 0);
    let completions = driver.reap(1);
    assert_eq!((completions[0].cid, completions[0].status), (cid, 0x007));
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    assert!(driver.reap(1).is_empty());
    assert_eq!(driver.ram.get(DATA, 4096), [7; 4096]);

    // Deletion of the submission queue.
    let cid = driver.submit(2, Sqe::io(2, 0, 8, DATA, 0));
    let ranges = driver.submit(2, dataset(&driver.ram, &[(0, 8), (8, 8)]));
    let requests: Vec<_> = std::iter::from_fn(|| driver.controller.pop_request()).collect();
    assert_eq!(requests.len(), 3);
    assert_eq!(driver.admin(Sqe { opcode: 0, cdw10: 2, ..Default::default() }).status, 0);
    let completions = driver.reap(2);
    assert_eq!(
        completions.iter().map(|cqe| (cqe.cid, cqe.status)).collect::<Vec<_>>(),
        [(cid, 0x008), (ranges, 0x008)]
    );
    for request in requests {
        driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    }
    assert!(driver.reap(2).is_empty());

    // Reset, with requests at the drive and requests not yet there.
    driver.submit(1, Sqe::io(2, 0, 8, DATA, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.submit(1, Sqe::io(2, 0, 8, DATA, 0));
    driver.disable();
    assert!(driver.controller.pop_request().is_none());
    assert_eq!(driver.controller.in_flight(), 1);
    driver.enable();
    driver.create_pair(1, 16, 16, 1);
    driver.interrupts();
    let cid = driver.submit(1, Sqe::io(2, 0, 8, DATA + PAGE, 0));
    let other = driver.controller.pop_request().unwrap();
    assert_ne!(other.tag, request.tag, "the old request still has its name");
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    assert!(driver.interrupts().is_empty() && driver.reap(1).is_empty());
    assert_eq!(driver.ram.get(DATA, 4096), [7; 4096]);
    driver.controller.complete(&driver.ram, other.tag, Status::Ok, other.data);
    assert_eq!(driver.reap(1)[0].cid, cid);
    assert_eq!(driver.controller.in_flight(), 0);
    // Names that are not in flight.
    driver.controller.complete(&driver.ram, 0, Status::Ok, Vec::new());
    driver.controller.complete(&driver.ram, u32::MAX, Status::Ok, vec![0; 512]);
    assert!(driver.reap(1).is_empty());
    let log = driver.log(2, 512);
    assert_eq!((log[112], log[144]), (1, 0), "a reset is no power cycle and no unsafe shutdown");
}

#[test]
fn a_shutdown_makes_the_cache_durable_first() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    driver.write32(0x14, 4 << 20 | 6 << 16 | 1 << 14 | 1);
    assert_eq!(driver.read32(0x1c), 1 | 1 << 2, "occurring");
    driver.submit(1, Sqe::io(2, 0, 8, DATA, 0));
    let flush = driver.controller.pop_request().unwrap();
    assert_eq!((flush.command.operation, flush.queue), (Operation::Flush, 0));
    assert!(driver.controller.pop_request().is_none(), "no new commands");
    driver.controller.complete(&driver.ram, flush.tag, Status::Ok, flush.data);
    assert_eq!(driver.read32(0x1c), 1 | 2 << 2, "complete");
    driver.disable();
    driver.enable();
    assert_eq!(driver.log(2, 512)[112], 1, "the power was on");

    let mut driver = Driver::new(Config { volatile_write_cache: false, ..config() });
    driver.write32(0x14, 4 << 20 | 6 << 16 | 2 << 14 | 1);
    assert_eq!(driver.read32(0x1c), 1 | 2 << 2, "at once");
}

/// Dataset Management, to deallocate ranges of (first block, blocks).
fn dataset(ram: &Ram, ranges: &[(u64, u32)]) -> Sqe {
    for (index, (lba, blocks)) in ranges.iter().enumerate() {
        let at = SCRATCH + index as u64 * 16;
        ram.set32(at, 0);
        ram.set32(at + 4, *blocks);
        ram.set64(at + 8, *lba);
    }
    Sqe {
        opcode: 9,
        nsid: 1,
        prp1: SCRATCH,
        cdw10: ranges.len() as u32 - 1,
        cdw11: 4,
        ..Default::default()
    }
}

#[test]
fn deallocation_is_one_request_a_range() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    let sqe = dataset(&driver.ram, &[(0, 8), (16, 0), (BLOCKS - 1, 1)]);
    assert_eq!(driver.io(sqe).status, 0);
    let asked: Vec<_> = driver.asked.iter().map(|c| (c.operation, c.offset, c.length)).collect();
    assert_eq!(
        asked,
        [(Operation::Discard, 0, 4096), (Operation::Discard, (BLOCKS - 1) * 512, 512)]
    );
    // One failure among many is the command's, reported once and with the last.
    let ranges: Vec<_> = (0..256).map(|i| (i * 8, 8)).collect();
    driver.submit(1, dataset(&driver.ram, &ranges));
    let requests: Vec<_> = std::iter::from_fn(|| driver.controller.pop_request()).collect();
    assert_eq!(requests.len(), 256);
    for (index, request) in requests.into_iter().enumerate() {
        assert!(driver.next(1).is_none());
        let status = if index == 3 { Status::WriteError } else { Status::Ok };
        driver.controller.complete(&driver.ram, request.tag, status, request.data);
    }
    assert_eq!(driver.reap(1)[0].status, 0x280);
    // Nothing to do, hints only, and beyond the end.
    driver.asked.clear();
    let sqe = dataset(&driver.ram, &[(5, 0)]);
    assert_eq!(driver.io(sqe).status, 0);
    let sqe = dataset(&driver.ram, &[(5, 9)]);
    assert_eq!(driver.io(Sqe { cdw11: 3, ..sqe }).status, 0);
    for range in [(BLOCKS, 1), (BLOCKS - 1, 2), (u64::MAX, 1), (0, u32::MAX)] {
        let sqe = dataset(&driver.ram, &[(0, 1), range]);
        assert_eq!(driver.io(sqe).status, 0x080);
    }
    assert!(driver.asked.is_empty());
}

#[test]
fn namespaces_tell_what_a_power_cut_does_not_tear() {
    let namespace = |start, block| Namespace { start, ..Namespace::new(1 << 20 >> 9, block) };
    let namespaces =
        vec![namespace(0, 512), namespace(1 << 20, 4096), namespace((9 << 20) + 4096, 512)];
    let mut driver = Driver::new(Config { namespaces, atomic_unit: 16384, ..config() });
    let controller = driver.identify(1, 0).1;
    assert_eq!(controller[526..530], [0; 4], "AWUN, AWUPF: a block, as they know no boundary");
    assert_eq!(controller[532..534], [0; 2], "ACWU");
    // NSFEAT's bit 1; NAWUN, NAWUPF, NACWU, NABSN, NABO, NABSPF.
    for (nsid, fields) in
        [(1, [31, 31, 31, 31, 0, 31]), (2, [3, 3, 3, 3, 0, 3]), (3, [31, 31, 31, 31, 24, 31])]
    {
        let page = driver.identify(0, nsid).1;
        assert_eq!(page[24], 2, "NSFEAT");
        let units = page[34..46].chunks_exact(2).map(|raw| u16::from_le_bytes([raw[0], raw[1]]));
        assert_eq!(units.collect::<Vec<_>>(), fields, "namespace {nsid}");
    }
    let mut plain = Driver::new(config());
    let page = plain.identify(0, 1).1;
    assert_eq!((page[24], &page[34..46]), (0, &[0; 12][..]));
}

#[test]
fn a_memory_buffer_is_offered_where_there_is_one() {
    const CONTROL: u64 = 0x50;
    let registers = [0x38, 0x3c, CONTROL, 0x54, 0x58];
    let offered = |driver: &mut Driver| driver.read32(4) >> 25 & 1;
    let mut without = Driver::new(config());
    without.write64(CONTROL, 3);
    assert_eq!(offered(&mut without), 0);
    assert_eq!(registers.map(|at| without.read32(at)), [0; 5]);

    let mut with = Driver::new(Config { memory_buffer: Some(2 << 20), ..config() });
    assert_eq!(offered(&mut with), 1);
    assert_eq!(registers.map(|at| with.read32(at)), [0; 5], "not enabled yet");
    with.write64(CONTROL, 1);
    let enabled = registers.map(|at| with.read32(at));
    assert_eq!(enabled, [0xe2, 2 << 12 | 0x21f, 1, 0, 0]);
    // Resets by CC.EN and of the function leave it.
    with.disable();
    with.enable();
    assert_eq!(registers.map(|at| with.read32(at)), enabled);
    with.controller.pcie().reset_function();
    assert_eq!(registers.map(|at| with.read32(at)), enabled);
}
