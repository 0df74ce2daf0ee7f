//! On the host: whether one guest asks for help, by its messages.

use stasis_block::clock::{Nanos, MILLISECOND, SECOND};

use crate::hint_message::{Message, Parsed, Parser};
use crate::report::Counts;

/// Limit on the time for which a message holds, whatever it contains.
pub const MAX_VALIDITY: Nanos = 10 * SECOND;

/// Bytes that may come at once, and bytes in a second: further ones wait with QEMU, and then in the
/// guest. A guest that reports each change of a shell's start sends some 100 bytes a second.
const BURST: u64 = 8192;
const RATE: u64 = 4096;

/// The host end of one guest's hints.
#[derive(Debug, Default)]
pub struct HostEnd {
    parser: Parser,
    last: Option<u32>,
    until: Option<Nanos>,
    // Time at which the bytes that came so far would have come at the rate.
    paid: Nanos,
    counts: Counts,
}

impl HostEnd {
    /// Takes in bytes from the guest.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8]) {
        let time = bytes.len() as u64 * SECOND / RATE;
        self.paid = self.paid.max(now).saturating_add(time);
        let Self { parser, last, until, counts, .. } = self;
        parser.feed(bytes, |parsed| match parsed {
            Parsed::Garbage => counts.garbage += 1,
            Parsed::Version(_) => counts.versions += 1,
            Parsed::Message(message) => {
                if accept(*last, &message, counts) {
                    *last = Some(message.sequence);
                    let holds = message.valid.min(MAX_VALIDITY);
                    *until = (message.raised > 0).then(|| now.saturating_add(holds));
                }
            }
        });
        if self.wait(now).is_some() {
            self.counts.floods += 1;
        }
    }

    /// Time until which nothing more is to be read from it, if it sends too much.
    pub fn wait(&self, now: Nanos) -> Option<Nanos> {
        let most = BURST * SECOND / RATE;
        let from = self.paid.saturating_sub(most);
        (from > now).then(|| from.saturating_add(100 * MILLISECOND))
    }

    /// The connection is gone: nothing is asked, and later input may be another guest's.
    pub fn disconnect(&mut self) {
        let (paid, counts) = (self.paid, self.counts);
        *self = Self { paid, counts, ..Self::default() };
    }

    /// Ends messages that do not hold any more, and returns whether help is asked for.
    pub fn wants_help(&mut self, now: Nanos) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.counts.expired += 1;
        }
        self.until.is_some()
    }

    /// Time when that ends without another message.
    pub fn next(&self) -> Option<Nanos> {
        self.until
    }

    /// Counters of the messages so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Returns whether a message is the next one, and not a repetition of an older one.
fn accept(last: Option<u32>, message: &Message, counts: &mut Counts) -> bool {
    let ahead = match last {
        // A guest's first, after a start of it or of this program.
        _ if message.sequence == 0 => 1,
        None => 1,
        // After the largest comes 1.
        Some(u32::MAX) => message.sequence,
        Some(last) => message.sequence.wrapping_sub(last),
    };
    if ahead == 0 || ahead > u32::MAX / 2 {
        counts.stale += 1;
        return false;
    }
    counts.lost += u64::from(ahead - 1);
    counts.messages += 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(sequence: u32, raised: u32, valid: Nanos) -> [u8; crate::hint_message::LENGTH] {
        Message { sequence, raised, valid: valid * MILLISECOND }.encode()
    }

    #[test]
    fn what_holds_ends() {
        let mut guest = HostEnd::default();
        guest.receive(5, &encoded(9, 1, 3_000));
        assert!(guest.wants_help(3 * SECOND) && guest.next() == Some(3 * SECOND + 5));
        assert!(!guest.wants_help(3 * SECOND + 5) && guest.counts().expired == 1);
        // However long the message asks for.
        guest.receive(0, &encoded(10, 1, u64::from(u32::MAX)));
        assert!(guest.wants_help(MAX_VALIDITY - 1) && !guest.wants_help(MAX_VALIDITY));
        guest.receive(MAX_VALIDITY, &encoded(11, 1, 3_000));
        guest.receive(MAX_VALIDITY, &encoded(12, 0, 3_000));
        assert!(!guest.wants_help(MAX_VALIDITY));
    }

    #[test]
    fn numbers_tell_what_was_lost_and_what_is_old() {
        let mut guest = HostEnd::default();
        for sequence in [4, 5, 9, 8, 9, 0, 1, 0] {
            guest.receive(0, &encoded(sequence, 1, 1));
        }
        let counts = guest.counts();
        assert_eq!((counts.messages, counts.lost, counts.stale), (6, 3, 2));
        guest.disconnect();
        for sequence in [u32::MAX, 1, 2] {
            guest.receive(0, &encoded(sequence, 1, 1));
        }
        assert_eq!((guest.counts().messages, guest.counts().lost), (9, 3));
    }

    #[test]
    fn a_flood_waits_and_a_talker_does_not() {
        let (mut flood, mut talker) = (HostEnd::default(), HostEnd::default());
        let (mut read, mut now) = (0, 0);
        while now < 100 * SECOND {
            match flood.wait(now) {
                Some(until) => now = until,
                None => {
                    flood.receive(now, &[0; 512]);
                    read += 512;
                }
            }
        }
        assert!(read <= BURST + 512 + 101 * RATE, "{read}");
        assert!(flood.counts().garbage == read && flood.counts().floods > 0);
        for sequence in 0..10_000 {
            let now = u64::from(sequence) * 10 * MILLISECOND;
            talker.receive(now, &encoded(sequence, sequence % 2, 3_000));
            assert_eq!(talker.wait(now), None);
        }
    }

    proptest! {
        /// For any input: a guest asks only by a whole message, and never for longer than the
        /// longest.
        #[test]
        fn nothing_hostile_asks_for_ever(
            pieces in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..400), any::<Option<(u32, u32, u32)>>(), 0u64..SECOND),
                0..40,
            ),
        ) {
            let (mut guest, mut now, mut bytes) = (HostEnd::default(), 0, 0);
            for (garbage, message, pause) in pieces {
                now += pause;
                guest.receive(now, &garbage);
                bytes += garbage.len() as u64;
                if let Some((sequence, raised, valid)) = message {
                    let message = encoded(sequence, raised, valid.into());
                    guest.receive(now, &message);
                    bytes += message.len() as u64;
                }
                if guest.wants_help(now) {
                    prop_assert!(guest.counts().messages > 0);
                    prop_assert!(guest.next().unwrap() <= now + MAX_VALIDITY);
                }
                let counts = guest.counts();
                let taken = counts.garbage + 24 * (counts.messages + counts.stale + counts.versions);
                prop_assert!(taken <= bytes);
            }
            prop_assert!(!guest.wants_help(now + MAX_VALIDITY));
        }
    }
}
