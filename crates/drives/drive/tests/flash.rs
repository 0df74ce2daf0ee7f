//! Data that a modelled flash SSD loses inside, against the loss that it declares possible.

use std::collections::BTreeMap;

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Fate, Model, Operation};
use stasis_drive::{Sampling, Survival, VolatileCache};
use stasis_flash::{Spec, Ssd};

const CAPACITY: u64 = 8 << 20;

fn spec(ftl: &str, buffer: u64, plp: bool) -> Spec {
    Spec {
        channels: 2,
        luns: 1,
        planes: 1,
        pages: Some(16),
        cells: "slc".into(),
        // `hybrid` maps whole pages.
        mapping_unit: if ftl == "hybrid" { 16 << 10 } else { 4 << 10 },
        ftl: ftl.into(),
        over_provisioning: Some(0.6),
        buffer,
        plp,
        ..Spec::default()
    }
}

/// A drive and its cache as the model of power cuts follows it.
struct Pair {
    ssd: Ssd,
    cache: VolatileCache,
    random: Xoshiro256PlusPlus,
    now: u64,
    commands: Vec<Command>,
    in_flight: BTreeMap<u32, usize>,
}

impl Pair {
    fn new(spec: &Spec, seed: u64) -> Self {
        let ssd = Ssd::new(spec, CAPACITY, seed).unwrap();
        let cache = VolatileCache::new(ssd.power_loss(), true);
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (commands, in_flight) = (Vec::new(), BTreeMap::new());
        Self { ssd, cache, random, now: 0, commands, in_flight }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn step(&mut self) {
        let grain = [512, 4096, 16_384][self.draw(3) as usize];
        let offset = self.draw(CAPACITY / 4 / grain) * grain;
        let length = (1 + self.draw(4)) * grain;
        let command = match self.draw(30) {
            0 => Command::flush(),
            1 => Command::new(Operation::Discard, offset, length),
            2 => Command { fua: true, ..Command::new(Operation::Write, offset, length) },
            _ => Command::new(Operation::Write, offset, length),
        };
        // The drive's own flush covers commands that had ended before it, as NVMe asks, and not
        // those in flight beside it.
        while command.operation == Operation::Flush && !self.in_flight.is_empty() {
            let next = self.ssd.next_event().expect("everything completes");
            self.advance(next);
        }
        let place = self.commands.len();
        self.cache.submitted(place, &command);
        self.ssd.submit(self.now, place as u32, &command);
        self.commands.push(command);
        self.in_flight.insert(place as u32, place);
        let until = self.now + self.draw(200_000);
        self.advance(until);
    }

    fn advance(&mut self, to: u64) {
        let mut done = Vec::new();
        while let Some(at) = self.ssd.next_event().filter(|&at| at <= to) {
            self.ssd.advance(at, &mut done);
        }
        self.now = to;
        self.ssd.advance(to, &mut done);
        for completion in done {
            let place = self.in_flight.remove(&completion.tag).expect("each completes once");
            let well = completion.fate == Fate::Done;
            self.cache.ended(place, self.commands[place].operation, well, |_| {});
        }
    }

    /// Cuts the power; returns the number of acknowledged bytes that are lost.
    fn cut(mut self, name: &str) -> u64 {
        let lost = self.ssd.power_cut(self.now);
        let mut bytes = 0;
        for range in &lost {
            bytes += range.end - range.start;
            // Each unit has a change that can be lost by the model's description.
            let unit = self.cache.power_loss().atomic_unit;
            for start in (range.start..range.end).step_by(unit as usize) {
                let lossy = self.cache.unsettled().any(|(place, durable)| {
                    let Command { offset, length, .. } = self.commands[place];
                    !durable && offset < start + unit && start < offset + length
                });
                assert!(lossy, "{name}: bytes from {start} on cannot be lost: {lost:?}");
            }
        }
        if let Some(limit) = self.cache.power_loss().limit() {
            assert!(bytes <= limit, "{name}: {bytes} bytes of {limit} are lost");
        }
        // The drive keeps no more than a cut may leave.
        let most: Vec<(usize, Survival)> = self.cache.sample(Sampling::Most);
        assert!(most.len() <= self.cache.unsettled().count());
        bytes
    }
}

#[test]
fn a_flash_ssd_loses_no_more_than_it_says() {
    for (ftl, buffer, plp, loses) in [
        ("page", 64 << 10, false, true),
        ("page", 64 << 10, true, false),
        ("page", 0, false, false),
        ("dftl", 64 << 10, false, true),
        ("dftl", 64 << 10, true, false),
        ("hybrid", 64 << 10, false, false),
    ] {
        let name = format!("{ftl}, buffer {buffer}, plp {plp}");
        let (mut most, mut limit) = (0, None);
        for seed in 0..60 {
            let mut pair = Pair::new(&spec(ftl, buffer, plp), seed);
            limit = pair.cache.power_loss().limit();
            for _ in 0..40 + seed * 3 {
                pair.step();
            }
            most = most.max(pair.cut(&name));
        }
        assert_eq!(most > 0, loses, "{name}: at most {most} bytes of {limit:?} were lost");
    }
}
