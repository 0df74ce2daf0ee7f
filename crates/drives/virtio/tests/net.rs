//! The network device, driven as Linux's `virtio_net` drives it.

use crate::support::Ram;
use proptest::prelude::*;
use stasis_virtio::net::{Config, Device};
use stasis_virtio::{Fault, Interrupt, Memory, QueueSetup, VirtioDevice};

const SIZE: u16 = 16;
/// Places of the queues, and of buffers behind them.
const QUEUES: [u64; 2] = [0x1000, 0x3000];
const BUFFERS: u64 = 0x8000;
const HEADER: usize = 12;
const WRITE: u16 = 2;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

struct Driver {
    ram: Ram,
    device: Device,
    available: [u16; 2],
    used: [u16; 2],
}

impl Driver {
    /// With every feature but the event index, so that each entry interrupts.
    fn new() -> Self {
        let config = Config { address: MAC, mtu: 1_500, queue_size: SIZE };
        let mut driver = Self {
            ram: Ram::new(1 << 20),
            device: Device::new(config),
            available: [0; 2],
            used: [0; 2],
        };
        let features = driver.device.features() & !(1 << 29);
        assert!(driver.device.accept(features));
        for queue in 0..2 {
            let at = QUEUES[usize::from(queue)];
            let setup = QueueSetup {
                size: SIZE,
                descriptors: at,
                available: at + 0x400,
                used: at + 0x800,
                next: 0,
            };
            driver.device.start_queue(&driver.ram, queue, &setup).unwrap();
        }
        driver
    }

    /// Makes a buffer available, with one descriptor of the same number.
    fn offer(&mut self, queue: usize, number: u16, address: u64, length: u32, flags: u16) {
        let descriptor = QUEUES[queue] + 16 * u64::from(number);
        self.ram.set(descriptor, &address.to_le_bytes());
        self.ram.set(descriptor + 8, &length.to_le_bytes());
        self.ram.set(descriptor + 12, &flags.to_le_bytes());
        let ring = QUEUES[queue] + 0x400;
        let entry = u64::from(self.available[queue] % SIZE);
        self.ram.set16(ring + 4 + 2 * entry, number);
        self.available[queue] = self.available[queue].wrapping_add(1);
        self.ram.set16(ring + 2, self.available[queue]);
    }

    /// Sends a frame behind this header.
    fn send(&mut self, number: u16, header: [u8; HEADER], frame: &[u8]) {
        let at = BUFFERS + 0x1000 * u64::from(number);
        self.ram.set(at, &header);
        self.ram.set(at + HEADER as u64, frame);
        self.offer(1, number, at, (HEADER + frame.len()) as u32, 0);
        self.device.notify(&self.ram, 1);
    }

    /// The next buffer that was given back: its number and the bytes in it.
    fn given_back(&mut self, queue: usize) -> Option<(u16, u32)> {
        let ring = QUEUES[queue] + 0x800;
        if self.ram.get16(ring + 2) == self.used[queue] {
            return None;
        }
        let entry = ring + 4 + 8 * u64::from(self.used[queue] % SIZE);
        self.used[queue] = self.used[queue].wrapping_add(1);
        let number = u32::from_le_bytes(self.ram.get(entry)) as u16;
        Some((number, u32::from_le_bytes(self.ram.get(entry + 4))))
    }
}

#[test]
fn a_driver_finds_address_link_and_transfer_unit() {
    let driver = Driver::new();
    let mut space = [0xff; 16];
    driver.device.read_config(0, &mut space);
    assert_eq!(space, [2, 0, 0, 0, 0, 7, 1, 0, 1, 0, 0xdc, 5, 0, 0, 0, 0]);
}

#[test]
fn frames_leave_in_order_and_their_buffers_come_back_when_they_have_left() {
    let mut driver = Driver::new();
    driver.send(3, [0; HEADER], &[1; 60]);
    driver.send(5, [0; HEADER], &[2; 1_514]);
    for (expected, byte, at) in [(3, 1, 1_000), (5, 2, 3_000)] {
        let sent = driver.device.pop_frame().unwrap();
        assert_eq!((sent.head, sent.frame[0]), (expected, byte));
        driver.device.finish(sent.head, at);
    }
    assert_eq!(driver.device.pop_frame(), None);
    // Both together, as the second leaves soon after the first.
    assert_eq!(driver.device.next_event(), Some(3_000));
    driver.device.advance(&driver.ram, 2_999);
    assert_eq!(driver.given_back(1), Some((3, 0)));
    assert_eq!(driver.given_back(1), None);
    driver.device.advance(&driver.ram, 3_000);
    assert_eq!(driver.given_back(1), Some((5, 0)));
    assert_eq!(driver.device.pop_interrupt(), Some(Interrupt::Queue(1)));
    assert_eq!(driver.device.pop_interrupt(), None);
}

#[test]
fn what_is_no_frame_goes_nowhere_and_its_buffer_comes_back() {
    let mut driver = Driver::new();
    driver.send(0, [0; HEADER], &[1; 13]);
    driver.send(1, [0; HEADER], &[1; 1_519]);
    // A sum behind the end of its frame.
    driver.send(2, [1, 0, 0, 0, 0, 0, 50, 0, 10, 0, 0, 0], &[1; 60]);
    for number in 0..3 {
        let sent = driver.device.pop_frame().unwrap();
        assert_eq!((sent.head, sent.frame.len()), (number, 0));
        driver.device.finish(sent.head, 5);
    }
    driver.device.advance(&driver.ram, 5);
    assert_eq!((0..3).filter_map(|_| driver.given_back(1)).count(), 3);
    assert_eq!(driver.device.statistics().refused, 3);
    assert_eq!(driver.device.fault(), None);
}

#[test]
fn a_frame_lies_in_as_many_buffers_as_it_needs() {
    let mut driver = Driver::new();
    for number in 0..4 {
        driver.offer(0, number, BUFFERS + 0x1000 * u64::from(number), 600, WRITE);
    }
    let frame: Vec<u8> = (0..1_514).map(|index| index as u8).collect();
    assert!(driver.device.receive(&driver.ram, &frame));
    let mut found = Vec::new();
    let lengths = [600, 600, 326];
    for (number, length) in (0..).zip(lengths) {
        assert_eq!(driver.given_back(0), Some((number, length)));
        let at = BUFFERS + 0x1000 * u64::from(number);
        found.extend(driver.ram.bytes(at, length as usize));
    }
    assert_eq!(found[..HEADER], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
    assert_eq!(found[HEADER..], frame);
    assert_eq!(driver.device.pop_interrupt(), Some(Interrupt::Queue(0)));
    // One buffer is left: not enough, and still there for a frame that fits.
    assert!(!driver.device.receive(&driver.ram, &frame));
    assert_eq!(driver.given_back(0), None);
    assert!(driver.device.receive(&driver.ram, &frame[..60]));
    assert_eq!(driver.given_back(0), Some((3, 72)));
    let counts = *driver.device.statistics();
    assert_eq!((counts.received, counts.missed), (2, 1));
}

#[test]
fn a_buffer_without_room_for_a_header_is_a_fault() {
    let mut driver = Driver::new();
    driver.offer(0, 0, BUFFERS, 11, WRITE);
    assert!(!driver.device.receive(&driver.ram, &[0; 60]));
    assert_eq!(driver.device.fault(), Some(Fault::Buffer(11)));
    assert_eq!(driver.device.pop_interrupt(), Some(Interrupt::Configuration));
    driver.device.reset();
    assert_eq!(driver.device.fault(), None);
    assert!(!driver.device.receive(&driver.ram, &[0; 60]), "no queue any more");
}

proptest! {
    /// Whatever the queues' memory has, the device neither panics nor leaves the guest's memory.
    #[test]
    fn no_driver_breaks_the_device(
        noise in prop::collection::vec(any::<u8>(), 0x3000),
        frames in prop::collection::vec((any::<bool>(), 14usize..2_000), 1..20),
    ) {
        let mut driver = Driver::new();
        driver.ram.write(QUEUES[0], &noise).unwrap();
        for (sends, length) in frames {
            if sends {
                // A few entries, of whatever descriptors.
                let ring = QUEUES[1] + 0x400;
                let next = driver.available[1].wrapping_add(length as u16 % 5);
                driver.available[1] = next;
                driver.ram.set16(ring + 2, next);
                driver.device.notify(&driver.ram, 1);
                while let Some(sent) = driver.device.pop_frame() {
                    prop_assert!(sent.frame.len() <= 1_518);
                    driver.device.finish(sent.head, length as u64);
                }
                driver.device.advance(&driver.ram, length as u64);
            } else {
                driver.device.receive(&driver.ram, &vec![7; length]);
            }
        }
    }
}
