//! From instant to instant through a record: the disks that a power cut can
//! leave at each.

use std::collections::HashMap;

use stasis_drive::power_cut::hash;
use stasis_drive::{Sampling, Survival, VolatileCache};

use crate::disk::Disk;
use crate::sectors::Content;
use crate::story::{Position, Story, What};

/// A drive at the present instant.
#[derive(Debug)]
struct Present {
    cache: VolatileCache,
    // What cannot be lost, together with everything before it.
    settled: Disk,
}

/// What a power cut leaves of one drive.
#[derive(Debug, Clone, Default)]
pub struct Remains {
    /// Sectors that differ from those on the medium for certain, in the order
    /// in which they were written first.
    pub sectors: Vec<(u64, Content)>,
    /// The same, to be looked up.
    lookup: HashMap<u64, Content>,
    /// See [`Disk::print`].
    pub print: u128,
}

/// A walk through a record, forwards.
#[derive(Debug)]
pub struct Walk<'a> {
    story: &'a Story,
    position: Position,
    drives: Vec<Present>,
    // Sectors that became certain since they were last asked for, by drive.
    news: Vec<(usize, u64, Content)>,
}

impl<'a> Walk<'a> {
    /// At the beginning.
    pub fn new(story: &'a Story) -> Self {
        let drives = story.drives.iter().map(|drive| {
            let trace = drive.cached();
            let cache = VolatileCache::new(trace.power_loss, trace.discard_zeroes);
            Present { cache, settled: Disk::default() }
        });
        Self { story, position: 0, drives: drives.collect(), news: Vec::new() }
    }

    /// After how many moments it is.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Goes on until `position` moments have happened.
    pub fn go_to(&mut self, position: Position) {
        while self.position < position {
            let Some(moment) = self.story.moments.get(self.position as usize) else { break };
            let (drive, level, place) = match moment.what {
                What::Submitted(drive, level, place) | What::Ended(drive, level, place) => {
                    (usize::from(drive), level, place as usize)
                }
                What::Output => {
                    self.position += 1;
                    continue;
                }
            };
            if level == self.story.drives[drive].cached_level() {
                let Present { cache, settled } = &mut self.drives[drive];
                let trace = self.story.drives[drive].cached();
                let asked = &trace.asked[place];
                if let What::Submitted(..) = moment.what {
                    cache.submitted(place, &asked.command);
                } else {
                    let (news, well) = (&mut self.news, asked.well_by(self.position + 1));
                    cache.ended(place, asked.command.operation, well, |place| {
                        for (sector, content) in trace.sectors(place) {
                            settled.set(sector, Some(content));
                            news.push((drive, sector, content));
                        }
                    });
                }
            }
            self.position += 1;
        }
    }

    /// What became certain since the last call: drive, sector and content, in
    /// order.
    pub fn news(&mut self) -> Vec<(usize, u64, Content)> {
        std::mem::take(&mut self.news)
    }

    /// What `drive` has for certain.
    pub fn settled(&self, drive: usize) -> &Disk {
        &self.drives[drive].settled
    }

    /// How many changes of `drive` can be lost now.
    pub fn unsettled(&self, drive: usize) -> usize {
        self.drives[drive].cache.unsettled().filter(|(_, durable)| !durable).count()
    }

    /// What a power cut now leaves of each drive.
    pub fn cut(&self, sampling: Sampling) -> Vec<Remains> {
        let each = self.drives.iter().enumerate().map(|(index, present)| {
            let sampling = match sampling {
                Sampling::Random(seed) => Sampling::Random(hash(seed, index as u64)),
                other => other,
            };
            self.remains(index, present, sampling)
        });
        each.collect()
    }

    fn remains(&self, index: usize, present: &Present, sampling: Sampling) -> Remains {
        let trace = self.story.drives[index].cached();
        let chosen = present.cache.sample(sampling);
        let mut chosen = chosen.iter().peekable();
        let mut remains = Remains { print: present.settled.print(), ..Remains::default() };
        for (place, durable) in present.cache.unsettled() {
            let survival = match chosen.next_if(|(chosen, _)| *chosen == place) {
                Some((_, survival)) => survival,
                None if durable => &Survival::Whole,
                None => continue,
            };
            for (within, (sector, content)) in trace.sectors(place).enumerate() {
                if survival.has(within) {
                    remains.set(sector, content, &present.settled);
                }
            }
        }
        remains
    }
}

impl Remains {
    fn set(&mut self, sector: u64, content: Content, settled: &Disk) {
        let before = self.lookup.insert(sector, content);
        if before.is_none() {
            self.sectors.push((sector, content));
        }
        for held in [before.or_else(|| settled.get(sector)), Some(content)].into_iter().flatten() {
            self.print ^= crate::disk::print(sector, held);
        }
    }

    /// What `sector` holds where that is not certain.
    pub fn get(&self, sector: u64) -> Option<Content> {
        self.lookup.get(&sector).copied()
    }

    /// The sectors and what they hold at last.
    pub fn each(&self) -> impl Iterator<Item = (u64, Content)> + '_ {
        self.sectors.iter().map(|(sector, first)| (*sector, self.get(*sector).unwrap_or(*first)))
    }
}
