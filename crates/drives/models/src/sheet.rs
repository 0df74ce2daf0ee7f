//! A model's performance in the figures of a data sheet, measured by driving it.

use stasis_block::clock::{Nanos, SECOND};
use stasis_block::{Command, Model, Operation};

use crate::spec::{BuildContext, BuildError, ModelSpec};

/// Commands for each figure.
const COMMANDS: usize = 2_000;
/// Small writes for the rate of a flash drive: more than its buffer takes.
const FILLING: usize = 200_000;
/// Commands in flight for the rate: the usual number in data sheets of drives with several queues.
const DEPTH: u32 = 128;
/// A small and a large command (bytes).
const SMALL: u64 = 4 << 10;
const LARGE: u64 = 128 << 10;
/// The size of a drive whose model has none (bytes).
const ANY_SIZE: u64 = 1 << 30;
/// The size of a flash drive whose model has none (bytes): it collects no garbage while it is
/// driven.
const FLASH_SIZE: u64 = 16 << 30;

/// A model in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// The median latency of 4 KiB at a random place at queue depth 1 (ns).
    pub latency: Nanos,
    /// Commands a second of 4 KiB at random places at queue depth 128; `None` without a limit.
    pub iops: Option<u64>,
    /// 128 KiB after 128 KiB, 128 in flight (bytes a second); `None` without a limit.
    pub bandwidth: Option<u64>,
}

/// The performance of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sheet {
    /// Figures of reads.
    pub read: Figures,
    /// Figures of writes.
    pub write: Figures,
}

impl Sheet {
    /// Drives the model of `spec`: a new one for each figure.
    ///
    /// # Errors
    /// [`BuildError`] if it cannot be built.
    pub fn measure(spec: &ModelSpec) -> Result<Self, BuildError> {
        let filling = spec.kind().is::<stasis_flash::Spec>();
        // An SLC cache is a part of the drive that it is of.
        let flash = spec.kind().get::<stasis_flash::Spec>();
        let cached = flash.is_some_and(|flash| flash.slc_cache.is_some());
        let own = spec.capacity().filter(|_| !filling || cached);
        let capacity = own.unwrap_or(if filling { FLASH_SIZE } else { ANY_SIZE });
        let drive = |operation, length, depth| {
            let mut model = spec.build(&BuildContext { seed: 1, capacity, path: 0 })?;
            let count = match (filling, operation, depth) {
                (true, Operation::Write, DEPTH) => FILLING * SMALL as usize / length as usize,
                _ => COMMANDS,
            };
            Ok::<_, BuildError>(run(model.as_mut(), capacity, (operation, length), depth, count))
        };
        let figures = |operation| {
            let (mut latencies, _) = drive(operation, SMALL, 1)?;
            latencies.sort_unstable();
            let (_, small) = drive(operation, SMALL, DEPTH)?;
            let (_, large) = drive(operation, LARGE, DEPTH)?;
            Ok(Figures {
                latency: latencies.get(latencies.len() / 2).copied().unwrap_or(0),
                iops: small,
                bandwidth: large.map(|rate| rate.saturating_mul(LARGE)),
            })
        };
        Ok(Self { read: figures(Operation::Read)?, write: figures(Operation::Write)? })
    }
}

/// `count` commands, `depth` at a time: their latencies (ns), and the rate of the
/// second half, a second. Large ones follow one another.
fn run(
    model: &mut dyn Model,
    capacity: u64,
    (operation, length): (Operation, u64),
    depth: u32,
    count: usize,
) -> (Vec<Nanos>, Option<u64>) {
    let (mut state, mut given) = (11u64, 0u64);
    let mut command = || {
        // Knuth's MMIX generator: any will do.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = if length == LARGE { given } else { state >> 20 };
        given += 1;
        Command::new(operation, place % (capacity / length) * length, length)
    };
    let mut submitted = vec![0; depth as usize];
    let (mut latencies, mut done) = (Vec::with_capacity(count), Vec::new());
    let (mut half, mut last) = (0, 0);
    (0..depth).for_each(|tag| model.submit(0, tag, &command()));
    // Nothing is under way only if a model lost a command.
    while let Some(now) = model.next_event().filter(|_| latencies.len() < count) {
        model.advance(now, &mut done);
        for completion in done.drain(..) {
            latencies.push(completion.at - submitted[completion.tag as usize]);
            last = completion.at;
            if latencies.len() == count / 2 {
                half = last;
            }
            submitted[completion.tag as usize] = now;
            model.submit(now, completion.tag, &command());
        }
    }
    let counted = (latencies.len() - latencies.len() / 2) as u128 * u128::from(SECOND);
    let rate = counted.checked_div(u128::from(last - half));
    (latencies, rate.map(|rate| u64::try_from(rate).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_model_delivers_what_it_says() {
        let sheet = Sheet::of(&ModelSpec::parse("fixed:100us").unwrap()).unwrap();
        assert_eq!(sheet.read.latency, 100_000);
        let iops = sheet.read.iops.unwrap();
        assert!((1_200_000..=1_280_000).contains(&iops), "{iops}: 128 in 100 us");
        assert_eq!(Sheet::of(&ModelSpec::parse("null").unwrap()).unwrap().read.iops, None);
    }

    /// The data sheet's figures, where a model is by its data sheet.
    #[test]
    fn rated_models_deliver_their_data_sheets() {
        for (name, read, iops, megabytes) in [
            ("optane-p4800x", 10_000, 550_000, 2_400),
            ("intel-p4500", 85_000, 490_000, 3_200),
            ("samsung-980-pro", 45_454, 1_000_000, 7_000),
        ] {
            let sheet = Sheet::measure(&ModelSpec::parse(name).unwrap()).unwrap().read;
            let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 20 <= wanted;
            assert!(near(sheet.latency, read), "{name}: {sheet:?}");
            assert!(near(sheet.iops.unwrap(), iops), "{name}: {sheet:?}");
            assert!(near(sheet.bandwidth.unwrap(), megabytes * 1_000_000), "{name}: {sheet:?}");
        }
    }
}
