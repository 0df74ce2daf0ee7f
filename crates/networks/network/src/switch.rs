//! A learning Ethernet switch: which ports a frame goes to.

use std::collections::BTreeMap;

/// Limit on the addresses that a switch learns; frames to others go to every port.
pub const MAX_LEARNED: usize = 4096;

/// The destination of a frame's way through the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// A port.
    One(usize),
    /// Every port but the sender's.
    Others,
}

/// Addresses, and the ports behind which they were seen.
#[derive(Debug, Default)]
pub struct Switch {
    learned: BTreeMap<[u8; 6], usize>,
}

impl Switch {
    /// Learns the source address of `frame`, which comes from `port`, and returns where the frame
    /// goes: to no port if it is no Ethernet frame, or if its receiver is behind the same port.
    pub fn ports(&mut self, port: usize, frame: &[u8]) -> Option<Ports> {
        let (destination, rest) = frame.split_first_chunk::<6>()?;
        let source = rest.first_chunk::<6>()?;
        let is_group = |address: &[u8; 6]| address[0] & 1 != 0;
        let known = self.learned.contains_key(source);
        if !is_group(source) && (known || self.learned.len() < MAX_LEARNED) {
            self.learned.insert(*source, port);
        }
        if is_group(destination) {
            return Some(Ports::Others);
        }
        match self.learned.get(destination) {
            Some(to) if *to == port => None,
            Some(to) => Some(Ports::One(*to)),
            None => Some(Ports::Others),
        }
    }

    /// Notes that `address` is behind `port`.
    pub fn learn(&mut self, address: [u8; 6], port: usize) {
        self.learned.insert(address, port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> [u8; 60] {
        let mut frame = [0; 60];
        (frame[5], frame[11]) = (to, from);
        frame
    }

    #[test]
    fn a_switch_learns() {
        let mut switch = Switch::default();
        assert_eq!(switch.ports(0, &frame(7, 9)), Some(Ports::Others));
        assert_eq!(switch.ports(1, &frame(9, 7)), Some(Ports::One(0)));
        assert_eq!(switch.ports(0, &frame(7, 9)), Some(Ports::One(1)));
        assert_eq!(switch.ports(1, &frame(7, 8)), None, "behind the same port");
        assert_eq!(switch.ports(2, &frame(7, 9)), Some(Ports::One(1)));
        assert_eq!(switch.ports(1, &frame(9, 7)), Some(Ports::One(2)), "moved");
        let mut all = frame(0, 9);
        all[..6].fill(0xff);
        assert_eq!(switch.ports(0, &all), Some(Ports::Others));
        assert_eq!(switch.ports(0, &all[..11]), None);
    }

    #[test]
    fn what_is_learned_is_bounded() {
        let mut switch = Switch::default();
        let mut frame = [0; 60];
        for number in 0..MAX_LEARNED as u32 + 9 {
            frame[8..12].copy_from_slice(&number.to_be_bytes());
            switch.ports(3, &frame);
        }
        assert_eq!(switch.learned.len(), MAX_LEARNED);
    }
}
