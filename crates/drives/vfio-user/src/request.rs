//! Requests of a client: from bytes to their fields.

use stasis_layout::FromBytes;

use crate::fault::Refusal;
use crate::layout::{self, INTERRUPTS};
use crate::limits::MAX_TRANSFER;
use crate::payloads;

/// Numbers of commands (vfio-user, "Commands").
pub mod command {
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const DEVICE_INFO: u16 = 4;
    pub const REGION_INFO: u16 = 5;
    pub const IRQ_INFO: u16 = 7;
    pub const SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const DEVICE_RESET: u16 = 13;
}

/// Memory of the client's that the device may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaMap {
    /// Its first byte as the device numbers memory.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Offset of its beginning in its file.
    pub offset: u64,
    /// True if the device may write there.
    pub writable: bool,
}

/// Memory that the device may reach no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaUnmap {
    /// All of it.
    All,
    /// A piece that was mapped.
    Piece {
        /// Its first byte as the device numbers memory.
        address: u64,
        /// Bytes.
        size: u64,
    },
}

/// A change of interrupt vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vectors<F> {
    /// The first of them.
    pub start: u16,
    /// Number of units.
    pub count: u16,
    /// The descriptors that signal them from now on, one each, or none.
    pub descriptors: Vec<F>,
}

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<F> {
    /// Version and capabilities: JSON, without its terminating 0.
    Version(Vec<u8>),
    /// Memory comes, with a descriptor if the device can map it.
    Map(DmaMap, Option<F>),
    /// Memory goes. The request's payload is that of the reply.
    Unmap(DmaUnmap, Vec<u8>),
    /// Facts about the device.
    DeviceInfo,
    /// Facts about a region, in `room` bytes at most.
    RegionInfo {
        /// The region.
        index: u32,
        /// The longest payload that the client takes.
        room: u32,
    },
    /// Facts about a kind of interrupt.
    IrqInfo(u32),
    /// Interrupts of MSI-X are connected or disconnected.
    SetVectors(Vectors<F>),
    /// All interrupts of a kind that has none are disconnected: nothing is to be done.
    NoVectors,
    /// Vectors are to be signalled.
    Trigger(Vec<u16>),
    /// A region is read.
    Read {
        /// The region.
        region: u32,
        /// The first byte.
        offset: u64,
        /// The bytes.
        count: u32,
    },
    /// A region is written.
    Write {
        /// The region.
        region: u32,
        /// The first byte.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// The device is reset.
    Reset,
}

/// A payload, field by field.
struct Fields<'a> {
    command: u16,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn refusal(&self, fault: &'static str) -> Refusal {
        Refusal::Message { command: self.command, fault }
    }

    fn take<T: FromBytes>(&mut self) -> Result<T, Refusal> {
        stasis_layout::take(&mut self.rest).ok_or_else(|| self.refusal("it is too short"))
    }

    fn end(&self) -> Result<(), Refusal> {
        match self.rest {
            [] => Ok(()),
            _ => Err(self.refusal("it is too long")),
        }
    }
}

impl<F> Request<F> {
    /// Parses the payload of a command.
    ///
    /// # Errors
    /// The payload is too short or too long, or its fields contradict each other.
    pub(crate) fn parse(
        command: u16,
        payload: &[u8],
        mut descriptors: Vec<F>,
    ) -> Result<Self, Refusal> {
        let mut fields = Fields { command, rest: payload };
        if !matches!(command, command::DMA_MAP | command::SET_IRQS) && !descriptors.is_empty() {
            return Err(fields.refusal("it has descriptors"));
        }
        let request = match command {
            command::VERSION => {
                fields.take::<payloads::Version>()?;
                let text = std::mem::take(&mut fields.rest);
                Self::Version(text.strip_suffix(&[0]).unwrap_or(text).to_vec())
            }
            command::DMA_MAP => return map(fields, descriptors),
            command::DMA_UNMAP => {
                // VFIO_DMA_UNMAP_FLAG_ALL.
                const ALL: u32 = 1 << 1;
                let raw: payloads::Unmap = fields.take()?;
                let (address, size) = (raw.address.get(), raw.size.get());
                let which = match raw.flags.get() {
                    0 => DmaUnmap::Piece { address, size },
                    ALL if address == 0 && size == 0 => DmaUnmap::All,
                    _ => return Err(fields.refusal("its flags are not supported")),
                };
                // A bitmap of dirty pages would come behind: there is none.
                fields.end()?;
                Self::Unmap(which, payload.to_vec())
            }
            command::DEVICE_INFO => {
                fields.take::<payloads::DeviceInfo>()?;
                fields.rest = &[];
                Self::DeviceInfo
            }
            command::REGION_INFO => {
                let raw: payloads::RegionInfo = fields.take()?;
                if raw.room.get() < size_of_val(&raw) as u32 {
                    return Err(fields.refusal("there is no room for the reply"));
                }
                Self::RegionInfo { index: raw.index.get(), room: raw.room.get() }
            }
            command::IRQ_INFO => Self::IrqInfo(fields.take::<payloads::IrqInfo>()?.index.get()),
            command::SET_IRQS => {
                return interrupts(&mut fields, &mut descriptors);
            }
            command::REGION_READ | command::REGION_WRITE => {
                let raw: payloads::Access = fields.take()?;
                let (offset, region, count) = (raw.offset.get(), raw.region.get(), raw.count.get());
                if count > MAX_TRANSFER {
                    return Err(fields.refusal("more bytes than negotiated"));
                }
                match command {
                    command::REGION_READ => Self::Read { region, offset, count },
                    _ => {
                        let data = std::mem::take(&mut fields.rest).to_vec();
                        if data.len() != count as usize {
                            return Err(fields.refusal("its data has another length"));
                        }
                        Self::Write { region, offset, data }
                    }
                }
            }
            command::DEVICE_RESET => Self::Reset,
            _ => return Err(Refusal::Command(command)),
        };
        fields.end()?;
        Ok(request)
    }
}

fn map<F>(mut fields: Fields, mut descriptors: Vec<F>) -> Result<Request<F>, Refusal> {
    const READABLE: u32 = 1;
    const WRITABLE: u32 = 2;
    let raw: payloads::Map = fields.take()?;
    let (flags, offset) = (raw.flags.get(), raw.offset.get());
    let (address, size) = (raw.address.get(), raw.size.get());
    fields.end()?;
    if flags & !(READABLE | WRITABLE) != 0 {
        return Err(fields.refusal("its flags are not supported"));
    }
    if size == 0 || address.checked_add(size).is_none() || offset.checked_add(size).is_none() {
        return Err(fields.refusal("its range cannot be"));
    }
    if descriptors.len() > 1 {
        return Err(fields.refusal("it has more than one descriptor"));
    }
    let map = DmaMap { address, size, offset, writable: flags & WRITABLE != 0 };
    Ok(Request::Map(map, descriptors.pop()))
}

/// `VFIO_USER_DEVICE_SET_IRQS`.
fn interrupts<F>(fields: &mut Fields, descriptors: &mut Vec<F>) -> Result<Request<F>, Refusal> {
    const NONE: u32 = 1;
    const BOOLEANS: u32 = 1 << 1;
    const EVENTFD: u32 = 1 << 2;
    const MASK: u32 = 1 << 3;
    const UNMASK: u32 = 1 << 4;
    const TRIGGER: u32 = 1 << 5;
    let raw: payloads::IrqSet = fields.take()?;
    let (flags, index) = (raw.flags.get(), raw.index.get());
    let (start, count) = (raw.start.get(), raw.count.get());
    let (data, action) = (flags & (NONE | BOOLEANS | EVENTFD), flags & (MASK | UNMASK | TRIGGER));
    if flags != data | action || !data.is_power_of_two() || !action.is_power_of_two() {
        return Err(fields.refusal("its flags are not one kind of data and one action"));
    }
    if index >= INTERRUPTS {
        return Err(Refusal::Index { command: fields.command, index });
    }
    let booleans = std::mem::take(&mut fields.rest);
    let wanted = if data == BOOLEANS { count as usize } else { 0 };
    if booleans.len() != wanted {
        return Err(fields.refusal("its data has another length"));
    }
    if data != EVENTFD && !descriptors.is_empty() {
        return Err(fields.refusal("it has descriptors"));
    }
    let given = descriptors.len();
    if given != 0 && given != count as usize {
        return Err(fields.refusal("it has not a descriptor for each vector"));
    }
    let end = start.checked_add(count);
    if index != layout::MSIX {
        // There is none of them: to take all away is no change.
        return match count {
            0 => Ok(Request::NoVectors),
            _ => Err(fields.refusal("vectors of a kind that has none")),
        };
    }
    let small = |value: u32| u16::try_from(value).ok();
    let (Some(start), Some(count), Some(_)) = (small(start), small(count), end.and_then(small))
    else {
        return Err(fields.refusal("vectors that there are not"));
    };
    Ok(match (data, action) {
        (NONE, TRIGGER) if count == 0 => {
            Request::SetVectors(Vectors { start: 0, count: u16::MAX, descriptors: Vec::new() })
        }
        (EVENTFD, TRIGGER) => {
            Request::SetVectors(Vectors { start, count, descriptors: std::mem::take(descriptors) })
        }
        (NONE, TRIGGER) => Request::Trigger((start..start + count).collect()),
        (BOOLEANS, TRIGGER) => {
            let marked = (start..).zip(booleans).filter(|(_, &on)| on != 0);
            Request::Trigger(marked.map(|(vector, _)| vector).collect())
        }
        // Masks are the client's own: MSI-X of VFIO has none at the device.
        _ => return Err(fields.refusal("an action that MSI-X does not have")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Payloads written by hand, after `<linux/vfio.h>` and the protocol's specification.
    #[test]
    fn fields_are_where_the_specification_has_them() {
        let parsed = |command: u16, words: &[u32]| {
            let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Request::parse(command, &payload, Vec::<u8>::new())
        };
        let map = DmaMap { address: 1 << 32 | 5, size: 6, offset: 2 << 32 | 3, writable: true };
        let words = [32, 3, 3, 2, 5, 1, 6, 0];
        assert_eq!(parsed(command::DMA_MAP, &words), Ok(Request::Map(map, None)));
        let words = [24, 0, 5, 1, 6, 0];
        let Ok(Request::Unmap(piece, _)) = parsed(command::DMA_UNMAP, &words) else { panic!() };
        assert_eq!(piece, DmaUnmap::Piece { address: 1 << 32 | 5, size: 6 });
        let words = [64, 0, 7, 0, 0, 0, 0, 0];
        let info = Request::RegionInfo { index: 7, room: 64 };
        assert_eq!(parsed(command::REGION_INFO, &words), Ok(info));
        assert_eq!(parsed(command::IRQ_INFO, &[16, 0, 2, 0]), Ok(Request::IrqInfo(2)));
        // Data: none; action: trigger.
        let words = [20, 1 | 1 << 5, layout::MSIX, 3, 2];
        assert_eq!(parsed(command::SET_IRQS, &words), Ok(Request::Trigger(vec![3, 4])));
        let read = Request::Read { region: 7, offset: 1 << 32 | 4, count: 8 };
        assert_eq!(parsed(command::REGION_READ, &[4, 1, 7, 8]), Ok(read));
        let write = Request::Write { region: 0, offset: 20, data: vec![1, 2, 0, 0] };
        assert_eq!(parsed(command::REGION_WRITE, &[20, 0, 0, 4, 0x201]), Ok(write));
        for (command, length) in [(2, 8), (3, 6), (4, 4), (5, 8), (7, 4), (8, 5), (9, 4), (10, 4)] {
            let short = Refusal::Message { command, fault: "it is too short" };
            assert_eq!(parsed(command, &vec![0; length - 1]), Err(short));
        }
        for (command, length) in [(5, 9), (7, 5), (9, 5)] {
            let words = vec![64; length];
            let long = Refusal::Message { command, fault: "it is too long" };
            let count = Refusal::Message { command, fault: "more bytes than negotiated" };
            assert!([Err(long), Err(count)].contains(&parsed(command, &words)));
        }
    }
}
