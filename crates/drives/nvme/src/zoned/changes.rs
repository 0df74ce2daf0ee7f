//! Zones that changed by themselves: the Changed Zone List log and its event
//! (ZNS 1.1 sections 4.1.1 and 4.1.4.2).

/// Maximum number of zones that the log lists.
const MAX_LISTED: usize = 511;
/// Size of the log page in bytes.
const PAGE: usize = 4096;
/// Number of Zone Identifiers if there are more than the log can name.
const MORE: u16 = 0xffff;

/// The zones that changed since the log was last read, by their first blocks.
#[derive(Debug, Default)]
pub struct ChangedZones {
    zones: Vec<u64>,
    overflowed: bool,
}

impl ChangedZones {
    /// The zone that begins at `start` has changed.
    pub fn add(&mut self, start: u64) {
        if self.overflowed || self.zones.contains(&start) {
            return;
        }
        if self.zones.len() == MAX_LISTED {
            self.overflowed = true;
            self.zones.clear();
            return;
        }
        self.zones.push(start);
    }

    /// The log page.
    pub fn to_page(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        let count = if self.overflowed { MORE } else { self.zones.len() as u16 };
        page[0..2].copy_from_slice(&count.to_le_bytes());
        for (entry, start) in page[8..].chunks_exact_mut(8).zip(&self.zones) {
            entry.copy_from_slice(&start.to_le_bytes());
        }
        page
    }

    /// The log was read.
    pub fn clear(&mut self) {
        self.zones.clear();
        self.overflowed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_each_zone_once_and_says_when_there_are_too_many() {
        let mut changed = ChangedZones::default();
        for start in [5, 9, 5] {
            changed.add(start);
        }
        let page = changed.to_page();
        assert_eq!((page[0], page[8], page[16], page[24]), (2, 5, 9, 0));
        for start in 0..600 {
            changed.add(start);
        }
        let page = changed.to_page();
        assert_eq!(page[0..2], [0xff, 0xff]);
        assert!(page[2..].iter().all(|&byte| byte == 0));
        changed.clear();
        assert!(changed.to_page().iter().all(|&byte| byte == 0));
    }
}
