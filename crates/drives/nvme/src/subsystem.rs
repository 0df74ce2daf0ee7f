//! The subsystem: namespaces and the drive behind them, and the controllers by which hosts come.

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Health, Refused, Request, Tag};

use crate::ana::AnaState;
use crate::capsules::ConnectedHost;
use crate::changes::Change;
use crate::condition::{CRITICAL_TEMPERATURE, WARNING_TEMPERATURE};
use crate::config::{Config, ConfigError};
use crate::context::ControllerMut;
use crate::controller::Ended;
use crate::controller_id::{ControllerId, MAX_CONTROLLERS};
use crate::endurance::{MediaPart, ONLY_GROUP};
use crate::event_log::{HardwareError, Occurrence};
use crate::formatting::Formatting;
use crate::host::Host;
use crate::io::Io;
use crate::kept::{KeptState, StateError};
use crate::ocssd::Notifications;
use crate::placement::{kept_groups, PlacementState};
use crate::queues::QueuePair;
use crate::reservations::HostId;
use crate::state::Reports;
use crate::statistics::Statistics;
use crate::transport::Transport;
use crate::vendor::{Vendor, VendorRequest};
use crate::{commands, slices, Memory};

/// A subsystem and its controllers.
#[derive(Debug)]
pub struct Subsystem {
    /// The drive's side.
    io: Io,
    /// The controllers, by identifier.
    hosts: Vec<Option<Host>>,
    formatting: Formatting,
    vendor: Vendor,
    chunk_notifications: Notifications,
    /// The identifier of the last controller of a fabric.
    last: ControllerId,
    /// Virtual time as last set (ns).
    now: Nanos,
}

impl Subsystem {
    /// A new subsystem, without controllers.
    ///
    /// # Errors
    /// Returns the invalid field and its allowed values.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            io: Io::new(config),
            hosts: Vec::new(),
            formatting: Formatting::default(),
            vendor: Vendor::default(),
            chunk_notifications: Notifications::default(),
            last: ControllerId::PCIE,
            now: 0,
        })
    }

    /// A subsystem whose power was off since `state` was kept of it.
    ///
    /// # Errors
    /// As of [`Subsystem::new`]; or the state is of another drive, or damaged.
    pub fn with_state(config: Config, state: &KeptState) -> Result<Self, StateError> {
        let mut subsystem = Self::new(config)?;
        let io = &mut subsystem.io;
        state.check(&io.config)?;
        let damaged = |nsid, reason| StateError::Damaged { nsid, reason };
        for (nsid, kept) in (1..).zip(&state.namespaces) {
            let restored = io.namespaces.restore(nsid, kept);
            restored.map_err(|reason| damaged(nsid as usize, reason))?;
        }
        for kept in &state.created {
            let restored = io.namespaces.restore_created(kept);
            restored.map_err(|reason| damaged(kept.nsid as usize, reason))?;
        }
        io.namespaces.restore_creations(state.creations);
        io.restore_attachments(&state.detached);
        let of_drive = state.fdp.iter().map(|kept| (ONLY_GROUP, state.placement, kept));
        let of_groups = state.groups.iter().map(|kept| (kept.id, kept.placement, &kept.fdp));
        let made = io.config.groups();
        for (id, placement, kept) in of_drive.chain(of_groups) {
            let same = made.iter().any(|made| (made.id, made.placement) == (id, placement));
            let PlacementState::Fdp(groups) = &mut io.placement else { continue };
            if let Some(fdp) = groups.of_mut(id).filter(|_| same) {
                fdp.restore(kept).map_err(|reason| damaged(1, reason))?;
            }
        }
        if let Some(kept) = &state.firmware {
            let restored = subsystem.io.background.firmware.restore(kept);
            restored.map_err(|reason| damaged(1, reason))?;
        }
        let restored = subsystem.io.reports.event_log.restore(&state.events);
        restored.map_err(|reason| damaged(1, reason))?;
        if let Some(kept) = state.sanitize {
            subsystem.io.restore_sanitize(kept);
        }
        Ok(subsystem)
    }

    /// The state that survives if the power fails now: for [`Subsystem::with_state`].
    /// Zones are as they are now; a write in flight has moved its zone's pointer.
    pub fn kept_state(&self) -> KeptState {
        let config = &self.io.config;
        let mut groups = kept_groups(&self.io);
        let of_drive = config.endurance_groups.is_empty().then(|| groups.pop()).flatten();
        KeptState {
            namespaces: self.io.namespaces.kept(&config.namespaces),
            created: self.io.namespaces.kept_created(),
            creations: self.io.namespaces.creations(),
            detached: self.io.detached(),
            fdp: of_drive.map(|group| group.fdp),
            groups,
            sanitize: self.io.background.sanitize.kept(),
            firmware: self.io.background.firmware.kept(),
            events: self.io.reports.event_log.kept(),
            ..KeptState::as_made(config)
        }
    }

    /// A number that differs once [`Subsystem::kept_state`] does, but for the bytes that Flexible
    /// Data Placement has counted since a reclaim unit was last begun.
    pub fn state_changes(&self) -> u64 {
        let Io { namespaces, placement, reports, .. } = &self.io;
        let Reports { changes, event_log, .. } = reports;
        changes.count() + namespaces.changes() + placement.changes() + event_log.changes()
    }

    /// The largest logical block of all namespaces as they are formatted now, in bytes.
    pub fn largest_block(&self) -> u32 {
        self.io.namespaces.largest_block()
    }

    /// Returns the layout on the drive of the logical blocks of all namespaces as they are
    /// formatted now.
    pub fn layout(&self) -> BlockLayout {
        self.io.namespaces.layout()
    }

    /// Returns the subsystem's configuration.
    pub fn config(&self) -> &Config {
        &self.io.config
    }

    /// Returns the number of MSI-X vectors that the carrier of a controller on PCIe is to offer.
    pub fn vectors(&self) -> u16 {
        self.config().vectors()
    }

    /// Returns whether the host of a controller has enabled it.
    pub fn is_enabled(&self, id: ControllerId) -> bool {
        self.host(id).is_some_and(Host::is_enabled)
    }

    /// Adds a controller, which is not enabled yet; `None` if there are [`MAX_CONTROLLERS`].
    /// Those of a drive on PCIe have the identifiers from 0 on; those of fabrics others than 0, each
    /// the one after the last, so that none is used again soon.
    pub fn add_controller(&mut self, transport: Transport) -> Option<ControllerId> {
        let free = |id: &ControllerId| self.hosts.get(id.index()).is_none_or(Option::is_none);
        let id = if transport.has_capsules() {
            self.last = self.last.following().find(free)?;
            self.last
        } else {
            (0..MAX_CONTROLLERS).map(ControllerId::of_index).find(free)?
        };
        let index = id.index();
        if self.hosts.len() <= index {
            self.hosts.resize_with(index + 1, || None);
        }
        let host = Host::new(id, transport, &self.io.config);
        let seen_changes = self.io.reports.changes.count();
        // On PCIe each controller is a port of its own; on a fabric Connect names the port.
        let path = if transport == Transport::SharedPcie { id.0 } else { host.path };
        self.hosts[index] = Some(Host { seen_changes, path, now: self.now, ..host });
        if transport != Transport::Discovery {
            self.io.access.attachments.begin(id, None);
        }
        if transport == Transport::SharedPcie {
            self.io.access.reservations.set_host(id, Some(HostId::Unnamed(id)));
        }
        Some(id)
    }

    /// Removes a controller: commands under way are dropped, as by a reset.
    pub fn remove_controller(&mut self, id: ControllerId) {
        if let Some(mut controller) = self.controller(id) {
            controller.reset_function();
            self.io.commands.ended.retain(|(command, _)| command.controller != id);
            self.io.access.reservations.set_host(id, None);
            self.io.access.attachments.end(id);
            self.hosts[id.index()] = None;
        }
    }

    /// All controllers on PCIe are of one host from now on: it has a say in each of them.
    pub fn share_host(&mut self) {
        self.io.access.attachments.share_host();
    }

    /// The controller `id`, to act on, if there is one.
    pub fn controller(&mut self, id: ControllerId) -> Option<ControllerMut<'_>> {
        let running = self.hosts.iter().flatten().filter(|host| host.id != id && host.is_enabled());
        let alone = running.count() == 0;
        let host = self.hosts.get_mut(id.index())?.as_mut()?;
        if host.id != id {
            return None;
        }
        let Self { io, formatting, vendor, chunk_notifications, .. } = self;
        let commands = commands::of(host.transport);
        Some(ControllerMut { io, host, formatting, vendor, chunk_notifications, alone, commands })
    }

    /// The host of a controller has named itself.
    pub(crate) fn set_host(&mut self, id: ControllerId, host: &ConnectedHost) {
        self.io.access.reservations.set_host(id, Some(HostId::Named(host.id)));
        self.io.access.attachments.begin(id, Some(&host.nqn));
    }

    /// Grants a namespace to a host by its NQN, or withdraws it; `None`: to all hosts, and to the
    /// one on PCIe. It is attached to the controllers that there are of them, or detached, and they
    /// are to be attended to: hosts that asked for it have an event. Commands under way end as ever.
    ///
    /// # Errors
    /// There is no such namespace: returns the highest number that one has had.
    pub fn set_attached(
        &mut self,
        nsid: u32,
        host: Option<&str>,
        attached: bool,
    ) -> Result<(), u32> {
        let Self { io, .. } = self;
        if io.namespaces.get(nsid).is_none() {
            return Err(io.namespaces.count());
        }
        io.access.attachments.grant(host, nsid, attached);
        let of_host =
            |id: &ControllerId| host.is_none_or(|host| io.access.attachments.is_of_host(*id, host));
        let concerned: Vec<_> = io.access.attachments.controllers().filter(of_host).collect();
        for id in concerned {
            self.change_attachment(id, nsid, attached);
        }
        Ok(())
    }

    /// Attaches a namespace to a controller or detaches it, whatever its host is granted. A namespace that
    /// the host on PCIe has detached itself is not attached. The controller is to be attended to, and a
    /// host that asked for it has an event. Commands under way end as ever.
    pub fn attach(&mut self, id: ControllerId, nsid: u32, attached: bool) {
        let Io { namespaces, access, .. } = &self.io;
        let can_be = namespaces.get(nsid).is_some() && !access.attachments.is_detached(nsid);
        if can_be || !attached {
            self.change_attachment(id, nsid, attached);
        }
    }

    fn change_attachment(&mut self, id: ControllerId, nsid: u32, attached: bool) {
        if self.io.access.attachments.set(id, nsid, attached) {
            self.io.reports.changes.add(Change::Attachment(id, nsid));
        }
    }

    /// Resizes a namespace to `bytes` (`None`: its original size). Data within the new size stays.
    /// The caller attends to the controllers afterwards. A new size does not survive a loss of
    /// power. Returns whether the namespace has the size now: a namespace with zones, chunks or
    /// pairs cannot be resized, nor can one grow over another namespace.
    pub fn resize(&mut self, nsid: u32, bytes: Option<u64>) -> bool {
        let resized = self.io.namespaces.resize(nsid, bytes);
        if resized {
            self.io.reports.changes.add(Change::Namespace(nsid));
        }
        resized
    }

    /// The pairs of queues that a controller's host has made.
    pub fn queue_pairs(&self, id: ControllerId) -> impl Iterator<Item = QueuePair> + '_ {
        self.host(id).into_iter().flat_map(|host| host.queues.pairs())
    }

    pub(crate) fn host(&self, id: ControllerId) -> Option<&Host> {
        let host = self.hosts.get(id.index())?.as_ref()?;
        if host.id == id {
            Some(host)
        } else {
            None
        }
    }

    /// Returns the controllers.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerId> + '_ {
        self.hosts.iter().flatten().map(|host| host.id)
    }

    /// A controller that is to be attended to, after `last`: what others have done concerns it.
    pub fn waiting(&self, last: Option<ControllerId>) -> Option<ControllerId> {
        let waits = |host: &&Host| {
            last.is_none_or(|last| host.id.index() > last.index())
                && (host.has_news
                    || host.queues.is_waiting()
                    || host.seen_changes != self.io.reports.changes.count()
                    || self.formatting.controller() == Some(host.id)
                    || self.io.commands.fused.waiting() == Some(host.id)
                    || self.io.commands.slots.work.has_ended(host.id)
                    || self.io.commands.slots.lists.is_of(host.id)
                    || self.io.background.lba_scans.waiting(host.id).is_some()
                    || self
                        .io
                        .commands
                        .ended
                        .iter()
                        .any(|(command, _)| command.controller == host.id))
        };
        self.hosts.iter().flatten().find(waits).map(|host| host.id)
    }

    /// The controller to which the request `tag` matters; `None` if it does to none any more.
    pub fn controller_of(&self, tag: Tag) -> Option<ControllerId> {
        self.io.commands.slots.controller_of(tag)
    }

    /// The controller that waits for the vendor specific command `tag`, if one does.
    pub fn controller_of_vendor(&self, tag: u32) -> Option<ControllerId> {
        self.vendor.controller_of(tag)
    }

    /// The drive has done the request `tag`: gives a read's data to the host and posts the
    /// completion. `memory`: of the controller that [`Subsystem::controller_of`] names. A tag that
    /// is not in flight is ignored. Returns the request's status: code type in bits 10:8, code in
    /// bits 7:0, 0 where it ended well.
    pub fn complete(
        &mut self,
        memory: &dyn Memory,
        tag: Tag,
        ended: impl Into<Ended>,
        data: Vec<u8>,
    ) -> u16 {
        let id = self.controller_of(tag);
        if let Some(mut controller) = id.and_then(|id| self.controller(id)) {
            return controller.complete(memory, tag, ended, data);
        }
        // No host waits for it, and the namespaces' state still depends on it. What else waits for it goes
        // on where its own controller is attended to.
        let mut gone = Host::new(ControllerId::NONE, Transport::Pcie, &self.io.config);
        let Self { io, formatting, vendor, chunk_notifications, .. } = self;
        let (host, commands) = (&mut gone, commands::of(Transport::Pcie));
        ControllerMut { io, host, formatting, vendor, chunk_notifications, alone: true, commands }
            .complete(memory, tag, ended, data)
    }

    /// The next I/O request for the drive, on bytes of the drive, where a namespace begins at
    /// [`crate::Namespace::start`]. Its queue is the submission queue it came by; 0 if the
    /// controller made it itself, to flush the drive at a shutdown.
    pub fn pop_request(&mut self) -> Option<Request> {
        self.io.commands.outgoing.next_due(self.now)
    }

    /// The next I/O command that has ended without a request for the drive, with an error.
    /// At most [`crate::MAX_REFUSED`] are kept.
    pub fn pop_refused(&mut self) -> Option<Refused> {
        self.io.commands.outgoing.next_refused()
    }

    /// The next vendor specific command for the drive.
    pub fn pop_vendor(&mut self) -> Option<VendorRequest> {
        self.vendor.pop()
    }

    /// Sets the virtual time (ns), which hosts see in Timestamp, power-on hours, interrupt
    /// coalescing.
    pub fn set_time(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        self.io.now = self.now;
        let statistics = &mut self.io.reports.statistics;
        statistics.powered_on += passed;
        if !self.io.commands.slots.requests.is_empty() {
            statistics.busy += passed;
        }
        match self.io.condition.temperature() {
            CRITICAL_TEMPERATURE.. => statistics.too_hot += passed,
            WARNING_TEMPERATURE.. => statistics.too_warm += passed,
            _ => {}
        }
        for host in self.hosts.iter_mut().flatten() {
            host.now = self.now;
            host.interrupts.release(now);
        }
        self.io.slices.begin();
        self.io.go_on_computing(self.now);
        let count = if self.io.slices.divides() { slices::ELEMENTS } else { usize::MAX };
        self.io.namespaces.forget_pairs(count);
        // It may have waited for the memory of programs.
        if self.io.background.sanitize.running.is_some() {
            self.io.go_on_sanitize();
        }
    }

    /// Divides work into slices from now on, one from each call of [`Subsystem::set_time`] to the next:
    /// for a carrier that serves several hosts on one thread. It must call that at
    /// [`Subsystem::next_deadline`], which is at once while there is more to do. Commands have the
    /// same effects; those of many steps end later.
    pub fn divide_work(&mut self) {
        self.io.slices.divide();
    }

    /// Returns whether commands have ended by themselves, for which controllers are to be attended
    /// to.
    pub fn has_ended_work(&self) -> bool {
        self.io.commands.slots.work.has_any_ended()
    }

    /// A controller whose host has sent no Keep Alive for its time-out: it is to be removed.
    pub fn expired(&self) -> Option<ControllerId> {
        let gone = |host: &&Host| host.keep_alive.deadline().is_some_and(|at| at <= self.now);
        self.hosts.iter().flatten().find(gone).map(|host| host.id)
    }

    /// The earliest end of a controller's Keep Alive timer.
    pub fn next_expiry(&self) -> Option<Nanos> {
        self.hosts.iter().flatten().filter_map(|host| host.keep_alive.deadline()).min()
    }

    /// Returns the time at which [`Subsystem::set_time`] is to be called at the latest, the
    /// controllers that wait to be attended to, and the interrupts and requests to be looked at;
    /// `None` unless interrupts are held back, requests wait until the drive has left a power
    /// state, programs run, or [divided work](Subsystem::divide_work) goes on.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let commands = &self.io.commands;
        if self.io.slices.is_deferred() || !commands.slots.lists.is_empty() {
            return Some(self.now);
        }
        let mut next = commands.outgoing.next_time(self.now).unwrap_or(Nanos::MAX);
        next = next.min(commands.slots.work.next_time().unwrap_or(Nanos::MAX));
        for host in self.hosts.iter().flatten() {
            next = next.min(host.interrupts.next_deadline().unwrap_or(Nanos::MAX));
        }
        (next != Nanos::MAX).then_some(next)
    }

    /// Sets the access to the namespaces on a path: commands under way end as ever. Hosts on that
    /// path that requested it have an event, for which they are to be attended to.
    pub fn set_ana(&mut self, path: u16, state: AnaState) {
        if self.io.access.ana.set(path, state) {
            self.io.reports.changes.add(Change::Access(path));
        }
    }

    /// Sets the drive's temperature (kelvin).
    pub fn set_temperature(&mut self, kelvin: u16) {
        let before = self.io.condition.temperature();
        self.io.condition.set_temperature(kelvin);
        for (number, threshold) in [(1, WARNING_TEMPERATURE), (2, CRITICAL_TEMPERATURE)] {
            if before < threshold && kelvin >= threshold {
                let degrees = u8::try_from(kelvin - threshold).unwrap_or(u8::MAX);
                let event = Occurrence::Thermal { degrees, threshold: number };
                self.io.log_event(ControllerId::PCIE, &event);
            }
        }
    }

    /// Sets the drive's health, for the SMART log; returns whether it differs from the last one,
    /// so that each controller is to be attended to.
    pub fn set_health(&mut self, health: Health) -> bool {
        let before = self.io.condition.warnings();
        let news = self.io.condition.set_health(health);
        if let Some((group, warnings)) = self.io.endurance.set_drive_health(health) {
            self.io.reports.changes.add(Change::Endurance(group, warnings));
        }
        let new = self.io.condition.warnings() & !before;
        if new != 0 {
            let error = HardwareError::CriticalWarning(new);
            self.io.log_error(ControllerId::PCIE, error, "a critical warning holds");
        }
        if news {
            self.hosts.iter_mut().flatten().for_each(|host| host.has_news = true);
        }
        news
    }

    /// The parts of the drive that have flash of their own, in the order of their bytes; none unless it
    /// has endurance groups of its own.
    pub fn media_parts(&self) -> &[MediaPart] {
        self.io.endurance.parts()
    }

    /// Sets the health of each of [`Subsystem::media_parts`], in that order, beside the drive's as a
    /// whole ([`Subsystem::set_health`]): that of their endurance groups. Controllers are to be attended
    /// to.
    pub fn set_parts_health(&mut self, parts: &[Health]) {
        let ids: Vec<u16> = self.io.endurance.ids().collect();
        for id in ids {
            let healths = self.io.endurance.parts().iter().zip(parts);
            let healths = healths.filter(|(part, _)| part.group == id).map(|(_, health)| *health);
            // A group is as worn as the worst of its sets.
            let Some(health) = healths.reduce(|one, other| one.and(&other)) else { continue };
            if let Some((group, warnings)) = self.io.endurance.set_health(id, health) {
                self.io.reports.changes.add(Change::Endurance(group, warnings));
            }
        }
    }

    /// Counts since the subsystem was made.
    pub fn statistics(&self) -> &Statistics {
        &self.io.reports.statistics
    }

    /// Requests that the drive holds, those not popped yet included.
    pub fn in_flight(&self) -> usize {
        self.io.commands.slots.requests.len()
    }
}
