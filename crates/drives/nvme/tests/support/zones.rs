//! The simplest zones there can be, as ZNS 1.1 section 2.1.1 has them: every
//! count is counted anew, and every block's content is kept by itself.

use stasis_nvme::{Zones, Zrwa};

pub const EMPTY: u8 = 1;
pub const IMPLICIT: u8 = 2;
pub const EXPLICIT: u8 = 3;
pub const CLOSED: u8 = 4;
pub const READ_ONLY: u8 = 0xd;
pub const FULL: u8 = 0xe;
pub const OFFLINE: u8 = 0xf;

/// Blocks of a zone, how many of them can be written, and zones.
pub const SIZE: u64 = 8;
pub const CAPACITY: u64 = 6;
pub const ZONES: u64 = 5;
pub const BLOCK: u64 = 512;

/// A status, if it is not success.
type Checked<T = ()> = Result<T, u16>;

#[derive(Debug, Clone)]
pub struct Zone {
    pub state: u8,
    pub written: u64,
    pub random: bool,
    pub extension: Option<u8>,
    /// The value that each block reads as; `None` where it is undefined.
    pub content: [Option<u8>; SIZE as usize],
    /// Time at which it was opened.
    since: u64,
}

impl Zone {
    fn new() -> Self {
        let content = [Some(0); SIZE as usize];
        Self { state: EMPTY, written: 0, random: false, extension: None, content, since: 0 }
    }

    fn open(&self) -> bool {
        [IMPLICIT, EXPLICIT].contains(&self.state)
    }

    fn active(&self) -> bool {
        self.open() || self.state == CLOSED
    }
}

pub struct Model {
    pub config: Zones,
    pub zones: Vec<Zone>,
    now: u64,
}

impl Model {
    pub fn new(config: Zones) -> Self {
        Self { config, zones: vec![Zone::new(); ZONES as usize], now: 0 }
    }

    fn count(&self, which: impl Fn(&Zone) -> bool) -> u64 {
        self.zones.iter().filter(|zone| which(zone)).count() as u64
    }

    fn area(&self, index: usize) -> Option<(u64, u64)> {
        let Zrwa { size, granularity, .. } = self.config.zrwa?;
        self.zones[index].random.then_some((size / BLOCK, granularity / BLOCK))
    }

    /// The values that blocks read as; `None` where undefined.
    pub fn read(&self, lba: u64, blocks: u64) -> Checked<Vec<Option<u8>>> {
        if lba + blocks > ZONES * SIZE {
            return Err(0x080);
        }
        let touched = &self.zones[(lba / SIZE) as usize..=((lba + blocks - 1) / SIZE) as usize];
        if touched.len() > 1 && !self.config.reads_cross_zones {
            return Err(0x1b8);
        }
        if touched.iter().any(|zone| zone.state == OFFLINE) {
            return Err(0x1bb);
        }
        let block = |lba: u64| self.zones[(lba / SIZE) as usize].content[(lba % SIZE) as usize];
        Ok((lba..lba + blocks).map(block).collect())
    }

    fn writable(&self, index: usize, at: u64, blocks: u64) -> Checked {
        match self.zones[index].state {
            FULL => Err(0x1b9),
            READ_ONLY => Err(0x1ba),
            OFFLINE => Err(0x1bb),
            _ if at + blocks > CAPACITY => Err(0x1b8),
            _ => Ok(()),
        }
    }

    /// Writes `value` into each block.
    pub fn write(&mut self, lba: u64, blocks: u64, value: u8) -> Checked {
        if lba + blocks > ZONES * SIZE {
            return Err(0x080);
        }
        let (index, at) = ((lba / SIZE) as usize, lba % SIZE);
        self.writable(index, at, blocks)?;
        let written = self.zones[index].written;
        let reach = self.area(index).map(|(size, _)| written + 2 * size);
        if !reach.map_or(at == written, |reach| at >= written && at + blocks <= reach) {
            return Err(0x1bc);
        }
        self.open_for_write(index)?;
        let area = self.area(index);
        let zone = &mut self.zones[index];
        zone.content[at as usize..][..blocks as usize].fill(Some(value));
        let end = at + blocks;
        match area {
            Some((size, step)) => {
                while end > zone.written + size {
                    zone.written += step;
                }
            }
            None => zone.written = end,
        }
        self.fill_up(index);
        Ok(())
    }

    /// Returns the place of blocks that are appended to the zone that begins at `lba`.
    pub fn append(&mut self, lba: u64, blocks: u64, value: u8) -> Checked<u64> {
        if lba >= ZONES * SIZE {
            return Err(0x080);
        }
        if !lba.is_multiple_of(SIZE) {
            return Err(0x002);
        }
        let zone = &self.zones[(lba / SIZE) as usize];
        if zone.random {
            return Err(0x1b6);
        }
        let at = zone.written;
        self.writable((lba / SIZE) as usize, at, blocks)?;
        self.write(lba + at, blocks, value)?;
        Ok(lba + at)
    }

    fn fill_up(&mut self, index: usize) {
        if self.zones[index].written >= CAPACITY {
            self.fill(index);
        }
    }

    fn fill(&mut self, index: usize) {
        let zone = &mut self.zones[index];
        (zone.state, zone.random) = (FULL, false);
    }

    fn open_for_write(&mut self, index: usize) -> Checked {
        match self.zones[index].open() {
            true => Ok(()),
            false => self.open(index, IMPLICIT),
        }
    }

    fn open(&mut self, index: usize, state: u8) -> Checked {
        let zone = &self.zones[index];
        let most = self.config.max_active.unwrap_or(u32::MAX);
        if !zone.active() && self.count(Zone::active) >= most.into() {
            return Err(0x1bd);
        }
        let most = self.config.max_open.unwrap_or(most);
        if !zone.open() && self.count(Zone::open) >= most.into() {
            let implicit = self.zones.iter_mut().filter(|zone| zone.state == IMPLICIT);
            implicit.min_by_key(|zone| zone.since).ok_or(0x1beu16)?.state = CLOSED;
        }
        self.now += 1;
        (self.zones[index].state, self.zones[index].since) = (state, self.now);
        Ok(())
    }

    pub fn close(&mut self, index: usize) -> Checked {
        match self.zones[index].active() {
            true => self.zones[index].state = CLOSED,
            false => return Err(0x1bf),
        }
        Ok(())
    }

    pub fn finish(&mut self, index: usize) -> Checked {
        match self.zones[index].state {
            READ_ONLY | OFFLINE => Err(0x1bf),
            _ => {
                self.fill(index);
                Ok(())
            }
        }
    }

    pub fn open_explicitly(&mut self, index: usize, random: bool) -> Checked {
        let zone = &self.zones[index];
        if random {
            let Some(Zrwa { count, .. }) = self.config.zrwa else { return Err(0x1b6) };
            if !zone.random && zone.state != EMPTY {
                return Err(0x1b6);
            }
            if !zone.random && self.count(|zone| zone.random) >= count.into() {
                return Err(0x1b7);
            }
        }
        if [FULL, READ_ONLY, OFFLINE].contains(&self.zones[index].state) {
            return Err(0x1bf);
        }
        self.open(index, EXPLICIT)?;
        if random {
            let zone = &mut self.zones[index];
            // Unwritten blocks in an area have the medium's contents.
            if !zone.random {
                zone.content[..CAPACITY as usize].fill(None);
            }
            zone.random = true;
        }
        Ok(())
    }

    /// `fails`: the drive cannot erase.
    pub fn reset(&mut self, index: usize, fails: bool) -> Checked {
        match self.zones[index].state {
            READ_ONLY | OFFLINE => Err(0x1bf),
            EMPTY => Ok(()),
            _ => {
                self.zones[index] = Zone::new();
                if fails {
                    self.zones[index].state = OFFLINE;
                    return Err(0x280);
                }
                Ok(())
            }
        }
    }

    pub fn take_offline(&mut self, index: usize) -> Checked {
        match self.zones[index].state {
            READ_ONLY | OFFLINE => {
                self.zones[index] = Zone { state: OFFLINE, ..Zone::new() };
                Ok(())
            }
            _ => Err(0x1bf),
        }
    }

    /// The drive could not write blocks that the zones have allowed.
    pub fn fail_write(&mut self, lba: u64) {
        let zone = &mut self.zones[(lba / SIZE) as usize];
        (zone.state, zone.random) = (READ_ONLY, false);
        let unsure = if self.config.zrwa.is_some() { 0 } else { lba % SIZE };
        zone.content[unsure as usize..].fill(None);
    }

    pub fn flush(&mut self, lba: u64) -> Checked {
        let (index, end) = ((lba / SIZE) as usize, lba % SIZE + 1);
        let Some((size, step)) = self.area(index) else { return Err(0x1b6) };
        let written = self.zones[index].written;
        if end <= written || end > written + size || end > CAPACITY {
            return Err(0x1b8);
        }
        if !(end - written).is_multiple_of(step) {
            return Err(0x002);
        }
        self.open_for_write(index)?;
        self.zones[index].written = end;
        self.fill_up(index);
        Ok(())
    }

    pub fn extend(&mut self, index: usize, value: u8) -> Checked {
        if self.config.extension_size == 0 {
            return Err(0x002);
        }
        if self.zones[index].state != EMPTY {
            return Err(0x1bf);
        }
        if self.count(Zone::active) >= self.config.max_active.unwrap_or(u32::MAX).into() {
            return Err(0x1bd);
        }
        (self.zones[index].state, self.zones[index].extension) = (CLOSED, Some(value));
        Ok(())
    }

    /// All closed zones at once, or none.
    pub fn open_all(&mut self) -> Checked {
        let closed: Vec<usize> =
            (0..self.zones.len()).filter(|&index| self.zones[index].state == CLOSED).collect();
        let stay = self.count(|zone| zone.state == EXPLICIT) + closed.len() as u64;
        let most = self.config.max_open.or(self.config.max_active).unwrap_or(u32::MAX);
        if stay > most.into() {
            return Err(0x1be);
        }
        for index in closed {
            self.open(index, EXPLICIT)?;
        }
        Ok(())
    }

    pub fn close_all(&mut self) {
        self.zones.iter_mut().filter(|zone| zone.open()).for_each(|zone| zone.state = CLOSED);
    }

    pub fn finish_all(&mut self) {
        for index in 0..self.zones.len() {
            if self.zones[index].active() {
                self.fill(index);
            }
        }
    }

    pub fn reset_all(&mut self, fails: bool) -> Checked {
        let each: Vec<_> = (0..self.zones.len())
            .filter(|&index| ![READ_ONLY, OFFLINE].contains(&self.zones[index].state))
            .collect();
        let results: Vec<_> = each.into_iter().map(|index| self.reset(index, fails)).collect();
        results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    pub fn take_all_offline(&mut self) {
        for index in 0..self.zones.len() {
            if self.zones[index].state == READ_ONLY {
                self.zones[index] = Zone { state: OFFLINE, ..Zone::new() };
            }
        }
    }
}
