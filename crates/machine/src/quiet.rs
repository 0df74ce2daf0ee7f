//! Keeps the host's own tick out of guest mode in the repeatable engine.
//!
//! A tick that falls into a slice costs guest time unseen. The software host's
//! ticks are known in advance (a fixed period on CLOCK_MONOTONIC, see
//! `/proc/timer_list`), so each slice ends shortly before the next one, and
//! the machine sleeps across it: the host does its housekeeping then, and
//! neither side sees the other.

use crate::kick::monotonic_ns;
use crate::time::host_tsc;

/// How long before the tick a slice must have ended (ns of the host).
const BEFORE: u64 = 20_000;
/// How long after the tick the host is left alone (ns): time for its kernel
/// threads, which nothing else gives them. Where none has work it is idle time,
/// which the repeatable host skips.
const AFTER: u64 = 1_000_000;

/// Where the host's ticks fall.
#[derive(Debug)]
pub struct Quiet {
    /// A tick (CLOCK_MONOTONIC, ns) and their period.
    tick: u64,
    period: u64,
    ns_per_tick: f64,
    /// End of the present quiet time (host TSC).
    end: u64,
}

impl Quiet {
    /// Finds the ticks of the present host, whose TSC runs at `host_khz`;
    /// `None` where the kernel does not say.
    pub fn find(host_khz: u64) -> Option<Self> {
        let list = std::fs::read_to_string("/proc/timer_list").ok()?;
        let tick = parse_timer_list(&list)?;
        claim_processor();
        let mut quiet = Self {
            tick,
            period: 4_000_000, // CONFIG_HZ=250, every Debian kernel
            ns_per_tick: 1e6 / host_khz as f64,
            end: 0,
        };
        quiet.wait();
        Some(quiet)
    }

    /// End of the present quiet time (host TSC).
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Sleeps across the next tick.
    pub fn wait(&mut self) {
        let wake = self.next_tick(monotonic_ns()) + AFTER;
        let until = libc::timespec {
            tv_sec: (wake / 1_000_000_000) as i64,
            tv_nsec: (wake % 1_000_000_000) as i64,
        };
        // SAFETY: a valid clock and time; interruption only shortens the sleep.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &until,
                std::ptr::null_mut(),
            );
        }
        self.measure();
    }

    /// Recomputes the quiet time's end after the thread has slept for another reason.
    pub fn measure(&mut self) {
        let (now_ns, now) = (monotonic_ns(), host_tsc());
        let left = (self.next_tick(now_ns) - now_ns).saturating_sub(BEFORE);
        self.end = now + (left as f64 / self.ns_per_tick) as u64;
    }

    fn next_tick(&self, now: u64) -> u64 {
        if now < self.tick {
            return self.tick - (self.tick - now - 1) / self.period * self.period;
        }
        self.tick + ((now - self.tick) / self.period + 1) * self.period
    }
}

// Nothing of the host's may run while a guest does: a thread of another kind
// that becomes ready would be let in between without this program knowing.
// Failure (a host that does not allow it) only makes runs less exact.
fn claim_processor() {
    let _ = std::fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1");
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the present thread and a valid parameter.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) };
}

// The entry of `tick_sched_timer` on the next lines gives its expiry:
// " #0: <...>, tick_sched_timer, S:01\n # expires at 123-123 nsecs [...]".
// (Since Linux 6.12 the function is called tick_nohz_handler.)
fn parse_timer_list(list: &str) -> Option<u64> {
    let mut lines = list.lines();
    lines.find(|line| {
        line.contains("tick_sched_timer")
            || line.contains("tick_nohz_handler")
            || line.contains("tick_nohz_highres_handler")
    })?;
    let expires = lines.next()?.trim().strip_prefix("# expires at ")?;
    expires.split(['-', ' ']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_is_found() {
        let list = "cpu: 0\n clock 0:\nactive timers:\n #0: <00000000c47b33ac>, \
                    tick_sched_timer, S:01\n # expires at 12480000000-12480000000 nsecs [in 3562 to 3562 nsecs]\n";
        assert_eq!(parse_timer_list(list), Some(12_480_000_000));
        assert_eq!(parse_timer_list("nothing"), None);
        let quiet = Quiet { tick: 100, period: 40, ns_per_tick: 1.0, end: 0 };
        for now in 0..400 {
            let next = quiet.next_tick(now);
            assert!(next > now && next - now <= 40 && next % 40 == 20, "{now} {next}");
        }
    }
}
