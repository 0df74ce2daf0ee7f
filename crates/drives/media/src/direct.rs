//! Direct I/O: past the page cache, in whole blocks, from aligned memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::file_io::write_all_at;

/// Alignment of memory for direct I/O (bytes): no Linux block driver asks for
/// more than a page (`queue/dma_alignment` in sysfs).
const ALIGNMENT: usize = 4096;

/// Bytes that pass through the buffer at a time.
const PIECE: u64 = 1 << 20;

/// Aligned memory through which direct I/O passes; one for each thread.
#[derive(Debug, Default)]
pub(crate) struct Bounce {
    memory: Vec<u8>,
}

impl Bounce {
    fn get(&mut self, length: usize) -> &mut [u8] {
        if self.memory.len() < length + ALIGNMENT {
            self.memory.resize(length + ALIGNMENT, 0);
        }
        let start = self.memory.as_ptr().align_offset(ALIGNMENT);
        &mut self.memory[start..start + length]
    }
}

/// Returns whether a range is made of whole blocks.
pub(crate) fn is_whole(offset: u64, length: u64, block: u64) -> bool {
    offset.is_multiple_of(block) && length.is_multiple_of(block)
}

/// Reads any range.
pub(crate) fn read(
    file: &File,
    block: u64,
    offset: u64,
    mut data: &mut [u8],
    bounce: &mut Bounce,
) -> io::Result<()> {
    for (span, within) in spans(offset, data.len() as u64, block) {
        let buffer = bounce.get((span.end - span.start) as usize);
        file.read_exact_at(buffer, span.start)?;
        let (piece, rest) = data.split_at_mut(within.len());
        piece.copy_from_slice(&buffer[within]);
        data = rest;
    }
    Ok(())
}

/// Writes any range. Where it does not begin and end with a block, the caller
/// keeps others from writing: the rest of the block is read and written back.
pub(crate) fn write(
    file: &File,
    block: u64,
    offset: u64,
    mut data: &[u8],
    fua: bool,
    bounce: &mut Bounce,
) -> io::Result<()> {
    for (span, within) in spans(offset, data.len() as u64, block) {
        let buffer = bounce.get((span.end - span.start) as usize);
        if within.len() < buffer.len() {
            file.read_exact_at(buffer, span.start)?;
        }
        let (piece, rest) = data.split_at(within.len());
        buffer[within].copy_from_slice(piece);
        write_all_at(file, buffer, span.start, fua)?;
        data = rest;
    }
    Ok(())
}

/// Cuts a range into spans of whole blocks that cover it, with the part of
/// each that belongs to the range.
fn spans(offset: u64, length: u64, block: u64) -> impl Iterator<Item = (Range<u64>, Range<usize>)> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = at / block * block;
        let stop = (start + PIECE).min(end.div_ceil(block) * block);
        let within = (at - start) as usize..(end.min(stop) - start) as usize;
        at = stop;
        Some((start..stop, within))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_are_whole_blocks_and_cover_the_range_once(
            offset in 0u64..10_000, length in 0u64..3 * PIECE, shift in 9u32..13,
        ) {
            let block = 1u64 << shift;
            let mut at = offset;
            for (span, within) in spans(offset, length, block) {
                prop_assert!(is_whole(span.start, span.end - span.start, block));
                prop_assert!(span.end - span.start <= PIECE);
                prop_assert_eq!(span.start + within.start as u64, at);
                prop_assert!(!within.is_empty() && within.end as u64 <= span.end - span.start);
                at = span.start + within.end as u64;
            }
            prop_assert_eq!(at, offset + length);
        }

        #[test]
        fn memory_is_aligned(lengths in prop::collection::vec(1usize..100_000, 1..20)) {
            let mut bounce = Bounce::default();
            for length in lengths {
                let memory = bounce.get(length);
                prop_assert_eq!(memory.as_ptr() as usize % ALIGNMENT, 0);
                prop_assert_eq!(memory.len(), length);
            }
        }
    }
}
