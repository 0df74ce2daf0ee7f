//! The page by which a guest says that it needs help: that its bfq has raised
//! weights. The guest writes it, the machine only reads it.
//!
//! Little-endian: [`MAGIC`], [`VERSION`], then from [`SLOTS_OFFSET`] on
//! [`SLOTS`] numbers of four bytes, one for each of the guest's drives: how
//! many of its queues have a raised weight and something to do. Help is asked
//! for while one is not 0.

/// Size of the page, and what its address is a multiple of.
pub const PAGE: usize = 4096;
/// The page's first four bytes.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HELP");
/// The layout's version, in the next four.
pub const VERSION: u32 = 1;
/// Where the slots begin.
pub const SLOTS_OFFSET: usize = 64;
/// How many there are. Drives beyond share one.
pub const SLOTS: usize = 16;
/// As much as the machine reads.
pub const LENGTH: usize = SLOTS_OFFSET + 4 * SLOTS;

/// The page's beginning.
pub fn header() -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// Whether a page's first [`LENGTH`] bytes ask for help; `None` if they are no
/// such page's.
pub fn asks(page: &[u8; LENGTH]) -> Option<bool> {
    let slots = page.strip_prefix(&header())?.get(SLOTS_OFFSET - 8..)?;
    Some(slots.iter().any(|byte| *byte != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_by_its_slots() {
        let mut page = [0; LENGTH];
        assert_eq!(asks(&page), None, "no header");
        page[..8].copy_from_slice(&header());
        assert_eq!(asks(&page), Some(false));
        page[20] = 1;
        assert_eq!(asks(&page), Some(false), "between header and slots");
        page[LENGTH - 4] = 1;
        assert_eq!(asks(&page), Some(true));
        page[4] = 2;
        assert_eq!(asks(&page), None, "another version");
    }
}
