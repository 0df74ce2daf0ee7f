//! The file of a thread's next I/O (`file_service_type`, `openfiles`; fio's io_u.c:
//! `get_next_file`).

use stasis_block::Random;

use super::ranks::{Distribution, Ranks};

/// How a thread goes from file to file (`file_service_type`).
#[derive(Debug, Clone, PartialEq)]
pub enum Service {
    /// One after the other, so many I/Os each.
    RoundRobin(u64),
    /// One to its end, then the next.
    Sequential,
    /// Any, for so many I/Os.
    Random(u64),
    /// Any, by a distribution; a file begins anew at its end.
    Ranked(Distribution),
}

impl Service {
    /// Returns whether a file begins anew at its end.
    pub fn renews(&self) -> bool {
        matches!(self, Self::Ranked(_))
    }
}

/// Shares of a file in a distribution of files (fio's `FIO_FSERVICE_SHIFT`).
const SHARES: u64 = 1 << 10;

/// The file of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// By its number.
    File(usize),
    /// As many are open as may be: first an I/O in flight has to complete.
    Busy,
    /// All are done.
    Over,
}

/// State of a file.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    open: bool,
    /// True if it closes once none of its I/Os is in flight.
    closing: bool,
    done: bool,
    flying: u32,
}

/// Files of a thread.
#[derive(Debug, Clone)]
pub struct Files {
    service: Service,
    ranks: Option<Ranks>,
    states: Vec<State>,
    present: Option<usize>,
    /// I/Os that are still due to the present file.
    remaining: u64,
    next: usize,
    open: usize,
    open_max: usize,
    done: usize,
}

impl Files {
    /// Makes `count` files, of which `openfiles` are open at a time, or all if that is 0.
    pub fn new(service: &Service, openfiles: u32, count: usize, seed: u64) -> Self {
        let ranks = match service {
            Service::Ranked(distribution) => {
                Ranks::adjacent(distribution, count as u64 * SHARES, seed)
            }
            _ => None,
        };
        Self {
            service: service.clone(),
            ranks,
            states: vec![State::default(); count],
            present: None,
            remaining: 0,
            next: 0,
            open: 0,
            open_max: match openfiles as usize {
                0 => count,
                files => files.min(count),
            },
            done: 0,
        }
    }

    /// Returns whether a file begins anew at its end.
    pub fn is_renewed(&self) -> bool {
        self.service.renews()
    }

    /// A pass begins: all files are closed, and none is done.
    pub fn reset(&mut self) {
        self.states.fill(State::default());
        (self.open, self.done) = (0, 0);
    }

    /// The file of the next I/O.
    #[inline]
    pub fn choose(&mut self, random: &mut Random) -> Choice {
        match self.states.as_slice() {
            [only] if only.done => Choice::Over,
            [_] => Choice::File(0),
            _ => self.choose_among(random),
        }
    }

    fn choose_among(&mut self, random: &mut Random) -> Choice {
        if self.done >= self.states.len() {
            return Choice::Over;
        }
        if let Some(present) = self.present {
            let State { open, closing, .. } = self.states[present];
            if open && !closing {
                if self.service == Service::Sequential {
                    return Choice::File(present);
                }
                if self.remaining > 0 {
                    self.remaining -= 1;
                    return Choice::File(present);
                }
            }
        }
        let choice = match self.service {
            Service::RoundRobin(_) | Service::Sequential => self.in_turn(),
            Service::Random(_) | Service::Ranked(_) => self.any(random),
        };
        if let Choice::File(file) = choice {
            self.present = Some(file);
            self.remaining = match self.service {
                Service::RoundRobin(ios) | Service::Random(ios) => ios.saturating_sub(1),
                Service::Sequential | Service::Ranked(_) => 0,
            };
        }
        choice
    }

    /// Opens a file if it is not; `None` where it cannot be used yet.
    fn open(&mut self, file: usize) -> Option<Choice> {
        let state = &mut self.states[file];
        if !state.open {
            if self.open >= self.open_max {
                return Some(Choice::Busy);
            }
            state.open = true;
            self.open += 1;
        }
        (!state.closing).then_some(Choice::File(file))
    }

    fn in_turn(&mut self) -> Choice {
        for _ in 0..self.states.len() {
            let file = self.next;
            self.next = (self.next + 1) % self.states.len();
            if self.states[file].done {
                continue;
            }
            if let Some(choice) = self.open(file) {
                return choice;
            }
        }
        Choice::Busy
    }

    fn any(&mut self, random: &mut Random) -> Choice {
        let count = self.states.len() as u64;
        loop {
            let file = match &self.ranks {
                Some(ranks) => ranks.sample(random) / SHARES,
                None => random.below(count),
            } as usize;
            if self.states[file].done {
                continue;
            }
            // A file that is closed has to complete its I/Os before.
            return self.open(file).unwrap_or(Choice::Busy);
        }
    }

    /// An I/O of a file is prepared.
    pub fn begin(&mut self, file: usize) {
        self.states[file].flying += 1;
    }

    /// An I/O of a file has completed.
    pub fn complete(&mut self, file: usize) {
        let state = &mut self.states[file];
        state.flying = state.flying.saturating_sub(1);
        self.close_if_unused(file);
    }

    /// A file has no more I/Os in this pass, or begins anew.
    pub fn end(&mut self, file: usize) {
        let renews = self.is_renewed();
        let state = &mut self.states[file];
        state.closing = state.open;
        if !renews && !state.done {
            state.done = true;
            self.done += 1;
        }
        self.close_if_unused(file);
    }

    fn close_if_unused(&mut self, file: usize) {
        let state = &mut self.states[file];
        if state.closing && state.flying == 0 {
            (state.open, state.closing) = (false, false);
            self.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(service: Service, count: usize, openfiles: u32) -> Files {
        Files::new(&service, openfiles, count, 1)
    }

    fn chosen(files: &mut Files, times: usize) -> Vec<usize> {
        let mut random = Random::new(1);
        let choose = || match files.choose(&mut random) {
            Choice::File(file) => Some(file),
            Choice::Busy | Choice::Over => None,
        };
        std::iter::from_fn(choose).take(times).collect()
    }

    #[test]
    fn files_come_in_turn() {
        let mut files = files(Service::RoundRobin(2), 3, 0);
        assert_eq!(chosen(&mut files, 8), [0, 0, 1, 1, 2, 2, 0, 0]);
        files.end(1);
        assert_eq!(chosen(&mut files, 4), [2, 2, 0, 0]);
    }

    #[test]
    fn a_file_waits_for_the_one_before_it_to_close() {
        let mut files = files(Service::Sequential, 2, 1);
        assert_eq!(chosen(&mut files, 2), [0, 0]);
        files.begin(0);
        files.end(0);
        assert_eq!(files.choose(&mut Random::new(1)), Choice::Busy);
        files.complete(0);
        assert_eq!(chosen(&mut files, 2), [1, 1]);
        files.end(1);
        assert_eq!(files.choose(&mut Random::new(1)), Choice::Over);
    }

    #[test]
    fn a_distribution_prefers_files() {
        let mut files = files(Service::Ranked(Distribution::Zipf(1.2)), 8, 0);
        let mut counts = [0; 8];
        chosen(&mut files, 8000).into_iter().for_each(|file| counts[file] += 1);
        assert!(counts.iter().max() > Some(&2000) && counts.iter().min() > Some(&0), "{counts:?}");
    }
}
