//! The rules of a file's instructions.

use std::collections::HashMap;

use crate::rule::{Rule, RULE};

/// Limit on the places of a table at which the rule changes: LLVM's library, of 110 MiB, has a million.
pub(crate) const MAX_PLACES: usize = 1 << 21;
/// For places that have no rule.
const NONE: u16 = u16::MAX;
/// Bytes of a place in a stream.
const PLACE: usize = 4 + 2;

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
            let next = table.rules.len() as u16;
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
        self.places.len() * PLACE + self.rules.len() * RULE
    }

    /// The table as a stream of bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.size());
        out.extend_from_slice(&(self.rules.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.places.len() as u32).to_le_bytes());
        self.rules.iter().for_each(|rule| rule.encode(&mut out));
        self.places.iter().for_each(|place| out.extend_from_slice(&place.to_le_bytes()));
        self.numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out
    }

    /// The table of such a stream; None where it is none.
    pub fn decode(stream: &[u8]) -> Option<Self> {
        let (rules, stream) = stream.split_first_chunk()?;
        let (places, stream) = stream.split_first_chunk()?;
        let [rules, places] = [rules, places].map(|count| u32::from_le_bytes(*count) as usize);
        if rules > usize::from(NONE) || places > 2 * MAX_PLACES {
            return None;
        }
        let (rules, stream) = stream.split_at_checked(rules * RULE)?;
        let (places, numbers) = stream.split_at_checked(places * 4)?;
        if numbers.len() * 2 != places.len() {
            return None;
        }
        let rules = rules.chunks_exact(RULE).map(|rule| Rule::decode(rule.first_chunk()?));
        let places = places.chunks_exact(4).filter_map(|place| place.first_chunk());
        let numbers = numbers.chunks_exact(2).filter_map(|number| number.first_chunk());
        let table = Self {
            rules: rules.collect::<Option<_>>()?,
            places: places.map(|place| u32::from_le_bytes(*place)).collect(),
            numbers: numbers.map(|number| u16::from_le_bytes(*number)).collect(),
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
