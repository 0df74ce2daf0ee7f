//! A drive on its polling thread, on a socket: a virtio block device between a
//! guest's memory and a drive in real time.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::sync::Arc;

use rustix::event::epoll;
use stasis_clock::Nanos;
use stasis_drive::{Done, Submission};
use stasis_virtio::{Config, Device, Interrupt, NotifyPolicy, QueueSetup, Request};

use crate::backend::{Backend, Counted};
use crate::inflight::Inflight;
use crate::memory::GuestMemory;
use crate::server::OpenStore;
use crate::store::Store;
use crate::ServeError;

/// How a queue reaches its guest.
#[derive(Debug, Default)]
struct Link {
    /// The guest rings here.
    kick: Option<OwnedFd>,
    /// The guest is rung here.
    call: Option<OwnedFd>,
    /// Somebody waits until the queue has nothing under way.
    drained: Option<Sender<Option<u16>>>,
}

/// A drive on a socket as its thread knows it.
pub(crate) struct Served {
    pub(crate) backend: Backend,
    pub(crate) device: Device,
    memory: Arc<GuestMemory>,
    inflight: Option<Inflight>,
    links: Vec<Link>,
    running: u64,
    done: Vec<Done>,
    /// Why the connection cannot go on, until its owner has asked.
    broken: Option<String>,
    /// Whether that was said already.
    said: bool,
    /// Called once when the connection cannot go on.
    hang_up: Option<Box<dyn Fn() + Send>>,
    /// Where the client is told of changes.
    back: Option<OwnedFd>,
    /// A client that waits until nothing of the last one's is under way.
    next: Option<Sender<()>>,
    /// Mappings that had broken when they were last looked at.
    breaks: u64,
}

impl Served {
    pub(crate) fn new(
        name: Arc<str>,
        config: Config,
        store: Store,
        epoll: Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        let queues = config.queues;
        let device = Device::new(config)
            .map_err(|source| ServeError::Device { name: name.to_string(), source })?;
        Ok(Self {
            backend: Backend::new(name, store, epoll)?,
            device,
            memory: Arc::default(),
            inflight: None,
            links: (0..queues).map(|_| Link::default()).collect(),
            running: 0,
            done: Vec::new(),
            broken: None,
            said: false,
            hang_up: None,
            back: None,
            next: None,
            breaks: crate::mapping::breaks(),
        })
    }

    /// Whether a guest uses it.
    pub fn is_running(&self) -> bool {
        self.running != 0
    }

    /// Another memory of the guest's, from now on.
    pub(crate) fn set_memory(&mut self, memory: Arc<GuestMemory>) {
        self.memory = memory;
    }

    pub(crate) fn set_inflight(&mut self, inflight: Option<Inflight>) {
        self.inflight = inflight;
    }

    pub(crate) fn set_hang_up(&mut self, hang_up: Option<Box<dyn Fn() + Send>>) {
        self.hang_up = hang_up;
        self.broken = None;
        self.said = false;
    }

    /// Tells `next` once nothing is under way: what a client that has gone had
    /// asked for is not to be done after what the next one asks.
    pub(crate) fn await_idle(&mut self, next: Sender<()>) {
        self.next = Some(next);
        self.answer_next();
    }

    fn answer_next(&mut self) {
        if self.next.is_some() && self.backend.store.in_flight() == 0 {
            if let Some(next) = self.next.take() {
                let _ = next.send(());
            }
        }
    }

    /// What the guest's driver has accepted.
    pub(crate) fn accept(&mut self, features: u64) -> bool {
        if self.running == 0 {
            self.device.reset();
            self.said = false;
        }
        self.device.accept(features)
    }

    /// Where the guest is rung about a queue.
    pub(crate) fn set_call(&mut self, queue: u16, call: Option<OwnedFd>) {
        if let Some(link) = self.links.get_mut(usize::from(queue)) {
            link.call = call;
            // What came meanwhile was not heard.
            if self.running & 1 << queue != 0 {
                ring(&link.call);
            }
        }
    }

    /// Begins to serve a queue, which goes on where it was.
    pub(crate) fn start_queue(
        &mut self,
        queue: u16,
        mut setup: QueueSetup,
        kick: OwnedFd,
    ) -> Result<(), ServeError> {
        let fault = |fault| ServeError::Queue { queue, fault };
        let Some(link) = self.links.get_mut(usize::from(queue)) else {
            return Err(ServeError::NoQueue(queue));
        };
        let data = epoll::EventData::new_u64(kick.as_raw_fd() as u64);
        epoll::add(&*self.backend.epoll, &kick, data, epoll::EventFlags::IN)
            .map_err(|source| ServeError::Wait { source: source.into() })?;
        link.kick = Some(kick);
        let memory = &*self.memory;
        let mut heads = Vec::new();
        let mut track = None;
        if let Some(inflight) = &self.inflight {
            // Where the used ring is says how many were given back.
            if let Ok(used) = stasis_memory::Memory::load(memory, setup.used.wrapping_add(2)) {
                if let Some((under_way, log)) = inflight.queue(queue, setup.size, used) {
                    if !under_way.is_empty() {
                        setup.next = used;
                    }
                    heads = under_way;
                    track = Some(Box::new(log) as Box<dyn stasis_virtio::Track>);
                }
            }
        }
        self.backend.counts.resumed += heads.len() as u64;
        if !heads.is_empty() {
            let count = heads.len();
            crate::log::warn(
                &self.backend.name,
                &format!("{count} requests that were under way are done again"),
            );
        }
        self.device.resume_queue(memory, queue, &setup, &heads, track).map_err(fault)?;
        self.running |= 1 << queue;
        // A server that was killed may have given requests back without ringing.
        if let Some(link) = self.links.get(usize::from(queue)) {
            ring(&link.call);
        }
        Ok(())
    }

    /// Takes nothing more from a queue; tells `drained` where it stopped, once
    /// nothing of it is under way.
    pub(crate) fn stop_queue(&mut self, queue: u16, drained: Sender<Option<u16>>) {
        self.device.pause_queue(queue);
        if let Some(link) = self.links.get_mut(usize::from(queue)) {
            link.drained = Some(drained);
        }
    }

    /// The client has gone: everything of its guest's is forgotten.
    pub(crate) fn disconnect(&mut self) {
        for queue in 0..self.links.len() as u16 {
            self.close_queue(queue);
            self.links[usize::from(queue)] = Link::default();
        }
        self.device.reset();
        self.memory = Arc::default();
        self.inflight = None;
        self.hang_up = None;
        self.back = None;
        self.broken = None;
        self.said = false;
    }

    fn close_queue(&mut self, queue: u16) -> Option<u16> {
        self.running &= !(1 << queue);
        let link = self.links.get_mut(usize::from(queue))?;
        if let Some(kick) = link.kick.take() {
            // Before it is closed: the client has it open as well, so that
            // closing it alone would leave it in.
            let _ = epoll::delete(&*self.backend.epoll, &kick);
        }
        self.device.stop_queue(queue)
    }

    /// Whether the guest announces requests from now on, or is polled.
    pub(crate) fn listen(&mut self, listen: bool) {
        if self.running != 0 {
            let policy = if listen { NotifyPolicy::Exact } else { NotifyPolicy::Lazy };
            self.device.set_notify(&*self.memory, policy);
        }
    }

    /// Does what there is to do; whether there was anything.
    pub(crate) fn turn(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        let mut work = false;
        if self.running != 0 {
            self.device.poll(&*self.memory);
            work |= self.submit(now);
        }
        let mut done = std::mem::take(&mut self.done);
        self.backend.store.advance(now, &mut done);
        if !done.is_empty() {
            work = true;
            self.complete(&mut done, clock);
        }
        self.done = done;
        // A fault and a broken mapping are found where nothing comes of it.
        let fault = !self.said && self.device.fault().is_some();
        let breaks = crate::mapping::breaks();
        if work || fault || breaks != self.breaks {
            self.breaks = breaks;
            self.submit(now);
            self.ring();
            self.check();
        }
        if self.links.iter().any(|link| link.drained.is_some()) {
            self.answer_drained();
        }
        self.answer_next();
        work
    }

    fn submit(&mut self, now: Nanos) -> bool {
        let mut any = false;
        while let Some(Request { tag, queue, command, data, .. }) = self.device.pop_request() {
            any = true;
            self.backend.store.submit(now, Submission { tag, queue, command, data });
        }
        any
    }

    fn complete(&mut self, done: &mut Vec<Done>, clock: &impl Fn() -> Nanos) {
        for done in done.drain(..) {
            let counted = Counted::from(&done);
            self.device.complete(&*self.memory, done.tag, done.status, done.data);
            // The guest can see it as of now.
            self.backend.count(&counted, clock());
        }
    }

    fn ring(&mut self) {
        while let Some(interrupt) = self.device.pop_interrupt() {
            match interrupt {
                Interrupt::Queue(queue) => {
                    if let Some(link) = self.links.get(usize::from(queue)) {
                        ring(&link.call);
                    }
                }
                Interrupt::Configuration => self.tell_configuration(),
            }
        }
    }

    /// Tells the client that the drive's size is another one (vhost-user
    /// specification, `VHOST_USER_BACKEND_CONFIG_CHANGE_MSG`): request 2 of
    /// version 1, without a body.
    fn tell_configuration(&mut self) {
        if let Some(back) = &self.back {
            let message: Vec<u8> = [2u32, 1, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
            let _ = rustix::net::send(
                back,
                &message,
                rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL,
            );
        }
    }

    /// Where the client is told of changes.
    pub(crate) fn set_back(&mut self, back: Option<OwnedFd>) {
        self.back = back;
    }

    /// Looks for what ends the connection, and for errors of the medium.
    fn check(&mut self) {
        if let Some(fault) = self.device.fault() {
            if !self.said {
                self.said = true;
                self.backend.counts.faults += 1;
                crate::log::warn(
                    &self.backend.name,
                    &format!("{fault}; the guest must reset the drive"),
                );
            }
        }
        let broken =
            self.memory.is_broken() || self.inflight.as_ref().is_some_and(Inflight::is_broken);
        if broken && self.broken.is_none() {
            let message = "the client has taken away memory that it had shared";
            self.backend.counts.faults += 1;
            self.broken = Some(message.into());
            crate::log::warn(&self.backend.name, &format!("{message}; its connection ends"));
            if let Some(hang_up) = &self.hang_up {
                hang_up();
            }
        }
        self.backend.say_errors();
    }

    fn answer_drained(&mut self) {
        for queue in 0..self.links.len() as u16 {
            let link = &mut self.links[usize::from(queue)];
            let over = self.device.queue_in_flight(queue) == 0 || self.device.fault().is_some();
            if !over || link.drained.is_none() {
                continue;
            }
            let drained = link.drained.take();
            let at = self.close_queue(queue);
            if let Some(drained) = drained {
                let _ = drained.send(at);
            }
        }
    }

    /// Requests of the guest's under way.
    pub fn in_flight(&self) -> usize {
        self.device.in_flight()
    }

    /// Waits for what is under way at the store.
    fn quiesce(&mut self, clock: &impl Fn() -> Nanos) {
        let mut done = Vec::new();
        while self.backend.store.in_flight() > 0 {
            let before = self.backend.store.in_flight();
            self.backend.store.advance(clock(), &mut done);
            self.complete(&mut done, clock);
            if self.backend.store.in_flight() == before {
                std::thread::yield_now();
            }
        }
        self.ring();
    }

    /// Takes another store: what `open` makes once the old one is closed. Says
    /// its size.
    pub(crate) fn replace_store(
        &mut self,
        open: OpenStore,
        clock: &impl Fn() -> Nanos,
    ) -> Result<u64, String> {
        self.quiesce(clock);
        self.backend.replace_store(open)?;
        let block = u64::from(self.device.config().block_size);
        let capacity = self.backend.store.capacity() / block * block;
        self.device.resize(capacity).map_err(|error| error.to_string())?;
        self.ring();
        Ok(capacity)
    }

    /// Waits for what is under way, makes all of it durable and closes it.
    pub(crate) fn finish(mut self, clock: &impl Fn() -> Nanos) -> Result<(), String> {
        self.quiesce(clock);
        self.backend.finish()
    }
}

/// Rings whoever listens.
fn ring(call: &Option<OwnedFd>) {
    if let Some(call) = call {
        // It can only be full, and then it rings already.
        let _ = rustix::io::write(call, &1u64.to_ne_bytes());
    }
}
