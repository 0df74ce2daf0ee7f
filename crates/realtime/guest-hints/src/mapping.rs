//! From guests' requests to raised cgroups, within bounds.

use stasis_block::clock::Nanos;
use stasis_scheduler::Help;

use crate::host_end::HostEnd;

/// The guests that share a host's drive, by number.
#[derive(Debug)]
pub struct Mapping {
    guests: Vec<HostEnd>,
    help: Help,
}

impl Mapping {
    /// `guests` of them, which get help for `share` (in millionths) of time and
    /// `burst` beyond.
    pub fn new(guests: usize, share: u32, burst: Nanos) -> Self {
        let guests = (0..guests).map(|_| HostEnd::default()).collect();
        Self { guests, help: Help::new(share, burst) }
    }

    /// A guest has sent something.
    pub fn receive(&mut self, now: Nanos, guest: usize, bytes: &[u8]) {
        if let Some(end) = self.guests.get_mut(guest) {
            end.receive(now, bytes);
            self.settle(now, guest);
        }
    }

    /// A guest's connection is gone.
    pub fn disconnect(&mut self, now: Nanos, guest: usize) {
        if let Some(end) = self.guests.get_mut(guest) {
            end.disconnect();
            self.settle(now, guest);
        }
    }

    /// Advances time to `now`.
    pub fn advance(&mut self, now: Nanos) {
        (0..self.guests.len()).for_each(|guest| self.settle(now, guest));
        self.help.advance(now);
    }

    fn settle(&mut self, now: Nanos, guest: usize) {
        let asks = self.guests[guest].wants_help(now);
        self.help.request(now, guest as u32, asks);
    }

    /// A guest whose help has begun or ended, and whether it has it now.
    pub fn pop_change(&mut self) -> Option<(usize, bool)> {
        let guest = self.help.pop_changed()?;
        Some((guest as usize, self.help.is_given(guest)))
    }

    /// Returns the time to call [`Mapping::advance`] though nothing comes.
    pub fn next(&self) -> Option<Nanos> {
        let ends = self.guests.iter().filter_map(HostEnd::next);
        ends.chain(self.help.next()).min()
    }

    /// Messages of one guest.
    pub fn guest(&self, guest: usize) -> Option<&HostEnd> {
        self.guests.get(guest)
    }

    /// Account of a guest: the number of times it began or ended to ask, the time it had help, and
    /// the time it asked in vain.
    pub fn account(&self, now: Nanos, guest: usize) -> (u64, Nanos, Nanos) {
        self.help.account(now, guest as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint_message::Message;
    use stasis_block::clock::SECOND;

    fn say(mapping: &mut Mapping, now: Nanos, guest: usize, sequence: u32, raised: u32) {
        let message = Message { sequence, raised, valid: 3 * SECOND };
        mapping.receive(now, guest, &message.encode());
    }

    fn changes(mapping: &mut Mapping) -> Vec<(usize, bool)> {
        let mut changes: Vec<_> = std::iter::from_fn(|| mapping.pop_change()).collect();
        changes.sort();
        // One that began and ended meanwhile is there twice.
        changes.dedup();
        changes
    }

    #[test]
    fn help_begins_and_ends_with_the_guest() {
        let mut mapping = Mapping::new(2, 500_000, 60 * SECOND);
        say(&mut mapping, 0, 1, 0, 2);
        assert_eq!(changes(&mut mapping), [(1, true)]);
        say(&mut mapping, SECOND, 1, 1, 0);
        assert_eq!(changes(&mut mapping), [(1, false)]);
        // It dies, or its connection does.
        say(&mut mapping, 2 * SECOND, 1, 2, 1);
        assert_eq!((changes(&mut mapping), mapping.next()), (vec![(1, true)], Some(5 * SECOND)));
        mapping.advance(5 * SECOND);
        assert_eq!(changes(&mut mapping), [(1, false)]);
        say(&mut mapping, 6 * SECOND, 1, 3, 1);
        say(&mut mapping, 6 * SECOND, 0, 0, 1);
        mapping.disconnect(7 * SECOND, 1);
        assert_eq!(changes(&mut mapping), [(0, true), (1, false)]);
        mapping.receive(0, 2, b"nobody");
        assert_eq!(mapping.account(7 * SECOND, 1).1, 5 * SECOND);
    }

    /// Two that always ask get equal parts of the share, and no more.
    #[test]
    fn help_is_bounded_and_shared() {
        let (burst, share) = (10 * SECOND, 400_000);
        let mut mapping = Mapping::new(2, share, burst);
        let (mut now, mut sequence) = (0, 0);
        let end = 1_000 * SECOND;
        let mut beat = 0;
        while now < end {
            if now >= beat {
                (0..2).for_each(|guest| say(&mut mapping, now, guest, sequence, 1));
                sequence += 1;
                beat = now + SECOND;
            }
            mapping.advance(now);
            now = mapping.next().map_or(beat, |next| next.max(now + 1).min(beat));
        }
        let got = [0, 1].map(|guest| mapping.account(end, guest).1);
        let bound = burst + end / 1_000_000 * u64::from(share) / 2;
        for one in got {
            // A store's twentieth is to come back before help begins again.
            assert!(one <= bound + burst / 10 && one >= bound - burst, "{got:?}");
        }
    }
}
