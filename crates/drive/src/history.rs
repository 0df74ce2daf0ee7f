//! What a drive with a volatile write cache was asked, and what of it a power
//! cut leaves.
//!
//! The cache acknowledges a change before it is durable and may write changes in
//! any order, except that
//! - a durable write (FUA) is durable when it ends;
//! - a flush that has ended made everything durable that was submitted before;
//! - nothing that was submitted after a barrier is durable before everything
//!   that was submitted before it.
//!
//! A change that is not durable can be lost, whole, or torn between sectors.

use stasis_block::{splitmix, Command, Operation, Status};
use stasis_clock::Nanos;

/// What a drive writes as a whole or not at all (bytes).
pub const SECTOR: u64 = 512;

/// A command, as the drive saw it.
#[derive(Debug, Clone)]
pub struct Event {
    /// What was asked.
    pub command: Command,
    /// What was written.
    pub data: Vec<u8>,
    /// When it was submitted (ns).
    pub submit: Nanos,
    /// When it ended (ns), and how.
    pub done: Option<(Nanos, Status)>,
}

/// Commands in the order of submission.
#[derive(Debug, Clone, Default)]
pub struct History {
    events: Vec<Event>,
}

/// What is left of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Lost,
    /// All.
    Whole,
    /// Each sector as a bit of the hash of this number and the sector's says.
    Torn(u64),
}

/// An instant at which the power is cut.
#[derive(Debug)]
pub struct Cut<'a> {
    history: &'a History,
    at: Nanos,
    // Barriers before each event.
    epochs: Vec<u32>,
    durable: Vec<bool>,
}

/// Whether a command changes what the drive holds.
fn is_change(command: &Command) -> bool {
    use Operation::{Copy, Discard, Write, WriteZeroes};
    matches!(command.operation, Write | WriteZeroes | Discard | Copy)
}

impl History {
    /// A command is submitted; gives its place.
    pub fn submitted(&mut self, now: Nanos, command: Command, data: Vec<u8>) -> usize {
        self.events.push(Event { command, data, submit: now, done: None });
        self.events.len() - 1
    }

    /// The command at `place` has ended.
    pub fn ended(&mut self, place: usize, at: Nanos, status: Status) {
        if let Some(event) = self.events.get_mut(place) {
            event.done = Some((at, status));
        }
    }

    /// Every command.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// A power cut at `at` (ns), after everything that happens then.
    pub fn cut(&self, at: Nanos) -> Cut<'_> {
        let known = self.events.iter().take_while(|event| event.submit <= at).count();
        let events = &self.events[..known];
        let well = |event: &Event| event.done.is_some_and(|(end, s)| end <= at && s == Status::Ok);
        let mut epochs = Vec::with_capacity(known);
        let mut epoch = 0;
        for event in events {
            epochs.push(epoch);
            // One that failed or is under way orders nothing that anybody relies
            // on; one under way was taken.
            epoch += u32::from(event.command.operation == Operation::Barrier);
        }
        let flushed = events
            .iter()
            .rposition(|event| event.command.operation == Operation::Flush && well(event));
        let mut durable: Vec<bool> = events
            .iter()
            .enumerate()
            .map(|(place, event)| {
                let before = flushed.is_some_and(|flush| place < flush);
                is_change(&event.command) && well(event) && (before || event.command.fua)
            })
            .collect();
        let last = (0..known).filter(|&place| durable[place]).map(|place| epochs[place]).max();
        if let Some(last) = last {
            for place in 0..known {
                durable[place] |= epochs[place] < last && is_change(&events[place].command);
            }
        }
        Cut { history: self, at, epochs, durable }
    }
}

impl Cut<'_> {
    /// When it is (ns).
    pub fn at(&self) -> Nanos {
        self.at
    }

    /// The changes that reached the drive, by place.
    pub fn changes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.epochs.len()).filter(|&place| is_change(&self.history.events[place].command))
    }

    /// Whether the change at `place` cannot be lost.
    pub fn is_durable(&self, place: usize) -> bool {
        self.durable.get(place).copied().unwrap_or(false)
    }

    /// Whether this may be left: by place, what of each change.
    pub fn allows(&self, left: &[Survival]) -> bool {
        let of = |place: usize| left.get(place).copied().unwrap_or(Survival::Lost);
        let last = self.changes().filter(|&place| of(place) != Survival::Lost).last();
        let newest = last.map_or(0, |place| self.epochs[place]);
        self.changes().all(|place| {
            let needed = self.durable[place] || self.epochs[place] < newest;
            !needed || of(place) == Survival::Whole
        })
    }

    /// What one such cut leaves, chosen by `random`, numbers of 64 bits: of one
    /// epoch anything, everything before it, nothing after.
    pub fn choose(&self, mut random: impl FnMut() -> u64) -> Vec<Survival> {
        let last = self.epochs.last().copied().unwrap_or(0);
        let first = self.changes().filter(|&place| self.durable[place]).last();
        let first = first.map_or(0, |place| self.epochs[place]);
        let epoch = first + (random() % u64::from(last - first + 1)) as u32;
        // Some cuts lose nearly everything, some nearly nothing.
        let lost = random() % 5;
        let mut left = vec![Survival::Lost; self.epochs.len()];
        for place in self.changes() {
            left[place] = match self.epochs[place] {
                _ if self.durable[place] => Survival::Whole,
                own if own < epoch => Survival::Whole,
                own if own > epoch => Survival::Lost,
                _ => match random() % 4 {
                    draw if draw < lost => Survival::Lost,
                    3 => Survival::Torn(random()),
                    _ => Survival::Whole,
                },
            };
        }
        left
    }

    /// Carries out on `disk` what is left, in the order of submission. `disk`
    /// grows to hold it.
    pub fn apply(&self, left: &[Survival], disk: &mut Vec<u8>) {
        for place in self.changes() {
            let survival = left.get(place).copied().unwrap_or(Survival::Lost);
            if survival == Survival::Lost {
                continue;
            }
            let Event { command, data, .. } = &self.history.events[place];
            let (start, length) = (command.offset as usize, command.length as usize);
            if command.operation == Operation::Write && disk.len() < start + length {
                disk.resize(start + length, 0);
            }
            let copied = match command.operation {
                Operation::Write => data.clone(),
                Operation::Copy => {
                    let source = command.source as usize;
                    disk.get(source..source + length).map_or_else(Vec::new, <[u8]>::to_vec)
                }
                _ => vec![0; length.min(disk.len().saturating_sub(start))],
            };
            for (index, sector) in copied.chunks(SECTOR as usize).enumerate() {
                let whole = match survival {
                    Survival::Torn(seed) => splitmix::nth(seed, index as u64) & 1 == 0,
                    _ => true,
                };
                let at = start + index * SECTOR as usize;
                if let Some(place) = disk.get_mut(at..at + sector.len()).filter(|_| whole) {
                    place.copy_from_slice(sector);
                }
            }
        }
    }
}
