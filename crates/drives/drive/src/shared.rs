//! A drive that several share: virtual disks of machines, and host workloads.

mod disk;
mod load;
mod region;
mod tails;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use stasis_block::clock::Nanos;
use stasis_block::timeline::Tracks;
use stasis_block::{Operation, Request};
use stasis_run_events::{Limited, Service, SharedOutcome, TenantOutcome};
use stasis_scheduler::{
    LimitSpec, LimitStatistics, QueueSpec, QueueStatistics, SchedulerSpec, SECTOR,
};
use stasis_workload::JobError;

use crate::{Control, Done, Layer, Scheduled, Tenant};
pub use disk::{TenantHandle, VirtualDisk};
use load::HostLoad;
pub use load::LoadSpec;
pub use region::Region;
use tails::Tails;

/// Owner of a tenant's commands.
#[derive(Debug, Clone, Copy)]
enum Owner {
    /// Nobody's: the scheduler's first, which this does not use.
    None,
    Disk(usize),
    Load(usize),
}

// A virtual disk's end here.
struct Member {
    name: String,
    tenant: Tenant,
    // Its place among the tails.
    tail: usize,
    weight: u32,
    // True if its owner asks for help.
    asks: bool,
    due: Vec<Done>,
    in_flight: usize,
    // True if a flush covers everything submitted before it, and not only the completed commands:
    // then it waits here for them.
    covers: bool,
    submitted: u64,
    // Those of its commands under way that change something, oldest first.
    changes: Vec<u64>,
    // Flushes that wait, each for the commands submitted before this number.
    flushes: VecDeque<(u64, Request)>,
    // Service and waits before its owner's command began.
    before: (QueueStatistics, LimitStatistics),
}

impl Member {
    fn new(name: String, tenant: Tenant, tail: usize, weight: u32) -> Self {
        Self {
            name,
            tenant,
            tail,
            weight,
            asks: false,
            due: Vec::new(),
            in_flight: 0,
            covers: false,
            submitted: 0,
            changes: Vec::new(),
            flushes: VecDeque::new(),
            before: Default::default(),
        }
    }

    /// The next flush that waits for nothing any more.
    fn next_flush(&mut self) -> Option<Request> {
        let &(before, _) = self.flushes.front()?;
        if self.changes.first().is_some_and(|&change| change < before) {
            return None;
        }
        self.flushes.pop_front().map(|(_, flush)| flush)
    }
}

/// The scheduling of a shared drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// The queue of each virtual disk, in order.
    pub disks: Vec<QueueSpec>,
    /// The queue of each workload's threads, and the weight of their group.
    pub loads: Vec<(QueueSpec, Option<u32>)>,
}

struct Inner {
    scheduled: Scheduled,
    spec: SchedulerSpec,
    owners: Vec<Owner>,
    members: Vec<Member>,
    loads: Vec<HostLoad>,
    // Each with its place among the tails.
    load_tails: Vec<usize>,
    tails: Tails,
    done: Vec<(Tenant, Done)>,
    now: Nanos,
    // True if internal activity is reported.
    watched: bool,
}

/// A drive below a scheduler, as held by all who share it.
///
/// Workloads begin with [`SharedDrive::start`] and never end of themselves unless their jobs do: the
/// holder of the drive stops asking. An advance of one disk brings everybody's events up to that
/// time, each at its own time.
#[derive(Clone)]
pub struct SharedDrive(Rc<RefCell<Inner>>);

impl SharedDrive {
    /// Puts the scheduler before `lower`, in which nothing is in flight.
    pub fn new(spec: &SchedulerSpec, lower: Box<dyn Layer>) -> Self {
        let scheduled = Scheduled::new(spec, lower);
        let (owners, members, loads) = (Vec::new(), Vec::new(), Vec::new());
        let inner = Inner {
            scheduled,
            spec: spec.clone(),
            owners,
            members,
            loads,
            load_tails: Vec::new(),
            tails: Tails::new(),
            done: Vec::new(),
            now: 0,
            watched: false,
        };
        Self(Rc::new(RefCell::new(inner)))
    }

    /// A host workload, which begins with [`SharedDrive::start`].
    ///
    /// # Errors
    /// [`JobError`] if its jobs do not fit its region.
    pub fn add_load(&self, spec: &LoadSpec) -> Result<(), JobError> {
        let mut inner = self.0.borrow_mut();
        let now = inner.now;
        let mut load = HostLoad::new(spec)?;
        let group = spec.group.map(|weight| inner.scheduled.create_group(weight));
        // The workload's threads share its limits.
        let limit = inner.scheduled.create_limit(&spec.queue.limits);
        let number = inner.loads.len();
        for _ in 0..load.threads_wanted() {
            let tenant = inner.scheduled.add_limited_tenant(now, &spec.queue, group, limit);
            load.add_thread(tenant);
            inner.owns(tenant, Owner::Load(number));
        }
        inner.loads.push(load);
        let tail = inner.tails.add(&spec.name);
        inner.load_tails.push(tail);
        Ok(())
    }

    /// Begins the workloads, and the count of the drive's internal activity; called once.
    pub fn start(&self, now: Nanos) {
        let mut inner = self.0.borrow_mut();
        inner.catch_up(now);
        inner.scheduled.control().start(now);
        inner.tails.start(now);
        inner.loads.iter_mut().for_each(|load| load.start(now));
    }

    /// The owner of the disk with this place among the drive's begins or ends
    /// to ask for help.
    fn help(&self, now: Nanos, number: usize, on: bool) {
        let mut inner = self.0.borrow_mut();
        let member = &mut inner.members[number];
        let tenant = member.tenant;
        if std::mem::replace(&mut member.asks, on) != on {
            inner.catch_up(now);
            inner.scheduled.help(now, tenant, on);
        }
    }

    /// The command of the owner of the disk with this place begins: the disk's service counts from here on.
    fn begin(&self, now: Nanos, number: usize) {
        let mut inner = self.0.borrow_mut();
        inner.catch_up(now);
        let got = inner.service(now, inner.members[number].tenant);
        inner.members[number].before = got;
    }

    /// Keeps spans of the drive and its scheduler from now on; the first call counts, and comes
    /// after all who share the drive are known.
    fn watch(&self, tracks: &mut Tracks) {
        let mut inner = self.0.borrow_mut();
        if std::mem::replace(&mut inner.watched, true) {
            return;
        }
        let disks = inner.members.iter().map(|member| (member.tenant, member.name.clone()));
        let tenants: Vec<_> = disks.chain(inner.loads.iter().flat_map(HostLoad::tenants)).collect();
        inner.scheduled.watch_tenants(&tenants, tracks);
    }

    /// Lets `change` change the drive below at `now` (ns).
    pub fn change<T>(&self, now: Nanos, change: impl FnOnce(&mut dyn Control) -> T) -> T {
        let mut inner = self.0.borrow_mut();
        inner.catch_up(now);
        change(inner.scheduled.control())
    }

    /// Changes the scheduling from `was` to `to` at `now` (ns). A scheduler, or other weights and
    /// priorities, follow when the present requests have ended; a limit changes at once, as after a
    /// time without I/Os.
    pub fn reschedule(&self, now: Nanos, was: &Schedule, to: &Schedule) {
        let mut inner = self.0.borrow_mut();
        inner.catch_up(now);
        inner.reschedule(now, was, to);
    }

    /// Service of every tenant until `now`; of a disk since its owner's command began.
    pub fn report(&self, now: Nanos) -> SharedOutcome {
        self.0.borrow_mut().report(now)
    }
}

impl Inner {
    fn owns(&mut self, tenant: Tenant, owner: Owner) {
        let place = tenant.index();
        if self.owners.len() <= place {
            self.owners.resize(place + 1, Owner::None);
        }
        self.owners[place] = owner;
    }

    fn reschedule(&mut self, now: Nanos, was: &Schedule, to: &Schedule) {
        let scheduled = &mut self.scheduled;
        let mut follows = was.scheduler != to.scheduler;
        let apart = |queue: &QueueSpec| QueueSpec { limits: LimitSpec::default(), ..*queue };
        for ((member, was), to) in self.members.iter_mut().zip(&was.disks).zip(&to.disks) {
            if was.limits != to.limits {
                scheduled.relimit(now, &[member.tenant], &to.limits);
            }
            if apart(was) != apart(to) {
                follows = true;
                member.weight = to.effective_weight();
                scheduled.respecify(member.tenant, QueueSpec { ordered: true, ..*to });
            }
        }
        for ((load, was), to) in self.loads.iter_mut().zip(&was.loads).zip(&to.loads) {
            let threads: Vec<Tenant> = load.tenants().map(|(tenant, _)| tenant).collect();
            if was.0.limits != to.0.limits {
                scheduled.relimit(now, &threads, &to.0.limits);
            }
            if apart(&was.0) != apart(&to.0) || was.1 != to.1 {
                follows = true;
                load.reweigh(to.0.effective_weight(), to.1);
                threads.iter().for_each(|tenant| scheduled.respecify(*tenant, to.0));
                if was.1 != to.1 {
                    scheduled.regroup(&threads, to.1);
                }
            }
        }
        if follows {
            self.spec = to.scheduler.clone();
            scheduled.reschedule(now, &to.scheduler);
        }
    }

    /// Returns the time at which a workload next submits, and its number.
    fn next_submission(&self) -> Option<(Nanos, usize)> {
        let times = self.loads.iter().enumerate();
        times.filter_map(|(number, load)| Some((load.next_at()?.max(self.now), number))).min()
    }

    fn next_event(&self) -> Option<Nanos> {
        let submission = self.next_submission().map(|(at, _)| at);
        self.scheduled.next_event().into_iter().chain(submission).min()
    }

    /// Works every event up to `now`, each at its own time; completions come
    /// before submissions.
    fn catch_up(&mut self, now: Nanos) {
        loop {
            let event = self.scheduled.next_event().filter(|&at| at <= now);
            let submission = self.next_submission().filter(|&(at, _)| at <= now);
            match (event, submission) {
                (None, None) => break,
                (Some(event), next) if next.is_none_or(|(at, _)| event <= at) => {
                    self.complete(event);
                }
                (_, Some((at, number))) => {
                    self.now = at;
                    if let Some((tenant, request)) = self.loads[number].take() {
                        self.scheduled.submit_from(at, tenant, request);
                    }
                }
                (Some(event), None) => self.complete(event),
            }
        }
        self.now = self.now.max(now);
    }

    /// Takes a disk's command, at the present time.
    fn submit(&mut self, number: usize, request: Request) {
        let member = &mut self.members[number];
        member.in_flight += 1;
        let flush = request.command.operation == Operation::Flush;
        if member.covers && flush && !member.changes.is_empty() {
            member.flushes.push_back((member.submitted, request));
            return;
        }
        self.send(number, request);
    }

    fn send(&mut self, number: usize, request: Request) {
        let member = &mut self.members[number];
        if member.covers && changes(request.command.operation) {
            member.changes.push(member.submitted);
        }
        member.submitted += 1;
        self.scheduled.submit_from(self.now, member.tenant, request);
    }

    fn complete(&mut self, at: Nanos) {
        self.now = self.now.max(at);
        let mut done = std::mem::take(&mut self.done);
        self.scheduled.advance_tenants(self.now, &mut done);
        for (tenant, done) in done.drain(..) {
            match self.owners.get(tenant.index()) {
                Some(&Owner::Disk(number)) => {
                    let member = &mut self.members[number];
                    self.tails.record(member.tail, done.at, done.at.saturating_sub(done.submit));
                    member.in_flight -= 1;
                    member.changes.retain(|&change| change != done.order);
                    member.due.push(done);
                    while let Some(flush) = self.members[number].next_flush() {
                        self.send(number, flush);
                    }
                }
                Some(&Owner::Load(number)) => {
                    let latency = done.at.saturating_sub(done.submit);
                    self.tails.record(self.load_tails[number], done.at, latency);
                    self.loads[number].completed(done);
                }
                Some(Owner::None) | None => debug_assert!(false, "a tenant without an owner"),
            }
        }
        self.done = done;
    }

    /// Service of a tenant until `now`, and the effect of its limit.
    fn service(&self, now: Nanos, tenant: Tenant) -> (QueueStatistics, LimitStatistics) {
        let scheduled = &self.scheduled;
        (scheduled.tenant_statistics(now, tenant), scheduled.limit_statistics(tenant))
    }

    fn report(&mut self, now: Nanos) -> SharedOutcome {
        let inside = self.scheduled.control().inside(now);
        let service = |got: QueueStatistics| Service {
            requests: got.requests,
            bytes: got.sectors * SECTOR,
            at_drive_ns: got.at_drive,
        };
        let tenant = |member: &Member| {
            let (got, waits) = self.service(now, member.tenant);
            let got = got.since(member.before.0);
            TenantOutcome {
                name: member.name.clone(),
                weight: member.weight,
                urgent_requests: got.urgent,
                help_calls: got.help_calls,
                helped_seconds: got.helped as f64 / 1e9,
                unhelped_seconds: got.unhelped as f64 / 1e9,
                service: service(got),
                limited: limited(waits.since(member.before.1)),
            }
        };
        let of_thread = |tenant| service(self.service(now, tenant).0);
        let of_limit = |tenant| limited(self.service(now, tenant).1);
        let (tails_from_ns, tails_step_ns) = self.tails.steps();
        let loads = self.load_tails.iter().copied();
        SharedOutcome {
            tails_from_ns,
            tails_step_ns,
            tails: self
                .tails
                .report(now, self.members.iter().map(|member| member.tail).chain(loads)),
            name: self.scheduled.properties().name.clone(),
            scheduler: serde_json::to_value(&self.spec).unwrap_or_default(),
            tenants: self.members.iter().map(tenant).collect(),
            workloads: self
                .loads
                .iter()
                .map(|load| load.report(now, of_thread, of_limit))
                .collect(),
            inside,
        }
    }
}

fn limited(got: LimitStatistics) -> Limited {
    Limited { limited_requests: got.requests, limited_seconds: got.waited as f64 / 1e9 }
}

fn changes(operation: Operation) -> bool {
    use Operation::{Copy, Discard, Write, WriteZeroes};
    matches!(operation, Write | WriteZeroes | Discard | Copy)
}

impl std::fmt::Debug for SharedDrive {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_tuple("SharedDrive").field(&self.0.borrow().scheduled).finish()
    }
}
