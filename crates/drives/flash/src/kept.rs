//! The state that a drive keeps while its power is off, as bytes: numbers of 7 bits a byte, the least
//! significant first, behind a head and before a check sum.
//!
//! Only what was shut down is kept, so that nothing is under way and nothing waits: the mapping, the
//! blocks and their wear, the open ones, and the time for which the drive was on. What lies in memory
//! begins anew with the power: counters of hot data, what a policy draws at random, results.
//!
//! A damaged state is refused; nothing in one is believed that can be computed.

use std::ops::Range;

use base64::prelude::{Engine as _, BASE64_STANDARD};

/// The form of the state; another one is refused.
const VERSION: u64 = 1;
/// The first line of a file that has one.
const HEAD: &str = "stasis flash state";

/// Why a drive cannot resume from a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    /// The file is no state, or of another version of the program.
    #[error("it is no state of a flash drive that this program knows")]
    Form,
    /// The state was changed, or cut off.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// The state is of another drive.
    #[error("it is of a drive with {kept}, and this one has {now}")]
    Other {
        /// The drive of the state.
        kept: String,
        /// This drive.
        now: String,
    },
}

/// A state that is being written.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Adds a number.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of each byte are taken")]
    pub fn put(&mut self, number: impl Into<u64>) {
        let mut number = number.into();
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Adds numbers behind their count.
    pub fn put_all<T: Into<u64>>(&mut self, numbers: impl ExactSizeIterator<Item = T>) {
        self.put(numbers.len() as u64);
        numbers.for_each(|number| self.put(number));
    }

    /// Takes these bytes, for tests.
    #[cfg(test)]
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The text of a file, of a drive in these words.
    pub(crate) fn into_text(self, drive: &str) -> String {
        let sum = check_sum(&self.0);
        format!("{HEAD} {VERSION} {sum:016x} {drive}\n{}\n", BASE64_STANDARD.encode(self.0))
    }
}

/// A state that is being read.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next number.
    ///
    /// # Errors
    /// [`KeptError::Damaged`]: there is none.
    pub fn take(&mut self) -> Result<u64, KeptError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(KeptError::Damaged("it is cut off"))?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(KeptError::Damaged("a number has no end"))
    }

    /// Reads the next number, within a range.
    ///
    /// # Errors
    /// [`KeptError::Damaged`], for the reason `reason`.
    pub fn within(&mut self, range: Range<u64>, reason: &'static str) -> Result<u32, KeptError> {
        let number = self.take()?;
        let number = range.contains(&number).then_some(number).ok_or(KeptError::Damaged(reason))?;
        u32::try_from(number).map_err(|_| KeptError::Damaged(reason))
    }

    /// Reads a count, at most that of a range, and as many numbers within the range.
    ///
    /// # Errors
    /// [`KeptError::Damaged`], for the reason `reason`.
    pub fn all_within(
        &mut self,
        range: Range<u64>,
        reason: &'static str,
    ) -> Result<Vec<u32>, KeptError> {
        let most = range.end.saturating_sub(range.start);
        let count = self.within(0..most.saturating_add(1), reason)?;
        (0..count).map(|_| self.within(range.clone(), reason)).collect()
    }

    /// Returns whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The bytes of a text that is of a drive in these words.
pub(crate) fn bytes_of(text: &str, drive: &str) -> Result<Vec<u8>, KeptError> {
    let (head, body) = text.split_once('\n').ok_or(KeptError::Form)?;
    let head = head.strip_prefix(HEAD).and_then(|head| head.strip_prefix(' '));
    let mut words = head.ok_or(KeptError::Form)?.splitn(3, ' ');
    let version = words.next().and_then(|word| word.parse().ok());
    if version != Some(VERSION) {
        return Err(KeptError::Form);
    }
    let sum = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
    let kept = words.next().ok_or(KeptError::Form)?;
    if kept != drive {
        return Err(KeptError::Other { kept: kept.into(), now: drive.into() });
    }
    let bytes = BASE64_STANDARD.decode(body.trim_end());
    let bytes = bytes.map_err(|_| KeptError::Damaged("it is not in base 64"))?;
    if Some(check_sum(&bytes)) != sum {
        return Err(KeptError::Damaged("its check sum is another one"));
    }
    Ok(bytes)
}

/// FNV-1a of 64 bits (Fowler, Noll and Vo): against accidents, not against intent.
fn check_sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut out = Writer::default();
            numbers.iter().for_each(|&number| out.put(number >> (number % 64)));
            let text = out.into_text("a drive");
            let bytes = bytes_of(&text, "a drive").unwrap();
            let mut reader = Reader::new(&bytes);
            for number in numbers {
                prop_assert_eq!(reader.take().unwrap(), number >> (number % 64));
            }
            prop_assert!(reader.is_empty() && reader.take().is_err());
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut out = Writer::default();
        out.put_all([1u32, 2, 300].into_iter());
        let text = out.into_text("one channel");
        let other = bytes_of(&text, "two channels").unwrap_err().to_string();
        assert!(other.contains("one channel") && other.contains("two channels"), "{other}");
        for (wrong, error) in [
            (String::new(), "no state"),
            (text.replace("state 1", "state 2"), "no state"),
            (text.replace("AwECrAI", "AwECrAM"), "check sum"),
            (text.replace("AwE", "A*E"), "base 64"),
        ] {
            let message = bytes_of(&wrong, "one channel").unwrap_err().to_string();
            assert!(message.contains(error), "{wrong}: {message}");
        }
        let bytes = bytes_of(&text, "one channel").unwrap();
        assert_eq!(Reader::new(&bytes).all_within(1..301, "them").unwrap(), [1, 2, 300]);
        assert!(Reader::new(&bytes).all_within(1..300, "them").is_err());
        assert!(Reader::new(&[0xff; 11]).take().is_err() && Reader::new(&[0x80]).take().is_err());
    }
}
