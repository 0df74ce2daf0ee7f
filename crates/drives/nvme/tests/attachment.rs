//! Namespaces of a drive on PCIe that are attached and detached while its driver works.

mod support;

use stasis_nvme::{Config, Namespace};
use support::*;

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
