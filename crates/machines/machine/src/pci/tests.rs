use super::*;
use proptest::prelude::*;

fn bus() -> Bus {
    let mut bus = Bus::new();
    let mut next = 0xc000_0000;
    let identity = Identity { vendor: 0x5354, device: 2, class: 0x010802, revision: 1 };
    bus.add(Function::new(identity).with_bar(0, 0x4000, false).with_msix(3), &mut next);
    bus
}

fn config(bus: &mut Bus, register: u32) -> u32 {
    bus.port_write(0xcf8, &(1 << 31 | register).to_le_bytes());
    let mut word = [0; 4];
    bus.port_read(0xcfc, &mut word);
    u32::from_le_bytes(word)
}

fn set_config(bus: &mut Bus, register: u32, value: u32) {
    bus.port_write(0xcf8, &(1 << 31 | register).to_le_bytes());
    bus.port_write(0xcfc, &value.to_le_bytes());
}

#[test]
fn bars_can_be_sized_and_moved() {
    let mut bus = bus();
    assert_eq!(config(&mut bus, 0), 0x0002_5354);
    assert_eq!(config(&mut bus, 0x10), 0xc000_0004);
    set_config(&mut bus, 0x10, u32::MAX);
    assert_eq!(config(&mut bus, 0x10), 0xffff_c004);
    set_config(&mut bus, 0x10, 0xd000_0000);
    assert_eq!(bus.find(0xd000_0010), None, "memory is not enabled yet");
    set_config(&mut bus, 4, 2);
    assert_eq!(bus.find(0xd000_0010), Some(BarAddress { slot: 0, bar: 0, offset: 0x10 }));
    assert_eq!(bus.find(0xd000_4000), None);
}

#[test]
fn a_hidden_slot_is_empty() {
    let mut bus = bus();
    let before: Vec<u32> = (0..64).map(|word| config(&mut bus, 4 * word)).collect();
    bus.hide(1);
    assert_eq!(config(&mut bus, 0), before[0], "it stands before those that are hidden");
    bus.hide(0);
    for word in 0..64 {
        assert_eq!(config(&mut bus, 4 * word), u32::MAX);
    }
    set_config(&mut bus, 4, 2);
    bus.show();
    let after: Vec<u32> = (0..64).map(|word| config(&mut bus, 4 * word)).collect();
    assert_eq!(after, before, "nothing that is written to it has an effect");
}

#[test]
fn masked_vectors_wait() {
    let mut bus = bus();
    let msix = bus.function(0).msix().unwrap();
    assert_eq!(msix.signal(1), None, "not enabled");
    set_config(&mut bus, 0x40, 0x8000_0000);
    let msix = bus.function(0).msix().unwrap();
    msix.write(16, &[0x00, 0x10, 0xe0, 0xfe, 0, 0, 0, 0]);
    msix.write(24, &0x31u32.to_le_bytes());
    assert_eq!(msix.signal(1), None, "masked after reset");
    let message = msix.write(28, &0u32.to_le_bytes()).expect("it waited");
    assert_eq!(message.vector, 0x31);
    assert_eq!(message.destination, crate::apic::Destination::Physical(1));
    assert!(msix.signal(1).is_some());
}

proptest! {
    #[test]
    fn no_access_panics(accesses in prop::collection::vec((0xcf8u16..=0xcff, any::<u32>(), 0usize..3, any::<u64>()), 0..60)) {
        let mut bus = express();
        for (port, value, width, address) in accesses {
            let bytes = value.to_le_bytes();
            let data = &bytes[..[1, 2, 4][width]];
            bus.port_write(port, data);
            let mut into = [0; 4];
            bus.port_read(port, &mut into[..[1, 2, 4][width]]);
            bus.find(address);
            let msix = bus.function(0).msix().unwrap();
            msix.write(address % 0x3000, data);
            msix.read(address % 0x3000, &mut into);
            msix.released();
        }
    }
}

/// A drive's function behind port 1 of a link PCIe 4.0 x4, in slot 1.
fn express() -> Bus {
    let mut bus = bus();
    let identity = Identity { vendor: 0x5354, device: 2, class: 0x010802, revision: 1 };
    let function = Function::new(identity).with_bar(0, 0x4000, false).with_msix(3);
    let mut next = 0xc001_0000;
    assert_eq!(bus.add_behind_port(function, Link::new(4, 4).unwrap(), &mut next), 1);
    assert_eq!(next, 0xc020_0000, "a window of a mebibyte, at a mebibyte");
    bus
}

const PORT: u32 = 1 << 11;
const ENDPOINT: u32 = 1 << 16;

/// Returns the place of a capability of the function at `device`.
fn capability(bus: &mut Bus, device: u32, number: u32) -> u32 {
    let mut at = config(bus, device | 0x34) & 0xff;
    while at != 0 {
        let header = config(bus, device | at);
        if header & 0xff == number {
            return at;
        }
        at = header >> 8 & 0xff;
    }
    panic!("no capability {number}");
}

#[test]
fn both_ends_of_a_link_say_its_speed_and_width() {
    let mut bus = express();
    for (device, kind) in [(ENDPOINT, 0), (PORT, 4)] {
        let at = device | capability(&mut bus, device, 0x10);
        assert_eq!(config(&mut bus, at) >> 16, 2 | kind << 4, "version 2, kind of function");
        let (able, is) = (config(&mut bus, at + 0x0c), config(&mut bus, at + 0x10) >> 16);
        assert_eq!((able & 0xf, able >> 4 & 0x3f), (4, 4), "16 GT/s, 4 lanes");
        assert_eq!((is & 0xf, is >> 4 & 0x3f), (4, 4));
        assert_eq!(config(&mut bus, at + 0x2c), 0b11110, "every speed up to it");
        let power = device | capability(&mut bus, device, 1);
        assert_eq!(config(&mut bus, power) >> 16, 3, "version 3");
    }
    assert_eq!(config(&mut bus, PORT | 0x0c) >> 16, 1, "a bridge's header");
    assert_eq!(config(&mut bus, PORT | 0x18), 0x0001_0100);
    assert_eq!(config(&mut bus, PORT | 0x20), 0xc010_c010);
    assert_eq!(config(&mut bus, ENDPOINT | 1 << 11), u32::MAX, "one device on the link");
    assert_eq!(config(&mut bus, ENDPOINT | 1 << 24), 0, "no extended capability");
    assert_eq!(config(&mut bus, 1 << 24), u32::MAX, "no extended configuration space");
}

#[test]
fn accesses_go_through_a_port_that_is_open() {
    let mut bus = express();
    let (address, place) = (0xc010_0010, BarAddress { slot: 1, bar: 0, offset: 0x10 });
    set_config(&mut bus, ENDPOINT | 4, 2);
    assert_eq!(bus.find(address), None, "the port's memory is off");
    set_config(&mut bus, PORT | 4, 2);
    assert_eq!(bus.find(address), Some(place));
    set_config(&mut bus, PORT | 0x20, 0xc020_c020);
    assert_eq!(bus.find(address), None, "not in the window");
    set_config(&mut bus, PORT | 0x20, 0xc010_c010);
    let power = ENDPOINT | capability(&mut bus, ENDPOINT, 1);
    set_config(&mut bus, power + 4, 3);
    assert_eq!((bus.find(address), config(&mut bus, power + 4)), (None, 0xb), "asleep");
    set_config(&mut bus, power + 4, 1);
    assert_eq!(config(&mut bus, power + 4), 0xb, "there is no D1");
    set_config(&mut bus, power + 4, 0);
    assert_eq!(bus.find(address), Some(place));
    // The guest may number buses as it likes.
    set_config(&mut bus, PORT | 0x18, 0x0007_0700);
    assert_eq!(config(&mut bus, ENDPOINT), u32::MAX);
    assert_eq!(config(&mut bus, 7 << 16), 0x0002_5354);
}

#[test]
fn resets_are_told_and_forget_what_was_written() {
    let mut bus = express();
    let express = capability(&mut bus, ENDPOINT, 0x10);
    let port = PORT | capability(&mut bus, PORT, 0x10);
    let control = ENDPOINT | (express + 8);
    let fresh = config(&mut bus, control);
    let mut reset_by = |reset: Reset, register: u32, on: u32, off: u32| {
        set_config(&mut bus, ENDPOINT | 4, 2);
        set_config(&mut bus, control, 0);
        bus.port_write(0xcf8, &(1 << 31 | register).to_le_bytes());
        let written = bus.port_write(0xcfc, &on.to_le_bytes());
        assert_eq!(written, Some(Written { slot: 1, reset: Some(reset), message: None }));
        bus.port_write(0xcf8, &(1 << 31 | register).to_le_bytes());
        let written = bus.port_write(0xcfc, &off.to_le_bytes());
        assert_eq!(written, Some(Written { slot: 1, reset: None, message: None }));
        assert_eq!(config(&mut bus, ENDPOINT | 4) & 0xffff, 0);
        assert_eq!(config(&mut bus, ENDPOINT | 0x10), 4, "firmware's address is gone");
        assert_eq!(config(&mut bus, control), fresh);
        assert_eq!(config(&mut bus, ENDPOINT), 0x0002_5354);
    };
    reset_by(Reset::Function, control, 1 << 15, fresh); // function level reset
    reset_by(Reset::Bus, PORT | 0x3c, 1 << 22, 0); // secondary bus reset
    reset_by(Reset::Bus, port + 0x10, 1 << 4, 0); // link disable
}

#[test]
fn a_link_that_is_off_hides_its_device() {
    let mut bus = express();
    let link = PORT | (capability(&mut bus, PORT, 0x10) + 0x10);
    const ACTIVE: u32 = 1 << 29;
    assert_ne!(config(&mut bus, link) & ACTIVE, 0);
    set_config(&mut bus, link, 1 << 4);
    assert_eq!(config(&mut bus, link) & ACTIVE, 0);
    assert_eq!(config(&mut bus, ENDPOINT), u32::MAX);
    set_config(&mut bus, link, 1 << 5);
    assert_ne!(config(&mut bus, link) & ACTIVE, 0);
    assert_eq!(config(&mut bus, link) & 1 << 5, 0, "retrained at once");
    assert_eq!(config(&mut bus, ENDPOINT), 0x0002_5354);
}

#[test]
fn a_device_leaves_its_slot_and_comes_back() {
    let mut bus = express();
    bus.make_hot_plug(1);
    let express = PORT | capability(&mut bus, PORT, 0x10);
    let message = PORT | capability(&mut bus, PORT, 5);
    let at = capability(&mut bus, ENDPOINT, 0x10);
    assert_eq!(config(&mut bus, express) >> 24 & 1, 1, "a slot");
    assert_eq!(config(&mut bus, express + 0x14), 1 << 19 | 1 << 18 | 1 << 6 | 1 << 5);
    let status = |bus: &mut Bus| config(bus, express + 0x18) >> 16;
    let link = |bus: &mut Bus| config(bus, express + 0x10) >> 29 & 1;
    assert_eq!((status(&mut bus), link(&mut bus)), (1 << 6, 1));
    set_config(&mut bus, PORT | 4, 2);
    set_config(&mut bus, ENDPOINT | 4, 2);
    assert!(bus.find(0xc010_0010).is_some());
    assert_eq!(bus.change_slot(1, false), None, "nobody asked for a message");
    assert_eq!((status(&mut bus), link(&mut bus)), (1 << 8 | 1 << 3, 0));
    assert_eq!((config(&mut bus, ENDPOINT), bus.find(0xc010_0010)), (u32::MAX, None));

    // A 1 that is written to the status clears the bit; the control has no such bits.
    bus.port_write(0xcf8, &(1 << 31 | (express + 0x18)).to_le_bytes());
    bus.port_write(0xcfe, &(1u16 << 8).to_le_bytes());
    assert_eq!(status(&mut bus), 1 << 3);
    set_config(&mut bus, message + 4, 0xfee0_1000);
    set_config(&mut bus, message + 12, 0x31);
    set_config(&mut bus, message, 1 << 16);
    let on = u32::from(1u16 << 12 | 1 << 5 | 1 << 3);
    bus.port_write(0xcf8, &(1 << 31 | (express + 0x18)).to_le_bytes());
    let written = bus.port_write(0xcfc, &(on as u16).to_le_bytes()).unwrap();
    let sent = written.message.expect("an event waited");
    assert_eq!((sent.vector, written.slot), (0x31, 1));
    assert_eq!(bus.change_slot(1, true), None, "it has not been answered");
    assert_eq!((status(&mut bus), link(&mut bus)), (1 << 8 | 1 << 6 | 1 << 3, 1));
    set_config(&mut bus, express + 0x18, on | 0x0108 << 16);
    assert_eq!(status(&mut bus), 1 << 6);
    assert!(bus.change_slot(1, false).is_some());
    set_config(&mut bus, express + 0x18, on | 0x0108 << 16);
    assert!(bus.change_slot(1, true).is_some());

    // It is as after power-on: without an address.
    assert_eq!(config(&mut bus, ENDPOINT), 0x0002_5354);
    assert_eq!((config(&mut bus, ENDPOINT | 4) & 2, config(&mut bus, ENDPOINT | 0x10)), (0, 4));
    assert_eq!(capability(&mut bus, ENDPOINT, 0x10), at);
}
