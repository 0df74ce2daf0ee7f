//! The page by which a guest asks for help while its bfq has raised weights. The guest writes it,
//! the machine only reads it.
//!
//! Little-endian: [`MAGIC`], [`VERSION`], then from [`SLOTS_OFFSET`] on
//! [`SLOTS`] numbers of four bytes, one for each of the guest's drives: how
//! many of its queues have a raised weight and something to do. Help is asked
//! for while one is not 0, or the eight bytes at [`HOLD_OFFSET`]: a queue of which
//! all is on its way has nothing to do, and is still waited for.
//!
//! At [`COUNT_OFFSET`] stands how many requests of interactive queues bfq has
//! handed out so far, modulo 2^32; the first sector of the n-th, counted from 0,
//! is in the ring of [`RING`] numbers of eight bytes from [`RING_OFFSET`] on, at n
//! modulo its length.

use std::time::Duration;

/// Time for which a guest keeps asking once nothing is raised: a program that starts computes
/// between its reads, and while its last is on its way bfq has none.
pub const LINGER: Duration = Duration::from_millis(200);

/// Size of the page, and alignment of its address (bytes).
pub const PAGE: usize = 4096;
/// The page's first four bytes.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HELP");
/// The layout's version, in the next four.
pub const VERSION: u32 = 2;
/// Place of the number of urgent requests.
pub const COUNT_OFFSET: usize = 8;
/// Place at which the slots begin.
pub const SLOTS_OFFSET: usize = 64;
/// Number of slots. Drives beyond share one.
pub const SLOTS: usize = 16;
/// Place at which a process of the guest holds the help.
pub const HOLD_OFFSET: usize = SLOTS_OFFSET + 4 * SLOTS;
/// Place of the urgent requests' sectors.
pub const RING_OFFSET: usize = 1024;
/// Number of those sectors; a power of two.
pub const RING: usize = 64;
/// As much as the machine reads each time it looks.
pub const LENGTH: usize = HOLD_OFFSET + 8;

/// The page's beginning.
pub fn header() -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// Returns whether a page's first [`LENGTH`] bytes ask for help; `None` if they are no such page's.
pub fn wants_help(page: &[u8; LENGTH]) -> Option<bool> {
    let slots = page.strip_prefix(&header())?.get(SLOTS_OFFSET - 8..)?;
    Some(slots.iter().any(|byte| *byte != 0))
}

/// Returns the number of urgent requests so far.
pub fn count(page: &[u8; LENGTH]) -> u32 {
    let bytes = page[COUNT_OFFSET..].first_chunk().copied();
    u32::from_le_bytes(bytes.unwrap_or_default())
}

/// Returns the sectors of the requests after `previous` up to `count`, in order; of more than the
/// ring holds, the last.
pub fn since(ring: &[u8; 8 * RING], previous: u32, count: u32) -> impl Iterator<Item = u64> + '_ {
    let new = count.wrapping_sub(previous).min(RING as u32);
    (0..new).map(move |back| {
        let at = count.wrapping_sub(new - back) as usize % RING;
        let bytes = ring[8 * at..].first_chunk().copied();
        u64::from_le_bytes(bytes.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_by_its_slots() {
        let mut page = [0; LENGTH];
        assert_eq!(wants_help(&page), None, "no header");
        page[..8].copy_from_slice(&header());
        assert_eq!(wants_help(&page), Some(false));
        page[20] = 1;
        assert_eq!(wants_help(&page), Some(false), "between header and slots");
        page[HOLD_OFFSET - 4] = 1;
        assert_eq!(wants_help(&page), Some(true));
        page[HOLD_OFFSET - 4] = 0;
        page[HOLD_OFFSET] = 1;
        assert_eq!(wants_help(&page), Some(true), "held");
        page[4] = 1;
        assert_eq!(wants_help(&page), None, "another version");
    }
    #[test]
    fn urgent_requests_are_read_once_and_in_order() {
        let mut ring = [0; 8 * RING];
        let write = |ring: &mut [u8; 8 * RING], n: u32| {
            let at = n as usize % RING * 8;
            ring[at..at + 8].copy_from_slice(&(u64::from(n) + 1000).to_le_bytes());
        };
        (0..70).for_each(|n| write(&mut ring, n));
        let read = |ring, previous, count| since(ring, previous, count).collect::<Vec<_>>();
        assert!(read(&ring, 70, 70).is_empty());
        assert_eq!(read(&ring, 67, 70), [1067, 1068, 1069]);
        assert_eq!(read(&ring, 0, 70), (1006..1070).collect::<Vec<_>>(), "the last 64");
        let mut page = [0; LENGTH];
        page[COUNT_OFFSET] = 70;
        assert_eq!(count(&page), 70);
        // Around the end of the numbers.
        let mut later = ring;
        [u32::MAX, 0].into_iter().for_each(|n| write(&mut later, n));
        assert_eq!(read(&later, u32::MAX, 1), [1000 + u64::from(u32::MAX), 1000]);
    }
}
