//! Commands to a drive, in memory, and the part of them that a power cut leaves.
#![allow(dead_code)] // each test takes what it needs

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, PowerLoss, Status};
use stasis_drive::{IoTap, Layer, Sampling, Survival, TraceSink, VolatileCache};

const SECTOR: usize = stasis_block::SECTOR as usize;

/// A command, as the drive saw it.
#[derive(Debug, Clone)]
pub struct Event {
    pub command: Command,
    pub data: Vec<u8>,
    pub submit: Nanos,
    pub done: Option<(Nanos, Status)>,
}

/// Commands in the order of submission.
#[derive(Debug, Clone, Default)]
pub struct History {
    power_loss: PowerLoss,
    events: Vec<Event>,
    // Time of each event, its command, and whether it ended; as seen.
    log: Vec<(Nanos, usize, bool)>,
}

struct HistorySink(Arc<Mutex<History>>);

impl HistorySink {
    fn history(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TraceSink for HistorySink {
    fn request(&mut self, _: u64, at: Nanos, command: &Command, data: &[u8]) {
        let event = Event { command: *command, data: data.to_vec(), submit: at, done: None };
        let mut history = self.history();
        let place = history.events.len();
        history.events.push(event);
        history.log.push((at, place, false));
    }

    fn completion(&mut self, place: u64, at: Nanos, status: Status) {
        let mut history = self.history();
        history.events[place as usize].done = Some((at, status));
        history.log.push((at, place as usize, true));
    }
}

/// The same layer, with its commands in the history.
pub fn tap(lower: Box<dyn Layer>) -> (IoTap, Arc<Mutex<History>>) {
    let history = History { power_loss: lower.properties().power_loss, ..History::default() };
    let history = Arc::new(Mutex::new(history));
    (IoTap::new(lower, Box::new(HistorySink(Arc::clone(&history)))), history)
}

impl History {
    /// Every command.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Applies to `disk` the changes that a power cut at `at` (ns) leaves, after all events of that
    /// instant.
    pub fn cut(&self, at: Nanos, sampling: Sampling, disk: &mut Vec<u8>) {
        let mut cache = VolatileCache::new(self.power_loss, true);
        let mut log: Vec<_> = self.log.iter().filter(|(when, ..)| *when <= at).collect();
        log.sort_by_key(|(when, ..)| *when);
        for &&(_, place, ended) in &log {
            let Event { command, done, .. } = &self.events[place];
            if !ended {
                cache.submitted(place, command);
                continue;
            }
            let well = done.is_some_and(|(_, status)| status == Status::Ok);
            cache.ended(place, command.operation, well, |place| {
                self.apply(place, &Survival::Whole, disk);
            });
        }
        let survivals = cache.sample(sampling);
        for (place, durable) in cache.unsettled() {
            let chosen = survivals.iter().find(|(other, _)| *other == place);
            match chosen {
                Some((_, survival)) => self.apply(place, survival, disk),
                None if durable => self.apply(place, &Survival::Whole, disk),
                None => {}
            }
        }
    }

    /// Carries a change out on `disk`, which grows to hold it.
    fn apply(&self, place: usize, survival: &Survival, disk: &mut Vec<u8>) {
        let Event { command, data, .. } = &self.events[place];
        let (start, length) = (command.offset as usize, command.length as usize);
        if command.operation == Operation::Write && disk.len() < start + length {
            disk.resize(start + length, 0);
        }
        let bytes = match command.operation {
            Operation::Write => data.clone(),
            Operation::Copy => disk[command.source as usize..][..length].to_vec(),
            _ => vec![0; length.min(disk.len().saturating_sub(start))],
        };
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            let at = start + index * SECTOR;
            if let Some(place) = disk.get_mut(at..at + sector.len()).filter(|_| survival.has(index))
            {
                place.copy_from_slice(sector);
            }
        }
    }
}
