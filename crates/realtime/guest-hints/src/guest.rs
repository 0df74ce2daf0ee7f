//! In a guest: from BFQ's events to the port.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::time::{clock_gettime, ClockId};
use stasis_block::clock::{Nanos, SECOND};
use stasis_guest_agent::bfq_tracer::BfqTracer;

use crate::guest_end::{GuestEnd, HintTiming};
use crate::port::Port;
use crate::Error;

/// Messages that a guest has sent, and their cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuestCounts {
    /// Number of times that it began to ask.
    pub begun: u64,
    /// Messages that went.
    pub messages: u64,
    /// Messages that did not, as nobody listened.
    pub undelivered: u64,
    /// Number of times that BFQ woke this process.
    pub wakes: u64,
    /// Delay after BFQ's change: the sum, and the maximum (ns).
    pub delay: (Nanos, Nanos),
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Waits until something is readable, or for a time; marks the readable descriptors.
pub(crate) fn wait(fds: &mut [PollFd<'_>], until: Option<Nanos>) -> Result<(), Error> {
    let timeout = until.map(|until| until.saturating_sub(now()));
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: (timeout / SECOND) as i64,
        tv_nsec: (timeout % SECOND) as i64,
    });
    match poll(fds, timeout.as_ref()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::INTR) => {
            fds.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(error) => Err(Error::System { action: "wait", source: io::Error::from(error) }),
    }
}

/// Traces BFQ and asks for help through the port of this name until `stop` is readable;
/// without a port, only `on_change` learns when asking begins (true) and ends.
///
/// # Errors
/// See [`Error`].
pub fn run(
    port: Option<&str>,
    timing: HintTiming,
    stop: BorrowedFd<'_>,
    ready: &mut dyn FnMut(),
    on_change: &mut dyn FnMut(bool),
) -> Result<GuestCounts, Error> {
    let mut port = port.map(Port::open).transpose()?;
    let mut tracer = BfqTracer::start()?;
    let (mut guest_end, mut counts, mut asking) =
        (GuestEnd::new(timing), GuestCounts::default(), false);
    let mut send = |message: &crate::hint_message::Message, counts: &mut GuestCounts| {
        let sent = port.as_mut().map_or(Ok(true), |port| port.send(message))?;
        counts.messages += u64::from(sent);
        counts.undelivered += u64::from(!sent);
        Ok::<_, Error>(())
    };
    ready();
    loop {
        tracer.reset_doorbell();
        let time = now();
        guest_end.update(time, &tracer.raised(), &tracer.written());
        if let Some(message) = guest_end.message(time) {
            send(&message, &mut counts)?;
        }
        if guest_end.wants_help(time) != asking {
            asking = !asking;
            on_change(asking);
        }
        let mut fds =
            [tracer.doorbell(), stop].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        wait(&mut fds, Some(guest_end.next(time)))?;
        let [rung, stopped] = fds.map(|fd| !fd.revents().is_empty());
        if rung {
            let delay = now().saturating_sub(tracer.changed_at());
            counts.wakes += 1;
            counts.delay = (counts.delay.0 + delay, counts.delay.1.max(delay));
        }
        if stopped {
            counts.begun = guest_end.begun();
            send(&guest_end.end(now()), &mut counts)?;
            return Ok(counts);
        }
    }
}
