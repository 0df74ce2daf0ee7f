//! States that several guests check at the same time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{anyhow, Result};
use stasis_crash::Cut;

use crate::check::GuestCheck;
use crate::session::{Outcome, Session, StateChecks};

/// States that several checks inspect at the same time.
pub struct Together<'a> {
    /// The file of the trace.
    pub trace: &'a Path,
    /// True if a flush covers nothing that was in flight.
    pub strict: bool,
    /// The states, in rounds.
    pub rounds: &'a [Vec<Cut>],
    /// Interval of the check: it runs on one of this many states.
    pub check_every: u64,
    /// True if the oracle compares the states with the promises too, and equal states are left out.
    pub oracle: bool,
}

/// Inspects states, each of `checks` a part of each round, with a separate enumerator. `on` receives
/// the number of finished states now and then. No image checker is used.
pub fn explore(
    together: &Together<'_>,
    checks: Vec<GuestCheck>,
    stop: &AtomicBool,
    mut on: impl FnMut(u64),
) -> Result<Outcome> {
    let Together { trace, strict, rounds, check_every, oracle } = *together;
    let count = checks.len().max(1);
    let done = AtomicU64::new(0);
    // An error of one ends the others.
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, mut check) in checks.into_iter().enumerate() {
            let (done, failed) = (&done, &failed);
            threads.push(scope.spawn(move || {
                let mut checks = StateChecks {
                    oracle,
                    check: Some(&mut check),
                    check_every,
                    image_checker: None,
                    image_checker_every: u64::MAX,
                    keep: None,
                    each: !oracle,
                };
                let mut outcome = Outcome::default();
                let going = || !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed);
                let ended = Session::open(trace, strict).and_then(|mut session| {
                    for round in rounds {
                        let size = round.len().div_ceil(count).max(1);
                        let part = round.chunks(size).nth(number).unwrap_or_default();
                        session.explore(part, &mut checks, &mut outcome, |_| {
                            done.fetch_add(1, Ordering::Relaxed);
                            going()
                        })?;
                        if !going() {
                            break;
                        }
                    }
                    Ok(())
                });
                if ended.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                (outcome, ended)
            }));
        }
        while !threads.iter().all(|thread| thread.is_finished()) {
            on(done.load(Ordering::Relaxed));
            std::thread::park_timeout(Duration::from_millis(100));
        }
        let mut whole = Outcome::default();
        for thread in threads {
            let joined = thread.join().map_err(|_| anyhow!("a thread of the test failed"))?;
            let (outcome, ended) = joined;
            whole.add(outcome);
            match ended {
                Ok(()) => {}
                // A check that is stopped on its way ends with an error.
                Err(_) if stop.load(Ordering::Relaxed) => whole.stopped = true,
                Err(error) => return Err(error),
            }
        }
        whole.findings.sort_by_key(|finding| finding.state);
        Ok(whole)
    })
}

impl Outcome {
    /// Adds the outcome of other states.
    fn add(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.tried.extend(other.tried);
        self.distinct += other.distinct;
        self.checked += other.checked;
        self.inspected.extend(other.inspected);
        self.equal.extend(other.equal);
        self.alike += other.alike;
        self.repaired += other.repaired;
        self.findings.extend(other.findings);
        self.stopped |= other.stopped;
    }
}
