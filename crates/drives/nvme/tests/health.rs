//! The drive's health reports: the SMART log, its warnings, and the events of changes.

use crate::support::*;
use stasis_block::Health;

const EVENT: Sqe = Sqe {
    opcode: 0x0c,
    flags: 0,
    cid: 0,
    nsid: 0,
    cdw2: 0,
    cdw3: 0,
    mptr: 0,
    prp1: 0,
    prp2: 0,
    cdw10: 0,
    cdw11: 0,
    cdw12: 0,
    cdw13: 0,
    cdw14: 0,
    cdw15: 0,
};

#[test]
fn the_smart_log_says_what_the_drive_says() {
    let mut driver = Driver::new(config());
    let log = driver.log(2, 512);
    assert_eq!((log[0], log[3], log[4], log[5]), (0, 100, 10, 0));
    let health = Health { available_spare: 9, percentage_used: 123, ..Health::default() };
    driver.controller.set_health(&driver.ram, health);
    let log = driver.log(2, 512);
    assert_eq!((log[0], log[3], log[5]), (1, 9, 123), "spare below its threshold");
    driver.controller.set_health(&driver.ram, Health { read_only: true, ..Health::default() });
    assert_eq!(driver.log(2, 512)[0], 8);
}

#[test]
fn a_worn_out_medium_is_write_protected() {
    let mut driver = Driver::with_queues(config(), 1, 8);
    assert_eq!(driver.identify(0, 1).1[99], 0);
    driver.controller.set_health(&driver.ram, Health { read_only: true, ..Health::default() });
    assert_eq!(driver.identify(0, 1).1[99], 1, "NSATTR");
    assert_eq!(driver.io(Sqe::io(2, 0, 1, DATA, 0)).status, 0, "it can still be read");
    for opcode in [1, 4, 8] {
        assert_eq!(driver.io(Sqe::io(opcode, 0, 1, DATA, 0)).status, 0x020);
    }
    let format = Sqe { opcode: 0x80, nsid: 1, ..Default::default() };
    assert_eq!(driver.admin(format).status, 0x020);
    assert_eq!(driver.asked.len(), 1, "only the read");
}

#[test]
fn each_warning_has_one_event() {
    let mut driver = Driver::new(config());
    assert_eq!(driver.set_feature(0x0b, 0xff).status, 0);
    for _ in 0..4 {
        driver.submit(0, EVENT);
    }
    let worn = Health { available_spare: 5, ..Health::default() };
    driver.controller.set_health(&driver.ram, worn);
    assert_eq!(driver.reap(0)[0].result, 0x02_0201, "spare");
    // Another while the log is unread waits, and comes with the reading.
    driver.controller.set_health(&driver.ram, Health { read_only: true, ..worn });
    assert!(driver.reap(0).is_empty());
    driver.submit(0, Sqe { opcode: 2, cdw10: 127 << 16 | 2, prp1: SCRATCH, ..Default::default() });
    let completions = driver.reap(0);
    assert_eq!((completions.len(), completions[0].result), (2, 0x02_0001), "reliability");
    assert_eq!(driver.log(2, 512)[0], 9);
    // A warning that persists is not reported again.
    driver.controller.set_health(&driver.ram, Health { percentage_used: 1, ..worn });
    assert!(driver.reap(0).is_empty());
    // A warning that ends and returns is.
    driver.controller.set_health(&driver.ram, Health::default());
    driver.controller.set_health(&driver.ram, worn);
    assert_eq!(driver.reap(0)[0].result, 0x02_0201);
}

#[test]
fn nobody_is_warned_who_did_not_ask() {
    let mut driver = Driver::new(config());
    driver.submit(0, EVENT);
    driver.controller.set_health(&driver.ram, Health { available_spare: 0, ..Health::default() });
    assert!(driver.reap(0).is_empty());
    // A later request reports the warnings that hold.
    driver.submit(0, Sqe { opcode: 9, cdw10: 0x0b, cdw11: 1, ..Default::default() });
    assert_eq!(driver.reap(0)[0].result, 0x02_0201);
}

#[test]
fn a_changed_namespace_is_told() {
    let mut driver = Driver::new(config());
    let id = driver.identify(1, 0).1;
    assert_eq!(id[92..96], 0x300u32.to_le_bytes(), "OAES");
    let format = Sqe { opcode: 0x80, nsid: 1, cdw10: 1, ..Default::default() };
    // Without a request, only the log reports.
    driver.submit(0, format);
    driver.serve();
    assert_eq!(driver.reap(0).len(), 1);
    assert_eq!(driver.log(4, 4096)[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(driver.log(4, 4096)[..4], [0; 4], "read once");

    assert_eq!(driver.set_feature(0x0b, 0x100).status, 0);
    assert_eq!(driver.get_feature(0x0b, 0).result, 0x100);
    let event = driver.submit(0, EVENT);
    driver.submit(0, Sqe { cdw10: 0, ..format });
    driver.serve();
    let completions = driver.reap(0);
    assert_eq!((completions[0].cid, completions[0].result), (event, 0x04_0002));
    assert_eq!(completions.len(), 2);
    // A notice while the last one's log is unread is reported after the log is read.
    driver.submit(0, EVENT);
    driver.submit(0, format);
    driver.serve();
    assert_eq!(driver.reap(0).len(), 1, "the format only");
    driver.submit(0, Sqe { opcode: 2, cdw10: 1023 << 16 | 4, prp1: SCRATCH, ..Default::default() });
    let completions = driver.reap(0);
    assert_eq!((completions.len(), completions[0].result), (2, 0x04_0002));
    // A format that changes no Identify data is not reported.
    driver.log(4, 4096);
    driver.submit(0, EVENT);
    driver.submit(0, format);
    driver.serve();
    assert_eq!(driver.reap(0).len(), 1);
}
