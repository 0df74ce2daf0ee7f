//! A drive on its polling thread, as vfio-user devices: the sockets of its clients, the clients'
//! memory and eventfds, and the doorbells that they map, between [`stasis_vfio_user`] and a drive in
//! real time.

mod client;
mod memory;
mod page;
mod port;
mod under_way;

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{epoll, Timespec};
use stasis_block::clock::Nanos;
use stasis_drive::Done;
use stasis_nvme::{ControllerId, Ended, Subsystem, Transport, VendorRequest};
use stasis_vfio_user::Device;

use crate::backend::Backend;
use crate::io_records::IoRecordSender;
use crate::new_nvme::{missing_namespace, Follower, KeepState, MakeNvme, NewNvme};
use crate::statistics::InUse;
use crate::store::{register, Store};
use crate::ServeError;
use port::{Kind, Port, Shared};
use under_way::UnderWay;

/// Interval at which a busy thread looks at the sockets (ns): messages are few, and looking takes a
/// system call.
const HEAR: Nanos = 5_000;
/// Doorbells in mapped memory announce nothing. A thread that has had nothing to do looks for them
/// again after this part of the pause so far,
const LOOK_PART: Nanos = 16;
/// but after this at the earliest and the latest (ns).
const MIN_LOOK: Nanos = 20_000;
const MAX_LOOK: Nanos = 500_000;

/// Settings of a drive that is a vfio-user device, or several.
pub struct VfioUser {
    /// True if clients map the doorbells, and the thread looks for them; otherwise each ringing is
    /// a message.
    pub mapped: bool,
    /// The sockets of further controllers, beside the drive's own.
    pub further: Vec<PathBuf>,
    /// Makes the drive's subsystem, without controllers.
    pub subsystem: MakeNvme<Subsystem>,
}

/// Vfio-user devices of a drive as its thread sees them.
pub(crate) struct Served {
    pub(crate) backend: Backend,
    subsystem: Subsystem,
    /// Keeps the drive's state in the end.
    keep: Option<KeepState>,
    /// Keeps it before each completion that depends on it.
    follower: Follower,
    /// True if commands were begun that are to be handed to the drive.
    begun: bool,
    /// By the identifiers of their controllers.
    ports: Vec<Port>,
    under_way: UnderWay,
    /// Events of its sockets; the thread waits for this descriptor.
    events: OwnedFd,
    heard: Nanos,
    worked: Nanos,
    done: Vec<Done>,
    capacity: u64,
}

impl Served {
    /// A drive with a controller for each listening socket.
    pub(crate) fn new(
        name: Arc<str>,
        settings: VfioUser,
        listeners: Vec<UnixListener>,
        store: Store,
        record: Option<IoRecordSender>,
        epoll: Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        let properties = store.properties();
        let failed = |source: rustix::io::Errno| ServeError::Wait { source: source.into() };
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        // SAFETY: the descriptor is this value's alone, and closing it takes it out.
        unsafe { register(&epoll, events.as_raw_fd()) }.map_err(failed)?;
        let backend = Backend::new(Arc::clone(&name), store, record, epoll)?;
        // Last: from here on the medium is in use by this subsystem.
        let made = (settings.subsystem)(properties.capacity, properties.discard_zeroes);
        let refused = |message| ServeError::Store { name: name.to_string(), message };
        let NewNvme { nvme: mut subsystem, keep, follow } = made.map_err(refused)?;
        subsystem.divide_work();
        let follower = Follower::new(follow, subsystem.state_changes());
        // The one controller of a drive is that of a run.
        let alone = listeners.len() == 1;
        let transport = if alone { Transport::Pcie } else { Transport::SharedPcie };
        let mut ports = Vec::new();
        for (index, listener) in listeners.into_iter().enumerate() {
            let id = subsystem.add_controller(transport);
            let id = id.ok_or_else(|| refused(format!("there is no controller {index}")))?;
            if let Some(mut controller) = subsystem.controller(id) {
                if follower.is_wanted() {
                    controller.hold_completions();
                }
            }
            let port_name: Arc<str> = match alone {
                true => Arc::clone(&name),
                false => format!("{name}, controller {}", id.0).into(),
            };
            let device = Device::new(&subsystem, id, settings.mapped);
            let mut port = Port::new(port_name, index, device, subsystem.vectors());
            port.listen(listener, &events).map_err(|source| ServeError::Wait { source })?;
            ports.push(port);
        }
        Ok(Self {
            backend,
            subsystem,
            keep,
            follower,
            begun: false,
            ports,
            under_way: UnderWay::default(),
            events,
            heard: 0,
            worked: 0,
            done: Vec::new(),
            capacity: properties.capacity,
        })
    }

    pub(crate) fn in_use(&self) -> InUse {
        InUse {
            capacity: self.capacity,
            in_use: self.ports.iter().any(Port::is_in_use),
            in_flight: self.subsystem.in_flight(),
            way: None,
        }
    }

    /// Returns the time at which something is to be looked at even if nothing rings.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let events = [self.backend.store.next_event(), self.subsystem.next_deadline()];
        events.into_iter().flatten().min()
    }

    /// Returns the time to look for doorbells that nothing announces.
    pub(crate) fn next_look(&self, now: Nanos) -> Option<Nanos> {
        let pause = now.saturating_sub(self.worked);
        let after = (pause / LOOK_PART).clamp(MIN_LOOK, MAX_LOOK);
        self.ports.iter().any(|port| port.is_polled(&self.subsystem)).then_some(now + after)
    }

    /// Returns whether a doorbell was rung that nothing announces.
    pub(crate) fn is_rung(&self) -> bool {
        self.ports.iter().any(|port| port.is_rung(&self.subsystem))
    }

    /// Does the work that is due; returns whether there was any.
    pub(crate) fn turn(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        let due = self.subsystem.next_deadline().is_some_and(|at| at <= now);
        let mut work = due | std::mem::take(&mut self.begun);
        if due || self.is_rung() {
            self.subsystem.set_time(now);
            let (ports, mut shared) = self.parts();
            for port in ports {
                work |= port.poll(&mut shared);
            }
        }
        if now.saturating_sub(self.heard) >= HEAR {
            self.heard = now;
            work |= self.hear(now);
        }
        if work {
            self.submit(now);
        }
        let mut done = std::mem::take(&mut self.done);
        work |= self.backend.advance(now, &mut done);
        let any = !done.is_empty();
        self.complete(&mut done, clock);
        self.done = done;
        if any {
            // Commands that had waited for room, and clients.
            self.submit(now);
            self.admit();
            self.backend.report_errors();
        }
        if work {
            self.signal();
            self.worked = now;
            let (ports, mut shared) = self.parts();
            ports.iter_mut().for_each(|port| port.check(&mut shared));
        }
        work
    }

    /// The ports, and what they share.
    fn parts(&mut self) -> (&mut [Port], Shared<'_>) {
        let Self { ports, subsystem, backend, events, .. } = self;
        (ports, Shared { subsystem, backend, events })
    }

    /// Waits for the next client of each port where nothing of the last one's is under way any more.
    fn admit(&mut self) {
        let Self { ports, under_way, events, .. } = self;
        for port in ports {
            if port.is_waiting() && !under_way.has(port.device().id()) {
                port.admit(true, events);
            }
        }
    }

    /// Takes what clients have sent; returns whether there was anything.
    fn hear(&mut self, now: Nanos) -> bool {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 16];
        let Ok((events, _)) = epoll::wait(&self.events, &mut events, Some(&Timespec::default()))
        else {
            return false;
        };
        if !events.is_empty() {
            self.subsystem.set_time(now);
        }
        let Self { ports, subsystem, backend, events: of_sockets, under_way, .. } = self;
        let mut shared = Shared { subsystem, backend, events: of_sockets };
        // A client that comes after the last one has gone is the next one.
        for wanted in [Kind::Client, Kind::Listener] {
            for event in events.iter() {
                let (index, kind) = Kind::of(event.data.u64());
                let Some(port) = ports.get_mut(index).filter(|_| kind == wanted) else { continue };
                match kind {
                    Kind::Client => port.converse(&mut shared),
                    Kind::Listener => {
                        let busy = under_way.has(port.device().id());
                        port.accept(&mut shared, busy);
                    }
                }
            }
        }
        !events.is_empty()
    }

    /// Signals the guests' interrupts.
    fn signal(&mut self) {
        let Self { ports, subsystem, .. } = self;
        ports.iter_mut().for_each(|port| port.signal(subsystem));
    }

    /// Has controllers go on with what waits for another one's commands, or was changed by them.
    fn attend(&mut self) {
        let Self { ports, subsystem, .. } = self;
        let mut last = None;
        while let Some(id) = subsystem.waiting(last) {
            last = Some(id);
            let port = ports.get(usize::from(id.0));
            if let (Some(port), Some(mut controller)) = (port, subsystem.controller(id)) {
                controller.attend(port.memory());
            }
        }
    }

    /// Hands what commands ask for to the drive, and completions to the guests.
    fn submit(&mut self, now: Nanos) {
        loop {
            self.attend();
            self.hand_over(now);
            if !self.release() {
                break;
            }
        }
    }

    /// Hands held completions to the guests, once the drive's state is kept. Returns whether there
    /// were any.
    fn release(&mut self) -> bool {
        let Self { ports, subsystem, follower, backend, .. } = self;
        release(ports, subsystem, follower, &backend.name)
    }

    /// Hands requests to the drive, and vendor specific commands.
    fn hand_over(&mut self, now: Nanos) {
        let Self { ports, subsystem, backend, under_way, .. } = self;
        while let Some(VendorRequest { tag, mut command }) = subsystem.pop_vendor() {
            let result = backend.store.vendor(now, &mut command);
            let id = subsystem.controller_of_vendor(tag);
            let port = id.and_then(|id| ports.get(usize::from(id.0)));
            let controller = id.and_then(|id| subsystem.controller(id));
            if let (Some(port), Some(mut controller)) = (port, controller) {
                controller.complete_vendor(port.memory(), tag, result, &command.data);
            }
        }
        backend.look_at_layout(subsystem.state_changes(), || subsystem.layout());
        while let Some(request) = subsystem.pop_request() {
            under_way.begin(request.tag, subsystem.controller_of(request.tag));
            backend.store.submit(now, request);
        }
        while let Some(refused) = subsystem.pop_refused() {
            backend.count_refused(&refused, now);
        }
    }

    /// Hands requests back to the guests.
    fn complete(&mut self, done: &mut Vec<Done>, clock: &impl Fn() -> Nanos) {
        let Self { backend, ports, subsystem, under_way, follower, .. } = self;
        complete(backend, (ports, subsystem), (under_way, follower), done, clock);
    }

    /// Attaches a namespace, or detaches it.
    ///
    /// # Errors
    /// The reason why it cannot be done.
    pub(crate) fn set_attached(
        &mut self,
        nsid: u32,
        host: Option<&str>,
        attached: bool,
    ) -> Result<(), String> {
        if host.is_some() {
            return Err("its hosts come by vfio-user, and have no names; leave \"host\" out".into());
        }
        let set = self.subsystem.set_attached(nsid, None, attached);
        set.map_err(|count| missing_namespace(nsid, count))?;
        self.attend();
        while self.release() {
            self.begun = true;
        }
        self.signal();
        Ok(())
    }

    /// Takes no more clients: the drive is about to end.
    pub(crate) fn begin_end(&mut self) {
        self.ports.iter_mut().for_each(Port::close);
    }

    /// Waits until `limit` for requests under way, makes everything durable and closes the drive.
    pub(crate) fn finish(
        mut self,
        clock: &impl Fn() -> Nanos,
        limit: Instant,
    ) -> Result<(), String> {
        self.backend.release(clock());
        let Self { backend, ports, subsystem, under_way, follower, .. } = &mut self;
        let idle = backend.quiesce(clock, limit, |backend, done| {
            complete(backend, (ports, subsystem), (under_way, follower), done, clock);
        });
        self.signal();
        let state = self.subsystem.kept_state();
        self.backend.finish(idle)?;
        self.keep.map_or(Ok(()), |keep| keep(state))
    }
}

/// Hands requests back to the guests.
fn complete(
    backend: &mut Backend,
    (ports, subsystem): (&[Port], &mut Subsystem),
    (under_way, follower): (&mut UnderWay, &mut Follower),
    done: &mut Vec<Done>,
    clock: &impl Fn() -> Nanos,
) {
    let name = Arc::clone(&backend.name);
    backend.hand_back(done, clock, |done| {
        under_way.end(done.tag);
        let ended =
            Ended { status: done.status, failed_at: done.failed_at, delivery: done.delivery };
        // One that matters to no controller any more reaches no memory.
        let ControllerId(id) = subsystem.controller_of(done.tag).unwrap_or(ControllerId::PCIE);
        if let Some(port) = ports.get(usize::from(id)) {
            subsystem.complete(port.memory(), done.tag, ended, done.data);
        }
        release(ports, subsystem, follower, &name);
    });
}

/// Hands held completions to the guests, once the drive's state is kept. Returns whether there were
/// any.
fn release(ports: &[Port], subsystem: &mut Subsystem, follower: &mut Follower, name: &str) -> bool {
    let mut any = false;
    for port in ports {
        let id = port.device().id();
        if !subsystem.controller(id).is_some_and(|controller| controller.is_holding()) {
            continue;
        }
        any = true;
        follower.keep(name, subsystem.state_changes(), || subsystem.kept_state());
        if let Some(mut controller) = subsystem.controller(id) {
            controller.release(port.memory());
        }
    }
    any
}
