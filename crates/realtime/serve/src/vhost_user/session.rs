//! A client's connection: the state of its queues and its memory.

mod messages;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::channel;
use std::sync::Arc;

use rustix::fs::OFlags;
use stasis_virtio::QueueSetup;

use crate::vhost_user::memory::GuestMemory;
use crate::vhost_user::protocol::{Error, Result};
use crate::vhost_user::served::Served;
use crate::worker::{DriveId, Worker};
use crate::ServeError;

/// `VHOST_USER_F_PROTOCOL_FEATURES`: the client supports protocol features.
const PROTOCOL_FEATURES: u64 = 1 << 30;

/// A queue as the client has described it so far.
#[derive(Debug, Default)]
struct Queue {
    size: u16,
    /// As the client numbers memory: descriptors, available, used.
    addresses: Option<[u64; 3]>,
    base: u16,
    kick: Option<OwnedFd>,
    enabled: bool,
    running: bool,
}

/// Drive and thread that a connection serves.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) worker: Arc<Worker>,
    pub(crate) drive: DriveId,
    pub(crate) name: Arc<str>,
    pub(crate) queues: u16,
    pub(crate) queue_size: u16,
}

/// A connection.
pub(crate) struct Session {
    target: Target,
    features: u64,
    protocol_features: u64,
    memory: Arc<GuestMemory>,
    queues: Vec<Queue>,
}

impl Session {
    pub(crate) fn new(target: Target) -> Self {
        let queues = (0..target.queues).map(|_| Queue::default()).collect();
        Self { target, features: 0, protocol_features: 0, memory: Arc::default(), queues }
    }

    /// Runs a function with the drive on its thread.
    fn with<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Served) -> R + Send + 'static,
    ) -> Result<R> {
        self.target.worker.with(self.target.drive, job).ok_or(Error::Ended)
    }

    /// Logs the client's fault; the connection ends.
    fn refuse(&self, error: &ServeError) -> Error {
        crate::log::warn(&self.target.name, &format!("{error}; its connection ends"));
        let _ = self.with(|served| served.backend.counts.faults += 1);
        Error::Refused
    }

    fn queue(&mut self, index: u32) -> Result<&mut Queue> {
        self.queues
            .get_mut(index as usize)
            .ok_or(Error::Invalid("it names a queue that there is not"))
    }

    /// Returns whether a queue was started.
    pub(crate) fn is_running(&self) -> bool {
        self.queues.iter().any(|queue| queue.running)
    }

    /// Returns whether a queue counts as enabled from the start.
    fn all_enabled(&self) -> bool {
        self.features & PROTOCOL_FEATURES == 0
    }

    /// Starts a queue if all is known of it.
    fn try_start(&mut self, index: u16) -> Result<()> {
        let all_enabled = self.all_enabled();
        let queue = &mut self.queues[usize::from(index)];
        if queue.running || !(queue.enabled || all_enabled) {
            return Ok(());
        }
        let (Some(addresses), Some(_)) = (queue.addresses, &queue.kick) else { return Ok(()) };
        let memory = &self.memory;
        let [descriptors, available, used] = addresses.map(|address| memory.guest_address(address));
        let (Some(descriptors), Some(available), Some(used)) = (descriptors, available, used)
        else {
            let message = format!("queue {index} is not in the memory that was shared");
            return Err(self.refuse(&ServeError::Memory(message)));
        };
        let setup = QueueSetup { size: queue.size, descriptors, available, used, next: queue.base };
        let Some(kick) = queue.kick.take() else { return Ok(()) };
        queue.running = true;
        let started = self.with(move |served| served.start_queue(index, setup, kick))?;
        started.map_err(|error| self.refuse(&error))
    }

    fn set_memory(&mut self, memory: GuestMemory) -> Result<()> {
        let memory = Arc::new(memory);
        self.memory = Arc::clone(&memory);
        self.with(move |served| served.set_memory(memory))
    }

    /// Stops a queue: where it was, once nothing of it is under way.
    fn stop(&mut self, index: u16) -> Result<u16> {
        let queue = &mut self.queues[usize::from(index)];
        let base = queue.base;
        queue.kick = None;
        if !std::mem::replace(&mut queue.running, false) {
            return Ok(base);
        }
        let (drained, stopped) = channel();
        self.with(move |served| served.stop_queue(index, drained))?;
        let at = stopped.recv().map_err(|_| Error::Ended)?.unwrap_or(base);
        self.queues[usize::from(index)].base = at;
        Ok(at)
    }

    /// A descriptor that a client gave for ringing.
    fn bell(&self, file: File) -> Result<OwnedFd> {
        let bell = OwnedFd::from(file);
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&bell));
        let kind = std::fs::read_link(link).ok();
        // Without /proc, the client is believed.
        if kind.is_some_and(|kind| !kind.as_os_str().to_string_lossy().contains("[eventfd]")) {
            return Err(self.refuse(&ServeError::NotEventfd));
        }
        // Ringing and listening never wait.
        let flags = rustix::fs::fcntl_getfl(bell.as_fd()).unwrap_or(OFlags::empty());
        let _ = rustix::fs::fcntl_setfl(bell.as_fd(), flags | OFlags::NONBLOCK);
        Ok(bell)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.with(Served::disconnect);
    }
}
