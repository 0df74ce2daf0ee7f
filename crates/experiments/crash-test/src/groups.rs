//! Findings by kind and cause: one fault shows in many states.

use std::collections::HashMap;

use serde::Serialize;
use stasis_block::clock::Nanos;

use crate::session::{Finding, Kind};

/// States that a group names.
const NAMED: usize = 8;

/// Findings of one kind and cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Their kind.
    pub kind: Kind,
    /// The drive's name; none where a check looked at all of them.
    pub drive: Option<String>,
    /// The cause: what the findings say, without the numbers in which they differ.
    pub cause: String,
    /// Number of findings.
    pub count: u64,
    /// The first of their states.
    pub states: Vec<u64>,
    /// Times of the first and the last cut (ns).
    pub at: (Nanos, Nanos),
    /// The finding that stands for the group: the last that names a step which relied on what is
    /// lost, or else the step under way; or else the first of all.
    pub example: usize,
}

impl Group {
    /// Times of its cuts, in the words of `time`: `cut at 3 ms`, `cuts at 3 ms to 9 ms`.
    pub fn cuts(&self, time: impl Fn(Nanos) -> String) -> String {
        match self.at {
            (first, last) if first == last => format!("cut at {}", time(first)),
            (first, last) => format!("cuts at {} to {}", time(first), time(last)),
        }
    }
}

/// The groups of findings, those with the most first. `tells` ranks how much a finding tells a
/// reader: the last of the highest rank stands for its group, when a file system is there for
/// certain; the first where all have rank 0.
pub fn groups(findings: &[Finding], tells: impl Fn(&Finding) -> u8) -> Vec<Group> {
    let mut places: HashMap<(Kind, Option<&str>, String), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (index, finding) in findings.iter().enumerate() {
        let cause = cause(&finding.what);
        let key = (finding.kind, finding.drive.as_deref(), cause.clone());
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group {
                kind: finding.kind,
                drive: finding.drive.clone(),
                cause,
                count: 0,
                states: Vec::new(),
                at: (finding.at, finding.at),
                example: index,
            });
        }
        let group = &mut groups[place];
        group.count += 1;
        if tells(finding) >= tells(&findings[group.example]).max(1) {
            group.example = index;
        }
        group.at = (group.at.0.min(finding.at), group.at.1.max(finding.at));
        if group.states.len() < NAMED {
            group.states.push(finding.state);
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

/// A text without its numbers, decimal or hexadecimal: N stands for each.
fn cause(description: &str) -> String {
    let mut out = String::new();
    let mut rest = description.trim().chars().peekable();
    let mut in_word = false;
    while let Some(first) = rest.next() {
        if !first.is_ascii_digit() || in_word {
            in_word = first.is_alphanumeric() || first == '_';
            out.push(first);
            continue;
        }
        let hexadecimal = first == '0' && rest.next_if_eq(&'x').is_some();
        let is_digit = |c: &char| match hexadecimal {
            true => c.is_ascii_hexdigit(),
            false => c.is_ascii_digit() || *c == ',' || *c == '.',
        };
        let mut last = first;
        while let Some(digit) = rest.next_if(is_digit) {
            last = digit;
        }
        // A time may be in another unit.
        let space = usize::from(rest.peek() == Some(&' '));
        let ahead: String = rest.clone().skip(space).take_while(|c| c.is_alphanumeric()).collect();
        if matches!(ahead.as_str(), "ns" | "us" | "µs" | "ms" | "s") {
            rest.by_ref().take(space + ahead.chars().count()).for_each(drop);
        }
        out.push('N');
        // A full stop or a comma after a number belongs to the text.
        if matches!(last, ',' | '.') {
            out.push(last);
        }
        in_word = false;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_a_text_without_its_numbers() {
        for (description, expected) in [
            (
                "byte 0x1f00: a durable write is gone: write 17",
                "byte N: a durable write is gone: write N",
            ),
            ("inode 12, 4,096 bytes.", "inode N, N bytes."),
            ("at 1.5s, and 12.25ms", "at N, and N"),
            ("at 7us.", "at N."),
            ("at 7 µs, 2 sectors", "at N, N sectors"),
            ("2sectors", "Nsectors"),
            ("ext4: row md5sum differs at 3.", "ext4: row md5sum differs at N."),
            ("", ""),
        ] {
            assert_eq!(cause(description), expected);
        }
    }

    #[test]
    fn findings_of_one_cause_are_one_group() {
        let finding = |state: u64, kind, description: &str| Finding {
            state,
            at: 100 - state,
            drive: Some("disk".into()),
            kind,
            what: description.into(),
            repeats: None,
            write: None,
            bytes: Vec::new(),
            evidence: None,
        };
        let all = [
            finding(3, Kind::Image, "cluster 9 is lost"),
            finding(1, Kind::Lost, "byte 0x10: gone"),
            finding(2, Kind::Lost, "byte 0x20: gone"),
            finding(4, Kind::Order, "byte 0x20: gone"),
        ];
        let found = groups(&all, |_| 0);
        let counts: Vec<_> = found.iter().map(|group| (group.kind, group.count)).collect();
        assert_eq!(counts, [(Kind::Lost, 2), (Kind::Image, 1), (Kind::Order, 1)]);
        assert_eq!((found[0].cause.as_str(), found[0].example), ("byte N: gone", 1));
        assert_eq!((found[0].states.as_slice(), found[0].at), (&[1, 2][..], (98, 99)));
        let telling = groups(&all, |finding| (finding.state == 2).into());
        assert_eq!(telling.iter().map(|group| group.example).collect::<Vec<_>>(), [2, 0, 3]);
        let equal = groups(&all, |_| 1);
        assert_eq!(equal.iter().map(|group| group.example).collect::<Vec<_>>(), [2, 0, 3]);
    }
}
