//! The check of a command's health, up to its first result: other machines wait for it (moby, daemon/health.go).

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use stasis_channel::{Client, Health, Job, Transport};

use crate::start::assemble;
use crate::AgentError;

/// The check of a job's command.
pub(crate) struct Check {
    health: Health,
    job: Job,
    began: Instant,
    /// Time of the next check, or by which the present one has to end.
    next: Instant,
    running: Option<Pid>,
    failures: u32,
}

impl Check {
    /// The check of a job, whose command begins now; None where nobody waits for its result.
    pub(crate) fn of(job: &Job) -> Option<Self> {
        let container = job.container.as_ref()?;
        let health = container.health.clone()?;
        let job = Job { command: health.test.clone(), stdin: None, ..job.clone() };
        let began = Instant::now();
        let mut check = Self { health, job, began, next: began, running: None, failures: 0 };
        check.next = began + check.interval();
        Some(check)
    }

    /// Time that is left until something is to be done.
    pub(crate) fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    fn is_starting(&self) -> bool {
        self.began.elapsed() < Duration::from_nanos(self.health.start_period)
    }

    fn interval(&self) -> Duration {
        let early = self.is_starting();
        let time = if early { self.health.start_interval } else { self.health.interval };
        Duration::from_nanos(time)
    }

    /// Begins and ends checks whose time has come; `ended`: children that have, with their status. Returns whether
    /// there is a result, which has been reported.
    pub(crate) fn attend<T: Transport>(
        &mut self,
        client: &mut Client<T>,
        ended: &[(Pid, u8)],
    ) -> Result<bool, AgentError> {
        if let Some(pid) = self.running {
            let status = ended.iter().find(|(child, _)| *child == pid).map(|(_, status)| *status);
            let is_late = status.is_none() && self.left().is_zero();
            if is_late {
                // Its session is its own.
                let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
            }
            if status.is_none() && !is_late {
                return Ok(false);
            }
            self.running = None;
            self.next = Instant::now() + self.interval();
            return self.result(client, status == Some(0));
        }
        if !self.left().is_zero() {
            return Ok(false);
        }
        let spawned = assemble(&self.job).map_err(drop).and_then(|mut command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(drop)
        });
        match spawned {
            Ok(child) => {
                self.running = Some(Pid::from_raw(child.id() as i32));
                self.next = Instant::now() + Duration::from_nanos(self.health.timeout);
                Ok(false)
            }
            Err(()) => {
                self.next = Instant::now() + self.interval();
                self.result(client, false)
            }
        }
    }

    /// Takes in the result of one check.
    fn result<T: Transport>(
        &mut self,
        client: &mut Client<T>,
        healthy: bool,
    ) -> Result<bool, AgentError> {
        if !healthy {
            if self.is_starting() {
                return Ok(false);
            }
            self.failures += 1;
            if self.failures < self.health.retries.max(1) {
                return Ok(false);
            }
        }
        client.health(healthy)?;
        Ok(true)
    }
}
