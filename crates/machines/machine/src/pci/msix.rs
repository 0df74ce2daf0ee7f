//! MSI-X: the table of messages and their pending bits (PCI Local Bus
//! Specification 3.0, 6.8.2).

use crate::apic::Message;

/// MSI-X: the table, kept here, and the capability's control bits.
#[derive(Debug, Clone)]
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

/// BAR that holds the MSI-X table and pending bits, 64-bit.
pub const MSIX_BAR: usize = 4;
/// Size of the BAR that holds the MSI-X table and pending bits.
pub const MSIX_BAR_SIZE: u64 = 0x2000;
/// Place of the pending bits in it.
pub(super) const MSIX_PENDING: u64 = 0x1000;
/// Limit on the vectors of a device: their table fits before the pending bits.
pub const MAX_MSIX_VECTORS: u16 = 256;

impl Msix {
    /// A table of `vectors` masked entries.
    pub(super) fn new(vectors: u16) -> Self {
        let entry = Entry { address: 0, data: 0, masked: true, pending: false };
        Self { entries: vec![entry; usize::from(vectors)], enabled: false, masked: false }
    }

    /// Takes the control bits of the capability's message control, of which
    /// this is the upper byte.
    pub(super) fn control(&mut self, byte: u8) {
        self.enabled = byte & 0x80 != 0;
        self.masked = byte & 0x40 != 0;
    }

    /// Restores the state after a reset.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.entries.len() as u16);
    }

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
            let value = stasis_layout::number(word) as u32;
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
