//! The parts of the subsystem that I/O commands act on (NVMe 1.4 section 6): the namespaces, and
//! the way from a command to the requests that it becomes.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Request, Status, Tag};

use crate::buffers::Lease;
use crate::changes::Change;
use crate::command::{location, SubmissionEntry};
use crate::computing::Device;
use crate::condition::Condition;
use crate::config::{Config, Namespace};
use crate::controller_id::ControllerId;
use crate::endurance::Endurance;
use crate::event_log::{HardwareError, Occurrence};
use crate::extent::Extent;
use crate::features::{Features, FeaturesByController};
use crate::metadata::BlockFormat;
use crate::namespaces::{Creation, Namespaces};
use crate::narrow::size;
use crate::placement::PlacementState;
use crate::power::Power;
use crate::protection::{Passage, Use};
use crate::registered::Registered;
use crate::reservations::HostId;
use crate::slices::Slices;
use crate::slots::{Owner, Purpose, Slot};
use crate::state::{Access, Background, Commands, Reports};
use crate::status::{Failure, Outcome, StatusCode};
use crate::telemetry::{self, Captured};
use crate::write_cache::WriteCache;
use crate::{log_page, Memory};

/// Maximum number of requests of one command.
pub const MAX_REQUESTS: usize = 256;
/// Force Unit Access, in Dword 12 of Read, Write and Write Zeroes.
const FUA: u32 = 1 << 30;

/// Carries out an I/O command.
pub type IoExecute = fn(&mut Io, &dyn Memory, &SubmissionEntry) -> Result<Outcome, Failure>;
/// An I/O command that the controller supports.
pub type IoCommand = Registered<IoExecute>;

/// The drive's side of a subsystem: its configuration, its requests, and its state.
#[derive(Debug)]
pub struct Io {
    /// The configuration of the subsystem and its controllers.
    pub config: Config,
    pub namespaces: Namespaces,
    pub commands: Commands,
    pub access: Access,
    pub placement: PlacementState,
    pub features: FeaturesByController,
    pub condition: Condition,
    /// The endurance groups.
    pub endurance: Endurance,
    pub cache: WriteCache,
    pub background: Background,
    pub reports: Reports,
    pub power: Power,
    /// The device of computational programs, if the drive has one.
    pub computing: Option<Device>,
    /// The division of work.
    pub slices: Slices,
    /// Virtual time as last set (ns).
    pub now: Nanos,
}

/// Direction of a command with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    Read,
    Write,
    Compare,
}

impl Io {
    /// Starts a new drive. `config` has been checked.
    pub fn new(config: Config) -> Self {
        let namespaces = Namespaces::new(&config);
        Self {
            access: Access::new(namespaces.count()),
            namespaces,
            commands: Commands::default(),
            placement: PlacementState::new(&config),
            features: FeaturesByController::new(),
            condition: Condition::default(),
            endurance: Endurance::new(&config),
            cache: WriteCache::default(),
            background: Background::new(&config.firmware),
            reports: Reports::default(),
            power: Power::new(config.power_states.states()),
            computing: Device::new(config.programs),
            slices: Slices::default(),
            now: 0,
            config,
        }
    }

    /// Drops the state that the reset of a controller clears. `alone`: no other one is enabled.
    pub fn reset(&mut self, controller: ControllerId, alone: bool) {
        self.commands.slots.abandon_all(controller);
        self.commands.ended.retain(|(command, _)| command.controller != controller);
        self.commands.fused.reset(controller);
        self.background.self_test.reset(self.reports.statistics.powered_on, controller);
        self.background.lba_scans.reset(controller);
        self.reports.event_log.release(controller);
        if self.background.firmware.reset(controller) {
            self.reports.changes.add(Change::Firmware { starts: false });
        }
        if alone {
            self.power.reset(self.now);
        }
        // Directives are of the namespaces, whose other hosts go on.
        if alone {
            self.placement.reset();
        }
        // The requests that the drive has not got yet need not reach it.
        for _ in 0..self.commands.outgoing.requests() {
            let Some(request) = self.commands.outgoing.next_request() else { break };
            if self.commands.slots.outlives_reset(request.tag) {
                self.commands.outgoing.send(request);
                continue;
            }
            if let Some(slot) = self.commands.slots.requests.remove(request.tag) {
                self.namespaces.leave_pairs(&slot, Status::WriteError);
                if let Owner::Part { group, .. } | Owner::Elements { group, .. } = slot.owner {
                    // The group ends with its last request.
                    let _ = self.commands.slots.part_done(group, 0, None);
                }
                self.commands.buffers.give_segments(slot.segments);
                self.commands.buffers.give_segments(slot.metadata_segments);
            }
            self.commands.buffers.give(request.data);
        }
        self.features.reset(controller);
    }

    /// Adds an event of a controller to the Persistent Event Log.
    pub fn log_event(&mut self, controller: ControllerId, occurrence: &Occurrence) {
        // An event of none is of the one that a drive on PCIe always has.
        let controller = match controller {
            ControllerId::NONE => ControllerId::PCIE,
            controller => controller,
        };
        let timestamp = self.features(controller).timestamp_at(self.now);
        self.reports.event_log.add(controller, timestamp, occurrence);
    }

    /// The event that a namespace is created, or deleted: `select` of Namespace Management.
    pub fn namespace_event(&self, select: u32, nsid: u32) -> Option<Occurrence<'static>> {
        let namespace = self.namespaces.get(nsid)?;
        let format = namespace.format().number()?;
        let shared = self.namespaces.creation(nsid).is_some_and(|creation| creation.shared);
        let blocks = namespace.blocks;
        Some(Occurrence::Namespace {
            action: select,
            nsid,
            blocks,
            capacity: blocks,
            format,
            shared,
        })
    }

    /// The drive has an error, which is logged, and of which the controller captures its state
    /// unless it has one that nobody has read.
    pub fn log_error(
        &mut self,
        controller: ControllerId,
        error: HardwareError,
        reason: &'static str,
    ) {
        self.log_event(controller, &Occurrence::Hardware(error));
        if self.reports.telemetry.is_available() {
            return;
        }
        let areas = self.telemetry_areas(String::new());
        if self.reports.telemetry.capture_by_itself(reason, areas) {
            self.reports.changes.add(Change::Telemetry);
            let page = self.reports.telemetry.to_page(log_page::TELEMETRY_OF_CONTROLLER, false);
            self.log_event(controller, &Occurrence::Telemetry(&page[..telemetry::BLOCK]));
        }
    }

    /// The present state for a capture; `errors`: those of a host's controller.
    pub fn telemetry_areas(&self, errors: String) -> [String; 3] {
        telemetry::areas(Captured {
            now: self.now,
            statistics: &self.reports.statistics,
            condition: &self.condition,
            namespaces: &self.namespaces,
            in_flight: self.commands.slots.requests.len(),
            firmware: self.background.firmware.active(),
            serial: &self.config.serial,
            errors,
        })
    }

    /// An I/O command has come: a drive whose power state is not operational leaves it first.
    pub fn wake(&mut self) {
        if self.power.has_choice() {
            let busy = !self.commands.slots.requests.is_empty();
            self.commands.outgoing.hold_until(self.power.wake(self.now, busy));
        }
    }

    /// The features that the host of a controller has set.
    pub fn features(&self, controller: ControllerId) -> &Features {
        self.features.of(controller)
    }

    /// The host of a controller on PCIe is to name itself anew. What it had reserved without a name
    /// ends (NVMe 1.4 section 5.21.1.25).
    pub fn forget_host(&mut self, controller: ControllerId) {
        let unnamed = HostId::Unnamed(controller);
        for (nsid, (host, notice)) in self.access.reservations.unregister(unnamed) {
            self.reports.changes.add(Change::Reservation(nsid, host, notice));
        }
        self.access.reservations.set_host(controller, Some(unnamed));
    }

    /// Aborts the commands of a host's controllers for a namespace. The drive may still complete
    /// requests that it has begun.
    pub fn abort_of_host(&mut self, host: HostId, nsid: u32) {
        let Commands { slots, ended, .. } = &mut self.commands;
        let reservations = &self.access.reservations;
        let why = StatusCode::AbortedByPreemption;
        for controller in reservations.controllers_of(host) {
            let concerned = slots.commands_of(controller, nsid);
            slots.abandon(|id| concerned.contains(&id), |id| ended.push((id, why)));
        }
    }

    /// Creates a namespace, of that many blocks of that format, in an endurance group and an NVM set
    /// (0: any), for a host, or that on PCIe.
    ///
    /// # Errors
    /// There is no room for it, or no NSID.
    pub fn create_namespace(
        &mut self,
        size: (u64, BlockFormat),
        home: (u16, u16),
        shared: bool,
        (host, handles): (Option<&str>, Vec<u8>),
    ) -> Result<u32, StatusCode> {
        let by = (host.map(str::to_owned), handles);
        let nsid = self.namespaces.create(size, home, shared, by)?;
        self.access.attachments.create(host, nsid, shared);
        self.reports.changes.add(Change::Namespace(nsid));
        Ok(nsid)
    }

    /// Deletes a namespace, which nothing is under way for: its controllers report that it is gone.
    pub fn delete_namespace(&mut self, nsid: u32) {
        for controller in self.access.attachments.controllers() {
            if self.access.attachments.has(controller, nsid) {
                self.reports.changes.add(Change::Attachment(controller, nsid));
            }
        }
        // Whatever else has changed, the drive's state has.
        self.reports.changes.add(Change::Namespace(nsid));
        self.access.attachments.delete(nsid);
        self.access.reservations.forget(nsid);
        self.placement.forget(nsid);
        self.features.forget(nsid);
        self.namespaces.delete(nsid);
    }

    /// Resumes the attachments of namespaces that were kept: `detached` are those that the host on
    /// PCIe has detached.
    pub fn restore_attachments(&mut self, detached: &[u32]) {
        for nsid in 1..=self.namespaces.count() {
            if self.namespaces.get(nsid).is_none() {
                self.access.attachments.delete(nsid);
            }
            if let Some(Creation { shared, host, .. }) = self.namespaces.creation(nsid) {
                self.access.attachments.create(host.as_deref(), nsid, *shared);
            }
            self.access.attachments.set_detached(nsid, detached.contains(&nsid));
        }
    }

    /// The namespaces that the host on PCIe has detached, or not attached.
    pub fn detached(&self) -> Vec<u32> {
        self.namespaces.nsids().filter(|&nsid| self.access.attachments.is_detached(nsid)).collect()
    }

    /// Checks that a controller has a namespace. An unknown one is left to the command to refuse.
    ///
    /// # Errors
    /// The namespace is not attached to the controller: an inactive one (NVMe 2.0 section 3.2.1.4).
    pub fn check_attached(&self, controller: ControllerId, nsid: u32) -> Result<(), Failure> {
        let inactive =
            self.namespaces.get(nsid).is_some() && !self.access.attachments.has(controller, nsid);
        if inactive {
            Err(StatusCode::InvalidField.at(location::NSID))
        } else {
            Ok(())
        }
    }

    /// The namespace of an I/O command.
    ///
    /// # Errors
    /// There is none, or it is being formatted.
    pub fn namespace(&self, nsid: u32) -> Result<&Namespace, Failure> {
        self.namespaces.accessible(nsid)
    }

    /// The namespace of an I/O command that changes contents.
    ///
    /// # Errors
    /// As of [`Io::namespace`]; or it cannot be written.
    pub fn writable_namespace(&self, nsid: u32) -> Result<&Namespace, Failure> {
        let namespace = self.namespace(nsid)?;
        if namespace.read_only || self.condition.health().read_only {
            return Err(StatusCode::NamespaceWriteProtected.at(location::NSID));
        }
        Ok(namespace)
    }

    /// Read, Write and Compare (sections 6.9, 6.15 and 6.6).
    pub fn transfer(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        transfer: Transfer,
    ) -> Result<Outcome, Failure> {
        let namespace = match transfer {
            Transfer::Write => self.writable_namespace(command.nsid)?,
            _ => self.namespace(command.nsid)?,
        };
        let extent = Extent::of(namespace, command)?;
        let purpose = if transfer == Transfer::Compare { Use::Check } else { Use::Transfer };
        let passage = Passage::of(command, namespace.format(), extent.lba, purpose)?;
        let bytes = passage.map_or(extent.data, |passage| passage.bytes_for(extent.blocks));
        self.check_length(bytes)?;
        match transfer {
            Transfer::Write => self.namespaces.check_writable(command.nsid, &extent)?,
            _ => self.namespaces.check_readable(command.nsid, &extent)?,
        }
        let owner = Owner::Command(command.id());
        self.transfer_extent(memory, command, transfer, (&extent, passage), owner)
    }

    /// Checks that a command may move `bytes` bytes.
    pub fn check_length(&self, bytes: u64) -> Result<(), Failure> {
        if bytes > self.config.max_transfer.into() {
            return Err(StatusCode::InvalidField.at(location::CDW12));
        }
        Ok(())
    }

    /// The length in bytes of the data of a command that counts it in dwords, 0's based.
    ///
    /// # Errors
    /// It is more than a command may move; `at`: the byte of the command that holds it.
    pub fn length_of(&self, dwords: u32, at: u16) -> Result<u32, Failure> {
        let bytes = dwords.checked_add(1).and_then(|dwords| dwords.checked_mul(4));
        bytes
            .filter(|&bytes| bytes <= self.config.max_transfer)
            .ok_or(StatusCode::InvalidField.at(at))
    }

    /// Transfers the data of a checked command to or from an extent, which has a passage if its
    /// blocks have metadata.
    pub fn transfer_extent(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        transfer: Transfer,
        (extent, passage): (&Extent, Option<Passage>),
        owner: Owner,
    ) -> Result<Outcome, Failure> {
        let (bytes, blocks) = (size(extent.length), size(extent.blocks));
        let crossing = passage.map_or(bytes, |passage| passage.data_bytes(blocks));
        let apart = passage.map_or(0, |passage| passage.metadata_bytes(blocks));
        let (operation, purpose) = match transfer {
            Transfer::Read => (Operation::Read, Purpose::Deliver),
            Transfer::Write => (Operation::Write, Purpose::Deliver),
            Transfer::Compare => (Operation::Read, Purpose::Compare),
        };
        self.lend(|io, lease| {
            lease.segments = io.commands.buffers.segments_of(memory, command, crossing)?;
            lease.metadata_segments =
                io.commands.buffers.metadata_segments_of(memory, command, apart)?;
            lease.data = io.commands.buffers.take(bytes);
            let mut stream = 0;
            let mut places = (Vec::new(), Vec::new());
            if transfer == Transfer::Write {
                io.receive_blocks(memory, (extent, passage), lease)?;
                stream = io.place(command, extent.data)?;
            } else {
                // A write needs its places no more; a read's wait for its data.
                places = lease.take_places();
            }
            let fua = io.is_forced(command, operation);
            let request =
                Command { fua, stream, ..Command::new(operation, extent.offset, extent.length) };
            let (segments, metadata_segments) = places;
            let slot = Slot {
                purpose,
                bytes,
                segments,
                metadata_segments,
                passage,
                ..Slot::new(owner, &request, command.nsid, extent.lba)
            };
            io.send_request(command.sq, slot, request, lease.take_data());
            Ok(Outcome::Pending)
        })
    }

    /// Runs `work` with a lease of buffers: what it has not taken out of that comes back here,
    /// whatever the work comes to, and nowhere else.
    pub fn lend<R>(&mut self, work: impl FnOnce(&mut Self, &mut Lease) -> R) -> R {
        let mut lease = Lease::default();
        let result = work(self, &mut lease);
        self.commands.buffers.end(lease);
        result
    }

    /// Copies the data of a write from the host's places into the drive's, through its passage, if it
    /// has one.
    fn receive_blocks(
        &mut self,
        memory: &dyn Memory,
        (extent, passage): (&Extent, Option<Passage>),
        lease: &mut Lease,
    ) -> Result<(), Failure> {
        let Lease { segments, metadata_segments, data } = lease;
        let Some(passage) = passage else {
            return stasis_block::memory::gather(memory, segments, data).map_err(Failure::from);
        };
        let (blocks, places) = (size(extent.blocks), (&segments[..], &metadata_segments[..]));
        let packed = self.commands.buffers.with_host_data(
            memory,
            passage,
            blocks,
            places,
            |host, apart| passage.pack(host, apart, data),
        )?;
        packed.map_err(|flaw| Failure::from(flaw.status).of_block(extent.lba + flaw.block))
    }

    /// The stream of a write of `length` bytes, by which the drive receives the host's grouping of
    /// data.
    pub fn place(&mut self, command: &SubmissionEntry, length: u64) -> Result<u16, Failure> {
        let group = self.namespaces.endurance_group(command.nsid);
        let Self { placement, features, namespaces, now, .. } = self;
        let place = (group, namespaces.handles(command.nsid));
        placement
            .place(command, place, length, || features.of(command.controller).timestamp_at(*now))
    }

    /// Returns whether a write is durable when it is acknowledged: because it asks so, or because
    /// the guest has turned the volatile write cache off.
    pub fn is_forced(&self, command: &SubmissionEntry, operation: Operation) -> bool {
        let cached = self.has_write_cache(command.controller);
        let reads = matches!(operation, Operation::Read | Operation::Verify);
        command.cdw12 & FUA != 0 || !reads && !cached
    }

    /// Returns whether there is a volatile write cache, and it is on for the host of a controller.
    pub fn has_write_cache(&self, controller: ControllerId) -> bool {
        self.config.volatile_write_cache && self.features(controller).write_cache
    }

    /// Returns whether a flush has no effect: the volatile write cache is off, and nothing is left
    /// in it (section 6.8).
    pub fn flushes_nothing(&self, controller: ControllerId) -> bool {
        !self.has_write_cache(controller) && self.cache.is_clean()
    }

    /// Hands a flush to the drive.
    pub fn request_flush(&mut self, queue: u16, nsid: u32, owner: Owner) {
        let mut command = Command::flush();
        // A namespace in a part with flash of its own flushes that part.
        if !self.endurance.parts().is_empty() {
            command.offset = self.namespaces.get(nsid).map_or(0, |namespace| namespace.start);
        }
        self.request(queue, Slot::new(owner, &command, nsid, 0), command);
    }

    /// Hands a request without data to the drive.
    pub fn request(&mut self, queue: u16, slot: Slot, command: Command) {
        self.send_request(queue, slot, command, Vec::new());
    }

    /// Hands a request to the drive that checks blocks: where they have protection information to
    /// check, the controller gets them for that.
    ///
    /// # Errors
    /// The command cannot check it so, or so much of it.
    pub fn request_checked(
        &mut self,
        command: &SubmissionEntry,
        extent: &Extent,
        slot: Slot,
        request: Command,
    ) -> Result<(), Failure> {
        let format = self.namespace(command.nsid)?.format();
        let passage = Passage::of(command, format, extent.lba, Use::Check)?;
        let passage = passage.filter(Passage::checks);
        if passage.is_some() {
            // No more than of a transfer (VSL).
            self.check_length(extent.data)?;
        }
        let bytes = passage.map_or(0, |_| size(extent.length));
        let data = self.commands.buffers.take_for(bytes);
        self.send_request(command.sq, Slot { bytes, passage, ..slot }, request, data);
        Ok(())
    }

    /// Hands a request with its data, or room for it, to the drive.
    pub fn send_request(&mut self, queue: u16, slot: Slot, command: Command, data: Vec<u8>) -> Tag {
        self.slices.data(data.len());
        let request = self.make_request(queue, slot, command, data);
        let tag = request.tag;
        self.commands.outgoing.send(request);
        tag
    }

    /// Builds the request of a slot, without sending it.
    pub fn make_request(
        &mut self,
        queue: u16,
        slot: Slot,
        command: Command,
        data: Vec<u8>,
    ) -> Request {
        let namespace = slot.nsid;
        let slot = Slot { covers: self.cache.sent(&command, &self.commands.slots), ..slot };
        let reads = matches!(command.operation, Operation::Verify | Operation::Flush);
        if slot.purpose != Purpose::Format {
            self.namespaces.enter(namespace, command.operation, command.offset, command.length);
        } else if let Some(pairs) = self.namespaces.key_value_mut(namespace).filter(|_| !reads) {
            // However the erasure ends, no pair is known to be whole.
            pairs.clear();
        }
        // Inside the controller all offsets are the namespace's.
        let start = self.namespaces.get(namespace).map_or(0, |namespace| namespace.start);
        let mut command = command;
        if command.operation != Operation::Flush {
            command.offset += start;
        }
        if command.operation == Operation::Copy {
            command.source += start;
        }
        let tag = self.commands.slots.requests.insert(slot);
        Request { queue, ..Request::new(tag, command, data) }
    }

    /// Copies the data of a command from the guest into all of `data`.
    pub fn receive(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        data: &mut [u8],
    ) -> Result<(), Failure> {
        self.commands.buffers.with_segments(memory, command, data.len(), |segments| {
            stasis_block::memory::gather(memory, segments, data).map_err(Failure::from)
        })
    }

    /// Copies `data` to the host, of the `asked` bytes that the command has room for and asks for,
    /// no more than a transfer: what lies beyond is left alone.
    pub fn send_of(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        data: &[u8],
        asked: u32,
    ) -> Result<(), Failure> {
        let asked = asked as usize;
        let data = &data[..data.len().min(asked)];
        self.commands.buffers.with_segments(memory, command, asked, |segments| {
            stasis_block::memory::scatter(memory, segments, data).map_err(Failure::from)
        })
    }

    /// Copies `data` to the guest, where the command wants it.
    pub fn send(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        data: &[u8],
    ) -> Result<(), Failure> {
        self.commands.buffers.with_segments(memory, command, data.len(), |segments| {
            stasis_block::memory::scatter(memory, segments, data).map_err(Failure::from)
        })
    }
}
