//! Memory of the bare machine, handed out in pages.

use crate::layout::{Parameters, BREAK_LENGTH, HIGH, LOW_END, PARAMETERS};

const PAGE: u64 = 4096;
/// From one of these lengths on, memory begins at a multiple of it, where there is such room:
/// large pages. A guest's access to a new page costs a walk of two tables, and pages of 1 GiB
/// save one step for each step of the guest's own.
const ALIGNMENTS: [u64; 3] = [1 << 30, BIG, PAGE];
const BIG: u64 = 2 << 20;
/// Limit on the pieces of memory that was never used: the alignment of each large request leaves one over.
const FRESH: usize = 16;
/// Limit on the pieces of memory that were given back and are not in use again.
const PIECES: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    start: u64,
    end: u64,
}

impl Range {
    const EMPTY: Self = Self { start: 0, end: 0 };

    /// Returns the place at which `length` bytes can begin, at a multiple of `align`.
    fn fits(self, length: u64, align: u64) -> Option<u64> {
        let start = self.start.checked_next_multiple_of(align)?;
        (start.checked_add(length)? <= self.end).then_some(start)
    }
}

/// Free memory. `Pages` allocates nothing itself: `malloc` takes memory from it.
pub(super) struct Pages {
    /// Never used: all zeros.
    fresh: [Range; FRESH],
    /// Given back: anything may be in it.
    used: [Range; PIECES],
    count: usize,
    break_start: u64,
    break_end: u64,
    /// The highest that the break has been.
    break_used: u64,
}

impl Pages {
    pub(super) const fn new() -> Self {
        Self {
            fresh: [Range::EMPTY; FRESH],
            used: [Range::EMPTY; PIECES],
            count: 0,
            break_start: 0,
            break_end: 0,
            break_used: 0,
        }
    }

    /// Looks up what the machine has, the first time.
    pub(super) fn begin(&mut self) {
        if self.break_start != 0 {
            return;
        }
        // SAFETY: the image has put it there, and nobody writes to it.
        let parameters = unsafe { (PARAMETERS as *const Parameters).read_volatile() };
        self.lay_out(parameters.program_end.get(), parameters.memory.get());
    }

    fn lay_out(&mut self, program_end: u64, memory: u64) {
        let start = program_end.next_multiple_of(BIG);
        (self.break_start, self.break_end, self.break_used) = (start, start, start);
        let low = Range { start: start + BREAK_LENGTH, end: memory.min(LOW_END) };
        let high = Range { start: HIGH, end: HIGH + memory.saturating_sub(LOW_END) };
        self.fresh = [Range::EMPTY; FRESH];
        (self.fresh[0], self.fresh[1]) = (low, high);
    }

    /// brk(2).
    pub(super) fn set_break(&mut self, to: u64) -> u64 {
        if to >= self.break_start && to <= self.break_start + BREAK_LENGTH {
            if to > self.break_end {
                let dirty = self.break_used.min(to);
                clear(self.break_end, dirty.saturating_sub(self.break_end));
            }
            self.break_end = to;
            self.break_used = self.break_used.max(to);
        }
        self.break_end
    }

    /// `length` bytes of zeros.
    pub(super) fn take(&mut self, length: u64) -> Option<u64> {
        let length = length.checked_next_multiple_of(PAGE).filter(|length| *length > 0)?;
        let least = if length >= BIG { BIG } else { PAGE };
        ALIGNMENTS
            .into_iter()
            .filter(|align| (least..=length.max(least)).contains(align))
            .find_map(|align| self.take_aligned(length, align))
    }

    fn take_aligned(&mut self, length: u64, align: u64) -> Option<u64> {
        // The smallest piece that is large enough.
        let pieces = self.used[..self.count].iter().enumerate();
        let fitting = pieces.filter(|(_, piece)| piece.fits(length, align).is_some());
        let best = fitting.min_by_key(|(_, piece)| piece.end - piece.start);
        if let Some((index, start)) =
            best.and_then(|(index, piece)| Some((index, piece.fits(length, align)?)))
        {
            let piece = self.used[index];
            self.remove(index);
            self.give_range(Range { start: piece.start, end: start });
            self.give_range(Range { start: start + length, end: piece.end });
            clear(start, length);
            return Some(start);
        }
        let index = (0..FRESH).find(|&index| self.fresh[index].fits(length, align).is_some())?;
        let range = self.fresh[index];
        let start = range.fits(length, align)?;
        self.fresh[index].start = start + length;
        // Memory left over by the alignment of large pages serves other requests, and stays zeros
        // where it can.
        let left_out = Range { start: range.start, end: start };
        match self.fresh.iter_mut().find(|range| range.start >= range.end) {
            Some(free) if left_out.start < left_out.end => *free = left_out,
            _ => self.give_range(left_out),
        }
        Some(start)
    }

    /// Takes memory back.
    pub(super) fn give(&mut self, start: u64, length: u64) {
        let Some(end) = start.checked_add(length) else { return };
        self.give_range(Range { start, end: end.next_multiple_of(PAGE) });
    }

    fn give_range(&mut self, mut range: Range) {
        if range.start >= range.end {
            return;
        }
        let mut index = 0;
        while index < self.count {
            let other = self.used[index];
            if other.end == range.start || other.start == range.end {
                range =
                    Range { start: range.start.min(other.start), end: range.end.max(other.end) };
                self.remove(index);
            } else {
                index += 1;
            }
        }
        if self.count == PIECES {
            // More pieces than the list has room for: the smallest is lost.
            let sizes =
                self.used.iter().enumerate().map(|(at, piece)| (piece.end - piece.start, at));
            let Some((size, smallest)) = sizes.min() else { return };
            if size >= range.end - range.start {
                return;
            }
            self.remove(smallest);
        }
        self.used[self.count] = range;
        self.count += 1;
    }

    fn remove(&mut self, index: usize) {
        self.count -= 1;
        self.used[index] = self.used[self.count];
    }
}

/// Fills memory with zeros.
pub(super) fn clear(start: u64, length: u64) {
    if cfg!(test) {
        return;
    }
    // SAFETY: pages that nobody uses, or whose user has given their content up.
    unsafe { std::ptr::write_bytes(start as *mut u8, 0, length as usize) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        let mut pages = Pages::new();
        pages.lay_out(0x123_4567, 6 << 30);
        pages
    }

    #[test]
    fn what_is_taken_does_not_overlap() {
        let mut pages = pages();
        let mut held: Vec<(u64, u64)> = Vec::new();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if seed >> 63 == 0 || held.is_empty() {
                let length = (seed >> 33) % (5 << 20) + 1;
                let Some(start) = pages.take(length) else { continue };
                let end = (start + length).next_multiple_of(PAGE);
                assert!(length < BIG || start % BIG == 0);
                assert!(end <= LOW_END || start >= HIGH && end <= HIGH + (3 << 30));
                assert!(held.iter().all(|&(from, to)| to <= start || from >= end));
                held.push((start, end));
            } else {
                let (start, end) = held.swap_remove((seed >> 33) as usize % held.len());
                pages.give(start, end - start);
            }
        }
    }

    /// Memory that no one has used is not cleared.
    #[test]
    fn what_alignment_leaves_over_stays_fresh() {
        let mut pages = pages();
        for length in [1 << 30, 3 << 20, 1 << 30, 5000, 224 << 20, 1 << 30, 2 << 20] {
            assert!(pages.take(length).is_some());
            assert_eq!(pages.count, 0, "{length}");
        }
    }

    #[test]
    fn everything_comes_back_in_one_piece() {
        let mut pages = pages();
        let all: Vec<u64> = std::iter::from_fn(|| pages.take(1 << 30)).collect();
        assert_eq!(all.len(), 5);
        for start in all {
            pages.give(start, 1 << 30);
        }
        assert!(pages.take(2 << 30).is_some());
        assert_eq!(pages.take(u64::MAX), None);
        assert_eq!(pages.take(0), None);
    }

    #[test]
    fn the_break_stays_in_its_room() {
        let mut pages = pages();
        let start = pages.set_break(0);
        assert_eq!(pages.set_break(start + 100), start + 100);
        assert_eq!(pages.set_break(start + BREAK_LENGTH + 1), start + 100);
        assert_eq!(pages.set_break(start - 1), start + 100);
    }
}
