//! The rules of a file's instructions.

use std::collections::HashMap;

use stasis_layout::{layout, take, FromBytes, IntoBytes, U16, U32};

use crate::file::MAX_PLACES;
use crate::rule::{RawRule, Rule};

/// For places that have no rule.
const NONE: u16 = u16::MAX;

layout! {
    /// The head of a stream; rules, places and their numbers follow.
    struct Head: 8 {
        /// Number of the rules.
        [0] rules: U32,
        /// Number of the places, and of their numbers.
        [4] places: U32,
    }
}

/// The rules of a file's instructions, by their places in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Places at which each rule begins to hold (bytes from the file's begin), rising.
    places: Vec<u32>,
    /// The number of each place's rule, or [`NONE`].
    numbers: Vec<u16>,
    rules: Vec<Rule>,
}

impl Table {
    /// The table of a program or a library; None where the file is neither, or tells nothing of its
    /// frames.
    pub fn of(file: &[u8]) -> Option<Self> {
        let rows = crate::file::rows(file)?;
        let table = Self::from_rows(rows);
        (!table.places.is_empty()).then_some(table)
    }

    /// Makes a table of rows: begin, end, and the rule, in any order.
    pub(crate) fn from_rows(mut rows: Vec<(u32, u32, Rule)>) -> Self {
        let mut table = Self::default();
        let mut known = HashMap::new();
        rows.sort();
        let mut end = 0;
        for (begin, until, rule) in rows {
            // The file of a linker has no rows that overlap.
            let begin = begin.max(end);
            if begin >= until {
                continue;
            }
            if begin > end {
                table.push(end, NONE);
            }
            let next = u16::try_from(table.rules.len()).unwrap_or(NONE);
            let number = match known.get(&rule) {
                Some(&number) => number,
                None if next == NONE => NONE,
                None => {
                    known.insert(rule, next);
                    table.rules.push(rule);
                    next
                }
            };
            table.push(begin, number);
            end = until;
        }
        if end > 0 {
            table.push(end, NONE);
        }
        table
    }

    fn push(&mut self, place: u32, number: u16) {
        if self.numbers.last() != Some(&number) {
            self.places.push(place);
            self.numbers.push(number);
        }
    }

    /// The rule of the instruction at `offset` (bytes from the file's begin).
    pub fn rule(&self, offset: u64) -> Option<&Rule> {
        let offset = u32::try_from(offset).ok()?;
        let after = self.places.partition_point(|place| *place <= offset);
        let number = self.numbers[after.checked_sub(1)?];
        self.rules.get(usize::from(number))
    }

    /// Bytes that the table takes in memory, about.
    pub fn size(&self) -> usize {
        self.places.len() * size_of::<(U32, U16)>() + self.rules.len() * size_of::<RawRule>()
    }

    /// The table as a stream of bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(size_of::<Head>() + self.size());
        let [rules, places] = [self.rules.len(), self.places.len()].map(|count| count as u32);
        out.extend_from_slice(Head { rules: rules.into(), places: places.into() }.as_bytes());
        self.rules.iter().for_each(|rule| out.extend_from_slice(RawRule::from(rule).as_bytes()));
        self.places.iter().for_each(|place| out.extend_from_slice(&place.to_le_bytes()));
        self.numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out
    }

    /// The table of such a stream; None where it is none.
    pub fn decode(mut stream: &[u8]) -> Option<Self> {
        let head: Head = take(&mut stream)?;
        let [rules, places] = [head.rules, head.places].map(|count| count.get() as usize);
        if rules > usize::from(NONE) || places > 2 * MAX_PLACES {
            return None;
        }
        let (rules, stream) = <[RawRule]>::ref_from_prefix_with_elems(stream, rules).ok()?;
        let (places, stream) = <[U32]>::ref_from_prefix_with_elems(stream, places).ok()?;
        let numbers = <[U16]>::ref_from_bytes(stream).ok()?;
        if numbers.len() != places.len() {
            return None;
        }
        let table = Self {
            rules: rules.iter().map(RawRule::rule).collect::<Option<_>>()?,
            places: places.iter().map(|place| place.get()).collect(),
            numbers: numbers.iter().map(|number| number.get()).collect(),
        };
        table.places.is_sorted().then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Address, Base};
    use crate::Registers;
    use proptest::prelude::*;

    fn rule(offset: i32) -> Rule {
        Rule {
            frame: Address { base: Base::Rsp, offset },
            indirect: false,
            returns: Some(Address { base: Base::Frame, offset: -8 }),
            rbp: None,
            is_signal: false,
        }
    }

    /// A stream may be read by another build.
    #[test]
    fn the_bytes_are_as_ever() {
        let other = Rule { returns: None, rbp: Some(rule(-16).frame), is_signal: true, ..rule(2) };
        let rows = vec![(0x100, 0x200, rule(8)), (0x300, 0x10400, other)];
        let stream = Table::from_rows(rows).encode().escape_ascii().to_string();
        let expected: [&str; 1] = [
            r"\x02\x00\x00\x00\x05\x00\x00\x00\x01\x08\x00\x00\x00\x03\xf8\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01\xf0\xff\xff\xff\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x01\x00\xff\xff\x00\x00\xff\xff\x01\x00\xff\xff",
        ];
        assert_eq!([stream], expected);
    }

    proptest! {
        /// Against a table of each byte: the rule that was given for it, if one was.
        #[test]
        fn each_byte_has_its_rule(
            lengths in prop::collection::vec((0u32..9, 0u32..9, 0i32..4), 0..40),
        ) {
            let (mut rows, mut plain, mut at) = (Vec::new(), Vec::new(), 0);
            for (gap, length, offset) in lengths {
                plain.resize(plain.len() + gap as usize, None);
                at += gap;
                plain.resize(plain.len() + length as usize, Some(rule(offset)));
                rows.push((at, at + length, rule(offset)));
                at += length;
            }
            rows.reverse();
            let table = Table::from_rows(rows);
            for (offset, rule) in (0..).zip(plain.into_iter().chain([None])) {
                prop_assert_eq!(table.rule(offset), rule.as_ref());
            }
            prop_assert_eq!(Table::decode(&table.encode()), Some(table));
        }

        /// Whatever rows overlap, and whatever a stream has: places rise, and nothing panics.
        #[test]
        fn noise_is_a_table_or_none(
            rows in prop::collection::vec((0u32..99, 0u32..99, 0i32..3), 0..30),
            noise in prop::collection::vec(any::<u8>(), 0..99),
            cut in any::<prop::sample::Index>(),
            flip in any::<(prop::sample::Index, u8)>(),
            registers in any::<[u64; 3]>(),
        ) {
            let rows = rows.into_iter().map(|(from, until, offset)| (from, until, rule(offset)));
            let table = Table::from_rows(rows.collect());
            prop_assert!(table.places.is_sorted_by(|a, b| a < b));
            let mut stream = table.encode();
            prop_assert_eq!(Table::decode(&stream[..cut.index(stream.len())]), None);
            let place = flip.0.index(stream.len());
            stream[place] ^= flip.1;
            for stream in [noise, stream] {
                let Some(table) = Table::decode(&stream) else { continue };
                let [rip, rsp, rbp] = registers;
                for offset in 0..100 {
                    let Some(rule) = table.rule(offset) else { continue };
                    let _ = rule.caller(Registers { rip, rsp, rbp }, Some);
                }
            }
        }
    }
}
