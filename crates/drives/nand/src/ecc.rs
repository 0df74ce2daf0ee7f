//! Raw bit errors of a page, and the steps by which they are corrected.
//!
//! The rate of raw bit errors grows with a block's erases, with the time since it was written and
//! with the reads since then. A read is decoded in steps, each of which corrects so many bits of a
//! codeword; the first that corrects every codeword of the read ends it.
//!
//! Invariants: equal reads of equal numbers have equal ends; the probability that a read ends by a
//! step is the largest that a step up to it has of correcting the read by itself.

use std::ops::Range;

use stasis_block::clock::{Nanos, SECOND};

use crate::hash::{bits, unit};

/// Most steps.
pub const MAX_ECC_STEPS: usize = 16;
/// Stream of the seed that draws bit errors.
const ERRORS: u64 = 0x6572_726f;
const DAY: f64 = 24.0 * 3_600.0;

/// The rate of raw bit errors, in the form of Kim, Choi and Min, Design Tradeoffs for SSD
/// Reliability, FAST 2019: the sum of a base, of wear, of loss by retention, and of disturbance by
/// reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRate {
    /// Rate of a new block.
    pub base: f64,
    /// `[a, k]`: `a * erases^k`.
    pub wear: [f64; 2],
    /// `[b, m, n]`: `b * erases^m * days^n`, with the time since the block's first page was
    /// programmed.
    pub retention: [f64; 3],
    /// `[c, p, q]`: `c * erases^p * reads^q`, with the reads of a block since its erase by its
    /// pages.
    pub disturb: [f64; 3],
}

impl ErrorRate {
    /// The rate of a block (a share of the bits, at most a half).
    pub fn of(&self, erases: u32, seconds: u64, reads_of_page: f64) -> f64 {
        let (erases, days) = (f64::from(erases), seconds as f64 / DAY);
        let [a, k] = self.wear;
        let term = |[factor, wear, power]: [f64; 3], value: f64| {
            if factor == 0.0 || value == 0.0 {
                return 0.0;
            }
            factor * erases.powf(wear) * value.powf(power)
        };
        let wear = if a == 0.0 { 0.0 } else { a * erases.powf(k) };
        let sum = self.base + wear + term(self.retention, days) + term(self.disturb, reads_of_page);
        sum.clamp(0.0, 0.5)
    }
}

/// A step of decoding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EccStep {
    /// Wrong bits of a codeword that it corrects at most.
    pub bits: u32,
    /// The share of the raw bit errors that its reference voltages leave.
    pub errors: f64,
    /// Number of times that the cells are read again for it.
    pub reads: u32,
    /// The time that it takes besides (ns).
    pub latency: Nanos,
}

/// Errors of bits, and their correction.
#[derive(Debug, Clone, PartialEq)]
pub struct Ecc {
    /// The rate of raw bit errors.
    pub rate: ErrorRate,
    /// Data of a codeword (bytes).
    pub codeword: u32,
    /// The steps, in their order.
    pub steps: Vec<EccStep>,
    /// The age (ns), when the run begins, of the contents of blocks that were not written since.
    pub age: Nanos,
    /// Erases that each block had before its first one here.
    pub erases: u32,
}

/// Points of a [`Decoder`] for each doubling of the rate.
const POINTS: f64 = 64.0;
/// The least rate for which something is wrong, as a power of two.
const MIN_POWER: f64 = -24.0;

/// The probability that a step corrects a codeword, by the rate of errors.
#[derive(Debug)]
struct Decoder {
    // At 2^(MIN_POWER + place / POINTS).
    table: Vec<f64>,
}

impl Decoder {
    /// Makes the table of codewords of `length` bits, of which `limit` may be wrong.
    fn new(length: u32, limit: u32) -> Self {
        let places = (-1.0 - MIN_POWER) * POINTS;
        let rate = |place: u32| (MIN_POWER + f64::from(place) / POINTS).exp2();
        let table = (0..=places as u32).map(|place| at_most(length, limit, rate(place)));
        Self { table: table.collect() }
    }

    /// At a rate, between two points in a straight line.
    fn corrects(&self, rate: f64) -> f64 {
        let place = (rate.log2() - MIN_POWER) * POINTS;
        // Also at no rate at all, whose logarithm is less than every number.
        if place <= 0.0 {
            return 1.0;
        }
        let last = self.table.len() - 1;
        let below = (place as usize).min(last);
        let (low, high) = (self.table[below], self.table[(below + 1).min(last)]);
        low + (high - low) * (place - below as f64).min(1.0)
    }
}

/// The probability that of `length` bits at most `limit` are wrong, of which each is with the
/// probability `rate`: the binomial distribution.
fn at_most(length: u32, limit: u32, rate: f64) -> f64 {
    if limit >= length {
        return 1.0;
    }
    let odds = rate / (1.0 - rate);
    // The logarithm, as the first terms may be too small for a number.
    let mut term = f64::from(length) * (-rate).ln_1p();
    let mut sum = 0.0;
    for wrong in 0..=limit {
        sum += term.exp();
        term += (f64::from(length - wrong) / f64::from(wrong + 1) * odds).ln();
    }
    sum.min(1.0)
}

/// The errors of an array's blocks, and their correction.
#[derive(Debug)]
pub(crate) struct Errors {
    ecc: Ecc,
    decoders: Vec<Decoder>,
    pages: f64,
    // By block: the second, from the array's first use on, in which its first page was programmed,
    // plus one; 0 for never.
    written: Vec<u32>,
    // By block: reads of its pages since its erase.
    reads: Vec<u32>,
}

/// The end of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The step that corrected it, or the last one.
    pub step: u8,
    /// True if it was corrected.
    pub corrected: bool,
    /// Number of times that the cells are read again.
    pub reads: u32,
    /// The time that the steps take besides (ns).
    pub latency: Nanos,
}

impl Errors {
    /// Starts with blocks that were never written, of `pages` pages each.
    pub fn new(ecc: Ecc, blocks: u64, pages: u32) -> Self {
        let length = ecc.codeword.saturating_mul(8);
        let decoders = ecc.steps.iter().map(|step| Decoder::new(length, step.bits)).collect();
        let (written, reads) = (vec![0; blocks as usize], vec![0; blocks as usize]);
        Self { ecc, decoders, pages: f64::from(pages.max(1)), written, reads }
    }

    /// The age (ns) of a block's data when the array is in use for `now`.
    pub fn age(&self, block: u64, now: Nanos) -> Nanos {
        match self.written[block as usize].checked_sub(1) {
            Some(second) => now.saturating_sub(u64::from(second) * SECOND),
            None => now.saturating_add(self.ecc.age),
        }
    }

    /// Counts a read of a block's page.
    pub fn read(&mut self, block: u64) {
        let reads = &mut self.reads[block as usize];
        *reads = reads.saturating_add(1);
    }

    /// The first page of a block was programmed.
    pub fn written(&mut self, block: u64, now: Nanos) {
        let second = u32::try_from(now / SECOND).unwrap_or(u32::MAX - 1);
        self.written[block as usize] = second.saturating_add(1);
    }

    /// A block was erased.
    pub fn erased(&mut self, block: u64) {
        self.reads[block as usize] = 0;
    }

    /// The rate of raw bit errors of a block.
    pub fn rate(&self, block: u64, erases: u32, now: Nanos) -> f64 {
        let erases = erases.saturating_add(self.ecc.erases);
        let reads = f64::from(self.reads[block as usize]) / self.pages;
        self.ecc.rate.of(erases, self.age(block, now) / SECOND, reads)
    }

    /// Decodes a read of `bytes` bytes; `draw`: the seed and the number of its draw.
    pub fn decode(&self, bytes: u32, rate: f64, (seed, number): (u64, u64)) -> Decoded {
        let codewords = bytes.div_ceil(self.ecc.codeword.max(1)).max(1);
        // The same errors meet every step: one draw.
        let luck = unit(bits(seed ^ ERRORS, number));
        let mut end = Decoded { step: 0, corrected: false, reads: 0, latency: 0 };
        for (place, (step, decoder)) in (0..).zip(self.ecc.steps.iter().zip(&self.decoders)) {
            end.step = place;
            end.reads = end.reads.saturating_add(step.reads);
            end.latency = end.latency.saturating_add(step.latency);
            let each = decoder.corrects(rate * step.errors);
            if luck < each.powi(codewords as i32) {
                end.corrected = true;
                break;
            }
        }
        end
    }

    /// By block: when its first page was programmed, and its reads, for [`Errors::restore`].
    pub fn clocks(&self) -> [&[u32]; 2] {
        [&self.written, &self.reads]
    }

    /// Restores the clocks that [`Self::clocks`] has returned.
    pub fn restore(&mut self, [written, reads]: [Vec<u32>; 2]) {
        if written.len() == self.written.len() && reads.len() == self.reads.len() {
            (self.written, self.reads) = (written, reads);
        }
    }
}

/// A value that no correction can have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`ecc.{key}` = {value} cannot work: {reason}; the nearest that works is {nearest}")]
pub struct EccError {
    /// The key of the value.
    pub key: &'static str,
    /// The value given.
    pub value: String,
    /// Why it cannot work.
    pub reason: &'static str,
    /// The nearest that works.
    pub nearest: String,
}

impl Ecc {
    /// Checks that the correction works for pages of `page` bytes.
    ///
    /// # Errors
    /// [`EccError`] names the first value that cannot work, and the nearest that does.
    pub fn check(&self, page: u32) -> Result<(), EccError> {
        let wrong = |key, value: String, reason, nearest: String| {
            Err(EccError { key, value, reason, nearest })
        };
        if self.codeword == 0 || !page.is_multiple_of(self.codeword) {
            let reason = "codewords divide a page";
            let most = page.min(self.codeword.max(1));
            let nearest = (1..=most).rev().find(|&size| page.is_multiple_of(size)).unwrap_or(1);
            return wrong("codeword", self.codeword.to_string(), reason, nearest.to_string());
        }
        if self.steps.is_empty() || self.steps.len() > MAX_ECC_STEPS {
            let reason = "a read is decoded in 1 to 16 steps";
            let nearest = self.steps.len().clamp(1, MAX_ECC_STEPS);
            let count = format!("{} steps", self.steps.len());
            return wrong("steps", count, reason, nearest.to_string());
        }
        let in_range = |key, value: f64, range: Range<f64>, reason| {
            if value >= range.start && value <= range.end {
                return Ok(());
            }
            let nearest = if value > range.end { range.end } else { range.start };
            wrong(key, value.to_string(), reason, nearest.to_string())
        };
        let share = "it is a share, from 0 to 1";
        for step in &self.steps {
            in_range("steps.errors", step.errors, 0.0..1.0, share)?;
            let most = self.codeword.saturating_mul(8);
            if step.bits > most {
                let reason = "a codeword has fewer bits";
                return wrong("steps.bits", step.bits.to_string(), reason, most.to_string());
            }
        }
        let ErrorRate { base, wear, retention, disturb } = self.rate;
        in_range("errors.base", base, 0.0..0.5, "it is a share of the bits, from 0 to 0.5")?;
        let number = "it is a number from 0 to 1000";
        for (key, values) in [
            ("errors.wear", &wear[..]),
            ("errors.retention", &retention[..]),
            ("errors.disturb", &disturb[..]),
        ] {
            values.iter().try_for_each(|&value| in_range(key, value, 0.0..1_000.0, number))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: ErrorRate = ErrorRate {
        base: 1.48e-3,
        wear: [3.90e-10, 2.05],
        retention: [6.28e-5, 0.14, 0.54],
        disturb: [3.73e-9, 0.33, 1.71],
    };

    fn ecc(steps: &[(u32, f64, u32, u64)]) -> Ecc {
        let step = |&(bits, errors, reads, latency): &_| EccStep { bits, errors, reads, latency };
        let steps = steps.iter().map(step).collect();
        Ecc { rate: RATE, codeword: 1024, steps, age: 0, erases: 0 }
    }

    /// The binomial distribution by counting drawn bits.
    #[test]
    fn codewords_are_corrected_as_often_as_their_errors_are_few() {
        for (length, limit, rate) in [(64, 3, 0.03), (200, 0, 0.002), (100, 20, 0.2)] {
            let count = 20_000u64;
            let wrong = |word: u64| {
                (0..length).filter(|&bit| unit(bits(word, u64::from(bit))) < rate).count() as u32
            };
            let good = (0..count).filter(|&word| wrong(word) <= limit).count() as f64;
            let expected = at_most(length, limit, rate);
            let deviation = (expected * (1.0 - expected) / count as f64).sqrt();
            assert!((good / count as f64 - expected).abs() < 5.0 * deviation, "{good} {expected}");
            // And the table is the distribution, to a thousandth.
            let table = Decoder::new(length, limit).corrects(rate);
            assert!((table - expected).abs() < 1e-3, "{table} for {expected}");
        }
        let decoder = Decoder::new(8_192, 72);
        assert_eq!((decoder.corrects(0.0), decoder.corrects(1e-9)), (1.0, 1.0));
        assert!(decoder.corrects(0.5) < 1e-9 && decoder.corrects(0.4) < 1e-9);
        for thousandths in 1..40 {
            let rate = f64::from(thousandths) / 1e3;
            let (table, exact) = (decoder.corrects(rate), at_most(8_192, 72, rate));
            assert!((table - exact).abs() < 2e-3, "{rate}: {table} for {exact}");
        }
    }

    #[test]
    fn steps_have_the_closed_forms_shares_and_times() {
        let ecc = ecc(&[(72, 1.0, 0, 0), (72, 0.8, 1, 500), (90, 0.7, 3, 9_000)]);
        let errors = Errors::new(ecc, 1, 64);
        for rate in [0.005, 0.0085, 0.0105, 0.013, 0.02] {
            let alone = [(72, 1.0), (72, 0.8), (90, 0.7)]
                .map(|(limit, share)| at_most(8_192, limit, rate * share).powi(4));
            let count = 40_000;
            let (mut ends, mut lost, mut time) = ([0u32; 3], 0u32, 0u64);
            for number in 0..count {
                let end = errors.decode(4_096, rate, (9, number));
                ends[usize::from(end.step)] += u32::from(end.corrected);
                lost += u32::from(!end.corrected);
                time += u64::from(end.reads) * 50_000 + end.latency;
            }
            let mut before = 0.0;
            for (place, &corrects) in alone.iter().enumerate() {
                let share = (corrects - before).max(0.0);
                let got = f64::from(ends[place]) / count as f64;
                assert!((got - share).abs() < 0.012, "{rate}, {place}: {got} for {share}");
                before = before.max(corrects);
            }
            assert!((f64::from(lost) / count as f64 - (1.0 - before)).abs() < 0.012);
            // Each step is reached by those that no step before it corrected.
            let expected = (1.0 - alone[0]) * (50_000.0 + 500.0)
                + (1.0 - alone[0].max(alone[1])) * (3.0 * 50_000.0 + 9_000.0);
            let mean = time as f64 / count as f64;
            assert!((mean - expected).abs() < 0.02 * expected + 20.0, "{rate}: {mean} {expected}");
        }
    }

    #[test]
    fn errors_grow_with_erases_age_and_reads_as_the_formula_has_it() {
        let day = 24 * 3_600;
        for (erases, seconds, reads) in [(0, 0, 0.0), (1_000, 0, 0.0), (1_000, 30 * day, 500.0)] {
            let cycles = f64::from(erases);
            let expected = 1.48e-3
                + 3.90e-10 * cycles.powf(2.05)
                + 6.28e-5 * cycles.powf(0.14) * (seconds as f64 / 86_400.0).powf(0.54)
                + 3.73e-9 * cycles.powf(0.33) * f64::powf(reads, 1.71);
            let rate = RATE.of(erases, seconds, reads);
            assert!((rate / expected - 1.0).abs() < 1e-9, "{rate} for {expected}");
        }
        let mut ecc = ecc(&[(72, 1.0, 0, 0)]);
        (ecc.erases, ecc.age) = (100, 10 * SECOND);
        let mut errors = Errors::new(ecc, 2, 4);
        assert_eq!(errors.rate(0, 5, 7 * SECOND), RATE.of(105, 17, 0.0));
        errors.written(0, 7 * SECOND + 1);
        (0..8).for_each(|_| errors.read(0));
        assert_eq!(errors.rate(0, 5, 9 * SECOND), RATE.of(105, 2, 2.0));
        errors.erased(0);
        errors.written(0, 9 * SECOND);
        assert_eq!(errors.rate(0, 6, 9 * SECOND), RATE.of(106, 0, 0.0));
        assert_eq!(RATE.of(u32::MAX, u64::MAX, 1e9), 0.5);
    }

    #[test]
    fn a_correction_that_cannot_work_is_refused() {
        let good = ecc(&[(72, 1.0, 0, 0)]);
        assert_eq!(good.check(16_384), Ok(()));
        let says = |ecc: Ecc, page| ecc.check(page).unwrap_err().to_string();
        let with_codeword = |codeword| Ecc { codeword, ..good.clone() };
        assert!(says(with_codeword(0), 4_096).contains("nearest that works is 1"));
        assert!(says(with_codeword(3_000), 4_096).contains("nearest that works is 2048"));
        assert!(says(ecc(&[]), 4_096).contains("`ecc.steps` = 0 steps"));
        assert!(says(ecc(&[(9_000, 1.0, 0, 0)]), 4_096).contains("nearest that works is 8192"));
        assert!(says(ecc(&[(9, 1.5, 0, 0)]), 4_096).contains("`ecc.steps.errors` = 1.5"));
        let rate = ErrorRate { disturb: [f64::NAN, 0.0, 0.0], ..RATE };
        assert!(says(Ecc { rate, ..good }, 4_096).contains("`ecc.errors.disturb` = NaN"));
    }
}
