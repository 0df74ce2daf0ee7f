//! Messages between machines: frames from their sending to their arrival.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use stasis_block::clock::Nanos;
use stasis_run_events::PacketRecord;

/// Limit on the messages that are kept: of more, every second, fourth and so on.
const MAX_MESSAGES: usize = 4096;
/// Limit on the frames under way: lost ones are forgotten with the others.
const MAX_UNDER_WAY: usize = 4096;
/// Limit on the kinds of messages; further ones are one kind.
const MAX_KINDS: usize = 64;
/// The kind of those.
const OTHER: &str = "other";

/// A message that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    /// Number of the network.
    pub network: u16,
    /// Port of the sender, and of the receiver.
    pub from: u16,
    pub to: u16,
    /// Times at which it was sent, and at which it arrived (ns).
    pub sent: Nanos,
    pub arrived: Nanos,
    /// Length in bytes.
    pub length: u32,
    /// Index of the kind.
    pub kind: usize,
}

/// The messages of a run, thinned.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    kept: Vec<Message>,
    /// One of so many is kept, as a power of two.
    thinning: u32,
    /// Number of messages, and of those of each kind.
    count: u64,
    kinds: Vec<(String, u64)>,
    /// Frames under way: port and time of the sender, by what tells frames apart.
    under_way: HashMap<u64, Vec<(u16, Nanos)>>,
    frames: usize,
}

impl Messages {
    /// A frame has passed a port. Returns the message that has arrived, if one has.
    pub(crate) fn packet(&mut self, packet: &PacketRecord) -> Option<Message> {
        let key = key(packet);
        if packet.outgoing {
            if self.frames >= MAX_UNDER_WAY {
                self.under_way.clear();
                self.frames = 0;
            }
            self.frames += 1;
            self.under_way.entry(key).or_default().push((packet.port, packet.at));
            return None;
        }
        let senders = self.under_way.get_mut(&key)?;
        // The first bit of the receiver's address tells a group (IEEE 802.3, 3.2.3): it may arrive
        // at others as well.
        let group = packet.bytes.first().is_some_and(|byte| byte & 1 == 1);
        let sender = match group {
            true => senders.last().copied(),
            false => (!senders.is_empty()).then(|| senders.remove(0)),
        };
        if senders.is_empty() {
            self.under_way.remove(&key);
        }
        let (from, sent) = sender?;
        self.frames -= usize::from(!group);
        let kind = self.kind(&packet.bytes);
        let (network, to, arrived, length) =
            (packet.network, packet.port, packet.at, packet.length);
        let message = Message { network, from, to, sent, arrived, length, kind };
        self.add(message);
        Some(message)
    }

    fn add(&mut self, message: Message) {
        if self.count.is_multiple_of(1 << self.thinning) {
            self.kept.push(message);
        }
        self.count += 1;
        if self.kept.len() > MAX_MESSAGES {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.thinning += 1;
        }
    }

    /// Index of a frame's kind.
    fn kind(&mut self, frame: &[u8]) -> usize {
        let name = kind(frame);
        let place = self.kinds.iter().position(|(known, _)| *known == name);
        let place = place.unwrap_or_else(|| {
            let name = if self.kinds.len() < MAX_KINDS { name } else { OTHER.to_owned() };
            self.kinds.push((name, 0));
            self.kinds.len() - 1
        });
        let place = place.min(MAX_KINDS);
        self.kinds.truncate(MAX_KINDS + 1);
        self.kinds[place].1 += 1;
        place
    }

    /// Returns the messages that are kept, in the order of their arrival.
    pub(crate) fn kept(&self) -> &[Message] {
        &self.kept
    }

    /// Numbers of merges.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The kinds, with how many messages each had.
    pub(crate) fn kinds(&self) -> &[(String, u64)] {
        &self.kinds
    }
}

/// Returns the key by which a frame is known at both of its ends.
fn key(packet: &PacketRecord) -> u64 {
    // Always with the same keys, so that results repeat.
    let mut hasher = DefaultHasher::new();
    (packet.network, packet.length, &packet.bytes).hash(&mut hasher);
    hasher.finish()
}

/// The kind of a frame: its protocol (IANA, "IEEE 802 Numbers" and "Protocol Numbers") and the
/// smaller of its ports, which is mostly the service's.
fn kind(frame: &[u8]) -> String {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    match word(12) {
        Some(0x0806) => "ARP".to_owned(),
        Some(0x86dd) => "IPv6".to_owned(),
        Some(0x0800) => {
            let (header, protocol) = (frame.get(14).copied(), frame.get(23).copied());
            let ports = 14 + usize::from(header.unwrap_or(0) & 15) * 4;
            let port = word(ports).zip(word(ports + 2)).map(|(a, b)| a.min(b));
            match (protocol, port) {
                (Some(6), Some(port)) => format!("TCP {port}"),
                (Some(17), Some(port)) => format!("UDP {port}"),
                (Some(1), _) => "ICMP".to_owned(),
                _ => "IPv4".to_owned(),
            }
        }
        _ => OTHER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(last: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        (frame[12], frame[13], frame[14], frame[23]) = (8, 0, 0x45, 6);
        frame[34..38].copy_from_slice(&[0x80, 0, 0x09, 0x4b]);
        frame[59] = last;
        frame
    }

    fn packet(port: u16, outgoing: bool, at: Nanos, bytes: Vec<u8>) -> PacketRecord {
        let length = bytes.len() as u32;
        PacketRecord { network: 0, port, outgoing, at, length, bytes }
    }

    #[test]
    fn a_frame_is_a_message_from_its_sender_to_its_receiver() {
        let mut messages = Messages::default();
        messages.packet(&packet(0, true, 10, frame(1)));
        messages.packet(&packet(1, true, 20, frame(2)));
        messages.packet(&packet(2, false, 60, frame(1)));
        // Twice the same, lost, and one that nobody sent.
        messages.packet(&packet(2, false, 61, frame(1)));
        messages.packet(&packet(2, false, 70, frame(9)));
        let expected =
            Message { network: 0, from: 0, to: 2, sent: 10, arrived: 60, length: 60, kind: 0 };
        assert_eq!(messages.kept(), [expected]);
        assert_eq!(messages.kinds(), [("TCP 2379".to_owned(), 1)]);
    }

    #[test]
    fn a_group_is_sent_once_and_arrives_at_each() {
        let mut messages = Messages::default();
        let mut all = frame(0);
        (all[0], all[13]) = (0xff, 6);
        messages.packet(&packet(0, true, 10, all.clone()));
        for port in 1..4 {
            messages.packet(&packet(port, false, 20, all.clone()));
        }
        assert_eq!(messages.count(), 3);
        assert_eq!(messages.kinds(), [("ARP".to_owned(), 3)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_spread() {
        let mut messages = Messages::default();
        for number in 0..100_000u64 {
            let mut bytes = frame(number as u8);
            bytes[40..48].copy_from_slice(&number.to_le_bytes());
            // A port of its own each, and every third frame is lost.
            bytes[36..38].copy_from_slice(&(number as u16 % 1000).to_be_bytes());
            messages.packet(&packet(0, true, number, bytes.clone()));
            if number % 3 > 0 {
                messages.packet(&packet(1, false, number + 5, bytes));
            }
        }
        let kept = messages.kept();
        assert!((MAX_MESSAGES / 2..=MAX_MESSAGES).contains(&kept.len()), "{}", kept.len());
        assert!(kept[0].sent < 10 && kept.last().unwrap().sent > 99_900);
        assert!(messages.under_way.len() <= MAX_UNDER_WAY);
        assert!(messages.kinds().len() <= MAX_KINDS + 1);
        assert_eq!(messages.kinds().iter().map(|(_, count)| count).sum::<u64>(), messages.count());
    }

    #[test]
    fn no_frame_panics() {
        for length in 0..60 {
            for fill in [0, 0xff, 8] {
                kind(&vec![fill; length]);
                kind(&frame(fill)[..length]);
            }
        }
    }
}
