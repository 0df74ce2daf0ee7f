//! Scatter Gather Lists: the alternative to PRPs for the places of a command's data (NVMe
//! 1.4 section 4.4).

use stasis_block::memory::{append, Segment, NOWHERE};
use stasis_nvme_layout::queue::SglDescriptor;
use stasis_nvme_layout::{transmute, FromBytes, IntoBytes, U64};

use crate::command::{location, SubmissionEntry};
use crate::status::{Failure, StatusCode};
use crate::{Memory, PAGE_SIZE};

/// Size of a descriptor in bytes.
const DESCRIPTOR: usize = 16;
/// Maximum number of descriptors of a list: four for each page of the largest transfer, and
/// so many that an honest driver's pieces of it fit. It bounds the work.
const MAX_DESCRIPTORS: usize = 8192;

/// Types of descriptors, in bits 7:4 of the last byte; 0 is a data block.
mod kind {
    pub const BIT_BUCKET: u8 = 1;
    pub const SEGMENT: u8 = 2;
    pub const LAST_SEGMENT: u8 = 3;
}

/// Value of SGLS in Identify Controller: SGLs, of any alignment, with bit buckets, and longer than
/// the data: Linux gives the ranges of a Dataset Management room for all that there can be.
pub const SUPPORT: u32 = 1 | 1 << 16 | 1 << 18;

/// SGL support of a controller that takes metadata apart: from any byte on, or by an SGL.
pub const WITH_METADATA: u32 = SUPPORT | 1 << 17 | 1 << 19;

/// SGL support of a controller on a fabric: a data block may be an offset into the capsule.
pub const FABRICS_SUPPORT: u32 = SUPPORT | 1 << 20;

struct Descriptor {
    address: u64,
    length: u32,
    kind: u8,
}

impl Descriptor {
    fn parse(raw: &SglDescriptor) -> Result<Self, Failure> {
        let SglDescriptor { address, length, identifier, .. } = *raw;
        // Subtype 0 only: the address is one in memory.
        if identifier & 0xf != 0 || identifier >> 4 > kind::LAST_SEGMENT {
            return Err(StatusCode::SglDescriptorTypeInvalid.at(location::PRP1));
        }
        Ok(Self { address: address.get(), length: length.get(), kind: identifier >> 4 })
    }

    fn is_segment(&self) -> bool {
        matches!(self.kind, kind::SEGMENT | kind::LAST_SEGMENT)
    }
}

/// The pieces found so far.
struct Walk<'a> {
    segments: &'a mut Vec<Segment>,
    remaining: usize,
    to_host: bool,
}

impl Walk<'_> {
    /// Adds a descriptor of data.
    fn data(&mut self, descriptor: &Descriptor) -> Result<(), Failure> {
        // A list's room beyond the data is left alone.
        let length = (descriptor.length as usize).min(self.remaining);
        let bucket = descriptor.kind == kind::BIT_BUCKET;
        // In data for the drive a bit bucket counts as empty.
        if length == 0 || bucket && !self.to_host {
            return Ok(());
        }
        self.remaining -= length;
        if bucket {
            self.segments.push(Segment { address: NOWHERE, length });
            return Ok(());
        }
        push(self.segments, descriptor.address, length)
    }

    /// Checks at the end of the list that it was at least as long as the data.
    fn end(&self) -> Result<(), Failure> {
        match self.remaining {
            0 => Ok(()),
            _ => Err(StatusCode::DataSglLengthInvalid.at(location::PRP1)),
        }
    }
}

/// Appends to `segments` the places of the `length` bytes of `command`. Lists are read once, into
/// `page`.
pub fn walk(
    memory: &dyn Memory,
    command: &SubmissionEntry,
    length: usize,
    page: &mut [u8; PAGE_SIZE],
    segments: &mut Vec<Segment>,
) -> Result<(), Failure> {
    // Bit 1 of the opcode: from the controller to the host.
    let walk = Walk { segments, remaining: length, to_host: command.opcode & 2 != 0 };
    let first: SglDescriptor = transmute!([command.prp1, command.prp2].map(U64::new));
    follow(memory, Descriptor::parse(&first)?, page, walk)
}

/// Appends to `segments` the places of the `length` bytes of metadata, whose one descriptor lies at
/// the metadata pointer.
pub fn walk_metadata(
    memory: &dyn Memory,
    command: &SubmissionEntry,
    length: usize,
    page: &mut [u8; PAGE_SIZE],
    segments: &mut Vec<Segment>,
) -> Result<(), Failure> {
    if !command.mptr.is_multiple_of(8) {
        return Err(StatusCode::InvalidField.at(location::MPTR));
    }
    let mut first = SglDescriptor::default();
    memory.read(command.mptr, first.as_mut_bytes())?;
    let walk = Walk { segments, remaining: length, to_host: command.opcode & 2 != 0 };
    follow(memory, Descriptor::parse(&first)?, page, walk)
}

/// Follows a list from its first descriptor on.
fn follow(
    memory: &dyn Memory,
    first: Descriptor,
    page: &mut [u8; PAGE_SIZE],
    mut walk: Walk,
) -> Result<(), Failure> {
    let invalid_segment = StatusCode::InvalidSglSegment.at(location::PRP1);
    let mut next = first;
    let mut descriptors = 0;
    while next.is_segment() {
        let last = next.kind == kind::LAST_SEGMENT;
        let size = next.length as usize;
        if size == 0 || !size.is_multiple_of(DESCRIPTOR) {
            return Err(invalid_segment);
        }
        descriptors += size / DESCRIPTOR;
        if descriptors > MAX_DESCRIPTORS {
            return Err(StatusCode::InvalidSglCount.at(location::PRP1));
        }
        let address = next.address;
        let mut following = None;
        for start in (0..size).step_by(PAGE_SIZE) {
            let raw = &mut page[..PAGE_SIZE.min(size - start)];
            // An address that wraps is no memory either.
            memory.read(address.saturating_add(start as u64), raw)?;
            let list = <[SglDescriptor]>::ref_from_bytes(raw).map_err(|_| invalid_segment)?;
            for (index, raw) in list.iter().enumerate() {
                let descriptor = Descriptor::parse(raw)?;
                let at_end = start + (index + 1) * DESCRIPTOR == size;
                match (descriptor.is_segment(), last) {
                    (true, true) => return Err(invalid_segment),
                    (true, false) if !at_end => {
                        return Err(StatusCode::InvalidSglCount.at(location::PRP1));
                    }
                    (true, false) => following = Some(descriptor),
                    (false, false) if at_end => return Err(invalid_segment),
                    (false, _) => walk.data(&descriptor)?,
                }
            }
        }
        match following {
            Some(descriptor) => next = descriptor,
            None => return walk.end(),
        }
    }
    walk.data(&next)?;
    walk.end()
}

/// Appends a piece, as part of the one before it where they touch.
pub fn push(segments: &mut Vec<Segment>, address: u64, length: usize) -> Result<(), Failure> {
    if address.checked_add(length as u64).is_none() {
        return Err(StatusCode::DataTransferError.into());
    }
    append(segments, address, length);
    Ok(())
}
