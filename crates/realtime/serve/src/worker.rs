//! A polling thread: goes round the drives that it serves, in the way of [`crate::polling`].

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{epoll, Timespec};
use stasis_block::clock::Nanos;

use crate::eventfd::EventFd;
use crate::mailbox::{mailbox, Inbox, Mailbox};
use crate::polling::{Poll, Polling, Rounds, Usage};
use crate::store::LOOK;
use crate::transport::Transport;
use crate::vhost_user::served::Served;
use crate::ServeError;

/// Names a drive on its thread.
pub type DriveId = u64;

/// Data of the thread's own bell in its events.
const BELL: u64 = u64::MAX;

/// Work that is done on the thread.
type Job = Box<dyn FnOnce(&mut State) + Send>;

/// State of a thread.
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

impl Worker {
    /// Starts a thread.
    ///
    /// # Errors
    /// If the system has no more threads or descriptors.
    pub fn start(number: usize, poll: Poll, started: Instant) -> Result<Self, ServeError> {
        let failed = |source: rustix::io::Errno| ServeError::Wait { source: source.into() };
        let bell = EventFd::new()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        epoll::add(
            &epoll,
            bell.descriptor(),
            epoll::EventData::new_u64(BELL),
            epoll::EventFlags::IN,
        )
        .map_err(failed)?;
        let (jobs, inbox) = mailbox(bell);
        let thread = std::thread::Builder::new()
            .name(format!("poll{number}"))
            .spawn(move || {
                let state =
                    State { drives: BTreeMap::new(), epoll: epoll.into(), started, stop: false };
                Thread { state, inbox }.run(poll);
            })
            .map_err(|source| ServeError::Wait { source })?;
        Ok(Self { jobs, thread: Some(thread), load: AtomicU64::new(0) })
    }

    /// Ends drives, as soon as their requests under way have ended, or at `limit`.
    pub(crate) fn finish(&self, drives: Vec<DriveId>, limit: Instant) -> Vec<Result<(), String>> {
        let ended = self.call(move |state| {
            let started = state.started;
            let clock = || started.elapsed().as_nanos() as u64;
            let end = |id| match state.drives.remove(&id) {
                Some(transport) => transport.finish(&clock, limit),
                None => Ok(()),
            };
            drives.into_iter().map(end).collect()
        });
        ended.unwrap_or_default()
    }

    /// Runs a function on the thread and waits for its result; `None` if the
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

    /// Runs a function with a drive on a socket; `None` if it is not there any
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
}

impl Thread {
    fn run(mut self, poll: Poll) {
        // A completion's time is met more exactly so (prctl(2)).
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut polling = Polling::new(poll);
        while !self.state.stop {
            let called = self.inbox.take(|job| job(&mut self.state));
            if called {
                polling.begin(&mut self);
            }
            polling.step(&mut self, called);
        }
    }
}

impl Rounds for Thread {
    fn now(&self) -> Nanos {
        self.state.now()
    }

    fn usage(&self) -> Option<Usage> {
        // SAFETY: all zeroes is a value of this structure of numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills the structure, which outlives the call.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
            return None;
        }
        let nanos = |time: libc::timeval| {
            u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0) * 1_000
        };
        let time = nanos(usage.ru_utime) + nanos(usage.ru_stime);
        Some(Usage { time, preemptions: u64::try_from(usage.ru_nivcsw).unwrap_or(0) })
    }

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
            // The others continue.
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

    fn next_event(&self) -> Option<Nanos> {
        self.state.drives.values().filter_map(Transport::next_event).min()
    }

    fn next_look(&self, now: Nanos) -> Option<Nanos> {
        self.state.drives.values().filter_map(|drive| drive.next_look(now)).min()
    }

    fn wait(&mut self, timeout: Option<Nanos>) -> bool {
        let timeout = timeout.map(|nanos| Timespec {
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
        rung || self.state.drives.values().any(Transport::is_rung)
    }
}
