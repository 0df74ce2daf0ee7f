//! Physical addresses of this process's memory, for transfers by DMA.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Size of a page, and of an entry of /proc/self/pagemap covering it.
pub(super) const PAGE: usize = 4096;
const ENTRY: usize = 8;
/// Entries read at once: 2 MiB of memory.
const BATCH: usize = 512;

/// The kernel's table of this process's pages
/// (Documentation/admin-guide/mm/pagemap.rst).
pub(super) struct PageMap {
    /// None on the bare machine, whose memory is mapped one to one.
    file: Option<File>,
}

impl PageMap {
    pub(super) fn open() -> io::Result<Self> {
        if stasis_bare::is_here() {
            return Ok(Self { file: None });
        }
        Ok(Self { file: Some(File::open("/proc/self/pagemap")?) })
    }

    /// Calls `each` with (physical address, length) of the contiguous pieces
    /// of `range`, in order. Every page is made present first, and not moved
    /// before `each` returns: the start of the software host has turned
    /// compaction and page merging off, and there is no swap.
    pub(super) fn pieces<E: From<io::Error>>(
        &self,
        range: &mut [u8],
        mut each: impl FnMut(u64, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(file) = &self.file else {
            return match range {
                [] => Ok(()),
                range => each(range.as_mut_ptr() as u64, range.len()),
            };
        };
        let mut open: Option<(u64, usize)> = None;
        let start = range.as_mut_ptr() as usize;
        let end = start + range.len();
        populate(range)?;
        let mut at = start;
        while at < end {
            // Up to the end of this batch's pages.
            let first = at / PAGE;
            let count = (end.div_ceil(PAGE) - first).min(BATCH);
            let mut entries = [0; BATCH * ENTRY];
            let entries = &mut entries[..count * ENTRY];
            file.read_exact_at(entries, (first * ENTRY) as u64)?;
            for (page, entry) in entries.chunks_exact(ENTRY).enumerate() {
                let physical = physical(stasis_layout::number(entry))?;
                let page_start = ((first + page) * PAGE).max(start);
                let page_end = ((first + page + 1) * PAGE).min(end);
                let address = physical + (page_start % PAGE) as u64;
                let length = page_end - page_start;
                open = match open {
                    Some((from, so_far)) if from + so_far as u64 == address => {
                        Some((from, so_far + length))
                    }
                    Some((from, so_far)) => {
                        each(from, so_far)?;
                        Some((address, length))
                    }
                    None => Some((address, length)),
                };
            }
            at = (first + count) * PAGE;
        }
        match open {
            Some((from, length)) => each(from, length),
            None => Ok(()),
        }
    }
}

/// Makes every page of `range` present and writable, huge ones where the
/// kernel has them: reading first would map pages of zeros, and small ones
/// when they are written.
pub(super) fn populate(range: &mut [u8]) -> io::Result<()> {
    let start = range.as_mut_ptr() as usize;
    let first = start / PAGE * PAGE;
    let length = (start + range.len()).next_multiple_of(PAGE) - first;
    if range.is_empty() {
        return Ok(());
    }
    // SAFETY: changes no content, and every page has a byte of `range`, so it
    // is mapped (madvise(2)).
    let done =
        unsafe { libc::madvise(first as *mut libc::c_void, length, libc::MADV_POPULATE_WRITE) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The physical address in an entry: bit 63 is set if the page is present, bits 0 to 54 are its
/// frame.
fn physical(entry: u64) -> io::Result<u64> {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let frame = entry & FRAME;
    if entry & PRESENT == 0 || frame == 0 {
        return Err(io::Error::other("a page of the destination has no frame"));
    }
    Ok(frame * PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_documented() {
        assert_eq!(physical(1 << 63 | 0x1234).unwrap(), 0x123_4000);
        assert!(physical(0x1234).is_err());
        // The entry that a process without the right to see frames gets.
        assert!(physical(1 << 63).is_err());
    }

    #[test]
    fn pieces_cover_any_range_once_and_in_order() {
        // Reading frames takes root; without it there is nothing to test.
        let Ok(map) = PageMap::open() else { return };
        let mut memory = vec![7u8; 3 << 20];
        for (from, to) in [(0, 3 << 20), (1, 2), (5, 4096 + 9), (4095, 4097), (77, 3 << 20), (9, 9)]
        {
            let mut total = 0;
            let result = map.pieces(&mut memory[from..to], |address, length| {
                assert!(address > 0 && length > 0);
                total += length;
                Ok::<(), io::Error>(())
            });
            match result {
                Ok(()) => assert_eq!(total, to - from),
                Err(error) => {
                    assert_eq!(error.to_string(), "a page of the destination has no frame");
                    return;
                }
            }
        }
        assert!(memory.iter().all(|byte| *byte == 7));
    }
}
