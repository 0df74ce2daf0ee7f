//! A model and a medium to put drives to the test with.
#![allow(dead_code)] // each test takes what it needs

pub mod reference;

use std::sync::{Arc, Mutex};

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::clock::{EventQueue, Nanos};
use stasis_block::{Command, Operation, Request, Tag};
use stasis_media::{Finished, Medium};
use stasis_models::{Completion, Model};

/// Bytes in which tests count.
pub const SECTOR: usize = 512;

/// Random latencies below a limit, unlimited parallelism.
pub struct Latencies {
    random: Xoshiro256PlusPlus,
    below: Nanos,
    events: EventQueue<Tag>,
}

impl Latencies {
    pub fn new(seed: u64, below: Nanos) -> Box<Self> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Box::new(Self { random, below, events: EventQueue::new() })
    }
}

impl Model for Latencies {
    fn submit(&mut self, now: Nanos, tag: Tag, _: &Command) {
        self.events.push(now + self.random.next_u64() % self.below, tag);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next_at()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, tag)) = self.events.pop_due(now) {
            done.push(Completion::done(tag, at));
        }
    }
}

/// One command at a time, and of those that wait the one with the lowest offset first: the set of
/// waiting commands at a completion matters.
#[derive(Default)]
pub struct Lowest {
    waiting: Vec<(u64, Tag)>,
    serving: Option<(Nanos, Tag)>,
}

impl Lowest {
    pub const SERVICE: Nanos = 15_000;

    fn serve(&mut self, now: Nanos) {
        if self.serving.is_none() {
            self.waiting.sort_unstable_by(|a, b| b.cmp(a));
            self.serving = self.waiting.pop().map(|(_, tag)| (now + Self::SERVICE, tag));
        }
    }
}

impl Model for Lowest {
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        self.waiting.push((command.offset, tag));
        self.serve(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.serving.map(|(at, _)| at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, tag)) = self.serving.filter(|(at, _)| *at <= now) {
            done.push(Completion::done(tag, at));
            self.serving = None;
            self.serve(at);
        }
    }
}

/// Content of a [`Moody`] medium, and the part of it that survives a power cut.
#[derive(Debug, Clone)]
pub struct Contents {
    pub now: Vec<u8>,
    pub durable: Vec<u8>,
}

/// An asynchronous medium at its worst: I/Os happen when they are asked for, in
/// any order that the contract of [`Medium`] allows, and few at a time.
pub struct Moody {
    contents: Arc<Mutex<Contents>>,
    random: Xoshiro256PlusPlus,
    // In the order of submission.
    under_way: Vec<(Tag, Command, Vec<u8>)>,
}

impl Moody {
    pub fn new(seed: u64, capacity: usize) -> (Self, Arc<Mutex<Contents>>) {
        let empty = Contents { now: vec![0; capacity], durable: vec![0; capacity] };
        let contents = Arc::new(Mutex::new(empty));
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (Self { contents: contents.clone(), random, under_way: Vec::new() }, contents)
    }

    /// Performs one I/O, any but a flush with changes before it.
    fn step(&mut self, done: &mut Vec<Finished>) {
        let pick = self.random.next_u64() as usize % self.under_way.len();
        let is = |io: &(Tag, Command, Vec<u8>), operation| io.1.operation == operation;
        let blocked = is(&self.under_way[pick], Operation::Flush)
            && self.under_way[..pick].iter().any(|io| !is(io, Operation::Read));
        let pick = if blocked { 0 } else { pick };
        let (tag, command, mut data) = self.under_way.remove(pick);
        let range = command.offset as usize..(command.offset + command.length) as usize;
        let mut contents = self.contents.lock().unwrap();
        let Contents { now, durable } = &mut *contents;
        match command.operation {
            Operation::Read => data.copy_from_slice(&now[range.clone()]),
            Operation::Write => now[range.clone()].copy_from_slice(&data),
            Operation::Discard | Operation::WriteZeroes => now[range.clone()].fill(0),
            Operation::Flush => durable.copy_from_slice(now),
            Operation::Copy => {
                let source = command.source as usize;
                now.copy_within(source..source + range.len(), range.start);
            }
            Operation::Verify | Operation::Barrier => {}
        }
        if command.fua {
            durable[range.clone()].copy_from_slice(&now[range]);
        }
        done.push(Finished { tag, result: Ok(()), data });
    }
}

impl Medium for Moody {
    fn capacity(&self) -> u64 {
        self.contents.lock().unwrap().now.len() as u64
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, command, data, .. } = request;
        self.under_way.push((tag, command, data));
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        while !self.under_way.is_empty() && self.random.next_u64().is_multiple_of(3) {
            self.step(done);
        }
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        if !self.under_way.is_empty() {
            self.step(done);
        }
    }

    fn in_flight(&self) -> usize {
        self.under_way.len()
    }
}
