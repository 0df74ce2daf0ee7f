//! Requests that a guest prefers, known before they come.

use std::collections::VecDeque;

use stasis_block::{Command, Operation, SECTOR};

/// Limit on the number of announced requests that have not come yet. It exceeds the number that a
/// guest has on their way between its scheduler and its driver; the oldest are forgotten first.
const MAX_ANNOUNCED: usize = 64;

/// The sectors at which a guest's next urgent requests begin.
#[derive(Debug)]
pub struct Urgent(VecDeque<u64>);

impl Default for Urgent {
    fn default() -> Self {
        Self(VecDeque::with_capacity(MAX_ANNOUNCED))
    }
}

impl Urgent {
    /// Announces, for the guest, that the requests for these sectors are urgent.
    pub fn expect(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        for sector in sectors {
            if self.0.len() == MAX_ANNOUNCED {
                self.0.pop_front();
            }
            self.0.push_back(sector);
        }
    }

    /// Returns whether `command` is one of them; that is so of one command.
    pub fn take(&mut self, command: &Command) -> bool {
        if !matches!(command.operation, Operation::Read | Operation::Write) {
            return false;
        }
        let found = self.0.iter().position(|&sector| sector == command.offset / SECTOR);
        found.and_then(|at| self.0.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once_and_the_oldest_are_forgotten() {
        let mut urgent = Urgent::default();
        let read = |sector: u64| Command::new(Operation::Read, sector * SECTOR, 4096);
        urgent.expect(&mut [8, 8, 16].into_iter());
        assert!(urgent.take(&read(8)) && urgent.take(&read(8)) && !urgent.take(&read(8)));
        assert!(!urgent.take(&Command::new(Operation::Discard, 16 * SECTOR, 4096)));
        urgent.expect(&mut (100..100 + MAX_ANNOUNCED as u64));
        assert!(!urgent.take(&read(16)) && urgent.take(&read(100)));
    }
}
