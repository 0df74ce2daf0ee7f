//! The namespaces: the current state of each, and its changes while the controller exists.
//! Resets leave them alone.

use stasis_block::{Operation, Status};

use crate::command::location;
use crate::config::{Config, Namespace, LBA_FORMATS};
use crate::extent::Extent;
use crate::identity::NamespaceIdentity;
use crate::intervals::Intervals;
use crate::kept::KeptNamespace;
use crate::ocssd::{self, About, ChunkSet};
use crate::slots::Slot;
use crate::status::{Failure, StatusCode};
use crate::zoned::ZonedNamespace;

/// The namespaces, by identifiers from 1 on.
#[derive(Debug)]
pub struct Namespaces {
    states: Vec<NamespaceState>,
    // Those that are being formatted.
    formatting: Vec<u32>,
}

#[derive(Debug)]
struct NamespaceState {
    // As it is formatted now.
    namespace: Namespace,
    identity: NamespaceIdentity,
    // The bytes that Write Uncorrectable has marked.
    marks: Intervals,
    // Its size in bytes, whatever its blocks are.
    capacity: u64,
    zones: Option<ZonedNamespace>,
    chunks: Option<ChunkSet>,
}

impl Namespaces {
    /// New ones: empty, and nothing is marked.
    pub fn new(config: &Config) -> Self {
        let state = |(index, namespace): (usize, &Namespace)| NamespaceState {
            namespace: namespace.clone(),
            identity: NamespaceIdentity::new(&config.serial, index as u32 + 1),
            marks: Intervals::default(),
            capacity: namespace.bytes(),
            zones: ZonedNamespace::new(namespace),
            chunks: namespace.ocssd.as_ref().map(ChunkSet::new),
        };
        let states = config.namespaces.iter().enumerate().map(state).collect();
        Self { states, formatting: Vec::new() }
    }

    fn state(&self, nsid: u32) -> Option<&NamespaceState> {
        self.states.get((nsid as usize).checked_sub(1)?)
    }

    fn state_mut(&mut self, nsid: u32) -> Option<&mut NamespaceState> {
        self.states.get_mut((nsid as usize).checked_sub(1)?)
    }

    /// How many there are: the highest NSID.
    pub fn count(&self) -> u32 {
        self.states.len() as u32
    }

    /// The namespace of an NSID, if there is one.
    pub fn get(&self, nsid: u32) -> Option<&Namespace> {
        Some(&self.state(nsid)?.namespace)
    }

    /// All of them, with their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        (1..).zip(self.states.iter().map(|state| &state.namespace))
    }

    /// The namespace of a command that accesses its contents.
    ///
    /// # Errors
    /// There is none, or it is being formatted.
    pub fn accessible(&self, nsid: u32) -> Result<&Namespace, Failure> {
        if self.formatting.contains(&nsid) {
            return Err(StatusCode::FormatInProgress.at(location::NSID));
        }
        self.get(nsid).ok_or(StatusCode::InvalidNamespace.at(location::NSID))
    }

    /// Its identifiers.
    pub fn identity(&self, nsid: u32) -> Option<&NamespaceIdentity> {
        Some(&self.state(nsid)?.identity)
    }

    /// The logical block that holds byte `offset`.
    pub fn lba_of(&self, nsid: u32, offset: u64) -> u64 {
        let Some(state) = self.state(nsid) else { return 0 };
        let block = offset / u64::from(state.namespace.block_size);
        // Addresses of chunks have holes.
        state.chunks.as_ref().map_or(block, |chunks| {
            let (chunk, sector) = chunks.of_linear(block);
            chunks.start(chunk) + u64::from(sector)
        })
    }

    /// Its block size in bytes; 1 if there is no such namespace.
    pub fn block_size(&self, nsid: u32) -> u64 {
        self.state(nsid).map_or(1, |state| state.namespace.block_size.into())
    }

    /// Its size in bytes; 0 if there is no such namespace.
    pub fn capacity(&self, nsid: u32) -> u64 {
        self.state(nsid).map_or(0, |state| state.capacity)
    }

    /// The size of all in bytes.
    pub fn total_capacity(&self) -> u64 {
        self.states.iter().map(|state| state.capacity).sum()
    }

    /// How often zones have changed.
    pub fn zone_changes(&self) -> u64 {
        self.states.iter().filter_map(|state| state.zones.as_ref()).map(|of| of.set.changes()).sum()
    }

    /// The zones of one that has some.
    pub fn zones(&self, nsid: u32) -> Option<&ZonedNamespace> {
        self.state(nsid)?.zones.as_ref()
    }

    /// The same, to change them.
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

    /// The same, to change them.
    pub fn chunks_mut(&mut self, nsid: u32) -> Option<&mut ChunkSet> {
        self.state_mut(nsid)?.chunks.as_mut()
    }
}

/// Whether blocks can be read and written.
impl Namespaces {
    /// Whether the blocks can be read: none is marked as uncorrectable, and their zones allow
    /// it.
    pub fn check_readable(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        let Some(state) = self.state(nsid) else { return Ok(()) };
        if let Some(first) = state.marks.first_in(&extent.range()) {
            let lba = first / u64::from(state.namespace.block_size);
            return Err(Failure::from(StatusCode::UnrecoveredReadError).of_block(lba));
        }
        state.check_zones(Operation::Read, extent)
    }

    /// Whether the marks of the blocks can be cleared when they are written,
    /// which can make two ranges of one.
    pub fn check_clearing(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        let marks = self.state(nsid).map(|state| &state.marks).filter(|marks| marks.is_full());
        if marks.is_some_and(|marks| marks.overlaps(&extent.range())) {
            return Err(Failure::from(StatusCode::WriteFault).of_block(extent.lba));
        }
        Ok(())
    }

    /// Whether the blocks can be written now.
    pub fn check_writable(&self, nsid: u32, extent: &Extent) -> Result<(), Failure> {
        self.check_clearing(nsid, extent)?;
        self.state(nsid).map_or(Ok(()), |state| state.check_zones(Operation::Write, extent))
    }

    /// Marks blocks that can be written: they cannot be read until they are.
    ///
    /// # Errors
    /// Their zones do not allow it, or there is no room for another mark.
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

    /// As [`Namespaces::leave_zones`], of chunks: returns the loss, and its first address.
    pub fn leave_chunks(
        &mut self,
        slot: &Slot,
        status: Status,
        data: &mut [u8],
    ) -> Option<(u64, About)> {
        let state = self.state_mut(slot.nsid)?;
        let block = u64::from(state.namespace.block_size);
        ocssd::leave(state.chunks.as_mut()?, block, slot, status, data)
    }

    /// A request has given blocks new contents.
    pub fn clear_marks(&mut self, slot: &Slot) {
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
    /// Whether the zones allow an access to blocks that lie in the namespace.
    fn check_zones(&self, operation: Operation, extent: &Extent) -> Result<(), Failure> {
        self.zones.as_ref().map_or(Ok(()), |zoned| zoned.check(operation, extent))
    }
}

/// Formatting.
impl Namespaces {
    /// From now on these are being formatted.
    pub fn begin_format(&mut self, nsids: Vec<u32>) {
        self.formatting = nsids;
    }

    /// None is any more.
    pub fn end_format(&mut self) {
        self.formatting.clear();
    }

    /// One gets blocks of `block_size` bytes: it is empty, and nothing is marked. Whether that
    /// is another size than before.
    pub fn format(&mut self, nsid: u32, block_size: u32) -> bool {
        let Some(state) = self.state_mut(nsid) else { return false };
        let namespace = &mut state.namespace;
        let before = std::mem::replace(&mut namespace.block_size, block_size);
        namespace.blocks = state.capacity / u64::from(block_size);
        state.marks.clear();
        state.zones = ZonedNamespace::new(namespace);
        state.chunks = namespace.ocssd.as_ref().map(ChunkSet::new);
        before != block_size
    }
}

/// State that outlives the controller.
impl Namespaces {
    /// The state that each namespace keeps; `made`: the namespaces' configurations.
    pub fn kept(&self, made: &[Namespace]) -> Vec<KeptNamespace> {
        let kept = |(state, made): (&NamespaceState, &Namespace)| KeptNamespace {
            block_size: state.namespace.block_size,
            uncorrectable: state.marks.ranges().collect(),
            zones: state.zones.as_ref().map_or(Vec::new(), |zones| zones.set.kept()),
            chunks: state.chunks.as_ref().map_or(Vec::new(), ChunkSet::kept),
            ..KeptNamespace::as_made(made)
        };
        self.states.iter().zip(made).map(kept).collect()
    }

    /// A new namespace resumes from its kept state.
    ///
    /// # Errors
    /// The reason why the namespace cannot be in this state.
    pub fn restore(&mut self, nsid: u32, kept: &KeptNamespace) -> Result<(), &'static str> {
        let state = self.state_mut(nsid).ok_or("there is no such namespace")?;
        let size = kept.block_size;
        let formats = LBA_FORMATS.contains(&size) && state.capacity >= size.into();
        if !formats || !state.namespace.can_have_blocks_of(size, state.capacity) {
            return Err("its logical blocks cannot be of that size");
        }
        self.format(nsid, size);
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
        }
    }
}
