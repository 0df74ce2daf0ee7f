//! A drive on its polling thread, as a vfio-user device: the socket of its client, the client's
//! memory and eventfds, and the doorbells that it maps, between [`stasis_vfio_user`] and a drive in
//! real time.

mod client;
mod memory;
mod page;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{epoll, Timespec};
use rustix::fs::OFlags;
use stasis_block::clock::Nanos;
use stasis_drive::Done;
use stasis_nvme::{Controller, Ended, VendorRequest};
use stasis_vfio_user::{Answer, Device, Handled, Message, Refusal, Request, Vectors};

use crate::backend::Backend;
use crate::io_records::IoRecordSender;
use crate::new_nvme::{missing_namespace, Follower, KeepState, MakeNvme, NewNvme};
use crate::statistics::InUse;
use crate::store::{register, Store};
use crate::vhost_user::memory::GuestMemory;
use crate::ServeError;
use client::{Client, Heard};
use memory::DmaMemory;
use page::Page;

/// Data of the listening socket, and of the client's, in the events.
const LISTENER: u64 = 0;
const CLIENT: u64 = 1;
/// Interval at which a busy thread looks at the sockets (ns): messages are few, and looking takes a
/// system call.
const HEAR: Nanos = 5_000;
/// Doorbells in mapped memory announce nothing. A thread that has had nothing to do looks for them
/// again after this part of the pause so far,
const LOOK_PART: Nanos = 16;
/// but after this at the earliest and the latest (ns).
const MIN_LOOK: Nanos = 20_000;
const MAX_LOOK: Nanos = 500_000;

/// Settings of a drive that is a vfio-user device.
pub struct VfioUser {
    /// Whether clients map the doorbells, and the thread looks for them; otherwise each ringing is
    /// a message.
    pub mapped: bool,
    /// Makes the drive's controller.
    pub controller: MakeNvme<Controller>,
}

/// A vfio-user device as its thread sees it.
pub(crate) struct Served {
    pub(crate) backend: Backend,
    device: Device,
    /// Keeps the drive's state in the end.
    keep: Option<KeepState>,
    /// Keeps it before each completion that depends on it.
    follower: Follower,
    /// Whether commands were begun that are to be handed to the drive.
    begun: bool,
    listener: Option<UnixListener>,
    /// Events of its sockets; the thread waits for this descriptor.
    events: OwnedFd,
    client: Option<Client>,
    /// Whether the listening socket is waited for: not while requests of the last client are under
    /// way, which are not to be carried out after those of the next one.
    admits: bool,
    memory: DmaMemory,
    /// The eventfd of each vector.
    vectors: Vec<Option<OwnedFd>>,
    heard: Nanos,
    worked: Nanos,
    done: Vec<Done>,
    capacity: u64,
    /// Whether it was logged that the controller cannot work.
    said_failed: bool,
}

impl Served {
    pub(crate) fn new(
        name: Arc<str>,
        settings: VfioUser,
        listener: UnixListener,
        store: Store,
        record: Option<IoRecordSender>,
        epoll: Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        let properties = store.properties();
        let failed = |source: rustix::io::Errno| ServeError::Wait { source: source.into() };
        listener.set_nonblocking(true).map_err(|source| ServeError::Wait { source })?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&events, &listener, data, epoll::EventFlags::IN).map_err(failed)?;
        // SAFETY: the descriptor is this value's alone, and closing it takes it out.
        unsafe { register(&epoll, events.as_raw_fd()) }.map_err(failed)?;
        let backend = Backend::new(Arc::clone(&name), store, record, epoll)?;
        // Last: from here on the medium is in use by this controller.
        let made = (settings.controller)(properties.capacity, properties.discard_zeroes);
        let NewNvme { nvme: mut controller, keep, follow } =
            made.map_err(|message| ServeError::Store { name: name.to_string(), message })?;
        let vectors = controller.vectors();
        let follower = Follower::new(follow, controller.state_changes());
        if follower.is_wanted() {
            controller.hold_completions();
        }
        Ok(Self {
            backend,
            keep,
            follower,
            begun: false,
            device: Device::new(controller, settings.mapped),
            listener: Some(listener),
            events,
            client: None,
            admits: true,
            memory: DmaMemory::default(),
            vectors: (0..vectors).map(|_| None).collect(),
            heard: 0,
            worked: 0,
            done: Vec::new(),
            capacity: properties.capacity,
            said_failed: false,
        })
    }

    pub(crate) fn in_use(&self) -> InUse {
        InUse {
            capacity: self.capacity,
            in_use: self.client.is_some(),
            in_flight: self.device.in_flight(),
            way: None,
        }
    }

    /// When something is to be looked at even if nothing rings.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let events = [self.backend.store.next_event(), self.device.next_deadline()];
        events.into_iter().flatten().min()
    }

    /// When to look for doorbells that nothing announces.
    pub(crate) fn next_look(&self, now: Nanos) -> Option<Nanos> {
        let pause = now.saturating_sub(self.worked);
        let after = (pause / LOOK_PART).clamp(MIN_LOOK, MAX_LOOK);
        (self.client.is_some() && self.device.is_polled()).then_some(now + after)
    }

    /// Whether a doorbell was rung that nothing announces.
    pub(crate) fn is_rung(&self) -> bool {
        self.client.as_ref().is_some_and(|client| self.device.is_rung(&client.page))
    }

    /// Does the work that is due; returns whether there was any.
    pub(crate) fn turn(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        let due = self.device.next_deadline().is_some_and(|at| at <= now);
        let mut work = due | std::mem::take(&mut self.begun);
        if due || self.is_rung() {
            self.device.controller().set_time(now);
            work |= self.poll();
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
            // Commands that had waited for room.
            self.submit(now);
            self.backend.report_errors();
        }
        if work {
            self.signal();
            self.worked = now;
            self.check();
        }
        work
    }

    /// Fetches the commands of doorbells that were rung in mapped memory.
    fn poll(&mut self) -> bool {
        let Self { device, client, memory, backend, .. } = self;
        let Some(client) = client else { return false };
        let memory = memory.of(device);
        device.poll(memory, &client.page, &mut || backend.store.health())
    }

    /// Takes what clients have sent; returns whether there was anything.
    fn hear(&mut self, now: Nanos) -> bool {
        if !self.admits && self.client.is_none() && self.backend.store.in_flight() == 0 {
            self.admit(true);
        }
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 4];
        let Ok((events, _)) = epoll::wait(&self.events, &mut events, Some(&Timespec::default()))
        else {
            return false;
        };
        let (mut came, mut said) = (false, false);
        for event in events.iter() {
            came |= event.data.u64() == LISTENER;
            said |= event.data.u64() == CLIENT;
        }
        if said {
            self.device.controller().set_time(now);
            self.converse();
            self.backend.counts.trapped = self.device.accesses();
        }
        // A client that comes after the last one has gone is the next one.
        if came {
            self.accept();
        }
        came || said
    }

    fn admit(&mut self, on: bool) {
        self.admits = on;
        let interest = if on { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        if let Some(listener) = &self.listener {
            let data = epoll::EventData::new_u64(LISTENER);
            let _ = epoll::modify(&self.events, listener, data, interest);
        }
    }

    fn accept(&mut self) {
        if self.client.is_none() && self.backend.store.in_flight() > 0 {
            return self.admit(false);
        }
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
            return;
        };
        if self.client.is_some() {
            self.backend.counts.refused += 1;
            let message = "a second client was turned away: a drive serves one guest at a time";
            return crate::log::warn(&self.backend.name, message);
        }
        let data = epoll::EventData::new_u64(CLIENT);
        let ready = stream.set_nonblocking(true).and_then(|()| {
            epoll::add(&self.events, &stream, data, epoll::EventFlags::IN)?;
            Page::new()
        });
        match ready {
            Ok(page) => {
                self.device.reset(&page);
                self.client = Some(Client::new(stream, page));
                self.backend.counts.connections += 1;
                self.said_failed = false;
            }
            Err(error) => {
                let message = format!("cannot serve a client: {error}; see `ulimit -n`");
                crate::log::warn(&self.backend.name, &message);
            }
        }
    }

    /// Answers the client's messages.
    fn converse(&mut self) {
        loop {
            let Some(client) = &mut self.client else { return };
            if !client.go_on() {
                return self.disconnect();
            }
            match client.hear() {
                Heard::Message(message) => self.answer(message),
                Heard::Nothing => break,
                Heard::End(fault) => {
                    if let Some(fault) = fault {
                        self.backend.counts.faults += 1;
                        let message = format!("a client: {fault}; its connection ends");
                        crate::log::warn(&self.backend.name, &message);
                    }
                    return self.disconnect();
                }
            }
        }
        let Some(client) = &self.client else { return };
        // A client that takes no reply says nothing that is heard.
        let full = client.is_full();
        let interest = if full { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        let data = epoll::EventData::new_u64(CLIENT);
        let _ = epoll::modify(&self.events, client.stream(), data, interest);
    }

    fn answer(&mut self, message: Message<OwnedFd>) {
        let Message { header, request } = message;
        let answer = request.and_then(|request| self.handle(request));
        let Some(client) = &mut self.client else { return };
        if let Err(refusal) = &answer {
            if !refusal.is_question() {
                self.backend.counts.faults += 1;
                if !std::mem::replace(&mut client.said, true) {
                    let message = format!("a client's request is refused: {refusal} (said once)");
                    crate::log::warn(&self.backend.name, &message);
                }
            }
        }
        let with_page = answer.as_ref().is_ok_and(|answer| answer.has_memory);
        let reply = header.reply(&answer.map(|answer| answer.payload));
        if reply.is_some_and(|reply| !client.send(reply, with_page)) {
            self.disconnect();
        }
    }

    fn handle(&mut self, request: Request<OwnedFd>) -> Result<Answer, Refusal> {
        let Self { device, client, memory, backend, .. } = self;
        let nothing = || Ok(Answer::of(Vec::new()));
        let Some(client) = client else { return nothing() };
        let of = memory.of(device);
        match device.handle(of, &client.page, &mut || backend.store.health(), request)? {
            Handled::Answer(answer) => Ok(answer),
            Handled::Map(map, descriptor) => {
                memory.map(map, descriptor)?;
                nothing()
            }
            Handled::Unmap(which, payload) => {
                memory.unmap(which)?;
                Ok(Answer::of(payload))
            }
            Handled::SetVectors(vectors) => {
                self.connect(vectors)?;
                nothing()
            }
            Handled::Signal(vectors) => {
                vectors.iter().for_each(|&vector| self.ring(vector));
                nothing()
            }
        }
    }

    /// Connects vectors to eventfds, or disconnects them.
    fn connect(&mut self, vectors: Vectors<OwnedFd>) -> Result<(), Refusal> {
        let Vectors { start, count, descriptors } = vectors;
        if !descriptors.iter().all(is_eventfd) {
            return Err(Refusal::NoEventfd);
        }
        let mut descriptors = descriptors.into_iter();
        for vector in start..start.saturating_add(count) {
            let descriptor = descriptors.next();
            let connected = descriptor.is_some();
            if let Some(place) = self.vectors.get_mut(usize::from(vector)) {
                *place = descriptor;
            }
            if connected && self.device.take_pending(vector) {
                self.ring(vector);
            }
        }
        Ok(())
    }

    fn ring(&mut self, vector: u16) {
        match self.vectors.get(usize::from(vector)) {
            Some(Some(eventfd)) => {
                let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
            }
            _ => self.device.set_pending(vector),
        }
    }

    /// Signals the guest's interrupts.
    fn signal(&mut self) {
        while let Some(vector) = self.device.controller().pop_interrupt() {
            self.ring(vector);
        }
    }

    /// The client has gone: everything of its guest's is forgotten.
    fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            self.device.reset(&client.page);
        }
        self.memory = DmaMemory::default();
        self.vectors.iter_mut().for_each(|vector| *vector = None);
    }

    /// Looks for reasons to end the connection, or to say something.
    fn check(&mut self) {
        if self.memory.shared.is_broken() {
            self.backend.counts.faults += 1;
            let message = "the client has taken away memory that it had shared";
            crate::log::warn(&self.backend.name, &format!("{message}; its connection ends"));
            return self.disconnect();
        }
        if !self.said_failed && self.device.controller().has_failed() {
            self.said_failed = true;
            self.backend.counts.faults += 1;
            let unshared = self.memory.unshared_bytes() >> 20;
            let mut message = "the guest's driver gave the controller queues that it cannot reach, or asked for what it does not support; it waits for a reset".to_owned();
            if unshared > 0 {
                message += &format!("; {unshared} MiB of the guest's memory are not shared (QEMU: -object memory-backend-memfd,share=on)");
            }
            crate::log::warn(&self.backend.name, &message);
        }
    }

    /// Hands what commands ask for to the drive, and completions to the guest.
    fn submit(&mut self, now: Nanos) {
        self.hand_over(now);
        while self.release() {
            self.hand_over(now);
        }
    }

    /// Hands held completions to the guest, once the drive's state is kept; whether there were some.
    fn release(&mut self) -> bool {
        let Self { device, memory, follower, backend, .. } = self;
        let memory = memory.of(device);
        release(device, memory, follower, &backend.name)
    }

    /// Hands requests to the drive, and vendor specific commands.
    fn hand_over(&mut self, now: Nanos) {
        let Self { device, memory, backend, .. } = self;
        let memory = memory.of(device);
        let controller = device.controller();
        while let Some(VendorRequest { tag, mut command }) = controller.pop_vendor() {
            let result = backend.store.vendor(now, &mut command);
            controller.complete_vendor(memory, tag, result, &command.data);
        }
        while let Some(request) = controller.pop_request() {
            backend.store.submit(now, request);
        }
        while let Some(refused) = controller.pop_refused() {
            backend.count_refused(&refused, now);
        }
    }

    /// Hands requests back to the guest.
    fn complete(&mut self, done: &mut Vec<Done>, clock: &impl Fn() -> Nanos) {
        let Self { device, memory, backend, follower, .. } = self;
        let memory = memory.of(device);
        complete(device, memory, (backend, follower), done, clock);
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
            return Err(
                "it is a vfio-user device, whose only host has no name; leave \"host\" out".into(),
            );
        }
        let Self { device, memory, .. } = self;
        let memory = memory.of(device);
        let set = device.controller().set_attached(memory, nsid, attached);
        set.map_err(|count| missing_namespace(nsid, count))?;
        while self.release() {
            self.begun = true;
        }
        self.signal();
        Ok(())
    }

    /// Takes no more clients: the drive is about to end.
    pub(crate) fn begin_end(&mut self) {
        self.listener = None;
    }

    /// Waits until `limit` for requests under way, makes everything durable and closes the drive.
    pub(crate) fn finish(
        mut self,
        clock: &impl Fn() -> Nanos,
        limit: Instant,
    ) -> Result<(), String> {
        self.backend.release(clock());
        let Self { backend, device, memory, follower, .. } = &mut self;
        let memory = memory.of(device);
        let idle = backend.quiesce(clock, limit, |backend, done| {
            complete(device, memory, (backend, follower), done, clock);
        });
        self.signal();
        let state = self.device.controller().kept_state();
        self.backend.finish(idle)?;
        self.keep.map_or(Ok(()), |keep| keep(state))
    }
}

/// Hands requests back to the guest.
fn complete(
    device: &mut Device,
    memory: &GuestMemory,
    (backend, follower): (&mut Backend, &mut Follower),
    done: &mut Vec<Done>,
    clock: &impl Fn() -> Nanos,
) {
    let name = Arc::clone(&backend.name);
    backend.hand_back(done, clock, |done| {
        let ended =
            Ended { status: done.status, failed_at: done.failed_at, delivery: done.delivery };
        device.controller().complete(memory, done.tag, ended, done.data);
        release(device, memory, follower, &name);
    });
}

/// Hands held completions to the guest, once the drive's state is kept; whether there were some.
fn release(device: &mut Device, memory: &GuestMemory, follower: &mut Follower, name: &str) -> bool {
    let controller = device.controller();
    if !controller.is_holding() {
        return false;
    }
    follower.keep(name, controller.state_changes(), || controller.kept_state());
    controller.release(memory);
    true
}

/// Whether a descriptor is an eventfd; ringing it never waits from now on.
fn is_eventfd(descriptor: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    // Without /proc, the client is believed.
    let is = std::fs::read_link(link)
        .map_or(true, |kind| kind.as_os_str().to_string_lossy().contains("[eventfd]"));
    if is {
        let flags = rustix::fs::fcntl_getfl(descriptor.as_fd()).unwrap_or(OFlags::empty());
        let _ = rustix::fs::fcntl_setfl(descriptor.as_fd(), flags | OFlags::NONBLOCK);
    }
    is
}
