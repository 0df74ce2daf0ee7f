//! A polling thread: goes round the drives that it serves.
//!
//! While there is work it spins, and guests need not ring. When there was none
//! for a while it asks them to, and waits. How long it spins before that adapts
//! as KVM's halt polling does: waits that end soon make it longer, long ones
//! shorter. Who wants the core meanwhile gets it between two turns. Where others
//! keep it, it does not spin: who spins is taken off it for as long as they
//! like, who waits gets it when it is rung.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{epoll, eventfd, EventfdFlags, Timespec};
use serde::{Deserialize, Serialize};
use stasis_clock::Nanos;

use crate::mailbox::{mailbox, Bell, Inbox, Mailbox};
use crate::store::LOOK;
use crate::transport::Transport;
use crate::vhost_user::served::Served;
use crate::ServeError;

/// How a thread looks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Poll {
    /// It never waits: the least latency, at the price of a core.
    Always,
    /// It spins while there is work, then waits.
    #[default]
    Adaptive,
    /// It waits whenever there is nothing to do.
    Never,
}

/// Names a drive on its thread.
pub type DriveId = u64;

/// Longest that a thread spins without work before it waits (ns).
const MOST_SPIN: Nanos = 200_000;
/// What spinning begins with (ns).
const FIRST_SPIN: Nanos = 10_000;
/// A turn without work that takes longer than this (ns) was interrupted: it takes
/// a microsecond or two.
const INTERRUPTED: Nanos = 300_000;
/// For how long a thread does not spin after that (ns).
const SPIN_BACKOFF: Nanos = 1_000_000_000;
/// How much earlier than a completion's time a thread stops waiting (ns): what
/// the host's timers may be late by.
const WAKE_AHEAD: Nanos = 60_000;
/// What the thread's own bell says in its events.
const BELL: u64 = u64::MAX;

/// Something that is done on the thread.
type Job = Box<dyn FnOnce(&mut State) + Send>;

/// What a thread has.
pub(crate) struct State {
    pub(crate) drives: BTreeMap<DriveId, Transport>,
    pub(crate) epoll: Arc<OwnedFd>,
    pub(crate) started: Instant,
    stop: bool,
}

impl State {
    pub(crate) fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos
    }
}

/// A polling thread, as others see it.
pub struct Worker {
    jobs: Mailbox<Job, EventFd>,
    thread: Option<JoinHandle<()>>,
    /// Drives that it serves.
    pub(crate) load: AtomicU64,
}

/// An event descriptor, which epoll waits for (eventfd(2)).
struct EventFd(OwnedFd);

impl Bell for EventFd {
    fn ring(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl EventFd {
    /// Hears it: the next wait is for the next ringing.
    fn hear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Worker {
    /// Starts a thread.
    ///
    /// # Errors
    /// If the system has no more threads or descriptors.
    pub fn start(number: usize, poll: Poll, started: Instant) -> Result<Self, ServeError> {
        let failed = |source: rustix::io::Errno| ServeError::Wait { source: source.into() };
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
            .map_err(failed)?;
        let (jobs, inbox) = mailbox(EventFd(bell));
        let thread = std::thread::Builder::new()
            .name(format!("poll{number}"))
            .spawn(move || {
                let state =
                    State { drives: BTreeMap::new(), epoll: epoll.into(), started, stop: false };
                Thread { state, inbox, poll, window: 0, last_work: 0, no_spin_until: 0 }.run();
            })
            .map_err(|source| ServeError::Wait { source })?;
        Ok(Self { jobs, thread: Some(thread), load: AtomicU64::new(0) })
    }

    /// Does something on the thread and waits for its result; `None` if the
    /// thread is no more.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut State) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, result) = channel();
        let job = Box::new(move |state: &mut State| {
            let _ = answer.send(job(state));
        });
        if !self.jobs.give(job) {
            return None;
        }
        result.recv().ok()
    }

    /// Does something with a drive on a socket; `None` if it is not there any
    /// more.
    pub(crate) fn with<R: Send + 'static>(
        &self,
        drive: DriveId,
        job: impl FnOnce(&mut Served) -> R + Send + 'static,
    ) -> Option<R> {
        let job = move |state: &mut State| match state.drives.get_mut(&drive) {
            Some(Transport::Socket(served)) => Some(job(served)),
            _ => None,
        };
        self.call(job).flatten()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.call(|state| state.stop = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Thread {
    state: State,
    inbox: Inbox<Job, EventFd>,
    poll: Poll,
    /// How long to spin without work.
    window: Nanos,
    last_work: Nanos,
    /// Until when others seem to want the core.
    no_spin_until: Nanos,
}

impl Thread {
    fn run(mut self) {
        // A completion's time is met more exactly so (prctl(2)).
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if self.poll == Poll::Never {
            self.set_notifications(true);
        }
        // When the last turn began, if it had no work and nothing was waited for.
        let mut idle: Option<Nanos> = None;
        while !self.state.stop {
            let mut work = false;
            if self.inbox.take(|job| job(&mut self.state)) {
                // Queues that have just begun are polled, or listened to.
                self.set_notifications(self.poll == Poll::Never);
                work = true;
            }
            let now = self.state.now();
            work |= self.turn(now);
            let interrupted = idle.take().is_some_and(|began| now - began > INTERRUPTED);
            if work {
                self.last_work = now;
                continue;
            }
            if interrupted && self.poll == Poll::Adaptive {
                self.no_spin_until = now + SPIN_BACKOFF;
                self.window = 0;
            }
            match self.poll {
                Poll::Always => std::hint::spin_loop(),
                Poll::Adaptive if now - self.last_work < self.window => {
                    idle = Some(now);
                    // Who waits for this core gets it now, such as a VMM that is to
                    // hand an interrupt over; nobody else costs a fraction of a
                    // microsecond.
                    std::thread::yield_now();
                }
                Poll::Adaptive => self.wait(now, WAKE_AHEAD),
                Poll::Never => self.wait(now, 0),
            }
        }
    }

    /// Looks at each drive; whether there was anything to do.
    fn turn(&mut self, now: Nanos) -> bool {
        let started = self.state.started;
        let clock = || started.elapsed().as_nanos() as Nanos;
        let mut work = false;
        let mut dead = None;
        for (&id, drive) in &mut self.state.drives {
            match catch_unwind(AssertUnwindSafe(|| drive.turn(now, &clock))) {
                Ok(any) => work |= any,
                Err(_) => dead = Some(id),
            }
        }
        if let Some(id) = dead {
            // The others go on.
            if let Some(drive) = self.state.drives.remove(&id) {
                crate::log::warn(&drive.backend().name, "a bug ended this drive; please report it");
                let _ = catch_unwind(AssertUnwindSafe(|| drop(drive)));
            }
        }
        work
    }

    fn set_notifications(&mut self, on: bool) {
        self.state.drives.values_mut().for_each(|drive| drive.set_notifications(on));
    }

    /// Waits until something rings, or a completion's time comes near.
    fn wait(&mut self, now: Nanos, compensation: Nanos) {
        let next = self.state.drives.values().filter_map(Transport::next_event).min();
        let limit = next.map(|at| at.saturating_sub(now));
        if limit.is_some_and(|limit| limit <= compensation) {
            std::hint::spin_loop();
            return;
        }
        if self.poll == Poll::Adaptive {
            self.set_notifications(true);
            if self.turn(now) {
                self.set_notifications(false);
                self.last_work = now;
                return;
            }
        }
        let limit = limit.map(|limit| limit - compensation);
        let timeout = limit.map(|nanos| Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        });
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 64];
        let found = epoll::wait(&*self.state.epoll, &mut events, timeout.as_ref());
        // The kernel interrupts the wait to hand a ublk device's requests over.
        let mut rung = matches!(found, Err(rustix::io::Errno::INTR));
        if let Ok((events, _)) = found {
            for event in events.iter() {
                match event.data.u64() {
                    LOOK => rung = true,
                    BELL => self.inbox.bell().hear(),
                    kick => {
                        rung = true;
                        // SAFETY: a queue's kick, which is taken out of the set
                        // before it is closed.
                        let kick = unsafe { BorrowedFd::borrow_raw(kick as i32) };
                        let _ = rustix::io::read(kick, &mut [0; 8]);
                    }
                }
            }
        }
        if self.poll == Poll::Adaptive {
            self.set_notifications(false);
            let after = self.state.now();
            if rung {
                self.window = if after < self.no_spin_until {
                    0
                } else if after - now < MOST_SPIN {
                    (self.window * 2).clamp(FIRST_SPIN, MOST_SPIN)
                } else {
                    self.window / 2
                };
                self.last_work = after;
            }
        }
    }
}
