//! A scheduler before a drive that several share.

use slab::Slab;
use stasis_block::clock::Nanos;
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{Command, Delivery, Request, Status, Tag, VendorCommand, VendorError};
use stasis_scheduler::{
    Dispatched, Dispatcher, GroupId, LimitId, LimitSpec, LimitStatistics, QueueId, QueueSpec,
    QueueStatistics, SchedulerSpec,
};

use crate::turns::{Sent, Turns};
use crate::{Control, Decorator, Done, Layer, LayerTimes};

/// A group of tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantGroup(usize);

/// A tenant of a shared drive: a machine, or a host workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(QueueId);

impl Tenant {
    /// A small number, unique among the drive's tenants.
    pub(crate) fn index(self) -> usize {
        self.0 .0 as usize
    }
}

// A command that waits or is in flight.
struct Held {
    tenant: Tenant,
    tag: Tag,
    queue: u16,
    command: Command,
    submit: Nanos,
    order: u64,
    // Data of the command, until it is sent.
    data: Vec<u8>,
    // Time when the drive got the request (ns), and its wait for a limit before.
    passed: Option<(Nanos, Nanos)>,
    // `None` where reports are not asked for.
    sent: Option<Sent>,
}

/// A drive behind a scheduler, which chooses the next command.
///
/// Commands wait here, and the drive holds few at once. A flush covers the commands that had
/// completed when it was submitted: a command that waits beside it may go after it. A command that
/// a tenant submits after its barrier goes after it. As a [`Layer`], it has one tenant of default
/// weight, which is there from the beginning.
pub struct Scheduled {
    lower: Box<dyn Layer>,
    dispatcher: Dispatcher,
    first: Tenant,
    // Queues of the tenants by their numbers, for a scheduler that follows.
    queues: Vec<(QueueSpec, Option<TenantGroup>)>,
    // Weights of groups, and the scheduler's names for them.
    groups: Vec<(u32, GroupId)>,
    slots: Slab<Held>,
    // Number of each tenant.
    submitted: Vec<u64>,
    // Completed, and not yet handed out.
    due: Vec<(Tenant, Done)>,
    done: Vec<Done>,
    // Turns of the scheduler, where they are reported.
    turns: Option<Box<Turns>>,
}

impl Scheduled {
    /// Puts the scheduler before `lower`, in which nothing is in flight.
    pub fn new(spec: &SchedulerSpec, lower: Box<dyn Layer>) -> Self {
        let mut dispatcher = Dispatcher::new(spec.build(), spec.depth);
        let queue = QueueSpec::default();
        let first = Tenant(dispatcher.scheduler().create(0, &queue));
        Self {
            lower,
            dispatcher,
            first,
            queues: vec![(queue, None)],
            groups: Vec::new(),
            slots: Slab::new(),
            submitted: Vec::new(),
            due: Vec::new(),
            done: Vec::new(),
            turns: None,
        }
    }

    /// The tenant whose commands come through [`Layer::submit`].
    pub fn first(&self) -> Tenant {
        self.first
    }

    /// One more tenant, with limits of its own where `spec` has some.
    pub fn add_tenant(&mut self, now: Nanos, spec: &QueueSpec) -> Tenant {
        let limit = self.create_limit(&spec.limits);
        self.add_limited_tenant(now, spec, None, limit)
    }

    /// A limit that tenants can share; none if nothing is limited.
    pub fn create_limit(&mut self, spec: &LimitSpec) -> Option<LimitId> {
        (!spec.is_none()).then(|| self.dispatcher.create_limit(spec))
    }

    /// Adds a tenant, of a group if there is one, below `limit` in place of the limits of `spec`.
    pub fn add_limited_tenant(
        &mut self,
        now: Nanos,
        spec: &QueueSpec,
        group: Option<TenantGroup>,
        limit: Option<LimitId>,
    ) -> Tenant {
        let own = QueueSpec { group: self.name_of(group), ..*spec };
        let tenant = Tenant(self.dispatcher.scheduler().create(now, &own));
        debug_assert_eq!(tenant.index(), self.queues.len(), "tenants have numbers in their order");
        self.queues.push((*spec, group));
        if let Some(limit) = limit {
            self.dispatcher.limit(tenant.0, limit);
        }
        tenant
    }

    /// Effect of a tenant's limit, which others may share.
    pub fn limit_statistics(&self, tenant: Tenant) -> LimitStatistics {
        self.dispatcher.limit_statistics(tenant.0).unwrap_or_default()
    }

    /// As [`Control::watch`], with the turns and requests of these tenants, by name.
    pub fn watch_tenants(&mut self, tenants: &[(Tenant, String)], tracks: &mut Tracks) {
        let tenants: Vec<_> =
            tenants.iter().map(|(tenant, name)| (tenant.index(), name.clone())).collect();
        self.turns = Some(Box::new(Turns::new(&self.lower.properties().name, &tenants, tracks)));
        self.lower.control().watch(tracks);
    }

    /// A group that tenants can share, of this weight.
    pub fn create_group(&mut self, weight: u32) -> TenantGroup {
        let name = self.dispatcher.scheduler().create_group(weight);
        self.groups.push((weight, name));
        TenantGroup(self.groups.len() - 1)
    }

    /// The scheduler's name for a group.
    fn name_of(&self, group: Option<TenantGroup>) -> Option<GroupId> {
        group.and_then(|group| self.groups.get(group.0)).map(|(_, name)| *name)
    }

    /// Tells the next scheduler something else of a tenant.
    pub fn respecify(&mut self, tenant: Tenant, spec: QueueSpec) {
        if let Some((own, _)) = self.queues.get_mut(tenant.index()) {
            *own = spec;
        }
    }

    /// The tenants are a group of this weight for the next scheduler, or none.
    pub fn regroup(&mut self, tenants: &[Tenant], weight: Option<u32>) {
        let group = weight.map(|weight| {
            // Named when the next scheduler is made.
            self.groups.push((weight, GroupId(0)));
            TenantGroup(self.groups.len() - 1)
        });
        for tenant in tenants {
            if let Some((_, own)) = self.queues.get_mut(tenant.index()) {
                *own = group;
            }
        }
    }

    /// The tenants share this limit from now on.
    pub fn relimit(&mut self, now: Nanos, tenants: &[Tenant], spec: &LimitSpec) {
        self.catch_up(now);
        let own = tenants.first().and_then(|tenant| self.dispatcher.limit_of(tenant.0));
        match own {
            Some(limit) => self.dispatcher.change_limit(limit, spec),
            None => {
                let limit = self.dispatcher.create_limit(spec);
                tenants.iter().for_each(|tenant| self.dispatcher.limit(tenant.0, limit));
            }
        }
        self.fill(now);
    }

    /// Replaces the scheduler ([`Dispatcher::replace`]).
    pub fn reschedule(&mut self, now: Nanos, spec: &SchedulerSpec) {
        self.catch_up(now);
        let mut scheduler = spec.build();
        for (weight, name) in &mut self.groups {
            *name = scheduler.create_group(*weight);
        }
        for (own, group) in &self.queues {
            let group = self.name_of(*group);
            scheduler.create(now, &QueueSpec { group, ..*own });
        }
        self.dispatcher.replace(now, scheduler, spec.depth);
        self.fill(now);
    }

    /// A tenant begins or ends to ask for help.
    pub fn help(&mut self, now: Nanos, tenant: Tenant, on: bool) {
        self.catch_up(now);
        self.dispatcher.help(now, tenant.0, on);
        self.fill(now);
    }

    /// Service that a tenant received until `now`.
    pub fn tenant_statistics(&self, now: Nanos, tenant: Tenant) -> QueueStatistics {
        self.dispatcher.statistics(now, tenant.0)
    }

    /// Takes a tenant's command at `now` (ns), which is not before any earlier
    /// call's.
    pub fn submit_from(&mut self, now: Nanos, tenant: Tenant, request: Request) {
        // Earlier completions do not depend on the time of this call.
        self.catch_up(now);
        let Request { tag, queue, urgent, command, data } = request;
        if self.submitted.len() <= tenant.index() {
            self.submitted.resize(tenant.index() + 1, 0);
        }
        let order = self.submitted[tenant.index()];
        self.submitted[tenant.index()] += 1;
        stasis_probes::io_queued(tenant.index(), order, command.length, now);
        let (passed, sent) = (None, None);
        let held = Held { tenant, tag, queue, command, submit: now, order, data, passed, sent };
        let slot = self.slots.insert(held) as Tag;
        let request = stasis_scheduler::QueuedRequest {
            urgent,
            ..stasis_scheduler::QueuedRequest::new(slot, command)
        };
        if let Err(refused) = self.dispatcher.submit(now, tenant.0, &request) {
            debug_assert!(false, "tenants are of this drive, slots are unique: {refused}");
            let refused = (command.operation.failure(), 0);
            self.finish(slot, refused, Vec::new(), (now, LayerTimes::default()));
        }
        self.fill(now);
    }

    /// Like [`Layer::advance`], with the tenant of each command.
    pub fn advance_tenants(&mut self, now: Nanos, done: &mut Vec<(Tenant, Done)>) {
        self.catch_up(now);
        done.append(&mut self.due);
    }

    /// Works every event up to `now`, each at its own time.
    fn catch_up(&mut self, now: Nanos) {
        while let Some(at) = self.inner_event().filter(|&at| at <= now) {
            self.lower.advance(at, &mut self.done);
            let mut done = std::mem::take(&mut self.done);
            for Done { tag: slot, status, failed_at, data, at, layers, .. } in done.drain(..) {
                self.dispatcher.complete(at, slot);
                self.finish(slot, (status, failed_at), data, (at, layers));
            }
            self.done = done;
            self.fill(at);
        }
    }

    fn inner_event(&self) -> Option<Nanos> {
        self.lower.next_event().into_iter().chain(self.dispatcher.next_event()).min()
    }

    fn fill(&mut self, now: Nanos) {
        while let Some(Dispatched { tag: slot, limited }) = self.dispatcher.next(now) {
            let Some(held) = self.slots.get_mut(slot as usize) else {
                debug_assert!(false, "the scheduler sent what is not here");
                continue;
            };
            stasis_probes::io_dispatched(held.tenant.index(), held.order, now);
            held.passed = Some((now, limited));
            if let Some(turns) = &mut self.turns {
                held.sent = Some(turns.sent(now, held.tenant.index()));
            }
            let (queue, command, data) = (held.queue, held.command, std::mem::take(&mut held.data));
            let request = Request { queue, ..Request::new(slot, command, data) };
            self.lower.submit(now, request);
        }
        if let Some(turns) = &mut self.turns {
            // The scheduler waits for the next request of its present tenant.
            if self.dispatcher.in_flight() == 0 && self.dispatcher.next_event().is_none() {
                turns.over(now);
            }
        }
    }

    fn finish(
        &mut self,
        slot: Tag,
        (status, failed_at): (Status, u64),
        data: Vec<u8>,
        (at, below): (Nanos, LayerTimes),
    ) {
        let Some(held) = self.slots.try_remove(slot as usize) else { return };
        let Held { tenant, tag, queue, command, submit, order, passed, sent, .. } = held;
        let (passed, limited) = passed.unwrap_or((at, 0));
        let scheduled = below.scheduled + passed.saturating_sub(submit + limited);
        let layers = LayerTimes { limited, scheduled, ..below };
        if let (Some(turns), Some(sent)) = (&mut self.turns, sent) {
            turns.ended(at, (tenant.index(), order), sent, &command);
        }
        // A fault of a controller is for a drive without a scheduler of the host.
        let delivery = Delivery::Once;
        let done = Done {
            tag,
            queue,
            command,
            status,
            failed_at,
            data,
            submit,
            order,
            at,
            layers,
            delivery,
        };
        self.due.push((tenant, done));
    }
}

impl Decorator for Scheduled {
    fn lower(&self) -> &dyn Layer {
        &*self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut *self.lower
    }

    fn in_flight(&self) -> usize {
        self.slots.len()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.submit_from(now, self.first, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        let due = self.due.first().map(|(_, done)| done.at);
        due.into_iter().chain(self.inner_event()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.catch_up(now);
        done.extend(self.due.drain(..).map(|(_, done)| done));
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for Scheduled {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        Some(self.lower.control())
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.catch_up(now);
        self.lower.control().vendor(now, command)
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.watch_tenants(&[(self.first, "all".to_owned())], tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        if let Some(turns) = &mut self.turns {
            turns.take(spans);
        }
        self.lower.control().take_spans(spans);
    }
}

impl std::fmt::Debug for Scheduled {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Scheduled")
            .field("scheduler", &self.dispatcher.schedules().name())
            .field("in_flight", &self.slots.len())
            .finish_non_exhaustive()
    }
}
