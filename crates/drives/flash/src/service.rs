//! Service of a drive's commands: from their arrival to their completion.

use std::any::Any;

use stasis_block::clock::Nanos;
use stasis_block::inside::{Inside, SlowCommand};
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{
    Command, Completion, Fate, Health, Model, Operation, PowerLoss, Tag, VendorCommand, VendorError,
};
use stasis_nand::{Breakdown, OpKind, PageAddress, Priority};

use crate::ftl::request::Open;
use crate::ftl::{Request, RequestId};
use crate::kept::Writer;
use crate::logical::Fortune;
use crate::read_cache::Counts;
use crate::spec::Spec;
use crate::ssd::Ssd;
use crate::watch::Watch;
use crate::{vendor, watch};

/// The most virtual time that a shutdown may take (ns).
const MAX_SHUTDOWN: Nanos = 3_600_000_000_000;

impl Ssd {
    /// A request reaches the translation layer.
    fn arrive(&mut self, now: Nanos, id: RequestId) {
        let open = &mut self.context.requests[id as usize];
        let request = open.request;
        // Others do not wait for the write buffer.
        if matches!(request.operation, Operation::Write | Operation::WriteZeroes) {
            open.drained = self.context.drain.parts;
        }
        match self.faults.strike(now, &request) {
            Fortune::Well => {}
            // The piece that it waits for never ends.
            Fortune::Stuck => return,
            Fortune::Fate(fate @ Fate::Failed { .. }) => {
                return self.context.finish(id, fate, &Breakdown::default());
            }
            Fortune::Fate(fate) => {
                self.context.open(id);
                self.context.finish(id, fate, &Breakdown::default());
            }
        }
        self.hand_over(now, &request);
        self.context.finish_ok(id);
    }

    fn hand_over(&mut self, now: Nanos, request: &Request) {
        // Writes and discards change what is counted at once, without an operation of the array.
        let changes = matches!(
            request.operation,
            Operation::Write | Operation::Discard | Operation::WriteZeroes
        );
        if changes && self.course.is_due(now) {
            self.course.pass(now, self.context.level(self.ftl.as_ref()));
        }
        if self.cache.is_some() {
            if request.operation == Operation::Read {
                return self.read_through(now, request);
            }
            if changes {
                self.leave_cache(request);
            }
        }
        let context = &mut self.context;
        match request.operation {
            Operation::Read | Operation::Verify | Operation::Copy => {
                self.ftl.read(now, request, context);
            }
            Operation::Write => {
                context.statistics.host_bytes += request.length;
                context.temperature.write(request.offset, request.length);
                self.ftl.write(now, request, context);
            }
            Operation::Flush => self.ftl.flush(now, request, context),
            Operation::Barrier => self.ftl.barrier(now, context),
            Operation::Discard | Operation::WriteZeroes => {
                let bytes = request.offset..request.offset + request.length;
                context.temperature.discard(bytes);
                self.ftl.trim(now, request, context);
            }
        }
    }

    /// Completes the requests that the translation layer finished; `after`: the operation whose end
    /// finished them, if one did, by its number, and for whom it was.
    fn settle(&mut self, now: Nanos, done: &mut Vec<Completion>, after: Option<(u64, Priority)>) {
        while let Some(id) = self.context.finished.pop() {
            let open = &mut self.context.requests[id as usize];
            let read = !matches!(open.fate, Fate::Failed { .. });
            if let (Some(to), true) = (open.copy_to.take(), read) {
                // The data read, correct or not, is now written.
                let times = std::mem::take(&mut open.times);
                self.context.passed(id, now, &times);
                let open = &mut self.context.requests[id as usize];
                open.drained = self.context.drain.parts;
                open.request = Request { operation: Operation::Write, offset: to, ..open.request };
                open.pieces = 1;
                let request = open.request;
                self.context.statistics.host_bytes += request.length;
                self.context.temperature.write(request.offset, request.length);
                self.leave_cache(&request);
                self.ftl.write(now, &request, &mut self.context);
                self.context.finish_ok(id);
                continue;
            }
            let &mut Open { tag, request, fate, since, ahead, .. } = open;
            if self.cache.is_some() {
                self.pass_cache(now, id);
                if ahead {
                    self.context.free.push(id);
                    continue;
                }
            }
            let crosses =
                request.operation == Operation::Read && !matches!(fate, Fate::Failed { .. });
            let at = match (&mut self.front, crosses) {
                (_, false) => now,
                (None, true) => self.link.send(now, request.length),
                (Some(front), true) => {
                    let passed = front.pass(now, request.length);
                    self.link.send(passed, request.length)
                }
            };
            let open = &self.context.requests[id as usize];
            let parts = open.parts(now, at - now, &self.context.drain.parts);
            self.context.free.push(id);
            self.context.statistics.complete(now, &request, (since, at), &parts);
            if let Some(watch) = &mut self.context.watch {
                let Request { operation, offset, length: bytes, .. } = request;
                let (begin, end) = (since, at);
                let command = SlowCommand { operation, offset, bytes, begin, end, parts };
                let after = after.map(|(number, priority)| (number, watch::cause(priority)));
                watch.commands.push(&command, watch.owners.command(id), after);
            }
            let completion = Completion { tag, at, fate };
            if at > now {
                self.leaving.push_back(completion);
            } else {
                self.complete(completion, done);
            }
        }
    }

    fn complete(&mut self, completion: Completion, done: &mut Vec<Completion>) {
        done.push(completion);
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.ftl.host_active(completion.at, false, &mut self.context);
        }
    }

    /// The thing of this drive's own happens that is next, at `at`.
    fn happen(&mut self, at: Nanos, done: &mut Vec<Completion>) {
        if self.leaving.front().is_some_and(|completion| completion.at == at) {
            if let Some(completion) = self.leaving.pop_front() {
                self.complete(completion, done);
            }
            return;
        }
        if self.arriving.front().is_some_and(|(arrival, _)| *arrival == at) {
            if let Some((_, id)) = self.arriving.pop_front() {
                self.arrive(at, id);
            }
        } else if let Some(id) = self.left_cache(at) {
            self.context.finish_ok(id);
        } else if self.ftl.next_event() == Some(at) {
            self.ftl.wake(at, &mut self.context);
        } else {
            self.visit(at);
        }
        self.settle(at, done, None);
    }

    /// A block is visited.
    #[cold]
    fn visit(&mut self, at: Nanos) {
        self.ftl.visit(at, &mut self.context);
        self.visit_at = self.ftl.next_visit().unwrap_or(Nanos::MAX);
    }

    /// Makes the visits for which nobody woke the drive.
    #[cold]
    fn catch_up(&mut self, now: Nanos) {
        let mut done = Vec::new();
        self.advance(now, &mut done);
        debug_assert!(done.is_empty(), "nothing is in flight");
    }

    /// The tags of the commands in flight.
    fn tags(&self) -> Vec<Tag> {
        let leaving = self.leaving.iter().map(|completion| completion.tag);
        let under_way = self.context.under_way().map(|open| open.tag);
        leaving.chain(under_way).collect()
    }
}

impl Model for Ssd {
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        let &Command { operation, offset, length, fua, source, stream, .. } = command;
        let offset = offset.min(self.capacity);
        let mut request = Request { id: 0, operation, offset, length, stream, fua };
        let mut copy_to = None;
        if operation == Operation::Copy {
            request.offset = source.min(self.capacity);
            copy_to = Some(offset);
        }
        // No range of a hostile command leaves the drive.
        request.length = length.min(self.capacity - offset).min(self.capacity - request.offset);
        let id = self.context.begin(Open::new(tag, request, copy_to, now));
        self.context.note(|owners| owners.begin(id));
        if self.in_flight == 0 {
            if self.visit_at <= now {
                self.catch_up(now);
            }
            self.ftl.host_active(now, true, &mut self.context);
        }
        self.in_flight += 1;
        self.ftl.expect(&request);
        let write = operation == Operation::Write;
        let mut received = if write { self.link.receive(now, request.length) } else { now };
        if let Some(front) = &mut self.front {
            let data = write || matches!(operation, Operation::Read | Operation::Copy);
            let units = request.length.div_ceil(u64::from(self.unit));
            received = front.process(received, if data { units } else { 0 });
            if write {
                received = front.pass(received, request.length);
            }
        }
        // Behind earlier commands: a command without data does not overtake on the link.
        self.entered = self.entered.max(received.saturating_add(self.controller));
        let at = match operation {
            Operation::Write => self.memory.receive(self.entered, request.length),
            Operation::Read | Operation::Verify => self.entered,
            _ => {
                let last = self.arriving.back().map_or(0, |(last, _)| *last);
                let at = self.entered.max(last);
                match &mut self.front {
                    Some(front) if operation == Operation::Discard => {
                        front.trim(at, request.length)
                    }
                    _ => at,
                }
            }
        };
        self.context.requests[id as usize].entered = at;
        if self.arriving.back().is_none_or(|(last, _)| *last <= at) {
            self.arriving.push_back((at, id));
        } else {
            // Reads need nothing of the buffer's memory, and pass writes that wait for it.
            let place = self.arriving.iter().rposition(|(earlier, _)| *earlier <= at);
            self.arriving.insert(place.map_or(0, |place| place + 1), (at, id));
        }
        self.look_ahead();
    }

    fn next_event(&self) -> Option<Nanos> {
        let array = self.context.array.next_event().unwrap_or(Nanos::MAX);
        let next = array.min(self.own_at);
        (next < Nanos::MAX).then_some(next.min(self.visit_at))
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        loop {
            // A plain drive has no visits, and this one comparison for all that it lacks.
            let own = self.own_at.min(self.visit_at);
            if let Some(index) = self.context.array.pop_index(own.min(now)) {
                let ended = self.context.array.take_out(index);
                #[cfg(test)]
                if let Some(shadow) = &mut self.context.shadow {
                    shadow.done(&ended);
                }
                if self.course.is_due(ended.at) {
                    self.course.pass(ended.at, self.context.level(self.ftl.as_ref()));
                }
                self.context.statistics.ended(&ended.op);
                self.context.note(|owners| owners.end(ended.number));
                if self.ecc_steps > 0 {
                    self.context.statistics.decoded(&ended);
                }
                if ended.op.kind == OpKind::Erase {
                    let PageAddress { plane, block, .. } = ended.op.at;
                    let erases = self.context.array.erases(plane, block);
                    let most = &mut self.context.statistics.most_erased;
                    *most = erases.max(*most);
                }
                if ended.op.kind == OpKind::Program && ended.op.priority == Priority::Write {
                    self.context.drain.ended(&ended);
                }
                self.ftl.done(ended.at, &ended, &mut self.context);
                self.settle(ended.at, done, Some((ended.number, ended.op.priority)));
                self.look_ahead();
                continue;
            }
            if own > now || own == Nanos::MAX {
                break;
            }
            self.happen(own, done);
            self.look_ahead();
        }
        self.now = self.now.max(now);
    }

    fn power_loss(&self) -> PowerLoss {
        self.ftl.power_loss()
    }

    fn cut_power(&mut self, now: Nanos) {
        let tags = self.tags();
        self.power_cut(now);
        self.in_flight = tags.len();
        self.leaving.extend(tags.into_iter().map(|tag| Completion::done(tag, now)));
        self.look_ahead();
    }

    /// Commands under way end, the buffer's data goes to the cells, and an idle drive's work is done.
    fn shut_down(&mut self, now: Nanos) -> Option<String> {
        let words = self.words.clone()?;
        let mut done = Vec::new();
        self.advance(now, &mut done);
        let until = self.now.saturating_add(MAX_SHUTDOWN);
        // First the host's commands, then what they left in memory.
        for flushes in [false, true] {
            if flushes {
                self.ftl.shut_down(self.now, &mut self.context);
                self.look_ahead();
            }
            while let Some(at) = self.next_event().filter(|&at| at <= until) {
                self.advance(at, &mut done);
                done.clear();
            }
        }
        self.ftl.power_on();
        self.ftl.resume_visits(self.now, None);
        self.visit_at = self.ftl.next_visit().unwrap_or(Nanos::MAX);
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
        self.look_ahead();
        let mut out = Writer::default();
        let (used, submitted, wear) = self.context.array.history(self.now);
        out.put(used);
        out.put(submitted);
        out.put_all(wear.iter().copied());
        if !self.ftl.keep(&mut out) {
            return None;
        }
        for clock in self.context.array.clocks().into_iter().flatten() {
            clock.iter().for_each(|&number| out.put(number));
        }
        if let Some(visits) = self.ftl.visits() {
            out.put(visits);
        }
        Some(out.into_text(&words))
    }

    fn reseed(&mut self, seed: u64) {
        self.context.array.reseed(seed);
        self.ftl.reseed(seed);
        self.faults.reseed(seed);
    }

    fn adapt(&mut self, parameters: &dyn Any) -> bool {
        let Some(spec) = parameters.downcast_ref::<Spec>() else { return false };
        let pattern = spec.pattern(spec.geometry(self.capacity).pages);
        let timing = pattern.and_then(|pattern| spec.timing.timing(&spec.cells, &pattern));
        let Ok(timing) = timing else { return false };
        // A layer without a choice has the one that its description names.
        self.ftl.set_policy(&spec.gc);
        self.context.array.set_timing(timing);
        self.controller = spec.controller;
        self.link.set_rates(spec.interface());
        self.memory.set_rates([spec.buffer_rate; 2]);
        true
    }

    fn entry(&self, offset: u64) -> Option<String> {
        self.ftl.entry(offset.min(self.capacity.saturating_sub(1)), &self.context)
    }

    fn waiting(&self, _: Nanos) -> Option<String> {
        self.ftl.waiting()
    }

    fn health(&self) -> Health {
        self.ftl.health(&self.context)
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        vendor::carry_out(self, now, command)
    }

    fn start(&mut self, _: Nanos) {
        self.context.statistics.commands.begin();
        self.before = self.context.statistics.clone();
        self.read_cache_before =
            self.cache.as_ref().map_or(Counts::default(), |cache| cache.counts);
    }

    fn inside(&self, now: Nanos) -> Option<Inside> {
        Some(Inside::Flash(Box::new(self.report(now))))
    }

    fn watch(&mut self, owner: &str, tracks: &mut Tracks) {
        let watch = Watch::new(owner, &mut self.context.array, tracks);
        self.context.watch = Some(Box::new(watch));
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        if let Some(watch) = &mut self.context.watch {
            watch.take(&mut self.context.array, spans);
        }
    }
}
