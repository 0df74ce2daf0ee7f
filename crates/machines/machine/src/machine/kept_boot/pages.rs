//! The content of a machine's memory at one moment, to be brought back.
//!
//! Most of it is zeroes, and much of the rest one word again and again, as Linux fills what it has
//! freed. What is there already is not written: QEMU would translate the code of such a page anew.

use std::io;

use crate::memory::{GuestMemory, Mapping};

const PAGE: usize = 4096;

/// A page that is not all zeroes: its place in its region (bytes), and its content.
#[derive(Debug)]
struct Page {
    offset: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// One word, repeated.
    Word(u64),
    /// At this place (bytes) of the copies.
    Copy(usize),
}

/// The content of the ranges that a machine without power loses.
#[derive(Debug)]
pub(super) struct Pages {
    /// One list for each range in turn, in the order of places.
    pages: Vec<Vec<Page>>,
    copies: Mapping,
}

impl Pages {
    /// Copies the present content of `memory`, of which all bytes that are not zero are known to be
    /// written. Later writes are known apart from these.
    ///
    /// # Errors
    /// If the host has too little memory for it.
    pub(super) fn of(memory: &mut GuestMemory) -> io::Result<Self> {
        let (mut pages, mut length) = (Vec::new(), 0);
        for region in memory.volatile() {
            let mut own = Vec::new();
            for (place, piece) in region.mapping_mut().written(false) {
                for (number, page) in piece.chunks(PAGE).enumerate() {
                    let content = match one_word(page) {
                        Some(0) => continue,
                        Some(word) => Content::Word(word),
                        None => Content::Copy(length),
                    };
                    length += if matches!(content, Content::Copy(_)) { PAGE } else { 0 };
                    own.push(Page { offset: place + number * PAGE, content });
                }
            }
            pages.push(own);
        }
        // No memory is mapped for nothing.
        let copies = Mapping::new(length.max(PAGE) as u64, false)?;
        for (region, own) in memory.volatile().zip(&pages) {
            region.mapping().forget_written();
            for page in own {
                if let Content::Copy(at) = page.content {
                    let from = &region.mapping_mut().as_mut_slice()[page.offset..][..PAGE];
                    copies.write(at as u64, from).map_err(io::Error::other)?;
                }
            }
        }
        Ok(Self { pages, copies })
    }

    /// Everything of the content counts as written.
    pub(super) fn note_written(&self, memory: &mut GuestMemory) {
        for (region, pages) in memory.volatile().zip(&self.pages) {
            for page in pages {
                region.mapping().note_written(page.offset..page.offset + 1);
            }
        }
    }

    /// Restores the content of `memory`, of which all changes since then are known to be written.
    /// Later writes are known apart from these.
    pub(super) fn bring_back(&mut self, memory: &mut GuestMemory) {
        let copies = self.copies.as_mut_slice();
        let guard = memory.guard();
        for (region, pages) in memory.volatile().zip(&self.pages) {
            let base = region.base;
            let mut pages = pages.iter().peekable();
            for (place, piece) in region.mapping_mut().written(false) {
                while pages.next_if(|page| page.offset < place).is_some() {}
                for (number, into) in piece.chunks_mut(PAGE).enumerate() {
                    let offset = place + number * PAGE;
                    let here = pages.next_if(|page| page.offset == offset);
                    let changes = || guard.before_write(base + offset as u64, PAGE as u64);
                    match here.map_or(&Content::Word(0), |page| &page.content) {
                        Content::Word(word) if one_word(into) == Some(*word) => {}
                        Content::Word(word) => {
                            changes();
                            fill(into, *word);
                        }
                        Content::Copy(at) => {
                            let from = &copies[*at..][..into.len()];
                            if *from != *into {
                                changes();
                                into.copy_from_slice(from);
                            }
                        }
                    }
                }
            }
            region.mapping().forget_written();
        }
    }

    /// Bytes of the host's memory that it takes.
    #[cfg(test)]
    fn length(&self) -> usize {
        self.copies.len()
    }
}

/// Returns the word that all of `page` consists of, if there is one.
fn one_word(page: &[u8]) -> Option<u64> {
    let word = stasis_layout::u64_at(page, 0)?;
    // Each word is the one before.
    let same = page.len().is_multiple_of(8) && page[8..] == page[..page.len() - 8];
    same.then_some(word)
}

/// Makes `page` consist of `word`.
fn fill(page: &mut [u8], word: u64) {
    let word = word.to_le_bytes();
    // By words: each byte by itself would take some 10 instructions of the host.
    page.chunks_mut(word.len()).for_each(|into| into.copy_from_slice(&word[..into.len()]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RAM: u64 = 8 << 20;

    fn content(memory: &mut GuestMemory) -> Vec<u8> {
        memory.volatile().flat_map(|region| region.mapping_mut().as_mut_slice().to_vec()).collect()
    }

    #[test]
    fn pages_of_one_word_take_no_memory() {
        let mut memory = GuestMemory::new(RAM, 4096).unwrap();
        memory.write(PAGE as u64, &[0xcc; 3 * PAGE]).unwrap();
        assert_eq!(Pages::of(&mut memory).unwrap().length(), PAGE);
        memory.write(2 * PAGE as u64, &[1, 2]).unwrap();
        memory.write(7 * PAGE as u64, &[1]).unwrap();
        assert_eq!(Pages::of(&mut memory).unwrap().length(), 2 * PAGE);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn the_content_comes_back(
            before in prop::collection::vec((0..RAM - 9000, any::<u8>(), 1..9000usize), 0..12),
            after in prop::collection::vec((0..RAM - 9000, any::<u8>(), 1..9000usize), 0..12),
            lost in any::<bool>(),
        ) {
            let mut memory = GuestMemory::new(RAM, 4096).unwrap();
            let put = |memory: &GuestMemory, all: &[(u64, u8, usize)]| {
                for (address, byte, length) in all {
                    memory.write(*address, &vec![*byte; *length]).unwrap();
                }
            };
            put(&memory, &before);
            let was = content(&mut memory);
            let mut pages = Pages::of(&mut memory).unwrap();
            for _ in 0..3 {
                if lost {
                    pages.note_written(&mut memory);
                    memory.lose(false);
                    prop_assert!(content(&mut memory).iter().all(|byte| *byte == 0));
                    pages.note_written(&mut memory);
                }
                put(&memory, &after);
                pages.bring_back(&mut memory);
                prop_assert!(content(&mut memory) == was);
            }
        }
    }
}
