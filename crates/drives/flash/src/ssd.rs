//! The drive: a translation layer, the array, and what lies before them.

use std::collections::VecDeque;
use std::ops::Range;

use stasis_block::clock::Nanos;
use stasis_block::inside::{EccInside, FlashInside};
use stasis_block::Completion;
use stasis_nand::{Array, ArrayConfig, Faults};

use crate::buffer::IN_FLIGHT;
use crate::front::Front;
use crate::ftl::{Context, Ftl, PowerCut, RequestId};
use crate::kept::{KeptError, Reader};
use crate::link::Link;
use crate::logical::LogicalFaults;
use crate::narrow::count;
use crate::owners::Owners;
use crate::read_cache::{Counts, ReadCache};
use crate::spec::{Precondition, Spec, SpecError};
use crate::statistics::{Course, Sizes, Statistics, Temperature};
use crate::{ftl, kept};

/// Keys of a description that can change while a drive works ([`stasis_block::Model::adapt`]).
pub const ADAPTS: [&str; 6] =
    ["timing", "controller", "interface_rate", "buffer_rate", "gc.policy", "gc.choices"];

/// A flash SSD; see the [crate](crate).
#[derive(Debug)]
pub struct Ssd {
    pub(crate) context: Context,
    pub(crate) ftl: Box<dyn Ftl>,
    pub(crate) capacity: u64,
    pub(crate) asked_over_provisioning: f64,
    pub(crate) unit: u32,
    pub(crate) controller: Nanos,
    pub(crate) link: Link,
    // The parts that commands share behind it, if there are any.
    pub(crate) front: Option<Box<Front>>,
    // The write buffer's memory.
    pub(crate) memory: Link,
    pub(crate) cache: Option<Box<ReadCache>>,
    // Its counts from before the measurement.
    pub(crate) read_cache_before: Counts,
    pub(crate) faults: LogicalFaults,
    // Time at which the last command had crossed the link and the controller.
    pub(crate) entered: Nanos,
    // Commands on their way to the translation layer, the next first.
    pub(crate) arriving: VecDeque<(Nanos, RequestId)>,
    // Completions that cross the link.
    pub(crate) leaving: VecDeque<Completion>,
    pub(crate) in_flight: usize,
    pub(crate) now: Nanos,
    /// Counts from before the measurement.
    pub(crate) before: Statistics,
    pub(crate) course: Course,
    // Time at which the next thing happens besides the array's and visits; `Nanos::MAX`: never.
    pub(crate) own_at: Nanos,
    // Time at which blocks are next visited; never where they are not.
    pub(crate) visit_at: Nanos,
    // Steps of the correction of bit errors; 0 where there is none.
    pub(crate) ecc_steps: usize,
    // The drive in words, if its state is to be kept.
    pub(crate) words: Option<String>,
}

impl Ssd {
    /// A drive of `capacity` bytes.
    ///
    /// # Errors
    /// [`SpecError`] if such a drive cannot work.
    pub fn new(spec: &Spec, capacity: u64, seed: u64) -> Result<Self, SpecError> {
        Self::with_ftl(spec, capacity, seed, ftl::build)
    }

    /// Like [`Self::new`], but with a translation layer that is not of [`ftl::FTLS`].
    ///
    /// # Errors
    /// [`SpecError`] if such a drive cannot work.
    pub fn with_ftl(
        spec: &Spec,
        capacity: u64,
        seed: u64,
        build: ftl::Build,
    ) -> Result<Self, SpecError> {
        spec.check(capacity)?;
        let geometry = spec.geometry(capacity);
        let pattern = spec.pattern(geometry.pages)?;
        let timing = spec.timing.timing(&spec.cells, &pattern)?;
        let faults = spec.faults.iter();
        let of_array = faults.filter_map(|fault| fault.of_array(spec.endurance)).collect();
        let config = ArrayConfig {
            variation: spec.variation.variation(),
            faults: Faults::new(of_array),
            seed,
            slc: spec.slc_times(),
            ecc: spec.array_ecc(),
            two_pass: spec.array_two_pass(geometry.pages),
            ..ArrayConfig::new(geometry, pattern, timing)
        };
        let array = Array::new(config, spec.options());
        let unit = count(spec.mapping_unit);
        let mut context = Context::new(array, Temperature::new(capacity, unit));
        let mut ftl = build(spec, capacity, seed)?;
        let words = spec.state.as_ref().map(|_| in_words(spec, capacity));
        if let (Some(words), Some(text)) = (&words, &spec.kept) {
            let resumed = resume(text, (words, spec.unpowered), ftl.as_mut(), &mut context);
            resumed.map_err(|error| SpecError::Kept {
                file: spec.state.clone().unwrap_or_default(),
                error,
            })?;
        } else if spec.initial() != Precondition::None {
            ftl.precondition(spec.initial(), &mut context);
        }
        let visit_at = ftl.next_visit().unwrap_or(Nanos::MAX);
        let mut drive = Self {
            context,
            ftl,
            capacity,
            asked_over_provisioning: spec.expected_over_provisioning(capacity),
            unit,
            controller: spec.controller,
            link: Link::of(spec.interface()),
            front: Front::new(spec),
            memory: Link::new(spec.buffer_rate),
            cache: spec
                .read_cache
                .as_ref()
                .map(|cache| Box::new(ReadCache::new(cache, spec.mapping_unit, seed))),
            read_cache_before: Counts::default(),
            faults: LogicalFaults::new(&spec.faults, capacity, seed),
            entered: 0,
            arriving: VecDeque::with_capacity(IN_FLIGHT),
            leaving: VecDeque::with_capacity(IN_FLIGHT),
            in_flight: 0,
            now: 0,
            before: Statistics::default(),
            course: Course::new(),
            own_at: Nanos::MAX,
            visit_at,
            ecc_steps: spec.ecc.as_ref().map_or(0, |ecc| ecc.steps.len()),
            words,
        };
        drive.look_ahead();
        Ok(drive)
    }

    /// The drive's size (bytes).
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The context: the array and the drive's counts.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the translation layer.
    pub fn ftl(&self) -> &dyn Ftl {
        self.ftl.as_ref()
    }

    /// A report of the drive's inside, from its start until `now`.
    pub fn report(&self, now: Nanos) -> FlashInside {
        let (context, ftl) = (&self.context, &self.ftl);
        let sizes = Sizes {
            capacity: self.capacity,
            unit: self.unit,
            asked_over_provisioning: self.asked_over_provisioning,
        };
        let counted = context.statistics.since(&self.before);
        let level = context.level(ftl.as_ref());
        let course = self.course.steps(now, level, &context.temperature, context.blocks());
        let inside = context.inside(now, &counted, sizes, ftl.as_ref(), course);
        let ecc = (self.ecc_steps > 0).then(|| EccInside {
            decoded: counted.decoded[..self.ecc_steps].to_vec(),
            uncorrectable: counted.uncorrectable,
        });
        let cache = self.cache.as_ref();
        let read_cache = cache.map(|cache| cache.inside(self.unit, &self.read_cache_before));
        FlashInside { read_cache, ecc, ..inside }
    }

    /// The time that it was advanced to.
    #[cfg(test)]
    pub(crate) fn now_for_tests(&self) -> Nanos {
        self.now
    }

    /// Something of this drive's own has happened, or has come: looks for what is next.
    #[inline]
    pub(crate) fn look_ahead(&mut self) {
        let wakes = self.ftl.next_event().unwrap_or(Nanos::MAX);
        let arrives = self.arriving.front().map_or(Nanos::MAX, |(at, _)| *at);
        let leaves = self.leaving.front().map_or(Nanos::MAX, |completion| completion.at);
        let next = wakes.min(arrives).min(leaves);
        self.own_at = match &self.cache {
            None => next,
            Some(cache) => next.min(cache.next_event()),
        };
    }

    /// The power fails at `now`, to which the drive was advanced, and comes back
    /// at once. Commands in flight are lost. Returns the byte ranges whose acknowledged
    /// contents are lost, each in the order in which it was found.
    pub fn power_cut(&mut self, now: Nanos) -> Vec<Range<u64>> {
        let mut dropped = Vec::new();
        self.context.array.power_cut(now, |op, started| {
            dropped.push(crate::ftl::Dropped { op, started });
        });
        #[cfg(test)]
        if let Some(shadow) = &mut self.context.shadow {
            shadow.power_cut(&dropped);
        }
        self.context.note(Owners::power_cut);
        self.context.statistics.commands.cut(now);
        self.arriving.clear();
        self.leaving.clear();
        self.context.requests.clear();
        self.context.free.clear();
        self.context.finished.clear();
        self.in_flight = 0;
        self.entered = 0;
        self.link.reset();
        if let Some(front) = &mut self.front {
            front.reset();
        }
        self.memory.reset();
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
        let mut cut = PowerCut { dropped: &dropped, lost: Vec::new() };
        self.ftl.power_cut(now, &mut cut, &mut self.context);
        self.look_ahead();
        cut.lost
    }
}

/// The properties that a kept state and a drive have to have in common.
pub(crate) fn in_words(spec: &Spec, capacity: u64) -> String {
    let geometry = spec.geometry(capacity);
    let cache = spec.slc_cache.as_ref().map_or(String::new(), |_| {
        let (fixed, open) = spec.cache_blocks(capacity, geometry.pages);
        format!(", {fixed} blocks of a plane in SLC mode and {open} open")
    });
    let bad = match spec.bad_blocks {
        0 => String::new(),
        bad => format!(", {bad} blocks of each LUN bad from the factory"),
    };
    format!(
        "{} bytes, {}x{}x{} planes of {} blocks, {} pages of {} bytes, units of {}, cells {}, {} \
         streams{cache}{bad}",
        capacity,
        geometry.channels,
        geometry.luns,
        geometry.planes,
        geometry.blocks,
        geometry.pages,
        geometry.page_size,
        spec.mapping_unit,
        spec.cells,
        spec.open_streams(),
    )
}

/// Resumes a state that was kept.
fn resume(
    text: &str,
    (words, unpowered): (&str, Nanos),
    ftl: &mut dyn Ftl,
    context: &mut Context,
) -> Result<(), KeptError> {
    let bytes = kept::bytes_of(text, words)?;
    let from = &mut Reader::new(&bytes);
    let (used, submitted) = (from.take()?, from.take()?);
    let blocks = context.array.history(0).2.len() as u64;
    if from.take()? != blocks {
        return Err(KeptError::Damaged("its blocks are others"));
    }
    let wear: Result<_, _> = (0..blocks).map(|_| from.within(0..1 << 32, "wear")).collect();
    // Half of what numbers hold is left for this run.
    let least = u64::MAX / 2;
    let used = used.saturating_add(unpowered).min(least);
    context.array.restore((used, submitted.min(least), wear?));
    ftl.restore(from, context)?;
    if !from.is_empty() {
        // Time at which each block was written, and its reads: not of a drive without bit errors.
        let mut all = || -> Result<Vec<u32>, KeptError> {
            (0..blocks).map(|_| from.within(0..1 << 32, "the age of blocks")).collect()
        };
        context.array.restore_clocks([all()?, all()?]);
    }
    let visits = if from.is_empty() { None } else { Some(from.take()?) };
    ftl.resume_visits(0, visits);
    match from.is_empty() {
        true => Ok(()),
        false => Err(KeptError::Damaged("it is longer than it should be")),
    }
}
