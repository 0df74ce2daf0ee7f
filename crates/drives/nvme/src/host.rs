//! The host's side of a controller: its registers and queues, and its notifications: completions,
//! errors and events.

use stasis_block::clock::Nanos;
use stasis_block::Delivery;

use crate::attachments::Attachments;
use crate::capsules::{ConnectedHost, DiscoveryEntry};
use crate::changes::{Change, Changes};
use crate::command::{CommandId, CompletionEntry};
use crate::config::Config;
use crate::controller_id::ControllerId;
use crate::error_log::{ErrorLog, NO_COMMAND};
use crate::events::{Event, Events};
use crate::features::Features;
use crate::interrupts::Interrupts;
use crate::keep_alive::KeepAlive;
use crate::queue::CompletionQueue;
use crate::queues::Queues;
use crate::registers::{self as reg, Registers};
use crate::reservations::{HostId, ReservationLog};
use crate::shadow::Shadow;
use crate::status::{Failure, MORE, NO_LOCATION};
use crate::transport::Transport;
use crate::{Memory, OutOfMemoryRange};

/// The host's side of a controller.
#[derive(Debug)]
pub struct Host {
    /// The identifier of the controller (CNTLID).
    pub id: ControllerId,
    pub transport: Transport,
    /// The path by which its host comes: the subsystem's port (PORTID).
    pub path: u16,
    pub registers: Registers,
    pub queues: Queues,
    pub interrupts: Interrupts,
    pub events: Events,
    pub errors: ErrorLog,
    /// The host that has connected, on a fabric.
    pub connected: Option<ConnectedHost>,
    pub keep_alive: KeepAlive,
    /// Notices of reservations.
    pub reservations: ReservationLog,
    /// The subsystems that a discovery controller names.
    pub discovery: Vec<DiscoveryEntry>,
    /// True if the drive's health has changed since the controller was last attended to.
    pub has_news: bool,
    /// Changes of the subsystem that were reported.
    pub seen_changes: u64,
    /// True if completions wait until the carrier releases them.
    pub holds: bool,
    /// Virtual time as last set (ns), and as it was when the host enabled the controller.
    pub now: Nanos,
    pub enabled_at: Nanos,
}

impl Host {
    /// Starts with a controller that is not enabled yet.
    pub fn new(id: ControllerId, transport: Transport, config: &Config) -> Self {
        Self {
            id,
            transport,
            path: 0,
            registers: Registers::default(),
            queues: Queues::new(config.queue_pairs),
            interrupts: Interrupts::new(config.vectors(), config.interrupt_coalescing),
            events: Events::default(),
            errors: ErrorLog::default(),
            connected: None,
            keep_alive: KeepAlive::default(),
            reservations: ReservationLog::default(),
            discovery: Vec::new(),
            has_news: false,
            seen_changes: 0,
            holds: false,
            now: 0,
            enabled_at: 0,
        }
    }

    /// Drops everything but the admin queue registers, and the state that outlives resets
    /// (NVMe 1.4 section 7.3.2).
    pub fn reset(&mut self) {
        self.registers.csts = 0;
        match self.transport.has_capsules() {
            true => self.queues.reset_io(),
            false => {
                self.queues.reset();
                self.reservations = ReservationLog::default();
            }
        }
        self.interrupts.reset();
        self.events = Events::default();
    }

    /// Returns whether the host has enabled the controller.
    pub fn is_enabled(&self) -> bool {
        self.registers.cc & reg::CC_EN != 0
    }

    /// Returns whether commands are executed.
    pub fn is_running(&self) -> bool {
        self.registers.csts & (reg::CSTS_RDY | reg::CSTS_CFS | reg::CSTS_SHST) == reg::CSTS_RDY
    }

    /// Returns whether commands are fetched. Those of a fabric are also before the controller is
    /// enabled: they enable it.
    pub fn takes_commands(&self) -> bool {
        self.transport.has_capsules() || self.is_running()
    }

    /// Returns whether the controller has failed (`CSTS.CFS`): only a reset helps.
    pub fn has_failed(&self) -> bool {
        self.registers.csts & reg::CSTS_CFS != 0
    }

    /// An access to a queue or a shadow doorbell outside guest memory leaves
    /// nowhere to report it but `CSTS.CFS`.
    pub fn or_fatal<T>(&mut self, result: Result<T, OutOfMemoryRange>) -> Option<T> {
        if result.is_err() {
            self.registers.csts |= reg::CSTS_CFS;
        }
        result.ok()
    }

    /// Posts the completion of a command that failed, and logs why.
    pub fn post_failure(
        &mut self,
        memory: &dyn Memory,
        id: CommandId,
        failure: Failure,
        nsid: u32,
        lba: u64,
    ) {
        let field = self.log_failure(id, failure, nsid, lba);
        self.post(memory, id, field, 0);
    }

    /// Logs why a command failed; the status field of its completion.
    pub fn log_failure(&mut self, id: CommandId, failure: Failure, nsid: u32, lba: u64) -> u16 {
        let field = failure.status.field() | MORE;
        let phase = self.next_phase(id.sq);
        self.errors.add(id, (field, phase), failure.location, nsid, lba);
        field
    }

    /// The phase of the next completion of a command of submission queue `sq`.
    fn next_phase(&self, sq: u16) -> bool {
        let cq = self.queues.submission(sq).and_then(|sq| self.queues.completion(sq.cq));
        cq.is_some_and(CompletionQueue::next_phase)
    }

    /// Posts a completion, or holds it until its queue has room.
    pub fn post(&mut self, memory: &dyn Memory, id: CommandId, status: u16, result: u64) {
        self.deliver(memory, id, status, result, Delivery::Once);
    }

    /// Posts a completion as `delivery` has it.
    pub fn deliver(
        &mut self,
        memory: &dyn Memory,
        id: CommandId,
        status: u16,
        result: u64,
        delivery: Delivery,
    ) {
        let Some(sq) = self.queues.submission_mut(id.sq) else { return };
        let times = match delivery {
            _ if sq.is_stopped => 0,
            Delivery::Once | Delivery::WithoutInterrupt => 1,
            Delivery::Twice => 2,
            Delivery::Never => 0,
            Delivery::StopsQueue => {
                sq.is_stopped = true;
                0
            }
            Delivery::FailsController => {
                self.registers.csts |= reg::CSTS_CFS;
                return;
            }
        };
        let (cq_id, sq_head, quiet) = (sq.cq, sq.head, delivery == Delivery::WithoutInterrupt);
        let entry = CompletionEntry { result, sq_head, sq_id: id.sq, cid: id.cid, status, quiet };
        let Some(cq) = self.queues.completion_mut(cq_id) else { return };
        cq.held.extend(std::iter::repeat_n(entry, times));
        self.post_held(memory, cq_id);
    }

    /// Posts the completions held for completion queue `queue`, as far as there is room.
    pub fn post_held(&mut self, memory: &dyn Memory, queue: u16) {
        let shadow = self.queues.shadow_of(queue);
        loop {
            if self.has_failed() && !self.transport.has_capsules() {
                return;
            }
            let Some(cq) = self.queues.completion_mut(queue) else { return };
            let Some(&entry) = cq.held.front() else { return };
            if cq.is_full() {
                match shadow {
                    Some(shadow) if self.refresh_head(memory, queue, shadow) => continue,
                    _ => {
                        self.queues.wait_for_room();
                        return;
                    }
                }
            }
            if self.holds {
                self.queues.wait_for_room();
                return;
            }
            let put = cq.put(memory, entry);
            cq.held.pop_front();
            let CompletionEntry { sq_id, cid, status, .. } = entry;
            stasis_probes::command_completed(self.id.0, sq_id, cid, status);
            if let Some(vector) = cq.vector.filter(|_| !entry.quiet) {
                self.interrupts.completion(vector, queue != 0, self.now);
            }
            if self.or_fatal(put).is_none() {
                return;
            }
        }
    }

    /// Returns whether a completion waits for nothing but its release.
    pub fn is_holding(&self) -> bool {
        let waits = |cq: &CompletionQueue| !cq.held.is_empty() && !cq.is_full();
        let queues = &self.queues;
        self.holds
            && queues.is_waiting()
            && !self.has_failed()
            && queues.identifiers().filter_map(|id| queues.completion(id)).any(waits)
    }

    /// Posts the completions that were held, as far as there is room.
    pub fn release(&mut self, memory: &dyn Memory) {
        let holds = std::mem::take(&mut self.holds);
        for queue in self.queues.identifiers() {
            self.post_held(memory, queue);
        }
        self.holds = holds;
    }

    /// Takes over the head of a full completion queue from its shadow doorbell; returns whether
    /// there is room now. If not, the driver's next move of the head rings.
    fn refresh_head(&mut self, memory: &dyn Memory, queue: u16, shadow: Shadow) -> bool {
        for waits in [false, true] {
            let head = shadow.head(memory, queue);
            let Some(head) = self.or_fatal(head) else { return false };
            let Some(cq) = self.queues.completion_mut(queue) else { return false };
            if !cq.set_head(head) {
                self.event(memory, Event::INVALID_DOORBELL_VALUE);
                return false;
            }
            let (head, size, full) = (cq.head, cq.size, cq.is_full());
            let set = shadow.set_head_event(memory, queue, head, size, full);
            if self.or_fatal(set).is_none() {
                return false;
            }
            // Full: the index has just been set, so look at the head again.
            if !full || waits {
                return !full;
            }
        }
        false
    }

    /// Reports an event to the guest, now or with its next request for events. An error without a
    /// command is logged.
    pub fn event(&mut self, memory: &dyn Memory, event: Event) {
        if event.is_error() {
            self.errors.add(NO_COMMAND, (0, false), NO_LOCATION, 0, 0);
        }
        self.events.add(event);
        self.post_events(memory);
    }

    /// Reports waiting events to the guest's waiting requests for events.
    pub fn post_events(&mut self, memory: &dyn Memory) {
        while let Some((cid, result)) = self.events.next() {
            self.post(memory, CommandId { controller: self.id, sq: 0, cid }, 0, result);
        }
    }

    /// Reports the changes of namespaces that were not reported yet, as far as the host requested
    /// events of them. Those of namespaces that its controller does not have are not its concern.
    /// `host`: as reservations know the host.
    pub fn report_changes(
        &mut self,
        memory: &dyn Memory,
        changes: &Changes,
        (features, host): (&Features, Option<HostId>),
        attachments: &Attachments,
    ) {
        let reported = std::mem::replace(&mut self.seen_changes, changes.count());
        match changes.since(reported) {
            Some(new) => {
                for change in new {
                    if change.namespace().is_none_or(|nsid| attachments.has(self.id, nsid)) {
                        self.report(memory, change, features, host);
                    }
                }
            }
            // Any of them may have been detached as well.
            None => (1..=attachments.count())
                .for_each(|nsid| self.report(memory, Change::Namespace(nsid), features, host)),
        }
    }

    fn report(
        &mut self,
        memory: &dyn Memory,
        change: Change,
        features: &Features,
        host: Option<HostId>,
    ) {
        match change {
            Change::Namespace(nsid) => {
                self.events.namespace_changed(nsid);
                if features.reports_namespace_changes() {
                    self.event(memory, Event::NAMESPACE_CHANGED);
                }
            }
            Change::Attachment(id, nsid) if id == self.id => {
                self.report(memory, Change::Namespace(nsid), features, host);
            }
            Change::Attachment(..) => {}
            Change::Zones(nsid) => {
                if features.reports_zone_changes() {
                    self.event(memory, Event::zones_changed(nsid));
                }
            }
            Change::Chunks(nsid) => self.event(memory, Event::chunks_changed(nsid)),
            Change::Sanitize { ended } => {
                if ended {
                    self.event(memory, Event::SANITIZED);
                }
            }
            Change::Firmware { starts } => {
                if starts && features.reports_firmware() {
                    self.event(memory, Event::FIRMWARE_ACTIVATION);
                }
            }
            Change::Endurance(group, warnings) => {
                if features.group_events(group) & warnings != 0 {
                    self.group_event(memory, group, features);
                }
            }
            Change::Telemetry => {
                if features.reports_telemetry() {
                    self.event(memory, Event::TELEMETRY);
                }
            }
            Change::Access(path) => {
                if path == self.path && features.reports_access_changes() {
                    self.event(memory, Event::ACCESS_CHANGED);
                }
            }
            Change::Reservation(nsid, holder, notice) => {
                if host == Some(holder) && self.reservations.add(notice, nsid) {
                    self.event(memory, Event::RESERVATION);
                }
            }
        }
    }

    /// An endurance group has an event that the host asked for.
    pub fn group_event(&mut self, memory: &dyn Memory, group: u16, features: &Features) {
        if self.events.group_event(group) && features.reports_group_events() {
            self.event(memory, Event::GROUP_EVENTS);
        }
    }

    /// Reports a critical warning that was not yet reported since it holds. `asked`: the warnings
    /// that hold and of which the guest requested events.
    pub fn check_warnings(&mut self, memory: &dyn Memory, asked: u8) {
        if let Some(event) = self.events.next_warning(asked) {
            self.event(memory, event);
        }
    }
}
