//! The values' bytes, at their places in the log.
//!
//! Invariant: memory for the segments that have something, and no others.

use stasis_block::splitmix;
use stasis_key_value::{Layout, Place};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Bytes {
    segment: u64,
    segments: Vec<Option<Box<[u8]>>>,
}

/// The bytes of a value by its seed, eight at a time; the last may be a part only.
fn words(content: u64, length: u32) -> impl Iterator<Item = ([u8; 8], usize)> {
    (0..length.div_ceil(8)).map(move |index| {
        let used = (length - index * 8).min(8) as usize;
        (splitmix::nth(content, index.into()).to_le_bytes(), used)
    })
}

impl Bytes {
    /// Starts with a log in which nothing was written.
    pub fn new(layout: &Layout) -> Self {
        Self { segment: layout.segment, segments: vec![None; layout.segments as usize] }
    }

    /// Bytes that lie in one segment.
    fn of(&mut self, offset: u64) -> &mut [u8] {
        let (segment, at) = (offset / self.segment, (offset % self.segment) as usize);
        let empty = || vec![0; self.segment as usize].into_boxed_slice();
        &mut self.segments[segment as usize].get_or_insert_with(empty)[at..]
    }

    /// Writes a value to a place.
    pub fn write(&mut self, place: Place, content: u64) {
        if place.length == 0 {
            return;
        }
        let to = self.of(place.offset)[..place.length as usize].chunks_mut(8);
        for (to, (word, used)) in to.zip(words(content, place.length)) {
            to.copy_from_slice(&word[..used]);
        }
    }

    /// Returns whether a place has a value.
    pub fn matches(&mut self, place: Place, content: u64) -> bool {
        let bytes = &self.of(place.offset)[..place.length as usize];
        let mut pairs = bytes.chunks(8).zip(words(content, place.length));
        pairs.all(|(bytes, (word, used))| bytes == &word[..used])
    }

    /// Bytes are copied.
    pub fn copy(&mut self, from: u64, to: u64, length: u64) {
        let data = self.of(from)[..length as usize].to_vec();
        self.of(to)[..length as usize].copy_from_slice(&data);
    }

    /// A segment is discarded.
    pub fn forget(&mut self, offset: u64) {
        self.segments[(offset / self.segment) as usize] = None;
    }
}
