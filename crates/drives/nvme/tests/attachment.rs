//! Namespaces of a drive on PCIe that are attached, detached and resized while its driver works.

use crate::support::*;
use stasis_nvme::{Config, Namespace};

#[test]
fn the_driver_hears_of_a_namespace_that_goes_and_comes() {
    let second = Namespace { start: BLOCKS * 512, ..Namespace::new(1000, 512) };
    let namespaces = vec![Namespace::new(BLOCKS, 512), second];
    let mut driver = Driver::with_queues(Config { namespaces, ..config() }, 1, 8);
    assert_eq!(driver.set_feature(0x0b, 1 << 8).status, 0);
    let write = Sqe { nsid: 2, ..Sqe::io(1, 0, 1, DATA, 0) };
    assert_eq!(driver.io(write).status, 0);
    for (attached, status, listed) in [(false, 0x002, [1, 0]), (true, 0, [1, 2])] {
        driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
        driver.controller.set_attached(&driver.ram, 2, attached).unwrap();
        // Namespace Attribute Changed (NVMe 2.0 section 5.2.1), and its log.
        assert_eq!(driver.reap(0)[0].result, 0x04_00_02);
        assert_eq!(driver.log(4, 4096)[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(driver.io(write).status, status);
        let list = driver.identify(2, 0).1;
        assert_eq!([list[0], list[4]], listed);
        assert_eq!(driver.identify(0, 2).1[0] != 0, attached);
    }
    assert_eq!(driver.controller.set_attached(&driver.ram, 3, true), Err(2));
}

#[test]
fn the_driver_hears_of_a_namespace_that_has_another_size() {
    const SIZE: u64 = 1000 * 512;
    let behind = |start, blocks| Namespace { start, ..Namespace::new(blocks, 512) };
    let namespaces = vec![Namespace::new(1000, 512), behind(2 * SIZE, 1000)];
    let mut driver = Driver::with_queues(Config { namespaces, ..config() }, 1, 8);
    assert_eq!(driver.set_feature(0x0b, 1 << 8).status, 0);
    // Up to the other namespace; less; and its own again.
    for (bytes, blocks) in [(Some(2 * SIZE), 2000), (Some(512 * 512), 512), (None, 1000)] {
        driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
        assert!(driver.controller.resize(&driver.ram, 1, bytes));
        assert_eq!(driver.reap(0)[0].result, 0x04_00_02);
        assert_eq!(driver.log(4, 4096)[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        let sizes = driver.identify(0, 1).1[..24].to_vec();
        for size in sizes.chunks(8) {
            assert_eq!(u64::from_le_bytes(size.try_into().unwrap()), blocks, "NSZE, NCAP, NUSE");
        }
        let last = |lba: u64| Sqe { nsid: 1, ..Sqe::io(1, lba, 1, DATA, 0) };
        assert_eq!(driver.io(last(blocks - 1)).status, 0);
        assert_eq!(driver.io(last(blocks)).status, 0x080, "LBA Out of Range");
    }
    for bytes in [2 * SIZE + 512, 511, u64::MAX] {
        assert!(!driver.controller.resize(&driver.ram, 1, Some(bytes)), "{bytes}");
    }
    assert!(!driver.controller.resize(&driver.ram, 3, None));
    // Marks beyond its own size are not kept.
    assert!(driver.controller.resize(&driver.ram, 1, Some(2 * SIZE)));
    assert_eq!(driver.io(Sqe { nsid: 1, ..Sqe::io(4, 999, 2, 0, 0) }).status, 0);
    let kept = driver.controller.kept_state();
    assert_eq!(kept.namespaces[0].uncorrectable, [(999 * 512, SIZE)]);
}
