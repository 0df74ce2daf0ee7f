//! Root ports, at which links of PCI Express begin (PCI-to-PCI Bridge Architecture Specification
//! 1.2, 3.2; PCI Express Base Specification 6.0, 7.5.1.3).

use stasis_block::Link;

use super::express::{self, PortType};
use super::function::{Function, Identity, Wanted};
use crate::apic::Message;

/// A window to the bus behind a port begins and ends at multiples of this.
pub(super) const WINDOW: u64 = 1 << 20;

/// Class: bridge, PCI to PCI.
const ROOT_PORT: Identity =
    Identity { vendor: stasis_channel::VENDOR_ID, device: 3, class: 0x06_04_00, revision: 1 };

const HEADER_TYPE: usize = 0x0e;
const SECONDARY: usize = 0x19;
const MEMORY_BASE: usize = 0x20;
const MEMORY_LIMIT: usize = 0x22;
const BRIDGE_CONTROL: usize = 0x3e;
/// Bridge Control: parity, SERR and the reset of the function behind the port.
const BRIDGE_CONTROL_MASK: u16 = 0x0043;
/// Bridge Control: the function behind the port is held in reset.
const SECONDARY_RESET: u16 = 1 << 6;

/// A root port with one function behind it.
#[derive(Debug)]
pub(super) struct RootPort {
    function: Function,
    /// The number of the function behind it.
    pub below: usize,
}

impl RootPort {
    /// Port number `number` of a link to function `below`, its bus and the
    /// window `from` to `to` as firmware would set them.
    pub fn new(number: u8, below: usize, link: Link, from: u64, to: u64) -> Self {
        let mut function = Function::new(ROOT_PORT).with_express(PortType::RootPort(number), link);
        function.set(HEADER_TYPE, &[1]);
        // A header of type 1 has other registers where type 0 has its subsystem.
        function.set(0x2c, &[0; 4]);
        let window = |address: u64| ((address >> 16) as u16 & 0xfff0).to_le_bytes();
        for (at, mask) in
            [(0x18, 0xffff), (0x1a, 0x00ff), (MEMORY_BASE, 0xfff0), (MEMORY_LIMIT, 0xfff0)]
        {
            function.allow(at, mask);
        }
        function.allow(BRIDGE_CONTROL, BRIDGE_CONTROL_MASK);
        function.set(SECONDARY, &[number, number]);
        function.set(MEMORY_BASE, &window(from));
        function.set(MEMORY_LIMIT, &window(to - 1));
        Self { function, below }
    }

    /// Makes its link end in a slot, in which the device comes and goes.
    pub fn make_hot_plug(&mut self, number: u8) {
        let bare = std::mem::replace(&mut self.function, Function::new(ROOT_PORT));
        self.function = bare.with_slot(number);
    }

    /// The device in its slot has come or gone: the message to deliver for that, if one is wanted.
    pub fn change_slot(&mut self, connected: bool) -> Option<Message> {
        let before = self.function.slot_message();
        self.function.change_slot(connected);
        self.function.slot_message().filter(|_| before.is_none())
    }

    /// The bus behind it.
    pub fn bus(&self) -> u8 {
        (self.function.word(SECONDARY) & 0xff) as u8
    }

    /// Returns whether the function behind the port can be reached.
    pub fn is_up(&self) -> bool {
        self.function.express_word(express::LINK_CONTROL) & express::LINK_DISABLE == 0
            && self.function.is_connected()
            && self.function.word(BRIDGE_CONTROL) & SECONDARY_RESET == 0
    }

    /// Returns whether an access to `address` goes through.
    pub fn forwards(&self, address: u64) -> bool {
        let field = |at| u64::from(self.function.word(at) & 0xfff0) << 16;
        let (base, limit) = (field(MEMORY_BASE), field(MEMORY_LIMIT) | (WINDOW - 1));
        self.is_up() && self.function.memory_enabled() && (base..=limit).contains(&address)
    }

    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.function.read(offset, into);
    }

    /// Returns whether the function behind it is to be reset: a link that goes down does that, too.
    /// And the message of an interrupt that becomes wanted.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> (Wanted, Option<Message>) {
        let (up, before) = (self.is_up(), self.function.slot_message());
        self.function.write(offset, data);
        let message = self.function.slot_message().filter(|_| before.is_none());
        if up && !self.is_up() {
            (Wanted::Reset, message)
        } else {
            (Wanted::Nothing, message)
        }
    }
}
