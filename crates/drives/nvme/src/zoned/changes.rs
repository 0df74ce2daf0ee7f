//! Zones that changed by themselves: the Changed Zone List log and its event
//! (ZNS 1.1 sections 4.1.1 and 4.1.4.2).

use stasis_nvme_layout::zones::ChangedZoneList;

use crate::narrow::count16;

/// Maximum number of zones that the log lists.
const MAX_LISTED: usize = 511;
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
    pub fn to_page(&self) -> ChangedZoneList {
        let count = if self.overflowed { MORE } else { count16(self.zones.len()) };
        let mut page = ChangedZoneList { nrzid: count.into(), ..Default::default() };
        page.zids.iter_mut().zip(&self.zones).for_each(|(entry, start)| entry.set(*start));
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
    use stasis_nvme_layout::U64;

    use super::*;

    #[test]
    fn the_log_names_each_zone_once_and_says_when_there_are_too_many() {
        let mut changed = ChangedZones::default();
        for start in [5, 9, 5] {
            changed.add(start);
        }
        let page = changed.to_page();
        assert_eq!((page.nrzid.get(), page.zids[..3].as_ref()), (2, &[5, 9, 0].map(U64::new)[..]));
        for start in 0..600 {
            changed.add(start);
        }
        let page = changed.to_page();
        assert_eq!(page, ChangedZoneList { nrzid: 0xffff.into(), ..Default::default() });
        changed.clear();
        assert_eq!(changed.to_page(), ChangedZoneList::default());
    }
}
