//! Pages on their way into the cells.

use crate::buffer::{IN_FLIGHT, NONE};
use crate::narrow::count;

/// Future contents of the slots of pages that are being programmed: entries of the
/// buffer for the host's, slots that units move from for housekeeping's.
///
/// Invariant: a page's number is in use from [`Programs::begin`] to [`Programs::end`].
#[derive(Debug)]
pub(super) struct Programs {
    slots: usize,
    contents: Vec<u32>,
    used: Vec<u32>,
    free: Vec<u32>,
}

impl Programs {
    pub fn new(slots: u32) -> Self {
        let slots = slots as usize;
        Self {
            slots,
            contents: Vec::with_capacity(slots * IN_FLIGHT),
            used: Vec::with_capacity(IN_FLIGHT),
            free: Vec::with_capacity(IN_FLIGHT),
        }
    }

    /// A page, empty for now.
    pub fn begin(&mut self) -> u32 {
        if let Some(page) = self.free.pop() {
            self.used[page as usize] = 0;
            return page;
        }
        self.contents.resize(self.contents.len() + self.slots, NONE);
        self.used.push(0);
        count(self.used.len()) - 1
    }

    /// The page's next slot will hold this.
    pub fn push(&mut self, page: u32, content: u32) {
        let used = &mut self.used[page as usize];
        self.contents[page as usize * self.slots + *used as usize] = content;
        *used += 1;
    }

    /// The future contents of the page's slots.
    pub fn contents(&self, page: u32) -> &[u32] {
        let start = page as usize * self.slots;
        &self.contents[start..start + self.used[page as usize] as usize]
    }

    /// The page is done with.
    pub fn end(&mut self, page: u32) {
        self.free.push(page);
    }

    /// Every page is.
    pub fn clear(&mut self) {
        self.contents.clear();
        self.used.clear();
        self.free.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_their_contents_apart_and_are_used_again() {
        let mut programs = Programs::new(2);
        let (first, second) = (programs.begin(), programs.begin());
        programs.push(first, 7);
        programs.push(second, 8);
        programs.push(second, 9);
        assert_eq!((programs.contents(first), programs.contents(second)), (&[7][..], &[8, 9][..]));
        programs.end(second);
        let third = programs.begin();
        assert_eq!((third, programs.contents(third)), (second, &[][..]));
        programs.clear();
        assert_eq!(programs.begin(), 0);
    }
}
