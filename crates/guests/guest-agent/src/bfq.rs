//! A coordinated guest's BFQ while it has raised a weight, and a little longer.
//!
//! Help is asked for on: a program that starts computes between its reads, and while
//! its last one is on its way BFQ has none. And on a drive that does not seek BFQ does
//! not idle: the host's scheduler keeps the drive for what is urgent
//! (docs/reference/schedulers.md, Urgent requests), and BFQ's own idling for one raised queue
//! would only keep the requests of another, 20 ms each time (block/bfq-iosched.c,
//! `bfq_arm_slice_timer`).

use std::fs;
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use stasis_channel::application_hint::LINGER;

use crate::bfq_tracer::BfqTracer;
use crate::AgentError;

/// A drive's setting.
struct Setting {
    file: String,
    usual: String,
}

impl Setting {
    fn of(drive: &str) -> Result<Self, AgentError> {
        let file = format!("/sys/block/{drive}/queue/iosched/slice_idle_us");
        let usual = fs::read_to_string(&file);
        let usual = usual.map_err(|e| AgentError::new("read how long bfq idles in", &file, e))?;
        Ok(Self { file, usual })
    }

    /// A file that cannot be written stays as it is: that costs time, nothing else.
    fn set(&self, idles: bool) {
        let _ = fs::write(&self.file, if idles { self.usual.as_str() } else { "0" });
    }
}

/// Begins to watch BFQ, in a separate thread, as long as the guest runs. Before these drives it is
/// not to idle.
///
/// # Errors
/// There is no BFQ before one of them.
pub(crate) fn tend(mut tracer: BfqTracer, drives: &[String]) -> Result<(), AgentError> {
    let settings = drives.iter().map(|drive| Setting::of(drive)).collect::<Result<Vec<_>, _>>()?;
    let work = move || {
        let mut raised_at = None;
        loop {
            tracer.reset_doorbell();
            let raised = tracer.raised().iter().any(|&raised| raised != 0);
            let before = raised_at.is_some();
            if raised {
                raised_at = Some(Instant::now());
            } else if raised_at.is_some_and(|at| at.elapsed() >= LINGER) {
                raised_at = None;
            }
            if before != raised_at.is_some() {
                settings.iter().for_each(|setting| setting.set(before));
                tracer.hold(!before);
            }
            let remaining =
                raised_at.filter(|_| !raised).map(|at| LINGER.saturating_sub(at.elapsed()));
            let timeout = remaining.map_or(PollTimeout::NONE, |remaining| {
                PollTimeout::try_from(remaining + Duration::from_millis(1))
                    .unwrap_or(PollTimeout::ZERO)
            });
            // The thread looks again after any end of the wait.
            let _ = poll(&mut [PollFd::new(tracer.doorbell(), PollFlags::POLLIN)], timeout);
        }
    };
    let thread = std::thread::Builder::new().name("bfq".into());
    thread.spawn(work).map_err(|e| AgentError::new("start a thread for", "bfq", e))?;
    Ok(())
}
