//! A port of a drive: the socket by which a client comes, its memory and its eventfds, and the
//! device that it has, a controller of the drive's subsystem.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::fs::OFlags;
use stasis_nvme::Subsystem;
use stasis_vfio_user::{Answer, Device, Drive, Handled, Message, Refusal, Request, Vectors};

use crate::backend::Backend;
use crate::vhost_user::memory::GuestMemory;

use super::client::{Client, Heard};
use super::memory::DmaMemory;
use super::page::Page;

/// A kind of socket in the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Listener,
    Client,
}

impl Kind {
    /// The data of an event of the port of this index.
    pub(super) fn data(self, index: usize) -> epoll::EventData {
        epoll::EventData::new_u64(2 * index as u64 + u64::from(self == Self::Client))
    }

    /// The port and the kind of an event.
    pub(super) fn of(data: u64) -> (usize, Self) {
        (data as usize / 2, if data.is_multiple_of(2) { Self::Listener } else { Self::Client })
    }
}

/// The parts of a drive that its ports share.
pub(super) struct Shared<'a> {
    pub(super) subsystem: &'a mut Subsystem,
    pub(super) backend: &'a mut Backend,
    pub(super) events: &'a OwnedFd,
}

/// A port.
pub(super) struct Port {
    /// Names the drive, and the controller of several.
    name: Arc<str>,
    index: usize,
    device: Device,
    listener: Option<UnixListener>,
    client: Option<Client>,
    /// True if the listening socket is waited for: not while requests of the last client are under
    /// way, which are not to be carried out after those of the next one.
    admits: bool,
    memory: DmaMemory,
    /// The eventfd of each vector.
    vectors: Vec<Option<OwnedFd>>,
    /// Accesses by messages that were counted.
    accesses: u64,
    /// True if it was logged that the controller cannot work.
    said_failed: bool,
}

impl Port {
    /// The port of a device, by its listening socket.
    pub(super) fn new(name: Arc<str>, index: usize, device: Device, vectors: u16) -> Self {
        Self {
            name,
            index,
            device,
            listener: None,
            client: None,
            admits: true,
            memory: DmaMemory::default(),
            vectors: (0..vectors).map(|_| None).collect(),
            accesses: 0,
            said_failed: false,
        }
    }

    /// Takes clients by a socket.
    ///
    /// # Errors
    /// The socket cannot be waited for.
    pub(super) fn listen(&mut self, socket: UnixListener, events: &OwnedFd) -> std::io::Result<()> {
        socket.set_nonblocking(true)?;
        epoll::add(events, &socket, Kind::Listener.data(self.index), epoll::EventFlags::IN)?;
        self.listener = Some(socket);
        Ok(())
    }

    /// Takes no more clients.
    pub(super) fn close(&mut self) {
        self.listener = None;
    }

    /// The device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns whether it has a client.
    pub(super) fn is_in_use(&self) -> bool {
        self.client.is_some()
    }

    /// Returns whether a driver rings doorbells that nothing announces.
    pub(super) fn is_polled(&self, subsystem: &Subsystem) -> bool {
        self.client.is_some() && self.device.is_polled(subsystem)
    }

    /// Returns whether a doorbell was rung that nothing announces.
    pub(super) fn is_rung(&self, subsystem: &Subsystem) -> bool {
        self.client.as_ref().is_some_and(|client| self.device.is_rung(subsystem, &client.page))
    }

    /// The memory that the device reaches.
    pub(super) fn memory(&self) -> &GuestMemory {
        self.memory.of(&self.device)
    }

    /// Fetches the commands of doorbells that were rung in mapped memory.
    pub(super) fn poll(&mut self, shared: &mut Shared) -> bool {
        let Self { device, client, memory, .. } = self;
        let Shared { subsystem, backend, .. } = shared;
        let Some(client) = client else { return false };
        let memory = memory.of(device);
        let mut drive = Drive { subsystem, health: &mut || backend.store.health() };
        device.poll(&mut drive, memory, &client.page)
    }

    /// Returns whether it takes the next client once nothing of the last one's is under way.
    pub(super) fn is_waiting(&self) -> bool {
        !self.admits && self.client.is_none()
    }

    /// Waits for the next client, or not.
    pub(super) fn admit(&mut self, on: bool, events: &OwnedFd) {
        self.admits = on;
        let interest = if on { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        if let Some(listener) = &self.listener {
            let _ = epoll::modify(events, listener, Kind::Listener.data(self.index), interest);
        }
    }

    /// Takes a client that has come. `busy`: requests of the last one are under way.
    pub(super) fn accept(&mut self, shared: &mut Shared, busy: bool) {
        if self.client.is_none() && busy {
            return self.admit(false, shared.events);
        }
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
            return;
        };
        if self.client.is_some() {
            shared.backend.counts.refused += 1;
            let message =
                "a second client was turned away: a controller serves one guest at a time";
            return crate::log::warn(&self.name, message);
        }
        let data = Kind::Client.data(self.index);
        let ready = stream.set_nonblocking(true).and_then(|()| {
            epoll::add(shared.events, &stream, data, epoll::EventFlags::IN)?;
            Page::new()
        });
        match ready {
            Ok(page) => {
                self.device.reset(shared.subsystem, &page);
                self.client = Some(Client::new(stream, page));
                shared.backend.counts.connections += 1;
                self.said_failed = false;
            }
            Err(error) => {
                let message = format!("cannot serve a client: {error}; see `ulimit -n`");
                crate::log::warn(&self.name, &message);
            }
        }
    }

    /// Answers the client's messages.
    pub(super) fn converse(&mut self, shared: &mut Shared) {
        let mut answered = false;
        loop {
            let Some(client) = &mut self.client else { return };
            if !client.go_on() {
                return self.disconnect(shared.subsystem);
            }
            match client.hear() {
                Heard::Message(message) => {
                    answered = true;
                    self.answer(shared, message);
                }
                Heard::Nothing => break,
                // Commands of its last doorbells go to the drive first: the end is heard again.
                Heard::End(None) if answered => return,
                Heard::End(fault) => {
                    if let Some(fault) = fault {
                        shared.backend.counts.faults += 1;
                        let message = format!("a client: {fault}; its connection ends");
                        crate::log::warn(&self.name, &message);
                    }
                    return self.disconnect(shared.subsystem);
                }
            }
        }
        let Some(client) = &self.client else { return };
        // A client that takes no reply says nothing that is heard.
        let full = client.is_full();
        let interest = if full { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        let _ =
            epoll::modify(shared.events, client.stream(), Kind::Client.data(self.index), interest);
    }

    fn answer(&mut self, shared: &mut Shared, message: Message<OwnedFd>) {
        let Message { header, request } = message;
        let answer = request.and_then(|request| self.handle(shared, request));
        let accesses = self.device.accesses();
        shared.backend.counts.trapped += accesses - std::mem::replace(&mut self.accesses, accesses);
        let Some(client) = &mut self.client else { return };
        if let Err(refusal) = &answer {
            if !refusal.is_question() {
                shared.backend.counts.faults += 1;
                if !std::mem::replace(&mut client.logged, true) {
                    let message = format!("a client's request is refused: {refusal} (said once)");
                    crate::log::warn(&self.name, &message);
                }
            }
        }
        let with_page = answer.as_ref().is_ok_and(|answer| answer.has_memory);
        let reply = header.reply(&answer.map(|answer| answer.payload));
        if reply.is_some_and(|reply| !client.send(reply, with_page)) {
            self.disconnect(shared.subsystem);
        }
    }

    fn handle(
        &mut self,
        shared: &mut Shared,
        request: Request<OwnedFd>,
    ) -> Result<Answer, Refusal> {
        let Self { device, client, memory, .. } = self;
        let Shared { subsystem, backend, .. } = shared;
        let nothing = || Ok(Answer::of(Vec::new()));
        let Some(client) = client else { return nothing() };
        let guest_memory = memory.of(device);
        let mut drive = Drive { subsystem, health: &mut || backend.store.health() };
        match device.handle(&mut drive, guest_memory, &client.page, request)? {
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
    pub(super) fn signal(&mut self, subsystem: &mut Subsystem) {
        let id = self.device.id();
        while let Some(vector) =
            subsystem.controller(id).and_then(|mut controller| controller.pop_interrupt())
        {
            self.ring(vector);
        }
    }

    /// The client has gone: everything of its guest's is forgotten.
    fn disconnect(&mut self, subsystem: &mut Subsystem) {
        if let Some(client) = self.client.take() {
            self.device.reset(subsystem, &client.page);
        }
        self.memory = DmaMemory::default();
        self.vectors.iter_mut().for_each(|vector| *vector = None);
    }

    /// Looks for reasons to end the connection, or to say something.
    pub(super) fn check(&mut self, shared: &mut Shared) {
        if self.memory.shared.is_broken() {
            shared.backend.counts.faults += 1;
            let message = "the client has taken away memory that it had shared";
            crate::log::warn(&self.name, &format!("{message}; its connection ends"));
            return self.disconnect(shared.subsystem);
        }
        let id = self.device.id();
        let failed = !self.said_failed
            && shared.subsystem.controller(id).is_some_and(|controller| controller.has_failed());
        if failed {
            self.said_failed = true;
            shared.backend.counts.faults += 1;
            let unshared = self.memory.unshared_bytes() >> 20;
            let mut message = "the guest's driver gave the controller queues that it cannot reach, or asked for what it does not support; it waits for a reset".to_owned();
            if unshared > 0 {
                message += &format!("; {unshared} MiB of the guest's memory are not shared (QEMU: -object memory-backend-memfd,share=on)");
            }
            crate::log::warn(&self.name, &message);
        }
    }
}

/// Returns whether a descriptor is an eventfd; ringing it never waits from now on.
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
