//! The drive itself.

use std::any::Any;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_block::medium::{Medium, MediumError};
use stasis_block::timeline::{Numbers, Spans, Tracks};
use stasis_block::{
    BlockLayout, CacheKind, Command, Fate, Health, Operation, Request, Status, Tag, VendorCommand,
    VendorError, SECTOR,
};
use stasis_models::{Completion, Model};

use crate::{Control, Done, InFlight, Join, Layer, Look, Properties, Sampling, WritePointers};

/// A model with a medium.
pub struct Drive {
    properties: Properties,
    model: Box<dyn Model>,
    // Models that others have taken the place of, until they are done.
    retired: Vec<Box<dyn Model>>,
    layout: BlockLayout,
    join: Join<dyn Medium>,
    // The host's clock, if the guest stands still for the medium. It changes nothing but `frozen`.
    host_clock: Option<fn() -> Instant>,
    // Completed by the model, and not yet handed out.
    due: Vec<Completion>,
    // Barriers under way, in the order of their times.
    barriers: VecDeque<Completion>,
    frozen: Duration,
    // While the drive is watched: the numbers of the commands that the model gets.
    numbers: Option<Box<Numbers>>,
}

impl Drive {
    /// A drive with nothing in flight. `index` is its place in the experiment.
    pub fn new(index: u16, name: String, model: Box<dyn Model>, medium: Box<dyn Medium>) -> Self {
        let properties = Properties {
            index,
            name,
            capacity: medium.capacity(),
            discard_zeroes: medium.discard_zeroes(),
            barrier: model.barrier(),
            power_loss: model.power_loss(),
        };
        Self {
            properties,
            model,
            retired: Vec::new(),
            layout: BlockLayout::default(),
            host_clock: None,
            join: Join::new(medium),
            due: Vec::new(),
            barriers: VecDeque::new(),
            frozen: Duration::ZERO,
            numbers: None,
        }
    }

    /// Measures by `clock` the time that the guest stands still for the medium
    /// ([`Control::frozen`]). A medium that takes no time is not measured: reading a clock costs
    /// more than an I/O in memory does.
    #[must_use]
    pub fn with_host_clock(mut self, clock: fn() -> Instant) -> Self {
        self.host_clock = (!self.join.medium().is_immediate()).then_some(clock);
        self
    }

    /// Sets the cost of a barrier to `cost` (ns), whatever the model offers.
    #[must_use]
    pub fn with_barrier(mut self, cost: Nanos) -> Self {
        self.properties.barrier = Some(cost);
        self
    }

    /// Moves the models' completions until `now` to the due ones.
    fn advance_models(&mut self, now: Nanos) {
        self.model.advance(now, &mut self.due);
        if !self.retired.is_empty() {
            self.retired.iter_mut().for_each(|model| model.advance(now, &mut self.due));
            self.retired.retain(|model| model.next_event().is_some());
            self.due.sort_by_key(|completion| completion.at);
        }
    }

    /// Returns the time at which something next happens inside any of the models.
    fn next_of_models(&self) -> Option<Nanos> {
        let next = self.model.next_event();
        if self.retired.is_empty() {
            return next;
        }
        self.retired.iter().filter_map(|model| model.next_event()).chain(next).min()
    }

    /// Moves the barriers that are over by `now` to the due completions.
    fn finish_barriers(&mut self, now: Nanos) {
        while self.barriers.front().is_some_and(|barrier| barrier.at <= now) {
            let Some(barrier) = self.barriers.pop_front() else { break };
            let place = self.due.partition_point(|other| other.at <= barrier.at);
            self.due.insert(place, barrier);
        }
    }

    /// Waits until the medium has finished a slot's command: the guest stands still.
    fn wait_for(&mut self, slot: Tag) {
        if self.join.awaits_medium(slot) {
            let start = self.host_clock.map(|clock| clock());
            self.join.wait_for(slot);
            self.count_frozen(start);
        }
    }

    /// Adds the host's time since `start` to that for which the guest stood still.
    fn count_frozen(&mut self, start: Option<Instant>) {
        if let (Some(clock), Some(start)) = (self.host_clock, start) {
            self.frozen += clock().duration_since(start);
        }
    }
}

impl Layer for Drive {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn in_flight(&self) -> usize {
        self.join.in_flight()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        // Completions of the model before this command must not depend on whether the caller asked
        // for them late.
        if self.next_of_models().is_some_and(|at| at <= now) {
            self.advance_models(now);
        }
        if request.command.operation == Operation::Barrier {
            // Order costs the drive's mechanics nothing; nothing waits for it.
            let slot = self.join.submit_without_medium(now, request);
            let barrier = self.properties.barrier;
            let fate = match barrier {
                Some(_) => Fate::Done,
                None => Fate::failed(Status::WriteError),
            };
            let at = now.saturating_add(barrier.unwrap_or(0));
            self.barriers.push_back(Completion { tag: slot, at, fate });
            return;
        }
        if let Some(numbers) = &mut self.numbers {
            numbers.pass(self.join.submitted());
        }
        let command = self.layout.of_data(&request.command);
        let start = self.host_clock.map(|clock| clock());
        let slot = self.join.submit(now, request);
        self.count_frozen(start);
        let Command { operation, offset, length, .. } = command;
        let drive = self.properties.index;
        stasis_probes::io_submitted(drive, slot.into(), operation as u8, offset, length, now);
        self.model.submit(now, slot, &command);
    }

    fn next_event(&self) -> Option<Nanos> {
        let next = match self.due.first() {
            Some(completion) => Some(completion.at),
            None => self.next_of_models(),
        };
        match self.barriers.front() {
            Some(barrier) => Some(next.map_or(barrier.at, |at| at.min(barrier.at))),
            None => next,
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.advance_models(now);
        self.finish_barriers(now);
        if self.due.is_empty() {
            return;
        }
        self.join.poll(|_| {});
        let mut due = std::mem::take(&mut self.due);
        for Completion { tag: slot, at, fate } in due.drain(..) {
            stasis_probes::io_due(self.properties.index, slot.into(), at);
            self.wait_for(slot);
            stasis_probes::io_completed(self.properties.index, slot.into(), at);
            let mut completed = self.join.complete(slot, at, fate);
            debug_assert!(completed.is_some(), "the model completed what is not in flight");
            if let Some(failed) = completed.as_mut().filter(|done| done.failed_at > 0) {
                failed.failed_at = self.layout.on_drive(&failed.command, failed.failed_at);
            }
            done.extend(completed);
        }
        self.due = due;
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if command.operation == Operation::Barrier {
            return (Status::Ok, data);
        }
        self.join.wait_for_all();
        self.join.instant(command, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for Drive {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }

    fn health(&mut self) -> Health {
        self.model.health()
    }

    fn parts_health(&mut self) -> Vec<Health> {
        self.model.parts_health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.advance_models(now);
        self.model.vendor(now, command)
    }

    fn reseed(&mut self, seed: u64) {
        self.model.reseed(seed);
    }

    fn adapt(&mut self, now: Nanos, parameters: &dyn Any) -> bool {
        self.advance_models(now);
        self.model.adapt(parameters)
    }

    fn set_model(&mut self, now: Nanos, mut model: Box<dyn Model>) -> bool {
        self.advance_models(now);
        model.start(now);
        self.retired.push(std::mem::replace(&mut self.model, model));
        true
    }

    fn start(&mut self, now: Nanos) {
        self.model.start(now);
    }

    fn inside(&mut self, now: Nanos) -> Option<Inside> {
        self.model.inside(now)
    }

    fn commands(&mut self) -> Vec<InFlight> {
        self.join.commands()
    }

    fn look(&mut self, now: Nanos, at: Look) -> Option<String> {
        match at {
            Look::Entry(offset) => {
                let block = Command::new(Operation::Read, offset, SECTOR);
                self.model.entry(self.layout.of_data(&block).offset)
            }
            Look::Cache => self.model.waiting(now),
            Look::PowerCut => Some(match self.properties.power_loss.cache {
                CacheKind::Protected | CacheKind::None => {
                    "no data that was acknowledged: it survives".to_owned()
                }
                CacheKind::Volatile(size) => format!(
                    "of the writes that no later flush has covered, those in the cache of {size} \
                     bytes; which, is known where the run has a fault `power-cut`"
                ),
                CacheKind::Unbounded => {
                    "any write that no later flush has covered; which, is known where the run has \
                      a fault `power-cut`"
                        .to_owned()
                }
            }),
        }
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.model.watch(&self.properties.name, tracks);
        self.numbers.get_or_insert_default();
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        let from = spans.kept().len();
        self.model.take_spans(spans);
        if let Some(numbers) = &self.numbers {
            spans.renumber(from, numbers);
        }
    }

    fn cut_power(&mut self, now: Nanos, _: Sampling) -> Option<WritePointers> {
        self.advance_models(now);
        self.model.cut_power(now);
        None
    }

    fn set_layout(&mut self, layout: &BlockLayout) {
        self.layout.clone_from(layout);
    }

    fn shut_down(&mut self, now: Nanos) -> Option<String> {
        self.model.shut_down(now)
    }

    fn frozen(&mut self) -> Duration {
        self.frozen
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.join.take_error()
    }
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Drive")
            .field("index", &self.properties.index)
            .field("name", &self.properties.name)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
