//! A drive's turn on its thread: requests in, completions out; and its changes and its end.

use std::sync::Arc;
use std::time::Instant;

use stasis_block::clock::Nanos;
use stasis_block::Model;
use stasis_drive::Done;
use stasis_virtio::{Config, Device, Interrupt};

use super::link::{ring, Link};
use super::Served;
use crate::backend::{Backend, GRACE};
use crate::vhost_user::inflight::Inflight;
use crate::vhost_user::memory::GuestMemory;

impl Served {
    /// Does the work that is due; returns whether there was any.
    pub(crate) fn turn(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        let mut work = false;
        if self.running != 0 {
            self.device.poll(&*self.memory);
            work |= self.submit(now);
        }
        let mut done = std::mem::take(&mut self.done);
        work |= self.backend.advance(now, &mut done);
        complete(&mut self.device, &self.memory, &mut self.backend, &mut done, clock);
        self.done = done;
        // A fault and a broken mapping are found where nothing comes of it.
        let fault = !self.logged && self.device.fault().is_some();
        let breaks = crate::vhost_user::mapping::breaks();
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
        while let Some(request) = self.device.pop_request() {
            any = true;
            self.backend.store.submit(now, request);
        }
        while let Some(refused) = self.device.pop_refused() {
            self.backend.count_refused(&refused, now);
        }
        any
    }

    fn ring(&mut self) {
        while let Some(interrupt) = self.device.pop_interrupt() {
            match interrupt {
                Interrupt::Queue(queue) => {
                    if let Some(link) = self.links.get(usize::from(queue)) {
                        ring(&link.call);
                    }
                }
                Interrupt::Configuration => self.notify_configuration(),
            }
        }
    }

    /// Tells the client that the drive's size is another one (vhost-user
    /// specification, `VHOST_USER_BACKEND_CONFIG_CHANGE_MSG`): request 2 of
    /// version 1, without a body.
    fn notify_configuration(&mut self) {
        if let Some(back) = &self.back {
            let message: Vec<u8> = [2u32, 1, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
            let _ = rustix::net::send(
                back,
                &message,
                rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL,
            );
        }
    }

    /// Looks for a reason to end the connection, and for errors of the medium.
    fn check(&mut self) {
        if let Some(fault) = self.device.fault() {
            if !self.logged {
                self.logged = true;
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
        self.backend.report_errors();
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
        self.logged = false;
    }

    /// Waits until nothing is under way at the store; returns whether that was before `limit`.
    fn quiesce(&mut self, clock: &impl Fn() -> Nanos, limit: Instant) -> bool {
        let (device, memory) = (&mut self.device, &self.memory);
        let idle = self.backend.quiesce(clock, limit, |backend, done| {
            complete(device, memory, backend, done, clock);
        });
        self.ring();
        idle
    }

    /// Gives the drive another capacity and the model for it, and notifies the guest.
    pub(crate) fn resize(
        &mut self,
        capacity: u64,
        model: Option<Box<dyn Model>>,
        clock: &impl Fn() -> Nanos,
    ) -> Result<(), String> {
        Config { capacity, ..self.device.config().clone() }
            .check()
            .map_err(|error| error.to_string())?;
        if !self.quiesce(clock, Instant::now() + GRACE) {
            return Err(format!(
                "{} requests have not ended within {} s; its size stays",
                self.backend.store.in_flight(),
                GRACE.as_secs()
            ));
        }
        let timed = model.is_some();
        let resized = self.backend.store.resize(clock(), capacity, model);
        resized.map_err(|error| error.to_string())?;
        self.backend.set_timed(timed);
        self.device.resize(capacity).map_err(|error| error.to_string())?;
        self.ring();
        Ok(())
    }

    /// Waits until `limit` for requests under way, makes everything durable and closes the drive.
    /// No client is there any more.
    pub(crate) fn finish(
        mut self,
        clock: &impl Fn() -> Nanos,
        limit: Instant,
    ) -> Result<(), String> {
        // Nobody sees when they complete.
        self.backend.release(clock());
        let idle = self.quiesce(clock, limit);
        self.backend.finish(idle)
    }
}

/// Hands requests back to the guest.
fn complete(
    device: &mut Device,
    memory: &GuestMemory,
    backend: &mut Backend,
    done: &mut Vec<Done>,
    clock: &impl Fn() -> Nanos,
) {
    backend.hand_back(done, clock, |done| {
        device.complete(memory, done.tag, done.status, done.data);
    });
}
