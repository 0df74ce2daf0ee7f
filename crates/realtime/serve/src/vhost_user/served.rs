//! A drive on its polling thread, on a socket: a virtio block device between a
//! guest's memory and a drive in real time.

mod link;
mod queues;
mod turn;

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use stasis_block::Doorbells;
use stasis_drive::Done;
use stasis_virtio::{Config, Device};

use crate::backend::Backend;
use crate::io_records::IoRecordSender;
use crate::store::Store;
use crate::vhost_user::inflight::Inflight;
use crate::vhost_user::memory::GuestMemory;
use crate::ServeError;
use link::Link;

/// A drive on a socket as its thread sees it.
pub(crate) struct Served {
    pub(crate) backend: Backend,
    pub(crate) device: Device,
    memory: Arc<GuestMemory>,
    inflight: Option<Inflight>,
    links: Vec<Link>,
    running: u64,
    done: Vec<Done>,
    /// Reason why the connection must end, until its owner has asked for it.
    broken: Option<String>,
    /// True if the device's fault was logged.
    logged: bool,
    /// Called once when the connection must end.
    hang_up: Option<Box<dyn Fn() + Send>>,
    /// Channel for messages to the client about changes.
    back: Option<OwnedFd>,
    /// A client that waits until nothing of the last one's is under way.
    next: Option<Sender<()>>,
    /// True if the drive is about to end.
    ending: bool,
    /// Mappings that had broken when they were last looked at.
    breaks: u64,
}

impl Served {
    pub(crate) fn new(
        name: Arc<str>,
        config: Config,
        store: Store,
        record: Option<IoRecordSender>,
        epoll: Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        let queues = config.queues;
        let device = Device::new(config)
            .map_err(|source| ServeError::Device { name: name.to_string(), source })?;
        Ok(Self {
            backend: Backend::new(name, store, record, epoll)?,
            device,
            memory: Arc::default(),
            inflight: None,
            links: (0..queues).map(|_| Link::default()).collect(),
            running: 0,
            done: Vec::new(),
            broken: None,
            logged: false,
            hang_up: None,
            back: None,
            next: None,
            ending: false,
            breaks: crate::vhost_user::mapping::breaks(),
        })
    }

    /// Returns whether a guest uses it.
    pub fn is_running(&self) -> bool {
        self.running != 0
    }

    /// Sets the guest's memory.
    pub(crate) fn set_memory(&mut self, memory: Arc<GuestMemory>) {
        self.memory = memory;
    }

    pub(crate) fn set_inflight(&mut self, inflight: Option<Inflight>) {
        self.inflight = inflight;
    }

    pub(crate) fn set_hang_up(&mut self, hang_up: Option<Box<dyn Fn() + Send>>) {
        self.hang_up = hang_up;
        self.broken = None;
        self.logged = false;
    }

    /// Signals `next` once nothing is under way: requests of a client that has gone are not to be
    /// carried out after those of the next one.
    pub(crate) fn await_idle(&mut self, next: Sender<()>) {
        self.next = Some(next);
        self.answer_next();
        if self.ending {
            self.next = None;
        }
    }

    fn answer_next(&mut self) {
        if self.next.is_some() && self.backend.store.in_flight() == 0 {
            if let Some(next) = self.next.take() {
                let _ = next.send(());
            }
        }
    }

    /// Sets the features that the guest's driver has accepted.
    pub(crate) fn accept(&mut self, features: u64) -> bool {
        if self.running == 0 {
            self.device.reset();
            self.logged = false;
        }
        self.device.accept(features)
    }

    /// Returns whether the guest announces requests from now on, or is polled.
    pub(crate) fn set_notifications(&mut self, on: bool) {
        if self.running != 0 {
            let policy = if on { Doorbells::Exact } else { Doorbells::Lazy };
            self.device.set_notify(&*self.memory, policy);
        }
    }

    /// Sets the channel for messages to the client about changes.
    pub(crate) fn set_back(&mut self, back: Option<OwnedFd>) {
        self.back = back;
    }

    /// Requests of the guest's under way.
    pub fn in_flight(&self) -> usize {
        self.device.in_flight()
    }

    /// Begins the drive's end: nobody waits any more for requests to end.
    pub(crate) fn begin_end(&mut self) {
        self.ending = true;
        self.next = None;
        self.links.iter_mut().for_each(|link| link.drained = None);
    }
}
