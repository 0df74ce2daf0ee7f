//! The PCI bus: configuration by ports 0xcf8/0xcfc, memory BARs, MSI-X.
//!
//! Source: PCI Local Bus Specification 3.0, chapter 6 (configuration space,
//! 6.2.5 BARs, 6.8.2 MSI-X).

use crate::apic::Message;

/// Most devices on the bus.
pub const SLOTS: usize = 32;
const CONFIG: usize = 256;
const COMMAND: usize = 4;
const BAR0: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const MSIX: usize = 0x40;
/// Where other capabilities begin, one behind the other.
const OTHERS: usize = 0x50;
/// Command register bits that are kept: memory, bus master, interrupt disable.
const COMMAND_MASK: u16 = 0x0406;

/// Who a device says it is.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Class, subclass and programming interface (24 bits).
    pub class: u32,
    /// Revision.
    pub revision: u8,
}

/// A device's configuration space: up to three 64-bit memory BARs (numbers 0,
/// 2 and 4) and an MSI-X capability.
#[derive(Debug)]
pub struct Function {
    config: [u8; CONFIG],
    /// Size of each 64-bit BAR, 0 for none.
    sizes: [u64; 3],
    msix: Option<Msix>,
    /// Where the next capability goes.
    free: usize,
}

/// MSI-X: the table, kept here, and the capability's control bits.
#[derive(Debug)]
pub struct Msix {
    entries: Vec<Entry>,
    enabled: bool,
    masked: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    address: u64,
    data: u32,
    masked: bool,
    pending: bool,
}

/// Which BAR of which slot an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The device.
    pub slot: usize,
    /// The BAR's number: 0, 2 or 4.
    pub bar: usize,
    /// Offset in it.
    pub offset: u64,
}

impl Function {
    /// A function without BARs.
    pub fn new(identity: Identity) -> Self {
        let mut config = [0; CONFIG];
        config[0..2].copy_from_slice(&identity.vendor.to_le_bytes());
        config[2..4].copy_from_slice(&identity.device.to_le_bytes());
        config[8] = identity.revision;
        config[9..12].copy_from_slice(&identity.class.to_le_bytes()[..3]);
        // Subsystem: the same, so that drivers' quirks for others do not match.
        config[0x2c..0x2e].copy_from_slice(&identity.vendor.to_le_bytes());
        config[0x2e..0x30].copy_from_slice(&identity.device.to_le_bytes());
        Self { config, sizes: [0; 3], msix: None, free: OTHERS }
    }

    /// Adds a 64-bit memory BAR; `bar` is 0, 2 or 4, `size` a power of two.
    pub fn with_bar(mut self, bar: usize, size: u64, prefetchable: bool) -> Self {
        debug_assert!(size.is_power_of_two() && size >= 16 && bar.is_multiple_of(2) && bar <= 4);
        self.sizes[bar / 2] = size;
        self.config[BAR0 + 4 * bar] = 4 | u8::from(prefetchable) << 3;
        self
    }

    /// Adds MSI-X with `vectors` vectors; its table is BAR 4, see [`Msix`].
    pub fn with_msix(mut self, vectors: u16) -> Self {
        debug_assert!((1..=MSIX_VECTORS_LIMIT).contains(&vectors));
        self = self.with_bar(4, MSIX_BAR_SIZE, false);
        self.config[MSIX] = 0x11;
        self.link(MSIX);
        self.config[MSIX + 2..MSIX + 4].copy_from_slice(&(vectors - 1).to_le_bytes());
        self.config[MSIX + 4..MSIX + 8].copy_from_slice(&4u32.to_le_bytes());
        self.config[MSIX + 8..MSIX + 12].copy_from_slice(&(4 | MSIX_PENDING as u32).to_le_bytes());
        let entry = Entry { address: 0, data: 0, masked: true, pending: false };
        self.msix = Some(Msix {
            entries: vec![entry; usize::from(vectors)],
            enabled: false,
            masked: false,
        });
        self
    }

    /// Adds a capability that only says something: its number, and what is
    /// behind the pointer to the next.
    pub fn with_capability(mut self, number: u8, body: &[u8]) -> Self {
        let at = self.free;
        let end = at + 2 + body.len();
        debug_assert!(end <= CONFIG);
        self.config[at] = number;
        self.config[at + 2..end].copy_from_slice(body);
        self.free = end.next_multiple_of(4);
        self.link(at);
        self
    }

    /// Puts the capability at `at` in front of the others.
    fn link(&mut self, at: usize) {
        self.config[6] |= 1 << 4; // status: capabilities list
        self.config[at + 1] = self.config[CAPABILITIES];
        self.config[CAPABILITIES] = at as u8;
    }

    /// Address of a 64-bit BAR, if it has one.
    pub fn bar(&self, bar: usize) -> Option<u64> {
        if self.sizes[bar / 2] == 0 {
            return None;
        }
        let at = BAR0 + 4 * bar;
        let bytes: [u8; 8] = self.config[at..at + 8].try_into().expect("eight bytes");
        Some(u64::from_le_bytes(bytes) & !0xf)
    }

    fn set_bar(&mut self, bar: usize, address: u64) {
        let at = BAR0 + 4 * bar;
        let flags = u64::from(self.config[at] & 0xf);
        self.config[at..at + 8].copy_from_slice(&(address | flags).to_le_bytes());
    }

    /// Whether the device answers memory accesses.
    pub fn memory_enabled(&self) -> bool {
        self.config[COMMAND] & 2 != 0
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        for (index, byte) in into.iter_mut().enumerate() {
            *byte = self.config.get(offset + index).copied().unwrap_or(0xff);
        }
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        for (index, &byte) in data.iter().enumerate() {
            self.write_byte(offset + index, byte);
        }
    }

    fn write_byte(&mut self, at: usize, byte: u8) {
        match at {
            4 | 5 => {
                let mask = COMMAND_MASK.to_le_bytes()[at - 4];
                self.config[at] = byte & mask;
            }
            0x0c | 0x3c => self.config[at] = byte, // cache line size, interrupt line
            BAR0..=0x27 => {
                let pair = (at - BAR0) / 8;
                if self.sizes[pair] != 0 {
                    // Bits below the size are fixed: this is how sizing works.
                    let mask = !(self.sizes[pair] - 1);
                    let within = (at - BAR0) % 8;
                    let mask = mask.to_le_bytes()[within];
                    self.config[at] = byte & mask | self.config[at] & !mask & 0xf;
                }
            }
            _ if at == MSIX + 3 => {
                if let Some(msix) = &mut self.msix {
                    self.config[at] = self.config[at] & 0x3f | byte & 0xc0;
                    msix.enabled = byte & 0x80 != 0;
                    msix.masked = byte & 0x40 != 0;
                }
            }
            _ => {}
        }
    }

    /// The MSI-X state, where there is one.
    pub fn msix(&mut self) -> Option<&mut Msix> {
        self.msix.as_mut()
    }
}

/// Size of the BAR that holds the MSI-X table and pending bits.
pub const MSIX_BAR_SIZE: u64 = 0x2000;
/// Where the pending bits are in it.
const MSIX_PENDING: u64 = 0x1000;
/// Most vectors of a device: what fits before the pending bits.
pub const MSIX_VECTORS_LIMIT: u16 = 256;

impl Msix {
    /// Reads the table's BAR.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        if !offset.is_multiple_of(4) || !matches!(into.len(), 4 | 8) {
            return;
        }
        for (index, word) in into.chunks_mut(4).enumerate() {
            let value = self.word(offset + 4 * index as u64);
            word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
        }
    }

    fn word(&self, offset: u64) -> u32 {
        if offset >= MSIX_PENDING {
            let first = (offset - MSIX_PENDING) as usize * 8;
            let bits = self.entries.iter().skip(first).take(32).enumerate();
            return bits.fold(0, |word, (bit, entry)| word | u32::from(entry.pending) << bit);
        }
        let Some(entry) = self.entries.get(offset as usize / 16) else { return 0 };
        match offset % 16 {
            0 => entry.address as u32,
            4 => (entry.address >> 32) as u32,
            8 => entry.data,
            _ => u32::from(entry.masked),
        }
    }

    /// Writes the table's BAR; returns a message that was only waiting for
    /// its vector to be unmasked.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Option<Message> {
        if !offset.is_multiple_of(4) || !matches!(data.len(), 4 | 8) || offset >= MSIX_PENDING {
            return None;
        }
        let mut released = None;
        for (index, word) in data.chunks(4).enumerate() {
            let value = u32::from_le_bytes(word.try_into().expect("four bytes"));
            let at = offset + 4 * index as u64;
            let number = at as usize / 16;
            let entry = self.entries.get_mut(number)?;
            match at % 16 {
                0 => entry.address = entry.address & !0xffff_ffff | u64::from(value),
                4 => entry.address = entry.address & 0xffff_ffff | u64::from(value) << 32,
                8 => entry.data = value,
                _ => {
                    entry.masked = value & 1 != 0;
                    if !entry.masked && entry.pending {
                        released = self.signal(number as u16);
                    }
                }
            }
        }
        released
    }

    /// The device signals `vector`: the message to deliver now, if it is not masked.
    pub fn signal(&mut self, vector: u16) -> Option<Message> {
        let masked = self.masked;
        let entry = self.entries.get_mut(usize::from(vector))?;
        if !self.enabled {
            return None;
        }
        entry.pending = masked || entry.masked;
        (!entry.pending).then(|| Message::from_msi(entry.address, entry.data))
    }

    /// Messages that waited for the whole device to be unmasked.
    pub fn released(&mut self) -> Vec<Message> {
        if !self.enabled || self.masked {
            return Vec::new();
        }
        (0..self.entries.len() as u16)
            .filter(|&vector| {
                let entry = self.entries[usize::from(vector)];
                entry.pending && !entry.masked
            })
            .collect::<Vec<_>>()
            .into_iter()
            .filter_map(|vector| self.signal(vector))
            .collect()
    }
}

/// Bus 0.
#[derive(Debug, Default)]
pub struct Bus {
    functions: Vec<Function>,
    address: u32,
}

impl Bus {
    /// An empty bus.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plugs `function` into the next slot, its BARs at `next`; returns the slot.
    /// The caller keeps to [`SLOTS`].
    pub fn add(&mut self, mut function: Function, next: &mut u64) -> usize {
        for bar in [0, 2, 4] {
            let size = function.sizes[bar / 2];
            if size != 0 {
                *next = next.next_multiple_of(size);
                function.set_bar(bar, *next);
                *next += size;
            }
        }
        self.functions.push(function);
        self.functions.len() - 1
    }

    /// The function in `slot`.
    pub fn function(&mut self, slot: usize) -> &mut Function {
        &mut self.functions[slot]
    }

    /// Whose BAR `address` is in.
    pub fn find(&self, address: u64) -> Option<Place> {
        self.functions.iter().enumerate().find_map(|(slot, function)| {
            if !function.memory_enabled() {
                return None;
            }
            [0, 2, 4].into_iter().find_map(|bar| {
                let base = function.bar(bar)?;
                let offset = address.checked_sub(base)?;
                (offset < function.sizes[bar / 2]).then_some(Place { slot, bar, offset })
            })
        })
    }

    fn selected(&self, port: u16) -> Option<(usize, usize)> {
        let bus = self.address >> 16 & 0xff;
        let (slot, function) = (self.address >> 11 & 0x1f, self.address >> 8 & 7);
        let register = (self.address & 0xfc) as usize + usize::from(port & 3);
        (self.address >> 31 == 1 && bus == 0 && function == 0).then_some((slot as usize, register))
    }

    /// Reads ports 0xcf8 to 0xcff.
    pub fn port_read(&self, port: u16, into: &mut [u8]) {
        into.fill(0xff);
        if port == 0xcf8 && into.len() == 4 {
            into.copy_from_slice(&self.address.to_le_bytes());
        } else if port >= 0xcfc {
            if let Some((slot, register)) = self.selected(port) {
                if let Some(function) = self.functions.get(slot) {
                    function.read(register, into);
                }
            }
        }
    }

    /// Writes ports 0xcf8 to 0xcff; returns the slot whose configuration may
    /// have changed.
    pub fn port_write(&mut self, port: u16, data: &[u8]) -> Option<usize> {
        if port == 0xcf8 {
            self.address = u32::from_le_bytes(data.try_into().ok()?);
            return None;
        }
        let (slot, register) = self.selected(port)?;
        self.functions.get_mut(slot)?.write(register, data);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(bus.find(0xd000_0010), Some(Place { slot: 0, bar: 0, offset: 0x10 }));
        assert_eq!(bus.find(0xd000_4000), None);
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
            let mut bus = bus();
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
}
