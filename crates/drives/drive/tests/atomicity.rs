//! A namespace promises of atomic writes exactly what a power cut keeps: the fields of
//! Identify Namespace against the states that the model of power cuts permits.

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{CacheKind, Command, Operation, PowerLoss};
use stasis_drive::power_cut::{Sampling, Survival, VolatileCache};
use stasis_nvme::{Config, Namespace};

/// Blocks of a namespace here.
const SIZE: u64 = 256;

/// The promise that a host may rely on when the power fails (NVM Command Set 1.0 section 2.1.4), in blocks.
#[derive(Debug)]
struct Promise {
    /// NAWUPF, or a block.
    size: u64,
    /// NABSPF and NABO.
    boundary: Option<(u64, u64)>,
}

impl Promise {
    fn of(config: &Config) -> Self {
        Self::read(&mut Driver::new(config.clone()), 1)
    }

    fn read(driver: &mut Driver, nsid: u32) -> Self {
        let controller = driver.identify(1, 0).1;
        let page = driver.identify(0, nsid).1;
        let word = |page: &[u8], at: usize| u64::from(u16::from_le_bytes([page[at], page[at + 1]]));
        let own = page[24] & 2 != 0;
        let size = if own { word(&page, 36) } else { word(&controller, 528) } + 1;
        let boundary = (own && word(&page, 44) > 0).then(|| (word(&page, 44) + 1, word(&page, 42)));
        Self { size, boundary }
    }

    fn holds(&self, lba: u64, blocks: u64) -> bool {
        let within = |(size, first): (u64, u64)| {
            let part = |lba: u64| (lba + size - first) / size;
            part(lba) == part(lba + blocks - 1)
        };
        blocks <= self.size && self.boundary.is_none_or(within)
    }
}

/// A namespace, and the cache of its drive as power cuts see it.
fn drive(unit: u64, block: u32, start: u64, cache: CacheKind) -> (Config, VolatileCache) {
    let power_loss = PowerLoss::new(cache, unit).for_blocks(block.into());
    let namespace = Namespace { start: start * u64::from(block), ..Namespace::new(SIZE, block) };
    let config = Config { namespaces: vec![namespace], atomic_unit: unit, ..config() };
    (config, VolatileCache::new(power_loss, true))
}

/// Returns the writes that any of 40 power cuts tears.
fn torn(cache: &VolatileCache, seed: u64) -> Vec<usize> {
    let states = (0..40).map(|index| cache.sample(Sampling::Random(seed ^ index)));
    let torn = states.flatten().filter(|(_, survival)| matches!(survival, Survival::Torn(_)));
    torn.map(|(place, _)| place).collect()
}

proptest! {
    #[test]
    fn what_is_promised_is_never_torn(
        unit in prop::sample::select(vec![512u64, 2048, 4096, 12288, 16384, 65536]),
        block in prop::sample::select(vec![512u32, 4096]),
        start in 0..40u64,
        limited in any::<bool>(),
        writes in prop::collection::vec((0..SIZE - 40, 1..40u64, any::<bool>()), 1..30),
        seed in any::<u64>(),
    ) {
        let kind = if limited { CacheKind::Volatile(256 << 10) } else { CacheKind::Unbounded };
        let (config, mut cache) = drive(unit, block, start, kind);
        let promise = Promise::of(&config);
        let begin = config.namespaces[0].start;
        let size = u64::from(block);
        for (place, &(lba, blocks, ended)) in writes.iter().enumerate() {
            let write = Command::new(Operation::Write, begin + lba * size, blocks * size);
            cache.submitted(place, &write);
            if ended {
                cache.ended(place, Operation::Write, true, |_| {});
            }
        }
        for place in torn(&cache, seed) {
            let (lba, blocks, _) = writes[place];
            prop_assert!(!promise.holds(lba, blocks), "{lba}+{blocks}: {promise:?}");
        }
    }
}

#[test]
fn no_more_is_promised_than_is_kept() {
    for (unit, block, start) in
        [(16384, 512, 0), (16384, 4096, 0), (16384, 4096, 3), (4096, 512, 8)]
    {
        let (config, _) = drive(unit, block, start, CacheKind::Unbounded);
        let promise = Promise::of(&config);
        let (begin, size) = (config.namespaces[0].start, u64::from(block));
        assert!(promise.size > 1, "{unit} {block} {start}");
        for lba in 0..unit / size * 2 {
            // The smallest write from here on that is not promised.
            let blocks = (2..).find(|&blocks| !promise.holds(lba, blocks)).unwrap();
            let (_, mut cache) = drive(unit, block, start, CacheKind::Unbounded);
            cache.submitted(0, &Command::new(Operation::Write, begin + lba * size, blocks * size));
            assert!(!torn(&cache, lba).is_empty(), "{lba}+{blocks} is kept: {promise:?}");
        }
    }
}

#[test]
fn a_format_to_larger_blocks_makes_units_of_whole_blocks() {
    for unit in [512, 4096, 6144, 16384] {
        let second = Namespace { start: 4 << 20, ..Namespace::new(SIZE * 8, 512) };
        let namespaces = vec![Namespace::new(SIZE * 8, 512), second];
        let config = Config { namespaces, atomic_unit: unit, ..config() };
        let mut driver = Driver::new(config);
        assert_eq!(driver.controller.largest_block(), 512);
        driver.submit(0, Sqe { opcode: 0x80, nsid: 1, cdw10: 1, ..Default::default() });
        driver.serve();
        assert_eq!(driver.reap(0)[0].status, 0);
        let block = driver.controller.largest_block();
        assert_eq!(block, 4096);
        let power_loss = PowerLoss::new(CacheKind::Unbounded, unit).for_blocks(block.into());
        for (nsid, start, block) in [(1, 0, 4096), (2, 4 << 20, 512)] {
            let promise = Promise::read(&mut driver, nsid);
            for lba in 0..64 {
                let blocks = (1..).take_while(|&blocks| promise.holds(lba, blocks)).max();
                let blocks = blocks.expect("a block is promised");
                let mut cache = VolatileCache::new(power_loss, true);
                let (offset, length) = (start + lba * block, blocks * block);
                cache.submitted(0, &Command::new(Operation::Write, offset, length));
                assert!(torn(&cache, lba).is_empty(), "{unit}, {nsid}: {lba}+{blocks} is torn");
            }
        }
    }
}
