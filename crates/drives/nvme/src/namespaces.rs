//! The namespaces: the current state of each, and its changes while the controller exists.
//! Resets leave them alone.

use std::ops::Range;

use stasis_block::{BlockLayout, Interleaved, Operation, Status, ZoneLayout, ZonedPart, SECTOR};

use crate::command::location;
use crate::computing::Part;
use crate::config::{Config, Namespace, MAX_NSID};
use crate::endurance::{MediaPart, ONLY_GROUP};
use crate::extent::Extent;
use crate::identity::NamespaceIdentity;
use crate::intervals::Intervals;
use crate::kept::{KeptCreated, KeptNamespace};
use crate::key_value::KeyValueNamespace;
use crate::metadata::{BlockFormat, SECTOR_BYTES};
use crate::narrow::count32;
use crate::ocssd::{self, About, ChunkSet};
use crate::slots::Slot;
use crate::status::{Failure, StatusCode};
use crate::zoned::ZonedNamespace;

/// Unit of the places of namespaces that hosts create (bytes): the size of the largest logical
/// block, and of the drive's atomic unit.
const STEP: u64 = 4096;

/// The namespaces, by identifiers from 1 on.
#[derive(Debug)]
pub struct Namespaces {
    serial: String,
    // `None`: no namespace has that identifier.
    states: Vec<Option<NamespaceState>>,
    // The bytes of the drive that they can have.
    total: u64,
    step: u64,
    // Maximum of a command's data in bytes.
    transfer: u32,
    // Number of LBA formats that are offered.
    formats: usize,
    // Number of namespaces that hosts have ever created.
    creations: u32,
    // Changes of deleted namespaces.
    past_changes: u64,
    // Those that are being formatted.
    formatting: Vec<u32>,
    // The parts with flash of their own; or the group that all are in, 0 without one.
    parts: Vec<MediaPart>,
    only_group: u16,
    // Pairs were cleared whose memory is not given back.
    forgets: bool,
}

#[derive(Debug)]
struct NamespaceState {
    // As it is formatted now.
    namespace: Namespace,
    identity: NamespaceIdentity,
    // The bytes that Write Uncorrectable has marked.
    marks: Intervals,
    // The bytes of blocks that the medium could not read, and that were neither read nor written
    // since.
    troubles: Intervals,
    // Its size in bytes, whatever its blocks are: as it was made, and now.
    made_capacity: u64,
    capacity: u64,
    zones: Option<ZonedNamespace>,
    chunks: Option<ChunkSet>,
    pairs: Option<KeyValueNamespace>,
    created: Option<Creation>,
}

/// Request by which a host has created a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// Number of namespaces created up to this one.
    pub number: u32,
    /// True if several controllers can have it.
    pub shared: bool,
    /// The NQN of the host; `None`: that on PCIe.
    pub host: Option<String>,
    /// The reclaim unit handles of its placement handles, under Flexible Data Placement; empty: the
    /// controller has chosen one.
    pub handles: Vec<u8>,
}

impl NamespaceState {
    /// One that is empty, and nothing is marked.
    fn new(
        (serial, transfer): (&str, u32),
        nsid: u32,
        namespace: &Namespace,
        created: Option<Creation>,
    ) -> Self {
        let number = created.as_ref().map_or(0, |created| created.number);
        Self {
            namespace: namespace.clone(),
            identity: NamespaceIdentity::new(serial, nsid, number),
            marks: Intervals::default(),
            troubles: Intervals::default(),
            made_capacity: namespace.bytes(),
            capacity: namespace.bytes(),
            zones: ZonedNamespace::new(namespace),
            chunks: ChunkSet::new(namespace.ocssd.as_ref()),
            pairs: KeyValueNamespace::new(namespace, transfer),
            created,
        }
    }

    /// Returns the number of changes of what is kept of it.
    fn changes(&self) -> u64 {
        let zones = self.zones.as_ref().map_or(0, |zones| zones.set.changes());
        let chunks = self.chunks.as_ref().map_or(0, ChunkSet::changes);
        zones + chunks + self.marks.changes()
    }

    /// Returns the range of the namespace's bytes on the drive.
    fn place(&self) -> Range<u64> {
        self.namespace.start..self.namespace.start + self.capacity
    }
}

impl Namespaces {
    /// Builds the namespaces of a configuration: empty, and nothing is marked.
    pub fn new(config: &Config) -> Self {
        let serial = config.serial.clone();
        let made = config.namespaces.iter();
        let transfer = config.max_transfer;
        let state = |(nsid, namespace)| {
            Some(NamespaceState::new((&serial, transfer), nsid, namespace, None))
        };
        // Behind them those that lie in the controller's memory, and take no room of the drive.
        let part = |part| Namespace { computing: Some(part), ..Namespace::new(0, SECTOR_BYTES) };
        let parts = match config.programs {
            Some(_) => [Part::Memory, Part::Compute].map(part).to_vec(),
            None => Vec::new(),
        };
        let states = (1..).zip(made.clone().chain(&parts)).map(state).collect();
        let total = made.map(|namespace| namespace.start + namespace.bytes()).max().unwrap_or(0);
        let (formatting, creations, past_changes) = (Vec::new(), 0, 0);
        let step = config.atomic_unit.next_multiple_of(STEP);
        let formats = config.formats().len();
        let parts = config.media_parts();
        let only_group = if parts.is_empty() && config.has_groups() { ONLY_GROUP } else { 0 };
        Self {
            serial,
            states,
            forgets: false,
            total,
            step,
            transfer,
            formats,
            creations,
            past_changes,
            formatting,
            parts,
            only_group,
        }
    }

    fn state(&self, nsid: u32) -> Option<&NamespaceState> {
        self.states.get((nsid as usize).checked_sub(1)?)?.as_ref()
    }

    fn state_mut(&mut self, nsid: u32) -> Option<&mut NamespaceState> {
        self.states.get_mut((nsid as usize).checked_sub(1)?)?.as_mut()
    }

    fn there(&self) -> impl Iterator<Item = (u32, &NamespaceState)> {
        let numbered = (1..).zip(&self.states);
        numbered.filter_map(|(nsid, state)| Some((nsid, state.as_ref()?)))
    }

    /// The highest NSID that any namespace had.
    pub fn count(&self) -> u32 {
        count32(self.states.len())
    }

    /// The namespace of an NSID.
    ///
    /// # Errors
    /// There is none (NVMe 1.4 section 6.1.5): the NSID could be of one, or is out of range.
    pub fn existing(&self, nsid: u32) -> Result<&Namespace, Failure> {
        let status = match (1..=MAX_NSID).contains(&nsid) {
            true => StatusCode::InvalidField,
            false => StatusCode::InvalidNamespace,
        };
        self.get(nsid).ok_or(status.at(location::NSID))
    }

    /// Returns the namespace of an NSID, if there is one.
    pub fn get(&self, nsid: u32) -> Option<&Namespace> {
        Some(&self.state(nsid)?.namespace)
    }

    /// Returns the identifier of the namespace whose bytes programs work on.
    pub fn memory_nsid(&self) -> Option<u32> {
        self.iter()
            .find(|(_, namespace)| namespace.computing == Some(Part::Memory))
            .map(|(nsid, _)| nsid)
    }

    /// Returns whether a namespace lies on the drive, not in the controller's memory.
    pub fn is_on_drive(&self, nsid: u32) -> bool {
        self.get(nsid).is_some_and(|namespace| namespace.computing.is_none())
    }

    /// The identifiers of those that have room of the drive.
    pub fn nsids_on_drive(&self) -> impl Iterator<Item = u32> + '_ {
        self.nsids().filter(|&nsid| self.is_on_drive(nsid))
    }

    /// The identifiers of all of them.
    pub fn nsids(&self) -> impl Iterator<Item = u32> + '_ {
        self.there().map(|(nsid, _)| nsid)
    }

    /// Returns all namespaces, with their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        self.there().map(|(nsid, state)| (nsid, &state.namespace))
    }

    /// The namespace of a command that accesses its contents.
    ///
    /// # Errors
    /// There is none, or it is being formatted.
    pub fn accessible(&self, nsid: u32) -> Result<&Namespace, Failure> {
        if self.formatting.contains(&nsid) {
            return Err(StatusCode::FormatInProgress.at(location::NSID));
        }
        self.existing(nsid)
    }

    /// Returns a namespace's identifiers.
    pub fn identity(&self, nsid: u32) -> Option<&NamespaceIdentity> {
        Some(&self.state(nsid)?.identity)
    }

    /// The logical block that holds byte `offset`.
    pub fn lba_of(&self, nsid: u32, offset: u64) -> u64 {
        let Some(state) = self.state(nsid) else { return 0 };
        let block = offset / u64::from(state.namespace.stride());
        // Addresses of chunks have holes.
        state.chunks.as_ref().map_or(block, |chunks| chunks.lba_of(block))
    }

    /// Returns the distance from one block of a namespace to the next on the drive, in bytes; 1 if
    /// there is no such namespace.
    pub fn stride(&self, nsid: u32) -> u64 {
        self.state(nsid).map_or(1, |state| state.namespace.stride().into())
    }

    /// The largest logical block of all of them, in bytes of data; 0 if there are none.
    pub fn largest_block(&self) -> u32 {
        self.iter().map(|(_, namespace)| namespace.block_size).max().unwrap_or(0)
    }

    /// Returns the layout of their blocks on the drive.
    pub fn layout(&self) -> BlockLayout {
        let with_metadata = self.iter().filter(|(_, namespace)| namespace.metadata.is_some());
        let parts = with_metadata.map(|(_, namespace)| Interleaved {
            start: namespace.start,
            end: namespace.start + namespace.bytes(),
            block: namespace.block_size.into(),
            stride: namespace.stride().into(),
        });
        let zoned = self.iter().filter_map(|(_, namespace)| {
            let size = namespace.zoned.as_ref()?.size;
            let (start, end) = (namespace.start, namespace.start + namespace.bytes());
            Some(ZonedPart { start, end, size })
        });
        let zones = ZoneLayout::new(zoned.collect());
        BlockLayout::new(self.largest_block(), parts.collect()).with_zones(zones)
    }

    /// Returns a namespace's size in bytes, or 0 if it does not exist.
    pub fn capacity(&self, nsid: u32) -> u64 {
        self.state(nsid).map_or(0, |state| state.capacity)
    }

    /// The capacity for all namespaces together, in bytes (TNVMCAP).
    pub fn total_capacity(&self) -> u64 {
        self.total
    }

    /// The part of it that no namespace has, in bytes (UNVMCAP).
    pub fn unallocated(&self) -> u64 {
        self.total - self.there().map(|(_, state)| state.capacity).sum::<u64>().min(self.total)
    }

    /// Returns the endurance group of a namespace; 0 if it has none or does not exist.
    pub fn endurance_group(&self, nsid: u32) -> u16 {
        match self.only_group {
            0 => self.get(nsid).map_or(0, |namespace| namespace.endurance_group),
            group => group,
        }
    }

    /// Returns the unallocated bytes in the parts that `selects` accepts.
    pub fn unallocated_of(&self, selects: impl Fn(&MediaPart) -> bool) -> u64 {
        let is_in = |place: &Range<u64>, part: &MediaPart| {
            part.start <= place.start && place.end <= part.end
        };
        let free = |part: &MediaPart| {
            let inside = self.there().map(|(_, state)| state.place());
            let taken: u64 = inside
                .filter(|place| is_in(place, part))
                .map(|place| place.end - place.start)
                .sum();
            part.bytes().saturating_sub(taken)
        };
        self.parts.iter().filter(|part| selects(part)).map(free).sum()
    }

    /// Returns the number of changes of what is kept of them.
    pub fn changes(&self) -> u64 {
        self.past_changes + self.there().map(|(_, state)| state.changes()).sum::<u64>()
    }

    /// The zones of one that has some.
    pub fn zones(&self, nsid: u32) -> Option<&ZonedNamespace> {
        self.state(nsid)?.zones.as_ref()
    }

    /// Like [`Self::zones`], but mutable.
    pub fn zones_mut(&mut self, nsid: u32) -> Option<&mut ZonedNamespace> {
        self.state_mut(nsid)?.zones.as_mut()
    }

    /// The zones that a zone command is for.
    ///
    /// # Errors
    /// There is no such namespace, it is being formatted, or has no zones.
    pub fn zoned(&self, nsid: u32) -> Result<&ZonedNamespace, Failure> {
        self.accessible(nsid)?;
        self.zones(nsid).ok_or(StatusCode::InvalidOpcode.at(location::OPCODE))
    }

    /// Returns whether any of them has pairs.
    pub fn has_pairs(&self) -> bool {
        self.there().any(|(_, state)| state.pairs.is_some())
    }

    /// The reclaim unit handles of a namespace's placement handles; empty: all, by their numbers. One
    /// that was created without a list has the first.
    pub fn handles(&self, nsid: u32) -> &[u8] {
        match self.creation(nsid) {
            None => &[],
            Some(Creation { handles, .. }) if handles.is_empty() => &[0],
            Some(Creation { handles, .. }) => handles,
        }
    }

    /// Gives back the memory of at most `count` pairs of each that were cleared.
    #[inline]
    pub fn forget_pairs(&mut self, count: usize) {
        if self.forgets {
            self.forgets = (1..=self.count()).fold(false, |more, nsid| {
                self.key_value_mut(nsid).is_some_and(|pairs| pairs.forget(count)) | more
            });
        }
    }

    /// The pairs of one that has some.
    pub fn key_value(&self, nsid: u32) -> Option<&KeyValueNamespace> {
        self.state(nsid)?.pairs.as_ref()
    }

    /// Like [`Self::key_value`], but mutable.
    pub fn key_value_mut(&mut self, nsid: u32) -> Option<&mut KeyValueNamespace> {
        self.state_mut(nsid)?.pairs.as_mut()
    }

    /// The chunks of one that has some.
    pub fn chunks(&self, nsid: u32) -> Option<&ChunkSet> {
        self.state(nsid)?.chunks.as_ref()
    }

    /// The chunks that a command of Open-Channel drives is for.
    ///
    /// # Errors
    /// The namespace has none.
    pub fn chunked(&self, nsid: u32) -> Result<&ChunkSet, Failure> {
        self.chunks(nsid).ok_or(StatusCode::InvalidOpcode.at(location::OPCODE))
    }

    /// Returns the chunks of a namespace that has some, to change them.
    pub fn chunks_mut(&mut self, nsid: u32) -> Option<&mut ChunkSet> {
        self.state_mut(nsid)?.chunks.as_mut()
    }
}

/// Permission to read and write blocks.
impl Namespaces {
    /// The first logical block within bytes of the namespace that is marked as uncorrectable.
    pub fn first_marked(&self, nsid: u32, offset: u64, length: u64) -> Option<u64> {
        let first = self.state(nsid)?.marks.first_in(&(offset..offset + length))?;
        Some(self.lba_of(nsid, first))
    }

    /// Returns whether the blocks can be read: none is marked as uncorrectable, and their zones
    /// allow it.
    pub fn check_readable(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        let Some(state) = self.state(nsid) else { return Ok(()) };
        if let Some(first) = state.marks.first_in(&extent.range()) {
            let lba = first / u64::from(state.namespace.stride());
            return Err(Failure::from(StatusCode::UnrecoveredReadError).of_block(lba));
        }
        state.check_zones(Operation::Read, extent)
    }

    /// Returns whether the marks of the blocks can be cleared when they are written, which can make
    /// two ranges of one.
    pub fn check_clearing(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        let marks = self.state(nsid).map(|state| &state.marks).filter(|marks| marks.is_full());
        if marks.is_some_and(|marks| marks.overlaps(&extent.range())) {
            return Err(Failure::from(StatusCode::WriteFault).of_block(extent.lba));
        }
        Ok(())
    }

    /// Returns whether the blocks can be written now.
    pub fn check_writable(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        self.check_clearing(nsid, extent)?;
        self.state(nsid).map_or(Ok(()), |state| state.check_zones(Operation::Write, extent))
    }

    /// Marks blocks that can be written: they cannot be read until they are.
    ///
    /// # Errors
    /// Zones do not allow the write, or there is no room for another mark.
    pub fn mark_uncorrectable(&mut self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        let Some(state) = self.state_mut(nsid) else {
            return Err(StatusCode::InternalError.into());
        };
        state.check_zones(Operation::Write, extent)?;
        if !state.marks.insert(extent.range()) {
            return Err(StatusCode::InternalError.into());
        }
        self.enter(nsid, Operation::Write, extent.offset, extent.length);
        Ok(())
    }

    /// An access that the zones have allowed goes to the drive: to `length`
    /// bytes from byte `offset` of the namespace on.
    pub fn enter(&mut self, nsid: u32, operation: Operation, offset: u64, length: u64) {
        if let Some(zoned) = self.zones_mut(nsid) {
            zoned.enter(operation, offset, length);
        }
    }

    /// Ends a request that the drive has done, or failed. Blocks without data become zeroes.
    /// Returns whether zones have changed.
    pub fn leave_zones(&mut self, slot: &Slot, status: Status, data: &mut [u8]) -> bool {
        self.zones_mut(slot.nsid).is_some_and(|zoned| zoned.leave(slot, status, data))
    }

    /// As [`Namespaces::leave_zones`], of pairs: returns why one is not stored whose value is written.
    pub fn leave_pairs(&mut self, slot: &Slot, status: Status) -> Option<StatusCode> {
        self.key_value_mut(slot.nsid)?.leave(slot, status)
    }

    /// As [`Namespaces::leave_zones`], of chunks: returns the loss, and its first address.
    pub fn leave_chunks(
        &mut self,
        slot: &Slot,
        status: Status,
        data: &mut [u8],
    ) -> Option<(u64, About)> {
        let state = self.state_mut(slot.nsid)?;
        let block = u64::from(state.namespace.stride());
        ocssd::leave(state.chunks.as_mut()?, block, slot, status, data)
    }

    /// Notes that the medium could not read the block of byte `offset`: it is known until it is
    /// read or written. Returns whether there was room for the note.
    pub fn note_unreadable(&mut self, nsid: u32, offset: u64) -> bool {
        // Addresses of chunks have holes, and pairs have none.
        let has_blocks =
            |state: &&mut NamespaceState| state.chunks.is_none() && state.pairs.is_none();
        let Some(state) = self.state_mut(nsid).filter(has_blocks) else {
            return false;
        };
        let block = u64::from(state.namespace.stride());
        let start = offset / block * block;
        start < state.capacity && state.troubles.insert(start..start + block)
    }

    /// The first part of bytes of a namespace of which it is known that it may be unreadable: its
    /// start and its end.
    pub fn next_unreadable(&self, nsid: u32, range: Range<u64>) -> Option<(u64, u64)> {
        let state = self.state(nsid)?;
        let marked = state.marks.first_part(&range);
        let troubled = state.troubles.first_part(&range);
        marked.into_iter().chain(troubled).min()
    }

    /// All such parts of a namespace, in order: they neither overlap nor touch.
    pub fn unreadable(&self, nsid: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        let end = self.capacity(nsid);
        let mut at = 0;
        std::iter::from_fn(move || {
            let (start, mut stop) = self.next_unreadable(nsid, at..end)?;
            while let Some((next, further)) = self.next_unreadable(nsid, stop..end) {
                if next > stop {
                    break;
                }
                stop = further;
            }
            at = stop;
            Some((start, stop))
        })
    }

    /// A number that differs after every change of them.
    pub fn unreadable_changes(&self) -> u16 {
        let changes = |state: &NamespaceState| state.marks.changes() + state.troubles.changes();
        let sum = self.there().fold(0u64, |sum, (_, state)| sum.wrapping_add(changes(state)));
        (sum & 0xffff) as u16
    }

    /// A request has read blocks, or given them new contents.
    pub fn clear_marks(&mut self, slot: &Slot) {
        if let Some(state) = self.state_mut(slot.nsid) {
            if !state.troubles.is_empty() && slot.operation != Operation::Flush {
                state.troubles.remove(slot.offset..slot.offset + slot.length);
            }
        }
        let changes = matches!(
            slot.operation,
            Operation::Write | Operation::WriteZeroes | Operation::Discard | Operation::Copy
        );
        if !changes {
            return;
        }
        let Some(state) = self.state_mut(slot.nsid) else { return };
        if !state.marks.is_empty() {
            state.marks.remove(slot.offset..slot.offset + slot.length);
        }
    }
}

impl NamespaceState {
    /// Returns the state to keep of a namespace that was made as `made`.
    fn kept(&self, made: &Namespace) -> KeptNamespace {
        // Another size than its own is not kept, nor is what lies beyond that.
        let own = |(start, end): (u64, u64)| (start, end.min(self.made_capacity));
        let marks = self.marks.ranges().map(own).filter(|(start, end)| start < end);
        KeptNamespace {
            block_size: self.namespace.block_size,
            metadata: self.namespace.metadata,
            uncorrectable: marks.collect(),
            zones: self.zones.as_ref().map_or(Vec::new(), |zones| zones.set.kept()),
            chunks: self.chunks.as_ref().map_or(Vec::new(), ChunkSet::kept),
            pairs: self.pairs.as_ref().and_then(KeyValueNamespace::kept),
            ..KeptNamespace::as_made(made)
        }
    }

    /// Returns whether the zones allow an access to blocks that lie in the namespace.
    fn check_zones(&self, operation: Operation, extent: &Extent) -> Result<(), Failure> {
        self.zones.as_ref().map_or(Ok(()), |zoned| zoned.check(operation, extent))
    }
}

/// Formatting.
impl Namespaces {
    /// Begins to format the namespaces `nsids`.
    pub fn begin_format(&mut self, nsids: Vec<u32>) {
        self.formatting = nsids;
    }

    /// Ends the formatting of all namespaces.
    pub fn end_format(&mut self) {
        self.formatting.clear();
    }

    /// Formats a namespace with these blocks: it is empty, and nothing is marked. Returns whether
    /// the format is another one than before.
    pub fn format(&mut self, nsid: u32, format: BlockFormat) -> bool {
        let transfer = self.transfer;
        let Some(state) = self.state_mut(nsid) else { return false };
        let past = state.changes() + 1;
        let namespace = &mut state.namespace;
        let before = namespace.format();
        // The only format of pairs has the present blocks.
        let format = if state.pairs.is_some() { before } else { format };
        (namespace.block_size, namespace.metadata) = (format.size, format.metadata);
        namespace.blocks = state.capacity / u64::from(format.stride());
        (state.marks, state.troubles) = (Intervals::default(), Intervals::default());
        state.zones = ZonedNamespace::new(namespace);
        state.chunks = ChunkSet::new(namespace.ocssd.as_ref());
        match &mut state.pairs {
            // Their memory is given back slice by slice.
            Some(pairs) => {
                pairs.clear();
                self.forgets = true;
            }
            None => state.pairs = KeyValueNamespace::new(namespace, transfer),
        }
        self.past_changes += past;
        before != format
    }
}

/// Sizes.
impl Namespaces {
    /// Resizes a namespace to `bytes` (`None`: its original size). Data within the new size stays.
    /// Returns whether the namespace can have that size: a namespace with zones, chunks or pairs
    /// cannot be resized, nor can one grow over another namespace.
    pub fn resize(&mut self, nsid: u32, bytes: Option<u64>) -> bool {
        let Some(state) = self.state(nsid) else { return false };
        let is_plain = state.namespace.is_plain();
        let bytes = bytes.unwrap_or(state.made_capacity);
        let stride = u64::from(state.namespace.stride());
        let start = state.namespace.start;
        let Some(end) = start.checked_add(bytes) else { return false };
        let meets = |(other, place): (u32, Range<u64>)| {
            other != nsid && place.start < end && start < place.end
        };
        let is_taken = self.there().map(|(nsid, state)| (nsid, state.place())).any(meets);
        if !is_plain || bytes < stride || is_taken {
            return false;
        }
        if let Some(state) = self.state_mut(nsid) {
            state.capacity = bytes;
            state.namespace.blocks = bytes / stride;
        }
        true
    }
}

/// Creation and deletion (NVMe 2.0 section 8.12).
impl Namespaces {
    /// Creates a namespace of `blocks` blocks, where the drive has room for it in one piece, in an
    /// endurance group and an NVM set (0: any). Returns its NSID.
    ///
    /// # Errors
    /// There is no such room, or no NSID.
    pub fn create(
        &mut self,
        (blocks, format): (u64, BlockFormat),
        (group, set): (u16, u16),
        shared: bool,
        (host, handles): (Option<String>, Vec<u8>),
    ) -> Result<u32, StatusCode> {
        let free = |nsid: &u32| self.state(*nsid).is_none();
        let nsid = (1..=MAX_NSID).find(free);
        let nsid = nsid.ok_or(StatusCode::NamespaceIdentifierUnavailable)?;
        let bytes = blocks.checked_mul(format.stride().into());
        let mut parts = self
            .parts
            .iter()
            .filter(|part| (group == 0 || part.group == group) && (set == 0 || part.set == set));
        let place = bytes.and_then(|bytes| match self.parts.is_empty() {
            true => Some((self.room_for(bytes, 0..self.total)?, 0, 0)),
            false => parts.find_map(|part| {
                let start = self.room_for(bytes, part.start..part.end)?;
                Some((start, part.group, part.set))
            }),
        });
        let (start, endurance_group, nvm_set) =
            place.ok_or(StatusCode::NamespaceInsufficientCapacity)?;
        self.creations += 1;
        let BlockFormat { size, metadata } = format;
        let plain = Namespace::new(blocks, size);
        let namespace = Namespace { start, metadata, endurance_group, nvm_set, ..plain };
        let created = Creation { number: self.creations, shared, host, handles };
        self.put(nsid, &namespace, created);
        Ok(nsid)
    }

    fn put(&mut self, nsid: u32, namespace: &Namespace, created: Creation) {
        let index = nsid as usize - 1;
        if self.states.len() <= index {
            self.states.resize_with(index + 1, || None);
        }
        self.states[index] = Some(NamespaceState::new(
            (&self.serial, self.transfer),
            nsid,
            namespace,
            Some(created),
        ));
    }

    /// The first place within a part of the drive where `bytes` bytes are free in one piece.
    fn room_for(&self, bytes: u64, within: Range<u64>) -> Option<u64> {
        let mut taken: Vec<_> = self.there().map(|(_, state)| state.place()).collect();
        taken.retain(|place| within.start <= place.start && place.end <= within.end);
        taken.sort_by_key(|place| place.start);
        let mut start = within.start;
        for place in taken {
            if start.checked_add(bytes)? <= place.start {
                return Some(start);
            }
            start = start.max(place.end.checked_next_multiple_of(self.step)?);
        }
        (start.checked_add(bytes)? <= within.end).then_some(start)
    }

    /// Removes a namespace.
    pub fn delete(&mut self, nsid: u32) {
        let index = (nsid as usize).wrapping_sub(1);
        if let Some(state) = self.states.get_mut(index).and_then(Option::take) {
            self.past_changes += state.changes();
        }
    }

    /// Returns the request by which a host has created it, if one has.
    pub fn creation(&self, nsid: u32) -> Option<&Creation> {
        self.state(nsid)?.created.as_ref()
    }
}

/// State that outlives the controller.
impl Namespaces {
    /// The state that each namespace keeps; `made`: the namespaces' configurations.
    pub fn kept(&self, made: &[Namespace]) -> Vec<KeptNamespace> {
        let kept = |(nsid, made): (u32, &Namespace)| match self.state(nsid) {
            Some(state) if state.created.is_none() => state.kept(made),
            _ => KeptNamespace { deleted: true, ..KeptNamespace::as_made(made) },
        };
        (1..).zip(made).map(kept).collect()
    }

    /// Number of namespaces that hosts have ever created.
    pub fn creations(&self) -> u32 {
        self.creations
    }

    /// The state of those that hosts have created.
    pub fn kept_created(&self) -> Vec<KeptCreated> {
        let kept = |(nsid, state): (u32, &NamespaceState)| {
            let Creation { number, shared, host, handles } = state.created.clone()?;
            // Its capacity is kept in the smallest blocks, however it is formatted now.
            let (block_size, metadata) = (SECTOR_BYTES, None);
            let blocks = state.made_capacity / SECTOR;
            let made = Namespace { blocks, block_size, metadata, ..state.namespace.clone() };
            let namespace = state.kept(&made);
            Some(KeptCreated { nsid, number, shared, host, handles, namespace })
        };
        self.there().filter_map(kept).collect()
    }

    /// Restores the number of namespaces ever created.
    pub fn restore_creations(&mut self, creations: u32) {
        self.creations = self.creations.max(creations);
    }

    /// One that a host has created is there again.
    ///
    /// # Errors
    /// The reason why it cannot be.
    pub fn restore_created(&mut self, kept: &KeptCreated) -> Result<(), &'static str> {
        let KeptCreated { nsid, number, shared, ref host, ref handles, ref namespace } = *kept;
        let made = &namespace.made;
        if !(1..=MAX_NSID).contains(&nsid) || self.state(nsid).is_some() {
            return Err("another one has its number, or none can have it");
        }
        if !made.is_plain() || made.read_only || made.blocks == 0 {
            return Err("a host cannot have created such a one");
        }
        if made.format().number().is_none_or(|number| usize::from(number) >= self.formats) {
            return Err("its logical blocks cannot be of that format");
        }
        let bytes = made.blocks.checked_mul(made.stride().into());
        let end = bytes.and_then(|bytes| made.start.checked_add(bytes));
        let end = end.filter(|&end| end <= self.total).ok_or("it lies outside the drive")?;
        let is_home = |part: &MediaPart| {
            let home = (part.group, part.set) == (made.endurance_group, made.nvm_set);
            home && part.start <= made.start && end <= part.end
        };
        let without_home = made.endurance_group == 0 && made.nvm_set == 0;
        let has_none = self.parts.is_empty() && without_home;
        if !has_none && !self.parts.iter().any(is_home) {
            return Err("it lies outside its endurance group");
        }
        let overlaps = |place: Range<u64>| place.start < end && made.start < place.end;
        if self.there().any(|(_, state)| overlaps(state.place())) {
            return Err("it overlaps another one");
        }
        self.creations = self.creations.max(number);
        self.put(
            nsid,
            made,
            Creation { number, shared, host: host.clone(), handles: handles.clone() },
        );
        self.restore(nsid, namespace)
    }

    /// A new namespace resumes from its kept state.
    ///
    /// # Errors
    /// The reason why the namespace cannot be in this state.
    pub fn restore(&mut self, nsid: u32, kept: &KeptNamespace) -> Result<(), &'static str> {
        if kept.deleted {
            self.delete(nsid);
            return Ok(());
        }
        let formats = self.formats;
        let state = self.state_mut(nsid).ok_or("there is no such namespace")?;
        let format = BlockFormat { size: kept.block_size, metadata: kept.metadata };
        let offered = format.number().is_some_and(|number| usize::from(number) < formats);
        let sound = kept.metadata.is_none_or(|metadata| metadata.check(format.size).is_ok());
        if !offered || !sound || !state.namespace.can_have_blocks_of(format, state.capacity) {
            return Err("its logical blocks cannot be of that format");
        }
        self.format(nsid, format);
        let state = self.state_mut(nsid).ok_or("there is no such namespace")?;
        let mut least = 0;
        for &(start, end) in &kept.uncorrectable {
            if start < least || end <= start || end > state.capacity {
                return Err("marked ranges do not lie one behind the other in it");
            }
            if !state.marks.insert(start..end) {
                return Err("more ranges are marked than can be");
            }
            least = end;
        }
        match &mut state.zones {
            Some(zones) => zones.set.restore(&kept.zones)?,
            None if kept.zones.is_empty() => {}
            None => return Err("it has no zones"),
        }
        match &mut state.chunks {
            Some(chunks) => chunks.restore(&kept.chunks),
            None if kept.chunks.is_empty() => Ok(()),
            None => Err("it has no chunks"),
        }?;
        match (&mut state.pairs, &kept.pairs) {
            (Some(pairs), Some(kept)) => pairs.restore(kept),
            (None, Some(_)) => Err("it has no pairs"),
            (_, None) => Ok(()),
        }
    }
}
