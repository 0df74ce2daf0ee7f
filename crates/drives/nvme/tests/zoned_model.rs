//! Random commands for zones, against the simplest zones there can be: each
//! status, each zone's descriptor after each command, and all data.

#[path = "support/zones.rs"]
mod zones;

use crate::support::{config, Cqe, Driver, Sqe, DATA, PAGE};
use proptest::prelude::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, Namespace, Zones, Zrwa};
use zones::{Model, BLOCK, CAPACITY, FULL, OFFLINE, READ_ONLY, SIZE, ZONES};

#[derive(Debug, Clone)]
enum Step {
    /// So far from a zone's write pointer; zeroes, or data.
    Write {
        zone: u64,
        from_pointer: i64,
        blocks: u64,
        zeroes: bool,
        fails: bool,
    },
    Append {
        lba: u64,
        blocks: u64,
        fails: bool,
    },
    Read {
        lba: u64,
        blocks: u64,
    },
    /// Part of a zone's start, for what must begin there.
    Send {
        zone: u64,
        inside: u64,
        action: u32,
        all: bool,
        random: bool,
        fails: bool,
    },
    Flush {
        lba: u64,
    },
    /// A reset of the controller leaves the zones alone.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let blocks = prop_oneof![4 => 1..4u64, 1 => 1..10u64];
    let zone = 0..ZONES;
    let rarely = || prop::bool::weighted(0.04);
    let from_pointer = prop_oneof![4 => Just(0), 1 => -2..4i64];
    let lba = 0..ZONES * SIZE + 2;
    let start = prop_oneof![8 => zone.clone().prop_map(|zone| zone * SIZE), 1 => lba.clone()];
    let inside = prop_oneof![9 => Just(0), 1 => 0..SIZE];
    let action = prop::sample::select(vec![1u32, 1, 2, 3, 3, 3, 4, 4, 5, 0x10, 6]);
    let send = (zone.clone(), inside, action, prop::bool::weighted(0.1), any::<bool>(), rarely());
    let step = prop_oneof![
        8 => (zone, from_pointer, blocks.clone(), prop::bool::weighted(0.2), rarely()).prop_map(
            |(zone, from_pointer, blocks, zeroes, fails)| {
                Step::Write { zone, from_pointer, blocks, zeroes, fails }
            }
        ),
        3 => (start, blocks.clone(), rarely())
            .prop_map(|(lba, blocks, fails)| Step::Append { lba, blocks, fails }),
        4 => (lba.clone(), blocks).prop_map(|(lba, blocks)| Step::Read { lba, blocks }),
        8 => send.prop_map(|(zone, inside, action, all, random, fails)| {
            Step::Send { zone, inside, action, all, random, fails }
        }),
        2 => lba.prop_map(|lba| Step::Flush { lba }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

fn configurations() -> impl Strategy<Value = Zones> {
    let limits = prop_oneof![
        Just((None, None)),
        (1..4u32).prop_map(|open| (Some(open), None)),
        (1..4u32).prop_map(|active| (None, Some(active))),
        (1..4u32, 0..3u32).prop_map(|(open, more)| (Some(open), Some(open + more))),
    ];
    let zrwa = (1..4u64, 1..3u64, 1..3u32).prop_map(|(steps, step, count)| Zrwa {
        size: (steps * step).min(CAPACITY) * BLOCK,
        granularity: step * BLOCK,
        count,
    });
    let zrwa = prop::option::of(zrwa);
    (limits, zrwa, any::<bool>(), any::<bool>()).prop_map(|(limits, zrwa, crosses, extended)| {
        Zones {
            capacity: Some(CAPACITY * BLOCK),
            max_open: limits.0,
            max_active: limits.1,
            extension_size: if extended { 64 } else { 0 },
            zrwa,
            reads_cross_zones: crosses,
            ..Zones::new(SIZE * BLOCK)
        }
    })
}

/// The controller beside the model.
struct Both {
    driver: Driver,
    model: Model,
}

impl Both {
    fn new(zones: Zones) -> Self {
        let namespace =
            Namespace { zoned: Some(zones.clone()), ..Namespace::new(ZONES * SIZE, BLOCK as u32) };
        let mut driver =
            Driver::with_queues(Config { namespaces: vec![namespace], ..config() }, 1, 16);
        // The medium has something everywhere.
        driver.disk.fill(0xee);
        Self { driver, model: Model::new(zones) }
    }

    fn io(&mut self, sqe: Sqe, fails: bool) -> Cqe {
        self.driver.submit(1, sqe);
        while let Some(mut request) = self.driver.controller.pop_request() {
            let changes = request.command.operation != Operation::Read;
            let status = if fails && changes { Status::WriteError } else { Status::Ok };
            if status == Status::Ok {
                self.driver.perform(&mut request);
            }
            self.driver.controller.complete(&self.driver.ram, request.tag, status, request.data);
        }
        let all = self.driver.reap(1);
        assert_eq!(all.len(), 1);
        all[0]
    }

    fn step(&mut self, step: &Step, value: u8) {
        let access = |opcode, lba, blocks| Sqe::io(opcode, lba, blocks as u32, DATA, DATA + PAGE);
        self.driver.ram.set(DATA, &[value; 5120]);
        let (completion, expected) = match *step {
            Step::Write { zone, from_pointer, blocks, zeroes, fails } => {
                let written = self.model.zones[zone as usize].written;
                let lba = (zone * SIZE + written).saturating_add_signed(from_pointer);
                let value = if zeroes { 0 } else { value };
                let mut expected = self.model.write(lba, blocks, value);
                if expected.is_ok() && fails {
                    self.model.fail_write(lba);
                    expected = Err(0x280);
                }
                (self.io(access(if zeroes { 8 } else { 1 }, lba, blocks), fails), expected)
            }
            Step::Append { lba, blocks, fails } => {
                let mut expected = self.model.append(lba, blocks, value);
                if let (Ok(at), true) = (expected, fails) {
                    self.model.fail_write(at);
                    expected = Err(0x280);
                }
                let completion = self.io(access(0x7d, lba, blocks), fails);
                if let Ok(at) = expected {
                    assert_eq!(
                        (u64::from(completion.result), completion.high),
                        (at, 0),
                        "{step:?}"
                    );
                }
                (completion, expected.map(|_| ()))
            }
            Step::Read { lba, blocks } => {
                let completion = self.io(access(2, lba, blocks), false);
                let expected = self.model.read(lba, blocks);
                if let Ok(expected) = &expected {
                    self.compare(lba, expected);
                }
                (completion, expected.map(|_| ()))
            }
            Step::Send { zone, inside, action, all, random, fails } => {
                let lba = zone * SIZE + inside;
                let specific = action | u32::from(all) << 8 | u32::from(random) << 9;
                let completion = self.io(Sqe { cdw13: specific, ..access(0x79, lba, 1) }, fails);
                let whole = all || inside == 0;
                let expected = match whole {
                    true => self.act(zone as usize, action, all, random, fails, value),
                    false => Err(0x002),
                };
                (completion, expected)
            }
            Step::Flush { lba } => {
                let completion = self.io(Sqe { cdw13: 0x11, ..access(0x79, lba, 1) }, false);
                let inside = lba < ZONES * SIZE;
                (completion, if inside { self.model.flush(lba) } else { Err(0x080) })
            }
            Step::Restart => return self.restart(),
        };
        assert_eq!(completion.status, expected.err().unwrap_or(0), "{step:x?}");
    }

    fn act(
        &mut self,
        zone: usize,
        action: u32,
        all: bool,
        random: bool,
        fails: bool,
        value: u8,
    ) -> Result<(), u16> {
        let model = &mut self.model;
        match (action, all) {
            (1, false) => model.close(zone),
            (2, false) => model.finish(zone),
            (3, false) => model.open_explicitly(zone, random),
            (4, false) => model.reset(zone, fails),
            (5, false) => model.take_offline(zone),
            (0x10, false) => model.extend(zone, value),
            (3, true) if !random => model.open_all(),
            (4, true) => model.reset_all(fails),
            (1 | 2 | 5, true) => {
                match action {
                    1 => model.close_all(),
                    2 => model.finish_all(),
                    _ => model.take_all_offline(),
                }
                Ok(())
            }
            _ => Err(0x002),
        }
    }

    fn restart(&mut self) {
        self.driver.disable();
        self.driver.enable();
        self.driver.pairs.truncate(1);
        self.driver.create_pair(1, 16, 16, 1);
    }

    /// Compares the data read, from `lba` on, with the expected values.
    fn compare(&self, lba: u64, expected: &[Option<u8>]) {
        let raw = self.driver.ram.get(DATA, expected.len() * BLOCK as usize);
        for (index, (block, expected)) in raw.chunks(BLOCK as usize).zip(expected).enumerate() {
            if let Some(expected) = *expected {
                let all = block.iter().all(|&byte| byte == expected);
                assert!(all, "{} is {}, not {expected}", lba + index as u64, block[0]);
            }
        }
    }

    /// Compares the report of all zones with the model.
    fn compare_report(&mut self) {
        let extension = self.model.config.extension_size as usize;
        let extended = u32::from(extension > 0);
        let sqe = Sqe { cdw12: 1023, cdw13: extended, ..Sqe::io(0x7a, 0, 1, DATA, 0) };
        assert_eq!(self.io(sqe, false).status, 0);
        let raw = self.driver.ram.get(DATA, 4096);
        let word = |raw: &[u8], at: usize| u64::from_le_bytes(raw[at..at + 8].try_into().unwrap());
        assert_eq!(word(&raw, 0), ZONES);
        for (index, zone) in self.model.zones.iter().enumerate() {
            let raw = &raw[64 + index * (64 + extension)..][..64 + extension];
            let start = index as u64 * SIZE;
            let pointer = match zone.state {
                FULL | READ_ONLY | OFFLINE => u64::MAX,
                _ => start + zone.written,
            };
            let attributes = u8::from(zone.random) << 3 | u8::from(zone.extension.is_some()) << 7;
            let reported = (raw[1] >> 4, raw[2], word(raw, 16), word(raw, 24));
            assert_eq!(reported, (zone.state, attributes, start, pointer), "zone {index}");
            if let Some(value) = zone.extension {
                assert_eq!(raw[64..], [value; 64], "extension {index}");
            }
        }
    }

    /// All data of all zones that can be read.
    fn compare_data(&mut self) {
        for zone in 0..ZONES {
            self.step(&Step::Read { lba: zone * SIZE, blocks: SIZE }, 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn zones_are_the_simplest_zones(zones in configurations(), steps in steps()) {
        let mut both = Both::new(zones);
        for (index, step) in steps.iter().enumerate() {
            both.step(step, index as u8 + 1);
            both.compare_report();
        }
        both.compare_data();
    }
}
