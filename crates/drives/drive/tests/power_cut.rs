//! States that a power cut may leave, against every medium that a drive can have.

#[path = "common/permitted.rs"]
mod permitted;

use std::collections::HashSet;

use permitted::{Medium, Permitted};
use proptest::prelude::*;
use stasis_block::{CacheKind, Command, Operation, PowerLoss, ZoneLayout, ZonedPart};
use stasis_drive::{Sampling, Survival, VolatileCache};

const SECTORS: u64 = 4;

/// A drive's cache and the reference, side by side.
struct Pair {
    cache: VolatileCache,
    reference: Permitted,
    commands: Vec<Command>,
    in_flight: Vec<usize>,
    settled: Medium,
}

impl Pair {
    fn new(power_loss: PowerLoss) -> Self {
        Self {
            cache: VolatileCache::new(power_loss, true),
            reference: Permitted::new(power_loss, SECTORS as usize),
            commands: Vec::new(),
            in_flight: Vec::new(),
            settled: vec![0; SECTORS as usize],
        }
    }

    fn submit(&mut self, command: Command) {
        self.cache.submitted(self.commands.len(), &command);
        self.reference.submit(command);
        self.in_flight.push(self.commands.len());
        self.commands.push(command);
    }

    fn end(&mut self, which: usize) {
        let place = self.in_flight.remove(which);
        let Self { cache, commands, settled, .. } = self;
        cache.ended(place, commands[place].operation, true, |place| {
            put(settled, place, &commands[place], &Survival::Whole);
        });
        self.reference.end(place);
    }

    /// The medium with the surviving changes.
    fn medium(&self, survivals: &[(usize, Survival)]) -> Medium {
        let mut medium = self.settled.clone();
        for (place, durable) in self.cache.unsettled() {
            let found = survivals.iter().find(|(other, _)| *other == place);
            let survival = match found {
                Some((_, survival)) => survival,
                None if durable => &Survival::Whole,
                None => continue,
            };
            put(&mut medium, place, &self.commands[place], survival);
        }
        medium
    }

    /// Adds the durable changes.
    fn named(&self, mut survivals: Vec<(usize, Survival)>) -> Vec<(usize, Survival)> {
        let durable = self.cache.unsettled().filter(|(_, durable)| *durable);
        survivals.extend(durable.map(|(place, _)| (place, Survival::Whole)));
        survivals
    }
}

fn put(medium: &mut Medium, place: usize, command: &Command, survival: &Survival) {
    let first = (command.offset / 512) as usize;
    for within in (0..(command.length / 512) as usize).filter(|&within| survival.has(within)) {
        medium[first + within] = place + 1;
    }
}

fn kinds() -> impl Strategy<Value = PowerLoss> {
    let cache = prop_oneof![
        4 => Just(CacheKind::Unbounded),
        6 => (1..7u64).prop_map(|sectors| CacheKind::Volatile(sectors * 512)),
        1 => Just(CacheKind::Volatile(700)),
        1 => Just(CacheKind::Protected),
        1 => Just(CacheKind::None),
    ];
    (cache, 1..3u64).prop_map(|(cache, unit)| PowerLoss::new(cache, unit * 512))
}

fn commands() -> impl Strategy<Value = Vec<(Command, u8)>> {
    let command = (0..12u8, 0..SECTORS, 1..4u64, 0..5u8).prop_map(|(kind, first, count, fua)| {
        let at = |operation| {
            let length = count.min(SECTORS - first) * 512;
            Command { fua: fua == 0, ..Command::new(operation, first * 512, length) }
        };
        match kind {
            0..=7 => at(Operation::Write),
            8 => at(Operation::WriteZeroes),
            9 => at(Operation::Discard),
            10 => Command::flush(),
            _ => Command::barrier(),
        }
    });
    prop::collection::vec((command, any::<u8>()), 1..6)
}

/// Submits `commands`; how many end after each, and which, is in the numbers.
fn play(pair: &mut Pair, commands: &[(Command, u8)], mut after: impl FnMut(&Pair)) {
    for (command, ends) in commands {
        pair.submit(*command);
        after(pair);
        for turn in 0..ends % 3 {
            if !pair.in_flight.is_empty() {
                pair.end(usize::from(ends / 3 + turn) % pair.in_flight.len());
                after(pair);
            }
        }
    }
}

/// Returns each sampling, those that are drawn with each of `seeds`.
fn samplings(seeds: &[u64]) -> Vec<Sampling> {
    let drawn =
        |seed: &u64| [Sampling::AllButOne(*seed), Sampling::Losing(*seed), Sampling::Random(*seed)];
    let fixed = [Sampling::Least, Sampling::Most, Sampling::Newest, Sampling::Oldest];
    fixed.into_iter().chain(seeds.iter().flat_map(drawn)).collect()
}

/// Returns all combinations of surviving sectors of the changes.
fn every(pair: &Pair) -> Vec<Vec<(usize, Survival)>> {
    let mut all = vec![Vec::new()];
    for (place, _) in pair.cache.unsettled() {
        let sectors = pair.commands[place].length / 512;
        all = all
            .into_iter()
            .flat_map(|survivals: Vec<(usize, Survival)>| {
                (0..1u32 << sectors).map(move |bits| {
                    let mut survivals = survivals.clone();
                    let sectors = (0..sectors).map(|sector| bits >> sector & 1 == 1).collect();
                    survivals.push((place, Survival::Torn(sectors)));
                    survivals
                })
            })
            .collect();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// Never a state that no drive could leave; every sample is permitted.
    #[test]
    fn no_state_is_impossible(power_loss in kinds(), commands in commands(), seed: u64) {
        let mut pair = Pair::new(power_loss);
        play(&mut pair, &commands, |pair| {
            let seeds: Vec<u64> = (0..12).map(|draw| seed.wrapping_add(draw)).collect();
            for sampling in samplings(&seeds) {
                let survivals = pair.cache.sample(sampling);
                let medium = pair.medium(&survivals);
                assert!(pair.reference.media().contains(&medium), "{sampling:?} {medium:?}");
                assert!(pair.cache.permits(&pair.named(survivals)), "{sampling:?} {medium:?}");
            }
        });
    }

    /// The rules permit the states that some drive can leave, and nothing else.
    #[test]
    fn the_rules_are_those_of_every_medium(power_loss in kinds(), commands in commands()) {
        let mut pair = Pair::new(power_loss);
        play(&mut pair, &commands[..commands.len().min(4)], |_| {});
        let every = every(&pair);
        let permitted: HashSet<Medium> = every
            .iter()
            .filter(|survivals| pair.cache.permits(survivals))
            .map(|survivals| pair.medium(survivals))
            .collect();
        prop_assert_eq!(&permitted, pair.reference.media());
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every state that some drive can leave is sampled sooner or later.
    #[test]
    fn every_state_is_reached(power_loss in kinds(), commands in commands()) {
        let mut pair = Pair::new(power_loss);
        play(&mut pair, &commands[..commands.len().min(3)], |_| {});
        let mut missing = pair.reference.media().clone();
        for seed in 0..20_000_000 {
            missing.remove(&pair.medium(&pair.cache.sample(Sampling::Random(seed))));
            if missing.is_empty() {
                return Ok(());
            }
        }
        prop_assert!(false, "{missing:?} of {}", pair.reference.media().len());
    }
}

/// Writes of 4 KiB one after the other, acknowledged and not flushed.
fn acknowledged(cache: CacheKind, count: usize) -> VolatileCache {
    let mut drive = VolatileCache::new(PowerLoss::new(cache, 4096), true);
    for place in 0..count {
        let command = Command::new(Operation::Write, place as u64 * 4096, 4096);
        drive.submitted(place, &command);
        drive.ended(place, command.operation, true, |_| {});
    }
    drive
}

#[test]
fn with_protection_nothing_acknowledged_is_lost() {
    for cache in [CacheKind::Protected, CacheKind::None] {
        let mut drive = acknowledged(cache, 50);
        assert_eq!(drive.unsettled().count(), 0);
        // A change in flight can be lost, and torn between units only.
        drive.submitted(50, &Command::new(Operation::Write, 2048, 8192));
        let states: HashSet<String> =
            (0..500).map(|seed| format!("{:?}", drive.sample(Sampling::Random(seed)))).collect();
        assert_eq!(states.len(), 1 << 3, "three units, each there or not: {states:?}");
    }
}

#[test]
fn no_more_is_lost_than_the_cache_holds() {
    let (count, holds) = (100, 5);
    let drive = acknowledged(CacheKind::Volatile(holds * 4096), count);
    let least: Vec<usize> = drive.sample(Sampling::Least).iter().map(|(place, _)| *place).collect();
    assert_eq!(least, (0..count - holds as usize).collect::<Vec<_>>(), "the newest is lost");
    let (mut most, mut lost_early) = (0, false);
    for seed in 0..300 {
        let survivals = drive.sample(Sampling::Random(seed));
        let lost = count - survivals.len();
        most = most.max(lost);
        lost_early |= survivals.iter().zip(0..10).any(|((place, _), expected)| *place != expected);
        assert!(lost <= holds as usize, "{lost}");
    }
    assert_eq!(most, holds as usize);
    assert!(lost_early, "a cache need not write the oldest first");
    assert_eq!(acknowledged(CacheKind::Unbounded, count).sample(Sampling::Least), []);
}

#[test]
fn all_but_one_loses_one_change_of_the_newest_that_can_be_lost() {
    let places = |drive: &VolatileCache, seed| -> Vec<usize> {
        let survivals = drive.sample(Sampling::AllButOne(seed));
        assert!(survivals.iter().all(|(_, survival)| *survival == Survival::Whole));
        survivals.into_iter().map(|(place, _)| place).collect()
    };
    let mut drive = acknowledged(CacheKind::Unbounded, 4);
    drive.submitted(4, &Command::barrier());
    for place in 5..8 {
        drive.submitted(place, &Command::new(Operation::Write, place as u64 * 4096, 4096));
    }
    let states: HashSet<_> = (0..100).map(|seed| places(&drive, seed)).collect();
    let expected = [vec![0, 1, 2, 3, 6, 7], vec![0, 1, 2, 3, 5, 7], vec![0, 1, 2, 3, 5, 6]];
    assert_eq!(states, expected.into());
    // Nothing of the newest epoch can be lost any more: the one before has the choice.
    let mut drive = acknowledged(CacheKind::Unbounded, 2);
    drive.submitted(2, &Command::barrier());
    let states: HashSet<_> = (0..100).map(|seed| places(&drive, seed)).collect();
    assert_eq!(states, [vec![0], vec![1]].into());
    assert!(places(&VolatileCache::new(PowerLoss::default(), true), 1).is_empty());
    // A change that is larger than the cache is lost as far as the cache holds it.
    let mut drive = acknowledged(CacheKind::Volatile(4096), 0);
    drive.submitted(0, &Command::new(Operation::Write, 0, 4 * 4096));
    drive.ended(0, Operation::Write, true, |_| {});
    for seed in 0..20 {
        let survivals = drive.sample(Sampling::AllButOne(seed));
        let [(0, survival)] = &survivals[..] else { panic!("{survivals:?}") };
        assert_eq!((0..32).filter(|sector| !survival.has(*sector)).count(), 8, "{survival:?}");
    }
}

#[test]
fn the_changes_that_a_mask_names_are_lost_and_those_that_need_them() {
    let places = |drive: &VolatileCache, mask| -> Vec<usize> {
        drive.sample(Sampling::Losing(mask)).into_iter().map(|(place, _)| place).collect()
    };
    let mut drive = acknowledged(CacheKind::Unbounded, 4);
    assert_eq!(places(&drive, 0), [0, 1, 2, 3]);
    assert_eq!(places(&drive, 0b0001), [0, 1, 2]);
    assert_eq!(places(&drive, 0b1010), [1, 3]);
    assert_eq!(places(&drive, u64::MAX), [0; 0]);
    // Nothing behind a barrier is there without everything before it.
    drive.submitted(4, &Command::barrier());
    drive.submitted(5, &Command::new(Operation::Write, 1 << 20, 4096));
    assert_eq!(places(&drive, 0b00001), [0, 1, 2, 3]);
    assert_eq!(places(&drive, 0b00010), [0, 1, 2]);
}

/// It may be there or not; after a flush it is taken for written.
#[test]
fn what_failed_is_not_waited_for() {
    let mut drive = VolatileCache::new(PowerLoss::new(CacheKind::Protected, 512), true);
    drive.submitted(0, &Command::new(Operation::Write, 0, 512));
    drive.ended(0, Operation::Write, false, |_| panic!("it failed"));
    assert_eq!(drive.unsettled().collect::<Vec<_>>(), [(0, false)]);
    drive.submitted(1, &Command::flush());
    let mut settled = Vec::new();
    drive.ended(1, Operation::Flush, true, |place| settled.push(place));
    assert_eq!(settled, [0]);
    // A discard that changes nothing is nothing to lose.
    let mut drive = VolatileCache::new(PowerLoss::default(), false);
    drive.submitted(0, &Command::new(Operation::Discard, 0, 512));
    assert_eq!(drive.unsettled().count(), 0);
}

/// Sectors of a zone, of which there are two.
const ZONE: usize = 4;

/// A zone as it is written: each sector by the command that it is from, 0 if it is empty.
type ZoneState = Vec<usize>;

/// Every state of a zone while commands move its pointer step by step, and the last step of each
/// command.
struct Steps {
    states: Vec<ZoneState>,
    last: Vec<usize>,
}

fn steps(commands: &[Command], zone: usize) -> Steps {
    let (mut states, mut last) = (vec![vec![0; ZONE]], Vec::new());
    for (place, command) in commands.iter().enumerate() {
        let first = (command.offset / 512) as usize;
        let sectors = first..first + (command.length / 512) as usize;
        let inside = |sector: &usize| sector / ZONE == zone;
        let before = states.len();
        let mut now = states[states.len() - 1].clone();
        match command.operation {
            Operation::Discard if sectors.clone().any(|sector| inside(&sector)) => {
                states.push(vec![0; ZONE]);
            }
            Operation::Write => {
                for sector in sectors.filter(inside) {
                    now[sector % ZONE] = place + 1;
                    states.push(now.clone());
                }
            }
            _ => {}
        }
        // 0: it is not of this zone.
        last.push(if states.len() > before { states.len() - 1 } else { 0 });
    }
    Steps { states, last }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_sequential_zone_has_no_hole(
        // Per step: the operation, its sectors, whether it is durable, the change that ends then.
        asked in prop::collection::vec((0..8u8, 1..4u64, any::<bool>(), any::<u8>()), 1..10),
        kind in kinds(),
        strict in any::<bool>(),
        seeds in prop::collection::vec(any::<u64>(), 12),
    ) {
        let (namespace, size) = (2 * ZONE as u64 * 512, ZONE as u64 * 512);
        let layout = ZoneLayout::new(vec![ZonedPart { start: 0, end: namespace, size }]);
        let kind = PowerLoss::new(kind.cache, 512);
        let mut cache = VolatileCache::new(kind, false).with_zones(layout).strict(strict);
        let (mut commands, mut pointers) = (Vec::<Command>::new(), [0u64; 2]);
        let (mut in_flight, mut settled) = (Vec::new(), vec![0; 2 * ZONE]);
        for (choice, count, fua, ends) in asked {
            let zone = usize::from(choice % 2);
            let start = (zone * ZONE) as u64;
            let count = count.min(ZONE as u64 - pointers[zone]);
            let command = match choice {
                0..=4 if count > 0 => {
                    let at = (start + pointers[zone]) * 512;
                    pointers[zone] += count;
                    Command { fua, ..Command::new(Operation::Write, at, count * 512) }
                }
                5 => {
                    pointers[zone] = 0;
                    Command::new(Operation::Discard, start * 512, size)
                }
                6 => {
                    pointers = [0; 2];
                    Command::new(Operation::Discard, 0, namespace)
                }
                _ => Command::flush(),
            };
            let place = commands.len();
            cache.submitted(place, &command);
            commands.push(command);
            in_flight.push(place);
            for turn in 0..ends % 3 {
                if in_flight.is_empty() {
                    break;
                }
                let place = in_flight.remove(usize::from(ends / 3 + turn) % in_flight.len());
                cache.ended(place, commands[place].operation, true, |place| {
                    put_zoned(&mut settled, place, &commands[place], &Survival::Whole);
                });
            }
        }
        for sampling in samplings(&seeds) {
            let mut survivals = cache.sample(sampling);
            let durable: Vec<usize> =
                cache.unsettled().filter(|(_, durable)| *durable).map(|(place, _)| place).collect();
            survivals.extend(durable.iter().map(|place| (*place, Survival::Whole)));
            survivals.sort_by_key(|(place, _)| *place);
            prop_assert!(cache.permits(&survivals), "{sampling:?}: {survivals:?} of {commands:?}");
            let mut medium = settled.clone();
            for (place, survival) in &survivals {
                put_zoned(&mut medium, *place, &commands[*place], survival);
            }
            for zone in 0..2 {
                let Steps { states, last } = steps(&commands, zone);
                let mine = &medium[zone * ZONE..][..ZONE];
                let least = durable.iter().map(|place| last[*place]).max().unwrap_or(0);
                let fits = states[least..].iter().any(|state| state == mine);
                prop_assert!(fits, "{sampling:?}: {mine:?} of {commands:?}");
            }
        }
    }
}

/// The same as [`put`], where a discard leaves nothing.
fn put_zoned(medium: &mut [usize], place: usize, command: &Command, survival: &Survival) {
    let first = (command.offset / 512) as usize;
    for within in (0..(command.length / 512) as usize).filter(|&within| survival.has(within)) {
        let emptied = command.operation == Operation::Discard;
        medium[first + within] = if emptied { 0 } else { place + 1 };
    }
}

#[test]
fn a_strict_flush_covers_nothing_that_is_in_flight() {
    for strict in [false, true] {
        let mut drive = VolatileCache::new(PowerLoss::default(), true).strict(strict);
        let write = |at: u64| Command::new(Operation::Write, at, 512);
        drive.submitted(0, &write(0));
        drive.submitted(1, &write(512));
        drive.ended(0, Operation::Write, true, |_| {});
        drive.submitted(2, &Command::flush());
        drive.ended(1, Operation::Write, true, |_| {});
        let mut settled = Vec::new();
        drive.ended(2, Operation::Flush, true, |place| settled.push(place));
        assert_eq!(settled, if strict { vec![0] } else { vec![0, 1] });
    }
}
