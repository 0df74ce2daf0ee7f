//! PCI: configuration by ports 0xcf8/0xcfc, memory BARs, MSI-X, and PCI Express
//! functions behind root ports.
//!
//! Sources: PCI Local Bus Specification 3.0, chapter 6 (configuration space,
//! 6.2.5 BARs, 6.8.2 MSI-X); PCI Express Base Specification 6.0, 7.5.

mod express;
mod function;
mod msix;
mod port;
#[cfg(test)]
mod tests;

use stasis_block::Link;

pub use express::PortType;
use function::Wanted;
pub use function::{Function, Identity};
pub use msix::MSIX_BAR;
use port::{RootPort, WINDOW};

use crate::apic::Message;

/// Limit on the devices on bus 0.
pub const SLOTS: usize = 32;
/// The last bus that there can be: one behind each slot.
pub const LAST_BUS: u8 = SLOTS as u8;

/// Which BAR of which slot an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarAddress {
    /// The device.
    pub slot: usize,
    /// The BAR's number: 0, 2 or 4.
    pub bar: usize,
    /// Offset in it.
    pub offset: u64,
}

/// A reset of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// By its own register (Function Level Reset).
    Function,
    /// By its bus or link, or because it was away.
    Bus,
}

/// A write to the configuration space of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The device.
    pub slot: usize,
    /// Its reset by that.
    pub reset: Option<Reset>,
    /// Message of its root port, to deliver now.
    pub message: Option<Message>,
}

/// Bus 0, and behind its root ports one bus with one device each. A device
/// behind a port has the port's slot.
#[derive(Debug, Default)]
pub struct Bus {
    functions: Vec<Function>,
    ports: Vec<RootPort>,
    address: u32,
    /// The first of the slots that are hidden: they are empty for the guest.
    hidden: Option<usize>,
}

/// Whom a configuration access is for.
enum Selected {
    Function(usize),
    Port(usize),
}

impl Bus {
    /// An empty bus.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plugs `function` into the next slot, its BARs at `next`; returns the slot.
    /// The caller keeps to [`SLOTS`].
    pub fn add(&mut self, mut function: Function, next: &mut u64) -> usize {
        function.place_bars(next);
        self.functions.push(function);
        self.functions.len() - 1
    }

    /// Like `add`, but adds the function at the other end of a `link`, whose root port is in the
    /// slot.
    pub fn add_behind_port(&mut self, function: Function, link: Link, next: &mut u64) -> usize {
        let from = next.next_multiple_of(WINDOW);
        *next = from;
        let slot = self.add(function.with_express(PortType::Endpoint, link), next);
        *next = next.next_multiple_of(WINDOW);
        let number = self.ports.len() as u8 + 1;
        self.ports.push(RootPort::new(number, slot, link, from, *next));
        slot
    }

    /// Makes the device in `slot` one that [comes and goes](Self::change_slot), where it is behind
    /// a root port.
    pub fn make_hot_plug(&mut self, slot: usize) {
        if let Some(port) = self.ports.iter_mut().find(|port| port.below == slot) {
            port.make_hot_plug(slot as u8);
        }
    }

    /// The device in `slot` has come or gone, with which it is reset. Returns the message of its
    /// port to deliver now.
    pub fn change_slot(&mut self, slot: usize, connected: bool) -> Option<Message> {
        self.functions[slot].reset();
        let port = self.ports.iter_mut().find(|port| port.below == slot)?;
        port.change_slot(connected)
    }

    /// The function in `slot`, or behind its root port.
    pub fn function(&mut self, slot: usize) -> &mut Function {
        &mut self.functions[slot]
    }

    /// Makes the slots from `slot` on empty for the guest.
    pub fn hide(&mut self, slot: usize) {
        self.hidden = Some(slot);
    }

    /// All slots show what is in them.
    pub fn show(&mut self) {
        self.hidden = None;
    }

    /// Returns the BAR that `address` is in.
    pub fn find(&self, address: u64) -> Option<BarAddress> {
        self.functions.iter().enumerate().find_map(|(slot, function)| {
            let (bar, offset) = function.decode(address)?;
            let port = self.ports.iter().find(|port| port.below == slot);
            port.is_none_or(|port| port.forwards(address)).then_some(BarAddress {
                slot,
                bar,
                offset,
            })
        })
    }

    fn selected(&self, port: u16) -> Option<(Selected, usize)> {
        let bus = (self.address >> 16) as u8;
        let (device, function) = ((self.address >> 11 & 0x1f) as usize, self.address >> 8 & 7);
        // AMD's extended access has the register's upper bits behind the bus.
        let upper = (self.address >> 24 & 0xf) as usize;
        let register = upper << 8 | (self.address & 0xfc) as usize | usize::from(port & 3);
        if self.address >> 31 == 0 || function != 0 {
            return None;
        }
        let below =
            |port: &RootPort| if bus == 0 { port.below == device } else { port.bus() == bus };
        let selected = match self.ports.iter().position(below) {
            Some(port) if bus == 0 => Selected::Port(port),
            Some(port) if device == 0 && self.ports[port].is_up() => {
                Selected::Function(self.ports[port].below)
            }
            None if bus == 0 && device < self.functions.len() => Selected::Function(device),
            _ => return None,
        };
        let slot = match selected {
            Selected::Function(slot) => slot,
            Selected::Port(port) => self.ports[port].below,
        };
        self.hidden.is_none_or(|first| slot < first).then_some((selected, register))
    }

    /// Reads ports 0xcf8 to 0xcff.
    pub fn port_read(&self, port: u16, into: &mut [u8]) {
        into.fill(0xff);
        if port == 0xcf8 && into.len() == 4 {
            into.copy_from_slice(&self.address.to_le_bytes());
        } else if port >= 0xcfc {
            match self.selected(port) {
                Some((Selected::Function(slot), register)) => {
                    self.functions[slot].read(register, into);
                }
                Some((Selected::Port(port), register)) => self.ports[port].read(register, into),
                None => {}
            }
        }
    }

    /// Writes ports 0xcf8 to 0xcff; returns what configuration may have
    /// changed.
    pub fn port_write(&mut self, port: u16, data: &[u8]) -> Option<Written> {
        if port < 0xcfc {
            if port == 0xcf8 {
                self.address = u32::from_le_bytes(data.try_into().ok()?);
            }
            return None;
        }
        let (selected, register) = self.selected(port)?;
        let (slot, by, (wanted, message)) = match selected {
            Selected::Function(slot) => {
                (slot, Reset::Function, (self.functions[slot].write(register, data), None))
            }
            Selected::Port(port) => {
                let port = &mut self.ports[port];
                (port.below, Reset::Bus, port.write(register, data))
            }
        };
        let reset = (wanted == Wanted::Reset).then_some(by);
        if reset.is_some() {
            self.functions[slot].reset();
        }
        Some(Written { slot, reset, message })
    }
}
