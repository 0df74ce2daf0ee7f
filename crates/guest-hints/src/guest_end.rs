//! In the guest: when to say what.

use stasis_channel::help::{LINGER, SLOTS};
use stasis_clock::{Nanos, SECOND};

use crate::message::Message;

/// How a guest asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// How long it goes on to ask once nothing is raised. A program that starts
    /// computes between its reads, and each end and beginning takes the host a
    /// write to a cgroup's file.
    pub linger: Nanos,
    /// How often it says what is so though nothing has changed.
    pub heartbeat: Nanos,
    /// How long what was seen is believed if BFQ does nothing meanwhile. Two
    /// processors may write what they saw in the wrong order; a request in flight
    /// hardly takes this long.
    pub belief: Nanos,
}

impl Default for Manner {
    fn default() -> Self {
        Self { linger: LINGER.as_nanos() as Nanos, heartbeat: SECOND, belief: 10 * SECOND }
    }
}

/// A message holds for so many heartbeats.
const HOLDS: Nanos = 3;

/// What a guest has said, and has to say next.
#[derive(Debug)]
pub struct GuestEnd {
    manner: Manner,
    written: [u32; SLOTS],
    written_at: [Nanos; SLOTS],
    // How many are raised, and when that was last not 0.
    raised: u32,
    raised_at: Option<Nanos>,
    sequence: u32,
    // The last message: whether it asked, and when it was.
    said: Option<(bool, Nanos)>,
    begun: u64,
}

impl GuestEnd {
    /// Nothing has been seen or said yet.
    pub fn new(manner: Manner) -> Self {
        Self {
            manner,
            written: [0; SLOTS],
            written_at: [0; SLOTS],
            raised: 0,
            raised_at: None,
            sequence: 0,
            said: None,
            begun: 0,
        }
    }

    /// Takes in how many queues each drive has raised, and how often BFQ has
    /// said so.
    pub fn see(&mut self, now: Nanos, raised: &[u32; SLOTS], written: &[u32; SLOTS]) {
        if self.raised > 0 {
            self.raised_at = Some(now);
        }
        self.raised = 0;
        for slot in 0..SLOTS {
            if self.written[slot] != written[slot] {
                (self.written[slot], self.written_at[slot]) = (written[slot], now);
            }
            if now < self.written_at[slot].saturating_add(self.manner.belief) {
                self.raised = self.raised.saturating_add(raised[slot]);
            }
        }
        if self.raised > 0 {
            self.raised_at = Some(now);
        }
    }

    /// Whether help is asked for.
    pub fn asks(&self, now: Nanos) -> bool {
        let lingers = |at: Nanos| now < at.saturating_add(self.manner.linger);
        self.raised > 0 || self.raised_at.is_some_and(lingers)
    }

    /// How often it has begun to ask.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// What is to be said now, if anything. It counts as said.
    pub fn message(&mut self, now: Nanos) -> Option<Message> {
        let asks = self.asks(now);
        let due = match self.said {
            Some((said, at)) => said != asks || now >= at.saturating_add(self.manner.heartbeat),
            None => true,
        };
        due.then(|| self.say(now, asks))
    }

    /// The last message: help is not asked for any more.
    pub fn end(&mut self, now: Nanos) -> Message {
        (self.raised, self.raised_at) = (0, None);
        self.say(now, false)
    }

    fn say(&mut self, now: Nanos, asks: bool) -> Message {
        let before = self.said.is_some_and(|(asked, _)| asked);
        self.begun += u64::from(asks && !before);
        self.said = Some((asks, now));
        let sequence = self.sequence;
        // 0 is only ever a guest's first.
        self.sequence = sequence.checked_add(1).unwrap_or(1);
        let raised = if asks { self.raised.max(1) } else { 0 };
        Message { sequence, raised, valid: HOLDS * self.manner.heartbeat }
    }

    /// When to look again though nothing rings.
    pub fn next(&self, now: Nanos) -> Nanos {
        let Some((asked, at)) = self.said else { return now };
        let beat = at.saturating_add(self.manner.heartbeat);
        match self.raised_at {
            Some(raised) if asked && self.raised == 0 => {
                beat.min(raised.saturating_add(self.manner.linger))
            }
            _ => beat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(first: u32) -> [u32; SLOTS] {
        let mut slots = [0; SLOTS];
        slots[0] = first;
        slots
    }

    const MANNER: Manner = Manner { linger: 20, heartbeat: 100, belief: 250 };

    #[test]
    fn it_begins_at_once_and_ends_after_a_while() {
        let mut guest_end = GuestEnd::new(MANNER);
        guest_end.see(0, &slots(0), &slots(0));
        let first = guest_end.message(0).unwrap();
        assert_eq!((first.sequence, first.raised, first.valid), (0, 0, 300));
        assert_eq!((guest_end.message(1), guest_end.next(1)), (None, 100));
        guest_end.see(10, &slots(2), &slots(1));
        assert_eq!(guest_end.message(10).map(|m| (m.sequence, m.raised)), Some((1, 2)));
        // Ended and begun again within the while: nothing to be said.
        guest_end.see(30, &slots(0), &slots(2));
        assert_eq!((guest_end.message(30), guest_end.next(30)), (None, 50));
        guest_end.see(45, &slots(1), &slots(3));
        guest_end.see(60, &slots(0), &slots(4));
        assert_eq!((guest_end.message(79), guest_end.next(79)), (None, 80));
        guest_end.see(80, &slots(0), &slots(4));
        assert_eq!(guest_end.message(80).map(|m| m.raised), Some(0));
        assert_eq!((guest_end.next(81), guest_end.begun()), (180, 1));
    }

    #[test]
    fn it_repeats_itself_and_does_not_believe_for_ever() {
        let mut guest_end = GuestEnd::new(MANNER);
        let mut told = Vec::new();
        let mut now = 0;
        while now < 600 {
            guest_end.see(now, &slots(1), &slots(1));
            told.extend(guest_end.message(now).map(|m| (now, m.raised)));
            now = guest_end.next(now).max(now + 1);
        }
        // Written at 0, believed until 250; looked at each 100.
        assert_eq!(told[..3], [(0, 1), (100, 1), (200, 1)]);
        assert!(told[3..].iter().all(|(at, raised)| (*raised == 0) == (*at >= 320)), "{told:?}");
        assert!(told.iter().any(|(_, raised)| *raised == 0));
    }

    #[test]
    fn its_numbers_begin_again_at_one() {
        let mut guest_end = GuestEnd::new(MANNER);
        guest_end.sequence = u32::MAX;
        let said = [0, 100, 200].map(|now| guest_end.message(now).unwrap().sequence);
        assert_eq!(said, [u32::MAX, 1, 2]);
    }
}
