//! In the guest: when to send which message.

use stasis_block::clock::{Nanos, SECOND};
use stasis_channel::application_hint::{LINGER, SLOTS};

use crate::hint_message::Message;

/// Times at which a guest repeats or ends its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HintTiming {
    /// Time for which it continues to ask once nothing is raised. A program that starts
    /// computes between its reads, and each end and beginning takes the host a
    /// write to a cgroup's file.
    pub linger: Nanos,
    /// Interval at which it repeats its last message though nothing has changed.
    pub heartbeat: Nanos,
    /// Age at which an observation is stale if BFQ does nothing meanwhile. Two processors may write
    /// their observations in the wrong order; a request in flight hardly takes this long.
    pub stale_after: Nanos,
}

impl Default for HintTiming {
    fn default() -> Self {
        Self { linger: LINGER.as_nanos() as Nanos, heartbeat: SECOND, stale_after: 10 * SECOND }
    }
}

/// Number of heartbeats for which a message holds.
const HOLDS: Nanos = 3;

/// Messages of a guest: those sent, and the next one.
#[derive(Debug)]
pub struct GuestEnd {
    timing: HintTiming,
    written: [u32; SLOTS],
    written_at: [Nanos; SLOTS],
    // Number of raised queues, and the time when it was last not 0.
    raised: u32,
    raised_at: Option<Nanos>,
    sequence: u32,
    // The last message: whether it asked, and when it was.
    sent: Option<(bool, Nanos)>,
    begun: u64,
}

impl GuestEnd {
    /// Creates the state before anything is seen or sent.
    pub fn new(timing: HintTiming) -> Self {
        Self {
            timing,
            written: [0; SLOTS],
            written_at: [0; SLOTS],
            raised: 0,
            raised_at: None,
            sequence: 0,
            sent: None,
            begun: 0,
        }
    }

    /// Takes in how many queues each drive has raised, and how often BFQ has
    /// written so.
    pub fn update(&mut self, now: Nanos, raised: &[u32; SLOTS], written: &[u32; SLOTS]) {
        if self.raised > 0 {
            self.raised_at = Some(now);
        }
        self.raised = 0;
        for slot in 0..SLOTS {
            if self.written[slot] != written[slot] {
                (self.written[slot], self.written_at[slot]) = (written[slot], now);
            }
            if now < self.written_at[slot].saturating_add(self.timing.stale_after) {
                self.raised = self.raised.saturating_add(raised[slot]);
            }
        }
        if self.raised > 0 {
            self.raised_at = Some(now);
        }
    }

    /// Returns whether help is asked for.
    pub fn wants_help(&self, now: Nanos) -> bool {
        let lingers = |at: Nanos| now < at.saturating_add(self.timing.linger);
        self.raised > 0 || self.raised_at.is_some_and(lingers)
    }

    /// Number of times that it has begun to ask.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The message to be sent now, if there is one. It counts as sent.
    pub fn message(&mut self, now: Nanos) -> Option<Message> {
        let asks = self.wants_help(now);
        let due = match self.sent {
            Some((sent, at)) => sent != asks || now >= at.saturating_add(self.timing.heartbeat),
            None => true,
        };
        due.then(|| self.next_message(now, asks))
    }

    /// The last message: help is not asked for any more.
    pub fn end(&mut self, now: Nanos) -> Message {
        (self.raised, self.raised_at) = (0, None);
        self.next_message(now, false)
    }

    fn next_message(&mut self, now: Nanos, asks: bool) -> Message {
        let before = self.sent.is_some_and(|(asked, _)| asked);
        self.begun += u64::from(asks && !before);
        self.sent = Some((asks, now));
        let sequence = self.sequence;
        // 0 is only ever a guest's first.
        self.sequence = sequence.checked_add(1).unwrap_or(1);
        let raised = if asks { self.raised.max(1) } else { 0 };
        Message { sequence, raised, valid: HOLDS * self.timing.heartbeat }
    }

    /// Returns the time to look again though nothing rings.
    pub fn next(&self, now: Nanos) -> Nanos {
        let Some((asked, at)) = self.sent else { return now };
        let beat = at.saturating_add(self.timing.heartbeat);
        match self.raised_at {
            Some(raised) if asked && self.raised == 0 => {
                beat.min(raised.saturating_add(self.timing.linger))
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

    const TIMING: HintTiming = HintTiming { linger: 20, heartbeat: 100, stale_after: 250 };

    #[test]
    fn it_begins_at_once_and_ends_after_a_while() {
        let mut guest_end = GuestEnd::new(TIMING);
        guest_end.update(0, &slots(0), &slots(0));
        let first = guest_end.message(0).unwrap();
        assert_eq!((first.sequence, first.raised, first.valid), (0, 0, 300));
        assert_eq!((guest_end.message(1), guest_end.next(1)), (None, 100));
        guest_end.update(10, &slots(2), &slots(1));
        assert_eq!(guest_end.message(10).map(|m| (m.sequence, m.raised)), Some((1, 2)));
        // Ended and begun again within the while: nothing to be sent.
        guest_end.update(30, &slots(0), &slots(2));
        assert_eq!((guest_end.message(30), guest_end.next(30)), (None, 50));
        guest_end.update(45, &slots(1), &slots(3));
        guest_end.update(60, &slots(0), &slots(4));
        assert_eq!((guest_end.message(79), guest_end.next(79)), (None, 80));
        guest_end.update(80, &slots(0), &slots(4));
        assert_eq!(guest_end.message(80).map(|m| m.raised), Some(0));
        assert_eq!((guest_end.next(81), guest_end.begun()), (180, 1));
    }

    #[test]
    fn it_repeats_itself_and_what_it_saw_becomes_stale() {
        let mut guest_end = GuestEnd::new(TIMING);
        let mut sent = Vec::new();
        let mut now = 0;
        while now < 600 {
            guest_end.update(now, &slots(1), &slots(1));
            sent.extend(guest_end.message(now).map(|m| (now, m.raised)));
            now = guest_end.next(now).max(now + 1);
        }
        // Written at 0, stale from 250 on; looked at each 100.
        assert_eq!(sent[..3], [(0, 1), (100, 1), (200, 1)]);
        assert!(sent[3..].iter().all(|(at, raised)| (*raised == 0) == (*at >= 320)), "{sent:?}");
        assert!(sent.iter().any(|(_, raised)| *raised == 0));
    }

    #[test]
    fn its_numbers_begin_again_at_one() {
        let mut guest_end = GuestEnd::new(TIMING);
        guest_end.sequence = u32::MAX;
        let sent = [0, 100, 200].map(|now| guest_end.message(now).unwrap().sequence);
        assert_eq!(sent, [u32::MAX, 1, 2]);
    }
}
