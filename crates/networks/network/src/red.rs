//! Random early detection: a queue that drops or marks frames before it is full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Random, TimePerByte};
use stasis_config::Mistake;

use crate::frame::wire_bytes;

/// A typical frame in bytes: as long as the usual transfer unit allows.
const TYPICAL: usize = 1_514;
/// Weight of a queue's present length in its average (Floyd and Jacobson, section 6).
const USUAL_WEIGHT: f64 = 0.002;
/// Share of the frames that are dropped just below `max` (the same, section 4).
const USUAL_PROBABILITY: f64 = 0.02;

/// Random early detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1, 1993).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RedSpec {
    /// Average length of the queue from which on frames are dropped.
    #[serde(with = "units::size_option")]
    pub min: Option<u64>,
    /// Average length from which on every frame is; by default three times `min`.
    #[serde(with = "units::size_option")]
    pub max: Option<u64>,
    /// Share of the frames that are dropped just below `max`; by default 0.02.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: Option<f64>,
    /// Weight of the present length in the average, up to 1, which is the present length itself; by
    /// default 0.002.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub weight: Option<f64>,
    /// True if a frame of a sender that understands it is marked instead of dropped (ECN).
    pub ecn: bool,
}

impl RedSpec {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        let Some(min) = self.min else { return Err(Mistake::at("min", "red: give it `min`")) };
        if let Some(max) = self.max.filter(|max| *max < min) {
            let [min, max] = [min, max].map(units::format_size);
            return Err(Mistake::at("max", format!("red: max is {max}, but min is {min}")));
        }
        if let Some(share) = self.probability.filter(|share| !(0.0..=1.0).contains(share)) {
            let message = format!("red: probability is {share}, but must be 0 to 1");
            return Err(Mistake::at("probability", message));
        }
        match self.weight.filter(|weight| !(*weight > 0.0 && *weight <= 1.0)) {
            Some(weight) => {
                let message = format!("red: weight is {weight}, but must be above 0, up to 1");
                Err(Mistake::at("weight", message))
            }
            None => Ok(()),
        }
    }
}

/// A queue's average, and what it has done.
#[derive(Debug, Clone)]
pub(crate) struct Red {
    /// Thresholds, as times that a frame waits (ns).
    min: f64,
    max: f64,
    probability: f64,
    weight: f64,
    ecn: bool,
    /// Time of a typical frame on the wire (ns).
    typical: f64,
    average: f64,
    /// Frames since the last that was dropped or marked, and since the average came to `min`.
    since: u32,
    random: Random,
}

/// The fate of a frame at a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    Marked,
    Dropped,
}

impl Red {
    /// Draws by `random` from now on.
    pub(crate) fn reseed(&mut self, random: Random) {
        self.random = random;
    }

    /// The state of a queue before a stage that sends a byte in `each`.
    pub(crate) fn new(spec: &RedSpec, each: TimePerByte, random: Random) -> Self {
        let min = spec.min.unwrap_or(0);
        let max = spec.max.unwrap_or(min.saturating_mul(3));
        Self {
            min: each.times(min) as f64,
            max: each.times(max) as f64,
            probability: spec.probability.unwrap_or(USUAL_PROBABILITY),
            weight: spec.weight.unwrap_or(USUAL_WEIGHT),
            ecn: spec.ecn,
            typical: each.times(wire_bytes(TYPICAL)).max(1) as f64,
            average: 0.0,
            since: 0,
            random,
        }
    }

    /// Goes on from where another one is, whose thresholds held before for the same queue.
    pub(crate) fn follow(&mut self, before: &Self) {
        self.average = before.average;
        self.since = before.since;
        self.random = before.random.clone();
    }

    /// A frame comes that would wait for `wait`; before it the queue was empty for `idle` (ns).
    /// `capable`: whether its sender understands a mark.
    pub(crate) fn frame(&mut self, wait: Nanos, idle: Nanos, capable: bool) -> Fate {
        // As if so many typical frames had found the queue empty.
        let frames = (idle as f64 / self.typical) as u64;
        self.average *= power(1.0 - self.weight, frames);
        self.average += self.weight * (wait as f64 - self.average);
        if self.average < self.min {
            self.since = 0;
            return Fate::Passes;
        }
        let hit = self.average >= self.max || {
            let share = (self.average - self.min) / (self.max - self.min) * self.probability;
            let rest = 1.0 - f64::from(self.since) * share;
            // Evenly spread: the longer ago the last one is, the more likely is the next (Floyd and
            // Jacobson, section 7, method 2).
            rest <= 0.0 || self.random.unit() < share / rest
        };
        match (hit, self.ecn && capable) {
            (false, _) => {
                self.since = self.since.saturating_add(1);
                Fate::Passes
            }
            (true, marks) => {
                self.since = 0;
                if marks {
                    Fate::Marked
                } else {
                    Fate::Dropped
                }
            }
        }
    }
}

/// `base` to the power of `exponent`, by multiplications alone: the same on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

/// The place of the two bits of ECN in a frame, if it is of IP and its sender understands a mark
/// (RFC 3168, section 5).
fn capable(frame: &[u8]) -> Option<(usize, u8)> {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    let kind = frame.get(12..14)?;
    // In the second byte: of IPv4 the lowest bits, of IPv6 those above the flow label.
    let shift = match kind {
        _ if kind == IPV4 => 0,
        _ if kind == IPV6 => 4,
        _ => return None,
    };
    let bits = frame.get(15)? >> shift & 3;
    (frame.len() >= 34 && bits != 0).then_some((15, shift))
}

/// Returns whether a frame's sender understands a mark.
pub(crate) fn is_capable(frame: &[u8]) -> bool {
    capable(frame).is_some()
}

/// Marks a frame whose sender understands it: congestion experienced.
pub(crate) fn mark(frame: &mut [u8]) {
    let Some((at, shift)) = capable(frame) else { return };
    let before = u16::from_be_bytes([frame[at - 1], frame[at]]);
    frame[at] |= 3 << shift;
    let after = u16::from_be_bytes([frame[at - 1], frame[at]]);
    if shift == 0 {
        // IPv4's header has a checksum (RFC 1624, equation 3).
        let sum = u32::from(!u16::from_be_bytes([frame[24], frame[25]]));
        let sum = sum + u32::from(!before) + u32::from(after);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stasis_block::Rate;

    fn red(min: u64, max: u64, probability: f64, weight: f64) -> Red {
        let spec = RedSpec {
            min: Some(min),
            max: Some(max),
            probability: Some(probability),
            weight: Some(weight),
            ecn: true,
        };
        spec.check().unwrap();
        Red::new(&spec, Rate::per_second(1_000_000_000).time_per_byte(), Random::new(1))
    }

    /// Data centre TCP's marking (RFC 8257, section 3.1): by the present length alone.
    #[test]
    fn with_one_threshold_and_the_whole_weight_it_marks_by_the_present_length() {
        let mut step = red(1_000, 1_000, 1.0, 1.0);
        for wait in [0, 999, 1_000, 5_000, 999, 1_001] {
            let fate = if wait >= 1_000 { Fate::Marked } else { Fate::Passes };
            assert_eq!(step.frame(wait, 0, true), fate, "{wait}");
        }
        assert_eq!(step.frame(1_000, 0, false), Fate::Dropped, "its sender knows no marks");
    }

    /// With a constant queue, frames between two that are hit are uniform in 1..=1/p (Floyd and
    /// Jacobson, section 7, method 2), so a share of 2 / (1/p + 1) is.
    #[test]
    fn a_constant_queue_drops_the_share_of_the_closed_form() {
        for (wait, share) in [(2_000u64, 0.1), (1_500, 0.05), (2_900, 0.19)] {
            let mut red = red(1_000, 3_000, 0.2, 1.0);
            let fates: Vec<bool> =
                (0..200_000).map(|_| red.frame(wait, 0, true) == Fate::Marked).collect();
            let hit = fates.iter().filter(|hit| **hit).count() as f64 / fates.len() as f64;
            let expected = 2.0 / (1.0 / share + 1.0);
            assert!((hit / expected - 1.0).abs() < 0.02, "{wait}: {hit} for {expected}");
            let gaps: Vec<usize> = fates.split(|hit| *hit).map(<[bool]>::len).collect();
            let longest = gaps[1..gaps.len() - 1].iter().max().unwrap();
            assert!((*longest as f64) < 1.0 / share, "{wait}: {longest}");
        }
    }

    #[test]
    fn the_average_follows_slowly_and_falls_while_the_queue_is_empty() {
        let mut red = red(1_000, 3_000, 1.0, 0.1);
        let mut average = 0.0;
        for _ in 0..20 {
            red.frame(900, 0, true);
            average += 0.1 * (900.0 - average);
            assert!((red.average - average).abs() < 1e-9);
        }
        // Ten frames of 1,538 ns.
        red.frame(0, 15_380, true);
        let expected = average * 0.9f64.powi(11);
        assert!((red.average - expected).abs() < 1e-9, "{} for {expected}", red.average);
    }

    proptest! {
        /// A marked IPv4 header has the checksum that it would have been sent with.
        #[test]
        fn a_mark_keeps_the_header_whole(
            mut header in prop::array::uniform20(any::<u8>()), traffic in any::<u8>()
        ) {
            let sum = |header: &[u8]| -> u16 {
                let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
                let sum: u32 = words.sum();
                let sum = (sum & 0xffff) + (sum >> 16);
                (sum + (sum >> 16)) as u16
            };
            header[0] = 0x45;
            header[1] = traffic;
            header[10..12].fill(0);
            let own = !sum(&header);
            header[10..12].copy_from_slice(&own.to_be_bytes());
            let mut frame = vec![0; 12];
            frame.extend_from_slice(&[0x08, 0x00]);
            frame.extend_from_slice(&header);
            let before = frame.clone();
            mark(&mut frame);
            prop_assert_eq!(is_capable(&before), traffic & 3 != 0);
            if traffic & 3 == 0 {
                prop_assert_eq!(&frame, &before);
            } else {
                prop_assert_eq!(frame[15], traffic | 3);
                prop_assert_eq!(sum(&frame[14..34]), 0xffff);
            }
        }

        #[test]
        fn noise_never_panics(mut noise in prop::collection::vec(any::<u8>(), 0..60)) {
            is_capable(&noise);
            mark(&mut noise);
        }
    }

    #[test]
    fn ipv6_has_its_bits_in_the_traffic_class() {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14..16].copy_from_slice(&[0x60, 0x2f]);
        mark(&mut frame);
        assert_eq!(frame[14..16], [0x60, 0x3f]);
        frame[15] = 0x0f;
        mark(&mut frame);
        assert_eq!(frame[15], 0x0f, "its sender knows no marks");
    }
}
