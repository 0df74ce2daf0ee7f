//! Lines that a machine's command wrote: the first and the last.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;

/// Limits on the first lines that are kept, and on the last.
const MAX_FIRST: usize = 200;
const MAX_LAST: usize = 200;
/// Limit on the characters of a line.
const MAX_CHARACTERS: usize = 200;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Time at which it was written (ns).
    pub at: Nanos,
    /// True if to the standard error.
    pub error: bool,
    /// The line, or its beginning.
    pub text: String,
}

/// The lines of a command.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    first: Vec<Line>,
    last: VecDeque<Line>,
    /// Numbers of merges.
    pub count: u64,
}

impl Lines {
    /// One more line.
    pub(crate) fn add(&mut self, at: Nanos, error: bool, line: &[u8]) {
        // A character has four bytes at most.
        let beginning = &line[..line.len().min(4 * MAX_CHARACTERS)];
        let text = String::from_utf8_lossy(beginning).chars().take(MAX_CHARACTERS).collect();
        self.count += 1;
        let line = Line { at, error, text };
        if self.first.len() < MAX_FIRST {
            self.first.push(line);
            return;
        }
        if self.last.len() == MAX_LAST {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Returns the lines that are kept, in their order.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Line> {
        self.first.iter().chain(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_lines_are_kept() {
        let mut lines = Lines::default();
        for number in 0..1000 {
            lines.add(number, false, format!("a {number}").as_bytes());
            lines.add(number, false, b"b");
        }
        let kept: Vec<_> = lines.kept().collect();
        assert_eq!((lines.count, kept.len()), (2000, MAX_FIRST + MAX_LAST));
        assert_eq!((kept[0].text.as_str(), kept[399].text.as_str()), ("a 0", "b"));
        assert_eq!((kept[199].at, kept[200].at), (99, 900));
        lines.add(1, true, &[b'x'; 100_000]);
        assert!(lines.kept().all(|line| line.text.len() <= 200));
        lines.add(1, true, &[0xff; 5]);
        assert_eq!(lines.kept().last().unwrap().text, "\u{fffd}".repeat(5));
    }
}
