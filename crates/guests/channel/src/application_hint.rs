//! The page by which a guest asks for help while its bfq has raised weights. The guest writes it,
//! the machine only reads it.

use std::time::Duration;

use stasis_layout::{layout, U32, U64};

/// Time for which a guest keeps asking once nothing is raised: a program that starts computes
/// between its reads, and while its last is on its way bfq has none.
pub const LINGER: Duration = Duration::from_millis(200);

/// Size of the page, and alignment of its address (bytes).
pub const PAGE: usize = 4096;
/// The page's first four bytes.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HELP");
/// The layout's version, in the next four.
pub const VERSION: u32 = 2;
/// Number of slots. Drives beyond share one.
pub const SLOTS: usize = 16;
/// Place of the urgent requests' sectors, a ring of [`RING`] numbers of eight bytes: the first sector
/// of the n-th request, counted from 0, is at n modulo its length.
pub const RING_OFFSET: usize = 1024;
/// Number of those sectors; a power of two.
pub const RING: usize = 64;

layout! {
    /// As much of the page as the machine reads each time it looks.
    pub struct Page: 136 {
        /// [`MAGIC`].
        [0] magic: U32,
        /// [`VERSION`].
        [4] version: U32,
        /// The number of requests of interactive queues that bfq has handed out so far, modulo 2^32.
        [8] count: U32,
        /// Not used.
        [12] reserved12: [u8; 52],
        /// Number of the queues of each of the guest's drives that have a raised weight and
        /// something to do. Help is asked for while one is not 0.
        [64] slots: [U32; SLOTS],
        /// Not 0 while a process of the guest holds the help: a queue of which all is on its way has
        /// nothing to do, and is still waited for.
        [128] hold: U64,
    }
}

impl Page {
    /// A page that asks for nothing.
    pub fn new() -> Self {
        Self { magic: MAGIC.into(), version: VERSION.into(), ..Self::default() }
    }

    /// Returns whether the page asks for help; `None` if it is no such page.
    pub fn wants_help(&self) -> Option<bool> {
        let is_one = self.magic == MAGIC && self.version == VERSION;
        is_one.then(|| self.hold != 0 || self.slots.iter().any(|slot| *slot != 0))
    }
}

/// Returns the sectors of the requests after `previous` up to `count`, in order; of more than the
/// ring holds, the last.
pub fn since(ring: &[U64; RING], previous: u32, count: u32) -> impl Iterator<Item = u64> + '_ {
    let new = count.wrapping_sub(previous).min(RING as u32);
    (0..new).map(move |back| ring[count.wrapping_sub(new - back) as usize % RING].get())
}

#[cfg(test)]
mod tests {
    use stasis_layout::IntoBytes;

    use super::*;

    #[test]
    fn a_page_asks_by_its_slots() {
        let mut page = Page::default();
        assert_eq!(page.wants_help(), None, "no header");
        page = Page::new();
        assert_eq!(page.as_bytes()[..12], *b"HELP\x02\0\0\0\0\0\0\0");
        assert_eq!(page.wants_help(), Some(false));
        page.as_mut_bytes()[20] = 1;
        assert_eq!(page.wants_help(), Some(false), "between header and slots");
        page.as_mut_bytes()[124] = 1;
        assert_eq!(page.wants_help(), Some(true));
        page.as_mut_bytes()[124] = 0;
        page.as_mut_bytes()[128] = 1;
        assert_eq!(page.wants_help(), Some(true), "held");
        page.as_mut_bytes()[4] = 1;
        assert_eq!(page.wants_help(), None, "another version");
    }

    #[test]
    fn urgent_requests_are_read_once_and_in_order() {
        let mut ring = [U64::ZERO; RING];
        let write = |ring: &mut [U64; RING], n: u32| {
            ring[n as usize % RING] = (u64::from(n) + 1000).into();
        };
        (0..70).for_each(|n| write(&mut ring, n));
        let read = |ring, previous, count| since(ring, previous, count).collect::<Vec<_>>();
        assert!(read(&ring, 70, 70).is_empty());
        assert_eq!(read(&ring, 67, 70), [1067, 1068, 1069]);
        assert_eq!(read(&ring, 0, 70), (1006..1070).collect::<Vec<_>>(), "the last 64");
        let mut page = Page::default();
        page.as_mut_bytes()[8] = 70;
        assert_eq!(page.count, 70);
        // Around the end of the numbers.
        let mut later = ring;
        [u32::MAX, 0].into_iter().for_each(|n| write(&mut later, n));
        assert_eq!(read(&later, u32::MAX, 1), [1000 + u64::from(u32::MAX), 1000]);
    }
}
