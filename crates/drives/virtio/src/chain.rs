//! Chains of descriptors: where in guest memory a request is (virtio 1.2
//! sections 2.7.4 to 2.7.5.3).

use stasis_block::memory::{append, Segment};
use stasis_layout::{layout, FromBytes, IntoBytes, U16, U32, U64};

use crate::ring::{Fault, Ring, DESCRIPTOR};
use crate::Memory;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A request's places, used again for the next.
#[derive(Debug, Default)]
pub struct Chain {
    /// Segments that the device reads.
    pub readable: Vec<Segment>,
    /// Segments that the device writes.
    pub writable: Vec<Segment>,
    /// An indirect table.
    table: Vec<u8>,
    /// Descriptors seen.
    count: usize,
}

layout! {
    /// A descriptor (section 2.7.5).
    struct Descriptor: 16 {
        [0] address: U64,
        [8] length: U32,
        [12] flags: U16,
        [14] next: U16,
    }
}

impl Chain {
    /// Walks the chain that begins at descriptor `head` of `ring`. It has at
    /// most `most` descriptors, and a table of indirect ones as many.
    pub fn walk(
        &mut self,
        memory: &dyn Memory,
        ring: &Ring,
        head: u16,
        most: usize,
        indirect: bool,
    ) -> Result<(), Fault> {
        self.readable.clear();
        self.writable.clear();
        self.count = 0;
        let mut index = head;
        loop {
            if index >= ring.size() {
                return Err(Fault::Descriptor(index));
            }
            let mut descriptor = Descriptor::default();
            let place = ring.descriptors + DESCRIPTOR as u64 * u64::from(index);
            memory.read(place, descriptor.as_mut_bytes())?;
            if descriptor.flags & INDIRECT != 0 {
                // Normal descriptors may come before, none after.
                if !indirect || descriptor.flags & NEXT != 0 {
                    return Err(Fault::Indirect);
                }
                return self.walk_table(memory, descriptor, most);
            }
            self.add(descriptor, most.min(ring.size().into()))?;
            if descriptor.flags & NEXT == 0 {
                return Ok(());
            }
            index = descriptor.next.get();
        }
    }

    fn walk_table(
        &mut self,
        memory: &dyn Memory,
        place: Descriptor,
        most: usize,
    ) -> Result<(), Fault> {
        let length = place.length.get() as usize;
        if length == 0 || !length.is_multiple_of(DESCRIPTOR) || length / DESCRIPTOR > most {
            return Err(Fault::Indirect);
        }
        self.table.resize(length, 0);
        memory.read(place.address.get(), &mut self.table)?;
        let mut index = 0;
        loop {
            let at = usize::from(index) * DESCRIPTOR;
            let raw = self.table.get(at..).and_then(|rest| Descriptor::ref_from_prefix(rest).ok());
            let descriptor = *raw.ok_or(Fault::Descriptor(index))?.0;
            if descriptor.flags & INDIRECT != 0 {
                return Err(Fault::Indirect);
            }
            self.add(descriptor, most)?;
            if descriptor.flags & NEXT == 0 {
                return Ok(());
            }
            index = descriptor.next.get();
        }
    }

    /// Appends a piece, as part of the one before it where they touch.
    fn add(&mut self, descriptor: Descriptor, most: usize) -> Result<(), Fault> {
        self.count += 1;
        if self.count > most {
            return Err(Fault::Endless);
        }
        let Descriptor { address, length, flags, .. } = descriptor;
        let length = length.get() as usize;
        let write = flags & WRITE != 0;
        if !write && !self.writable.is_empty() {
            return Err(Fault::Order);
        }
        if length == 0 {
            return Ok(());
        }
        let segments = if write { &mut self.writable } else { &mut self.readable };
        append(segments, address.get(), length);
        Ok(())
    }
}

/// Bytes of all pieces.
pub fn total(segments: &[Segment]) -> usize {
    // At most 2^32 bytes in each of at most 2^11 pieces.
    segments.iter().map(|segment| segment.length).sum()
}

/// Drops the first `count` bytes.
pub fn skip(segments: &mut Vec<Segment>, mut count: usize) {
    let whole = segments.iter().take_while(|segment| {
        let gone = segment.length <= count;
        if gone {
            count -= segment.length;
        }
        gone
    });
    let whole = whole.count();
    segments.drain(..whole);
    if let Some(first) = segments.first_mut() {
        // A piece may run over the end of addresses: no memory is there.
        first.address = first.address.saturating_add(count as u64);
        first.length -= count;
    }
}

/// Takes off the last byte: its address.
pub fn cut_last(segments: &mut Vec<Segment>) -> Option<u64> {
    let last = segments.last_mut()?;
    last.length -= 1;
    let address = last.address.checked_add(last.length as u64);
    if last.length == 0 {
        segments.pop();
    }
    address
}
