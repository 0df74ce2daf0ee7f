//! Zones as they outlive the controller.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::intervals::end_of_run;
use crate::narrow::{count32, size};

use super::super::config::Zones;
use super::{ZoneSet, ZoneState, EXTENSION_VALID, ZRWA_VALID};

/// Zones that follow one another and are alike, but empty ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptZones {
    /// The first of them.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Their state.
    pub state: ZoneState,
    /// Blocks of each before its write pointer; of a full zone, blocks that have data.
    pub written: u64,
    /// True if each has a random write area.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zrwa: bool,
    /// The descriptor extension of a zone that has one, which stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension: Option<Vec<u8>>,
}

impl KeptZones {
    /// One zone, without a random write area and an extension.
    pub fn one(index: u64, state: ZoneState, written: u64) -> Self {
        Self { first: index, count: 1, state, written, zrwa: false, extension: None }
    }

    /// Returns the indexes of the zones.
    pub fn indexes(&self) -> impl Iterator<Item = u64> {
        (self.first..).take(usize::try_from(self.count).unwrap_or(0))
    }

    /// The zones of a namespace after a power cut, where they were `before`, with where it has left
    /// their ends: of each that is not empty its index, and its blocks before the write pointer. A
    /// zone that has lost nothing keeps its descriptor extension, and is full if it was; another
    /// one has none, and is closed. Where as many zones are active as can be, a zone is full.
    pub fn after_power_cut(
        before: &[Self],
        zones: &Zones,
        block: u64,
        ends: impl Iterator<Item = (u64, u64)>,
    ) -> Vec<Self> {
        let (capacity, mut free) = (zones.capacity() / block, zones.max_active.unwrap_or(u32::MAX));
        let mut ends: BTreeMap<u64, u64> = ends.collect();
        let mut after = BTreeMap::new();
        for (index, kept) in before.iter().flat_map(|kept| kept.indexes().map(move |at| (at, kept)))
        {
            let failed = matches!(kept.state, ZoneState::ReadOnly | ZoneState::Offline);
            let written = ends.get(&index).copied().unwrap_or(0);
            if !failed && (written != kept.written || (written == 0 && kept.extension.is_none())) {
                continue;
            }
            ends.remove(&index);
            free = free.saturating_sub(u32::from(kept.after_power_cycle() == ZoneState::Closed));
            after.insert(index, Self { first: index, count: 1, ..kept.clone() });
        }
        for (index, written) in ends {
            let closed = written < capacity && free > 0;
            free -= u32::from(closed);
            let state = if closed { ZoneState::Closed } else { ZoneState::Full };
            after.insert(index, Self::one(index, state, written));
        }
        after.into_values().collect()
    }

    /// The state after a power cycle: an open zone is closed, or empty where nothing is in it
    /// (ZNS 1.1 section 2.1.1.3).
    fn after_power_cycle(&self) -> ZoneState {
        let holds = self.written > 0 || self.zrwa || self.extension.is_some();
        match self.state {
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen if !holds => ZoneState::Empty,
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen => ZoneState::Closed,
            other => other,
        }
    }
}

impl ZoneSet {
    /// The zones that are not empty.
    pub fn kept(&self) -> Vec<KeptZones> {
        let mut kept: Vec<KeptZones> = Vec::new();
        for (index, zone) in self.zones.iter().enumerate() {
            if zone.state == ZoneState::Empty {
                continue;
            }
            let has_extension = zone.attributes & EXTENSION_VALID != 0;
            let next = KeptZones {
                zrwa: zone.has_zrwa(),
                extension: has_extension.then(|| self.extension(index).to_vec()),
                ..KeptZones::one(index as u64, zone.state, zone.written)
            };
            match kept.last_mut() {
                Some(last)
                    if next.extension.is_none()
                        && last.first + last.count == next.first
                        && KeptZones { first: next.first, count: 1, ..last.clone() } == next =>
                {
                    last.count += 1;
                }
                _ => kept.push(next),
            }
        }
        kept
    }

    /// Takes over zones that were kept, after a power cycle. All zones are empty before.
    ///
    /// # Errors
    /// The reason why the namespace cannot have such zones.
    pub fn restore(&mut self, kept: &[KeptZones]) -> Result<(), &'static str> {
        let mut least = 0;
        for zones in kept {
            let end = end_of_run(zones.first, zones.count, least..self.zones.len() as u64)
                .ok_or("zones are not there, or are named twice")?;
            least = end;
            let range = size(zones.first)..size(end);
            let state = zones.after_power_cycle();
            let written_fits = match state {
                ZoneState::Empty => zones.written == 0,
                ZoneState::Closed => zones.written < self.capacity,
                _ => zones.written <= self.capacity,
            };
            if !written_fits {
                return Err("a write pointer is not where its zone's state allows");
            }
            if zones.zrwa && (self.area.is_none() || !state.is_active()) {
                return Err("a zone that cannot have a random write area has one");
            }
            if let Some(extension) = &zones.extension {
                let fits = extension.len() == self.extension_size && self.extension_size > 0;
                if !fits
                    || zones.count != 1
                    || matches!(state, ZoneState::Empty | ZoneState::Offline)
                {
                    return Err("a zone that cannot have such a descriptor extension has one");
                }
                let at = range.start * self.extension_size;
                self.extensions[at..at + self.extension_size].copy_from_slice(extension);
            }
            let count = count32(range.len());
            if state.is_active() {
                let active = self.active.saturating_add(count);
                if active > self.max_active {
                    return Err("more zones are active than can be");
                }
                self.active = active;
            }
            if zones.zrwa {
                let areas = self.areas_left.checked_sub(count);
                self.areas_left =
                    areas.ok_or("more random write areas are in use than there are")?;
            }
            let area = if zones.zrwa { ZRWA_VALID } else { 0 };
            let extended = if zones.extension.is_some() { EXTENSION_VALID } else { 0 };
            for zone in &mut self.zones[range] {
                zone.state = state;
                zone.written = zones.written;
                zone.attributes = area | extended;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_after_a_power_cut() {
        let mut zones = Zones::new(64 * 512);
        (zones.max_active, zones.extension_size) = (Some(4), 64);
        let one = KeptZones::one;
        let extension = Some(vec![7; 64]);
        let before = [
            KeptZones { count: 2, ..one(0, ZoneState::Full, 64) },
            one(2, ZoneState::Full, 10),
            KeptZones { extension: extension.clone(), ..one(3, ZoneState::Closed, 9) },
            KeptZones { extension: extension.clone(), ..one(4, ZoneState::Closed, 0) },
            one(5, ZoneState::ReadOnly, 3),
            one(6, ZoneState::Offline, 0),
            one(7, ZoneState::ImplicitlyOpen, 12),
            one(8, ZoneState::ImplicitlyOpen, 5),
            KeptZones { extension, ..one(9, ZoneState::ExplicitlyOpen, 8) },
        ];
        // Zone 1 has lost its end, 7 its beginning, 9 something; 5 what it could not write; and the
        // reset of 20 and 21 is lost.
        let ends = [(0, 64), (1, 60), (2, 10), (3, 9), (8, 5), (9, 7), (20, 64), (21, 1)];
        let after = KeptZones::after_power_cut(&before, &zones, 512, ends.into_iter());
        let observed: Vec<_> = after
            .iter()
            .map(|zone| (zone.first, zone.state, zone.written, zone.extension.is_some()))
            .collect();
        let expected = [
            (0, ZoneState::Full, 64, false),
            (1, ZoneState::Closed, 60, false),
            (2, ZoneState::Full, 10, false),
            (3, ZoneState::Closed, 9, true),
            (4, ZoneState::Closed, 0, true),
            (5, ZoneState::ReadOnly, 3, false),
            (6, ZoneState::Offline, 0, false),
            (8, ZoneState::ImplicitlyOpen, 5, false),
            (9, ZoneState::Full, 7, false),
            (20, ZoneState::Full, 64, false),
            (21, ZoneState::Full, 1, false),
        ];
        assert_eq!(observed, expected, "four are active, and as many can be");
        let mut set = ZoneSet::new(&zones, 64 * 30, 512);
        set.restore(&after).expect("zones that can be");
    }
}
