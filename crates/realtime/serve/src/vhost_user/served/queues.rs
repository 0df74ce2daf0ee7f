//! A drive's queues: how they begin, end, and reach their guest.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::Sender;

use rustix::event::epoll;
use stasis_virtio::QueueSetup;

use super::link::ring;
use super::Served;
use crate::ServeError;

impl Served {
    /// Sets the descriptor that rings the guest about a queue.
    pub(crate) fn set_call(&mut self, queue: u16, call: Option<OwnedFd>) {
        if let Some(link) = self.links.get_mut(usize::from(queue)) {
            link.call = call;
            // Completions meanwhile were not signalled.
            if self.running & 1 << queue != 0 {
                ring(&link.call);
            }
        }
    }

    /// Begins to serve a queue, which continues from its last position.
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
            // The used ring has the number of requests given back, and the buffer those taken
            // besides. A client whose connection ended may have looked before the last server was
            // done: its claim about the queue's position is not relied on.
            if let Ok(used) = stasis_block::memory::Memory::load(memory, setup.used.wrapping_add(2))
            {
                if let Some((under_way, log)) = inflight.queue(queue, setup.size, used) {
                    setup.next = used;
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

    /// Takes nothing more from a queue; sends `drained` the position where it stopped, once nothing
    /// of it is under way.
    pub(crate) fn stop_queue(&mut self, queue: u16, drained: Sender<Option<u16>>) {
        self.device.pause_queue(queue);
        if let Some(link) = self.links.get_mut(usize::from(queue)).filter(|_| !self.ending) {
            link.drained = Some(drained);
        }
    }

    /// Ends a queue: where it was.
    pub(super) fn close_queue(&mut self, queue: u16) -> Option<u16> {
        self.running &= !(1 << queue);
        let link = self.links.get_mut(usize::from(queue))?;
        if let Some(kick) = link.kick.take() {
            // Before it is closed: the client has it open as well, so that
            // closing it alone would leave it in.
            let _ = epoll::delete(&*self.backend.epoll, &kick);
        }
        self.device.stop_queue(queue)
    }

    /// Answers the waiters for a queue that has nothing under way.
    pub(super) fn answer_drained(&mut self) {
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
}
