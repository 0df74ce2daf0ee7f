//! Whatever is asked of a drive, and whatever breaks: mapping and data agree.

#![allow(clippy::disallowed_methods, reason = "a variable asks for more cases")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Fate, Model, Operation, Status, LOG_STREAM};

use super::basics::small;
use super::load::shadowed;
use crate::spec::{
    Blocking, CachedWrites, FaultKind, FaultSpec, GcSpec, Order, Planes, Rate, ReadCacheSpec,
    Replacement, ScrubSpec, Transfers, WearLevelling,
};
use crate::{Spec, Ssd};

pub const CAPACITY: u64 = 2 << 20;

/// So many cases of each property, or as many as `PROPTEST_CASES` asks for.
pub fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(asked.unwrap_or(usual))
}

pub fn spec(choices: u64) -> Spec {
    let pick = |shift: u32, choice_count: u64| (choices >> shift) % choice_count;
    let gc = GcSpec {
        policy: ["greedy", "cost-benefit", "d-choices"][pick(0, 3) as usize].into(),
        blocking: [Blocking::None, Blocking::Plane, Blocking::Channel, Blocking::Controller]
            [pick(4, 4) as usize],
        copyback: [None, Some(true), Some(false)][pick(8, 3) as usize],
        background: [0, 6][pick(12, 2) as usize],
        idle: 100_000,
        foreground: 3 + pick(13, 2) as u32,
        ..GcSpec::default()
    };
    let page_size = [4096, 16_384][pick(16, 2) as usize];
    Spec {
        page_size,
        planes: 1 + pick(17, 2) as u32,
        pages: Some([4, 16][pick(18, 2) as usize]),
        plane_mode: [Planes::Independent, Planes::Lockstep][pick(19, 2) as usize],
        registers: 1 + pick(20, 2) as u8,
        suspensions: pick(21, 3) as u8,
        scheduling: [Order::Fifo, Order::ReadFirst][pick(24, 2) as usize],
        channel_order: [Transfers::Fifo, Transfers::DataFirst][pick(36, 2) as usize],
        buffer: [0, 0, 4096, 65_536][pick(25, 4) as usize],
        plp: pick(28, 2) == 1,
        streams: 1 + pick(29, 3) as u16,
        hot_cold: pick(32, 2) == 1,
        wear_levelling: [WearLevelling::None, WearLevelling::Dynamic, WearLevelling::Static]
            [pick(33, 3) as usize],
        over_provisioning: Some(0.2),
        scrub: [None, None, Some(scrub())][pick(50, 3) as usize].clone(),
        read_cache: [None, None, Some(read_cache(choices))][pick(40, 3) as usize].clone(),
        gc,
        pairs: pick(52, 4) == 0,
        ..small()
    }
}

/// Visits of each block every two seconds, each of which moves it.
fn scrub() -> ScrubSpec {
    ScrubSpec { period: 2_000_000_000, age: Some(0), ..ScrubSpec::default() }
}

/// A read cache of a few units up to a quarter of the drive.
fn read_cache(choices: u64) -> ReadCacheSpec {
    let pick = |shift: u32, choice_count: u64| (choices >> shift) % choice_count;
    let size = [16_384, 65_536, CAPACITY / 4][pick(42, 3) as usize];
    ReadCacheSpec {
        replacement: [Replacement::Lru, Replacement::Fifo, Replacement::Random]
            [pick(44, 3) as usize],
        writes: [CachedWrites::Invalidate, CachedWrites::Update][pick(46, 2) as usize],
        rate: [None, Some(Rate::per_second(1_000_000_000))][pick(47, 2) as usize],
        read_ahead: [0, size / 2][pick(48, 2) as usize],
        ..ReadCacheSpec::of(size)
    }
}

pub fn faulty(mut spec: Spec, rate: f64) -> Spec {
    for kind in [
        FaultKind::FailedProgram,
        FaultKind::FailedErase,
        FaultKind::UncorrectableRead,
        FaultKind::CorruptedRead,
    ] {
        spec.faults.push(FaultSpec { rate, ..FaultSpec::new(kind) });
    }
    spec
}

/// A drive under random load.
pub struct Rack {
    pub ssd: Ssd,
    random: Xoshiro256PlusPlus,
    now: u64,
    tag: u32,
    // Tags in flight.
    flying: BTreeMap<u32, Operation>,
    pub failed: BTreeSet<Operation>,
    // True if there is a log of pairs.
    pairs: bool,
}

impl Rack {
    fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn command(&mut self, hot: bool) -> Command {
        let range = if hot { CAPACITY / 8 } else { CAPACITY };
        let whole = self.draw(8) > 0;
        let grain = if whole { 4096 } else { 512 };
        let offset = self.draw(range / grain) * grain;
        let most = (CAPACITY - offset).min([4096, 8192, 65_536][self.draw(3) as usize]);
        let length = (1 + self.draw((most / grain).max(1))) * grain;
        let length = length.min(CAPACITY - offset);
        let operation = match self.draw(100) {
            0..30 => Operation::Read,
            30..80 => Operation::Write,
            80..86 => Operation::Discard,
            86..90 => Operation::WriteZeroes,
            90..93 => Operation::Flush,
            93..95 => Operation::Copy,
            95..97 => Operation::Barrier,
            _ => Operation::Verify,
        };
        let source = self.draw((CAPACITY - length) / 512 + 1) * 512;
        Command {
            fua: self.draw(8) == 0,
            stream: match self.draw(4) as u16 {
                end @ 2.. if self.pairs => LOG_STREAM + (end - 2),
                stream => stream,
            },
            source,
            ..Command::new(operation, offset, length)
        }
    }

    fn advance(&mut self, to: u64) {
        let mut done = Vec::new();
        self.ssd.advance(to, &mut done);
        self.now = to;
        for completion in done {
            let operation = self.flying.remove(&completion.tag).expect("each completes once");
            assert!(completion.at <= to);
            if let Fate::Failed { status, .. } = completion.fate {
                let reads = matches!(operation, Operation::Read | Operation::Verify);
                assert!(!reads || status == Status::ReadError);
                self.failed.insert(operation);
            }
        }
    }

    fn finish(&mut self) {
        /// Virtual time (ns) within which all commands in flight complete. Scrubbing goes on without end,
        /// so that there is always a next event.
        const MAX_TIME: u64 = 60_000_000_000;
        let latest = self.now + MAX_TIME;
        while !self.flying.is_empty() {
            let at = self.ssd.next_event().expect("everything completes");
            assert!(at < latest, "these never complete: {:?}", self.flying);
            self.advance(at);
        }
    }

    fn power_cut(&mut self, spec: &Spec) {
        let before = self.ssd.context.shadow.as_ref().unwrap().expected.clone();
        let lost = self.ssd.power_cut(self.now);
        self.flying.clear();
        let after = &self.ssd.context.shadow.as_ref().unwrap().expected;
        let unit = spec.mapping_unit;
        let reported: BTreeSet<u64> =
            lost.iter().flat_map(|range| (range.start..range.end).step_by(4096)).collect();
        assert!(lost.windows(2).all(|pair| pair[0].end < pair[1].start), "{lost:?}");
        if spec.buffer == 0 || spec.plp {
            // Nothing is acknowledged that a cut could take.
            assert_eq!(lost, []);
        } else {
            for (&number, version) in &before {
                let offset = u64::from(number) * unit;
                // A forced write is acknowledged only once it is durable.
                let gone = after.get(&number) != Some(version);
                assert!(gone || !reported.contains(&offset), "{number} is there");
            }
        }
        // Units behind the host's hold a map, which is written anew.
        let units = (CAPACITY / unit) as u32;
        for number in after.keys().filter(|number| **number < units) {
            assert!(before.contains_key(number), "{number} was trimmed");
        }
        self.ssd.ftl().check();
    }
}

pub fn torture(spec: &Spec, seed: u64, steps: u32, cuts: bool) -> Rack {
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let ssd = shadowed(spec, CAPACITY, seed);
    let (flying, failed) = (BTreeMap::new(), BTreeSet::new());
    let pairs = spec.pairs;
    let mut rack = Rack { ssd, random, now: 0, tag: 0, flying, failed, pairs };
    for step in 0..steps {
        let hot = rack.draw(2) == 0;
        let command = rack.command(hot);
        rack.tag += 1;
        rack.flying.insert(rack.tag, command.operation);
        rack.ssd.submit(rack.now, rack.tag, &command);
        match rack.draw(8) {
            0..3 => {}
            3..5 => {
                let wait = rack.draw(300_000);
                rack.advance(rack.now + wait);
            }
            _ if rack.flying.len() > 24 => {
                if let Some(at) = rack.ssd.next_event() {
                    rack.advance(at.max(rack.now));
                }
            }
            5 => rack.finish(),
            _ => {}
        }
        if cuts && rack.draw(60) == 0 {
            rack.advance(rack.now);
            rack.power_cut(spec);
        }
        if step % 64 == 0 {
            rack.ssd.ftl().check();
        }
    }
    rack.finish();
    // Every unit once more: the shadow array compares.
    for unit in 0..CAPACITY / 4096 {
        rack.tag += 1;
        rack.flying.insert(rack.tag, Operation::Verify);
        let command = Command::new(Operation::Verify, unit * 4096, 4096);
        rack.ssd.submit(rack.now, rack.tag, &command);
        rack.finish();
    }
    rack.ssd.ftl().check();
    rack
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn mapping_and_data_agree(choices: u64, seed: u64) {
        let rack = torture(&spec(choices), seed, 600, false);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
    }

    #[test]
    fn mapping_and_data_agree_whenever_the_power_fails(choices: u64, seed: u64) {
        let rack = torture(&spec(choices), seed, 600, true);
        prop_assert!(rack.failed.is_empty(), "{:?}", rack.failed);
    }

    #[test]
    fn mapping_and_data_agree_whatever_breaks(choices: u64, seed: u64, often in 1u32..30) {
        torture(&faulty(spec(choices), f64::from(often) * 1e-3), seed, 600, seed % 2 == 0);
    }
}

/// The drive once stopped here: the program of a buffered unit failed, which the host had
/// trimmed meanwhile, and the writes behind it waited for room for ever.
#[test]
fn mapping_and_data_agree_after_a_failed_program_of_a_trimmed_unit() {
    let spec = Spec { read_cache: None, scrub: None, ..spec(4_480_950_132_713_914_368) };
    torture(&faulty(spec, 8e-3), 14_115_604_820_989_542_648, 600, true);
}
