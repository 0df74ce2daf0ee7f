//! The device as a driver sees it before and beside its requests.

use crate::support::*;
use stasis_block::Doorbells;
use stasis_virtio::{feature, Config, Device, Fault, PciDevice, QueueSetup};

#[test]
fn capabilities_say_where_the_structures_are() {
    let bodies: Vec<_> = PciDevice::capabilities().iter().map(|cap| cap.body(0)).collect();
    // cap_len counts the two bytes in front; kinds: common, notify, ISR, device.
    let kinds: Vec<_> = bodies.iter().map(|body| (body[0], body[1], body[2])).collect();
    assert_eq!(kinds, [(16, 1, 0), (20, 2, 0), (16, 3, 0), (16, 4, 0)]);
    assert!(bodies.iter().all(|body| body.len() + 2 == usize::from(body[0])));
    assert_eq!(bodies[1][14..], 4u32.to_le_bytes(), "notify_off_multiplier");
    assert_eq!(bodies[1][6..10], 0x3000u32.to_le_bytes());
}

#[test]
fn the_configuration_says_what_the_device_is() {
    let mut driver = Driver::new(Config { block_size: 4096, ..config() });
    assert_eq!(driver.read32(SPACE), (CAPACITY / 512) as u32);
    assert_eq!(driver.read32(SPACE + 4), 0);
    assert_eq!(driver.read32(SPACE + 8), 16 << 10, "size_max");
    assert_eq!(driver.read32(SPACE + 12), 62, "seg_max");
    assert_eq!(driver.read32(SPACE + 20), 4096, "blk_size");
    assert_eq!(driver.read8(SPACE + 24), 0, "physical_block_exp");
    assert_eq!(driver.read8(SPACE + 32), 1, "writeback");
    assert_eq!(driver.read16(SPACE + 34), 2, "num_queues");
    assert!(driver.read32(SPACE + 36) > 0, "max_discard_sectors");
    assert_eq!(driver.read32(SPACE + 44), 8, "discard_sector_alignment");
    assert_eq!(driver.read32(SPACE + 200), 0);
    let read_only = Driver::new(Config { read_only: true, ..config() });
    assert!(read_only.has(feature::RO) && !read_only.has(feature::DISCARD));
    let durable = Driver::new(Config { volatile_write_cache: false, ..config() });
    assert!(!durable.has(feature::FLUSH) && !durable.has(feature::CONFIG_WCE));
}

#[test]
fn features_that_are_not_offered_are_refused() {
    for features in [0u64, 1 << 40 | 1 << feature::VERSION_1, 1 << feature::FLUSH] {
        let mut driver = Driver::cold(config());
        driver.write8(20, 3);
        for half in 0..2 {
            driver.write32(8, half);
            driver.write32(12, (features >> (32 * half)) as u32);
        }
        driver.write8(20, 11);
        assert_eq!(driver.read8(20), 3, "{features:#x}");
        // Without them no queue starts, whatever the driver writes.
        driver.write8(20, 15);
        assert_eq!(driver.read8(20) & 4, 0);
    }
}

#[test]
fn wrong_queues_need_a_reset_and_a_reset_helps() {
    type Wrong = (u64, u32);
    let wrong: [(&str, &[Wrong]); 5] = [
        ("no power of two", &[(24, 100)]),
        ("too large", &[(24, 256)]),
        ("no entries", &[(24, 0)]),
        ("misaligned", &[(32, 0x8)]),
        ("outside memory", &[(48, 0xffff_fff0), (52, 0xffff_ffff)]),
    ];
    for (name, writes) in wrong {
        let mut driver = Driver::cold(config());
        driver.write8(20, 3);
        driver.write32(8, 1);
        driver.write32(12, 1);
        driver.write8(20, 11);
        driver.write16(16, 2);
        for (at, value) in [(32, 0x1000), (40, 0x2000), (48, 0x3000)] {
            driver.write32(at, value);
        }
        for &(at, value) in writes {
            if at == 24 {
                driver.write16(at, value as u16);
            } else {
                driver.write32(at, value);
            }
        }
        driver.write16(28, 1);
        driver.write8(20, 15);
        assert_eq!(driver.read8(20), 15 | 64, "{name}");
        assert_eq!(driver.interrupts(), [2], "{name}: the configuration's vector");
        driver.notify(0);
        driver.start(&[]);
        assert_eq!(driver.io(FLUSH, 0, &[], &[]).status, OK, "{name}");
    }
}

#[test]
fn a_queue_may_be_smaller_than_offered_and_may_be_left_out() {
    let mut driver = Driver::cold(config());
    driver.write8(20, 3);
    driver.write32(8, 1);
    driver.write32(12, 1);
    driver.write8(20, 11);
    driver.write16(22, 1);
    driver.write16(24, 16);
    for (at, value) in [(32, 0x1000), (40, 0x2000), (48, 0x3000)] {
        driver.write32(at, value);
    }
    driver.write16(28, 1);
    driver.write8(20, 15);
    assert_eq!(driver.read8(20), 15);
    assert_eq!((driver.read16(24), driver.read16(28)), (16, 1));
    driver.write16(22, 0);
    assert_eq!((driver.read16(24), driver.read16(28)), (128, 0));
    driver.write16(22, 7);
    assert_eq!(driver.read16(24), 0, "there is no queue 7");
    driver.notify(0);
    driver.notify(7);
    assert_eq!(driver.read8(20), 15);
}

#[test]
fn vectors_that_there_are_not_are_refused() {
    let mut driver = Driver::new(config());
    driver.write16(16, 3);
    assert_eq!(driver.read16(16), 0xffff);
    driver.write16(16, 2);
    assert_eq!(driver.read16(16), 2);
    driver.write16(22, 0);
    driver.write16(26, 0xffff);
    driver.io(FLUSH, 0, &[], &[]);
    assert_eq!(driver.interrupts(), [0u16; 0]);
    assert_eq!((driver.read8(0x1000), driver.read8(0x1000)), (1, 0), "reading acknowledges");
}

#[test]
fn a_new_size_is_told() {
    let mut driver = Driver::new(config());
    let before = driver.read8(21);
    driver.device.resize(CAPACITY / 2).unwrap();
    assert_eq!(driver.interrupts(), [2]);
    assert_ne!(driver.read8(21), before, "the generation");
    assert_eq!(driver.read32(SPACE), (CAPACITY / 1024) as u32);
    assert_eq!(driver.io(IN, CAPACITY / 1024, &[], &[(DATA, 512)]).status, IO_ERROR);
    assert!(driver.device.resize(100).is_err());
}

#[test]
fn a_reset_forgets_what_the_drive_still_does() {
    let mut driver = Driver::new(config());
    driver.put(0, IN, 0, &[], &[(DATA, 512)]).unwrap();
    driver.put(1, OUT, 0, &[(DATA, 512)], &[]).unwrap();
    driver.kick(0);
    driver.kick(1);
    let request = driver.device.pop_request().unwrap();
    driver.start(&[]);
    assert!(driver.device.pop_request().is_none(), "it has not reached the drive");
    driver.device.complete(&driver.ram, request.tag, stasis_block::Status::Ok, vec![7; 512]);
    assert_eq!(driver.device.device().in_flight(), 0);
    assert_eq!(driver.ram.bytes(DATA, 512), [0; 512], "its memory is the driver's again");
    assert!(driver.reap(0).is_empty());
    assert_eq!(driver.interrupts(), [0u16; 0]);
}

#[test]
fn a_stopped_queue_goes_on_where_it_was() {
    // As a vhost-user server would: the transport is somewhere else.
    let mut device = Device::new(Config { event_index: false, ..config() }).unwrap();
    let ram = Ram::new(RAM);
    assert!(device.accept(1 << feature::VERSION_1 | 1 << feature::FLUSH));
    let setup =
        QueueSetup { size: 16, descriptors: 0x1000, available: 0x2000, used: 0x3000, next: 0xfffe };
    ram.set16(0x2002, 0xfffe);
    device.start_queue(&ram, 1, &setup).unwrap();
    // A flush: header and status.
    ram.set(0x1000, &0x4000u64.to_le_bytes());
    ram.set(0x1008, &16u32.to_le_bytes());
    ram.set16(0x100c, 1);
    ram.set16(0x100e, 1);
    ram.set(0x1010, &0x5000u64.to_le_bytes());
    ram.set(0x1018, &1u32.to_le_bytes());
    ram.set16(0x101c, 2);
    ram.set(0x4000, &FLUSH.to_le_bytes());
    for _ in 0..4 {
        let next = ram.get16(0x2002);
        ram.set16(0x2004 + 2 * u64::from(next % 16), 0);
        ram.set16(0x2002, next.wrapping_add(1));
        device.notify(&ram, 1);
        let request = device.pop_request().unwrap();
        assert_eq!(request.queue, 1);
        device.complete(&ram, request.tag, stasis_block::Status::Ok, request.data);
    }
    assert_eq!(ram.get16(0x3002), 2, "0xfffe + 4");
    assert_eq!(device.stop_queue(1), Some(2));
    assert_eq!(device.stop_queue(1), None);
    device.start_queue(&ram, 1, &QueueSetup { next: 2, ..setup }).unwrap();
    device.notify(&ram, 1);
    assert!(device.pop_request().is_none());
    assert_eq!(
        device.start_queue(&ram, 0, &QueueSetup { size: 24, ..setup }),
        Err(Fault::QueueSize(24))
    );
}

#[test]
fn configurations_that_cannot_be_are_named() {
    let wrong = [
        (Config { capacity: 1000, ..config() }, "capacity"),
        (Config { capacity: 0, ..config() }, "capacity"),
        (Config { block_size: 1024, ..config() }, "block_size"),
        (Config { queues: 0, ..config() }, "queues"),
        (Config { queue_size: 100, ..config() }, "queue_size"),
        (Config { max_segments: 127, ..config() }, "max_segments"),
        (Config { max_segment_bytes: 1000, ..config() }, "max_segment_bytes"),
        (Config { max_in_flight_bytes: 4096, ..config() }, "max_in_flight_bytes"),
        (Config { identifier: "x".repeat(21), ..config() }, "identifier"),
        (Config { physical_block_exponent: 8, ..config() }, "physical_block_exponent"),
    ];
    for (config, word) in wrong {
        let message = PciDevice::new(config).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(Config::default().notify, Doorbells::Exact);
}
