//! A volatile write cache in front of a model in closed form.
//!
//! A write ends when the cache has it, and is written out behind those before
//! it, from then on and at the rate that the medium takes. Where the cache is
//! full a write waits for room. A flush ends when the cache's data is out
//! and its own cost has passed; a write with FUA likewise, for itself and what
//! is before it. Data overwritten in the cache is written out twice.

use stasis_block::clock::Nanos;
use stasis_block::inside::Parts;
use stasis_block::{
    CacheKind, Command, Model, Operation, PowerLoss, Random, Status, TimePerByte, SECTOR,
};

use crate::latency::{Independent, Latency};
use crate::span::Span;
use crate::spec::CacheSpec;

/// Apart from the stream of the model behind the cache.
const SEED: u64 = 0x0063_6163_6865;

/// A model behind a write cache; see the [module](self).
#[derive(Debug)]
pub(crate) struct Cached<L> {
    inner: L,
    drain: TimePerByte,
    // Time to write out a full cache (ns).
    full: Nanos,
    fua: Span,
    queued_flush: bool,
    // Time at which all data in the cache is written out.
    drained_at: Nanos,
    // Time at which the last of the commands submitted so far ends.
    ended_at: Nanos,
    // Commands wait until then for a flush that is not queued.
    held_until: Nanos,
    random: Random,
    // Parts of the last command: its waits for a flush, for room in the cache, and for the cache's data to be
    // written out, and what durability itself costs it.
    held: Nanos,
    room: Nanos,
    written_out: Nanos,
    durable: Nanos,
}

impl<L: Latency> Cached<L> {
    pub(crate) fn new(inner: L, spec: &CacheSpec, seed: u64) -> Self {
        let drain = spec.drain.time_per_byte();
        Self {
            inner,
            drain,
            full: drain.times(spec.size),
            fua: spec.fua,
            queued_flush: spec.queued_flush,
            drained_at: 0,
            ended_at: 0,
            held_until: 0,
            random: Random::new(seed ^ SEED),
            held: 0,
            room: 0,
            written_out: 0,
            durable: 0,
        }
    }

    fn flush(&mut self, mut start: Nanos, command: &Command) -> Nanos {
        if !self.queued_flush {
            self.held += self.ended_at.saturating_sub(start);
            start = start.max(self.ended_at);
        }
        let cost = self.inner.latency(start, command);
        let drained = start.max(self.drained_at);
        self.written_out = drained - start;
        let end = drained.saturating_add(cost);
        if !self.queued_flush {
            self.held_until = end;
        }
        end
    }

    fn write(&mut self, start: Nanos, command: &Command) -> Nanos {
        let end = start.saturating_add(self.inner.latency(start, command));
        let out = self.drained_at.max(end).saturating_add(self.drain.times(command.length));
        self.drained_at = out;
        if command.fua {
            let last = out.saturating_add(self.fua.sample(&mut self.random));
            (self.written_out, self.durable) = (out - end, last - out);
            return last;
        }
        let last = end.max(out.saturating_sub(self.full));
        self.room = last - end;
        last
    }
}

impl<L: Latency> Latency for Cached<L> {
    fn tells(&self) -> bool {
        true
    }

    fn parts(&self, latency: Nanos) -> Parts<Nanos> {
        let Self { held, room, written_out, durable, .. } = *self;
        let waits = held.saturating_add(room).saturating_add(written_out).saturating_add(durable);
        let mut parts = self.inner.parts(latency.saturating_sub(waits));
        parts.queue += held;
        parts.buffer += room;
        parts.behind_writes += written_out;
        parts.service += durable;
        parts
    }

    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos {
        let start = now.max(self.held_until);
        self.held = start - now;
        (self.room, self.written_out, self.durable) = (0, 0, 0);
        let end = match command.operation {
            Operation::Flush => self.flush(start, command),
            Operation::Write | Operation::Copy => self.write(start, command),
            _ => start.saturating_add(self.inner.latency(start, command)),
        };
        self.ended_at = self.ended_at.max(end);
        end - now
    }

    fn cut_power(&mut self, now: Nanos) {
        for at in [&mut self.drained_at, &mut self.ended_at, &mut self.held_until] {
            *at = (*at).min(now);
        }
        self.inner.cut_power(now);
    }

    fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed ^ SEED);
        self.inner.reseed(seed);
    }

    fn waiting(&self, now: Nanos) -> Option<String> {
        let full = self.full.max(1);
        Some(match self.drained_at.saturating_sub(now) {
            0 => "the cache is empty".to_owned(),
            remaining => format!(
                "the cache is written out until {} ns: it is {:.1} % full",
                self.drained_at,
                100.0 * remaining.min(full) as f64 / full as f64
            ),
        })
    }

    fn refuses(&self, command: &Command) -> Option<Status> {
        self.inner.refuses(command)
    }
}

/// A model in closed form, behind a write cache if it has one; `plp`: whether acknowledged writes
/// survive a power cut.
pub(crate) fn behind(
    cache: Option<&CacheSpec>,
    plp: bool,
    latency: impl Latency + 'static,
    parallelism: Option<u32>,
    seed: u64,
) -> Box<dyn Model> {
    match cache {
        None => {
            let known = if plp { CacheKind::Protected } else { CacheKind::Unbounded };
            let power_loss = PowerLoss::new(known, SECTOR);
            Box::new(Independent::new(latency, parallelism).with_power_loss(power_loss))
        }
        Some(cache) => {
            let cached = Cached::new(latency, cache, seed);
            let power_loss = PowerLoss::new(CacheKind::Volatile(cache.size), SECTOR);
            let model = Independent::new(cached, parallelism).with_barrier(cache.barrier);
            Box::new(model.with_power_loss(power_loss))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Spans;
    use proptest::prelude::*;
    use stasis_block::Rate;

    /// 1 us for a read or write, 50 us for a flush, 1 byte a ns to the medium.
    fn cached(size: u64, queued_flush: bool) -> Cached<Spans> {
        let mut spans = [Span::fixed(1_000); Operation::ALL.len()];
        spans[Operation::Flush as usize] = Span::fixed(50_000);
        let spec = CacheSpec {
            size,
            drain: Rate::per_second(1_000_000_000),
            fua: Span::fixed(7_000),
            queued_flush,
            barrier: None,
        };
        Cached::new(Spans::new(spans, 1), &spec, 1)
    }

    fn write(length: u64) -> Command {
        Command::new(Operation::Write, 0, length)
    }

    #[test]
    fn a_flush_costs_what_has_to_be_written_out() {
        let mut model = cached(1 << 20, true);
        assert_eq!(model.latency(0, &Command::flush()), 50_000);
        assert_eq!(model.latency(0, &write(10_000)), 1_000);
        // In the cache from 1,000 on, out at 11,000.
        assert_eq!(model.latency(2_000, &Command::flush()), 9_000 + 50_000);
        let parts = Parts { behind_writes: 9_000, service: 50_000, ..Parts::default() };
        assert_eq!(model.parts(59_000), parts);
        assert_eq!(model.latency(20_000, &Command::flush()), 50_000);
    }

    #[test]
    fn a_durable_write_waits_for_the_medium() {
        let mut model = cached(1 << 20, true);
        assert_eq!(model.latency(0, &write(10_000)), 1_000);
        let durable = Command { fua: true, ..write(4_000) };
        assert_eq!(model.latency(1_000, &durable), 10_000 + 4_000 + 7_000);
        // Nothing waited for room: the cache is far from full.
        let parts = Parts { behind_writes: 13_000, service: 1_000 + 7_000, ..Parts::default() };
        assert_eq!(model.parts(21_000), parts);
    }

    #[test]
    fn a_full_cache_passes_writes_on_at_the_rate_of_the_medium() {
        let mut model = cached(8_000, true);
        let ends: Vec<_> = (0..4).map(|_| model.latency(0, &write(4_000))).collect();
        assert_eq!(ends, [1_000, 1_000, 5_000, 9_000]);
        assert_eq!(model.latency(0, &Command::new(Operation::Read, 0, 4_000)), 1_000);
    }

    #[test]
    fn what_is_not_queued_waits_for_a_flush_and_it_for_them() {
        let mut model = cached(1 << 20, false);
        assert_eq!(model.latency(0, &write(0)), 1_000);
        assert_eq!(model.latency(500, &Command::flush()), 500 + 50_000);
        assert_eq!(model.latency(600, &write(0)), 51_000 - 600 + 1_000);
        let parts = Parts { queue: 51_000 - 600, service: 1_000, ..Parts::default() };
        assert_eq!(model.parts(51_000 - 600 + 1_000), parts);
        let mut model = cached(1 << 20, true);
        assert_eq!(model.latency(0, &write(0)), 1_000);
        assert_eq!(model.latency(500, &Command::flush()), 500 + 50_000);
        assert_eq!(model.latency(600, &write(0)), 1_000);
    }

    #[test]
    fn what_waits_is_what_is_not_written_out() {
        let mut model = cached(20_000, true);
        assert_eq!(model.waiting(0).unwrap(), "the cache is empty");
        model.latency(0, &write(10_000));
        let description = model.waiting(1_000).unwrap();
        assert_eq!(description, "the cache is written out until 11000 ns: it is 50.0 % full");
        assert_eq!(model.waiting(11_000).unwrap(), "the cache is empty");
    }

    #[test]
    fn after_a_power_cut_the_cache_is_empty() {
        let mut model = cached(8_000, false);
        (0..3).for_each(|_| {
            model.latency(0, &write(4_000));
        });
        model.latency(100, &Command::flush());
        model.cut_power(200);
        assert_eq!(model.latency(200, &write(8_000)), 1_000);
        assert_eq!(model.latency(1_200, &Command::flush()), 8_000 + 50_000);
    }

    proptest! {
        /// Against a queue of the cache's contents, one write after another.
        #[test]
        fn the_cache_is_a_queue_with_room(
            size in 1_000u64..20_000,
            commands in prop::collection::vec((1u64..9_000, 0u64..9_000, any::<bool>()), 1..50),
        ) {
            let mut model = cached(size, true);
            // (in the cache since, bytes), in order, and when the medium is free.
            let (mut held, mut free_at, mut now) = (Vec::<(u64, u64)>::new(), 0u64, 0u64);
            for (length, pause, flush) in commands {
                now += pause;
                if flush {
                    let end = now.max(free_at) + 50_000;
                    prop_assert_eq!(model.latency(now, &Command::flush()), end - now);
                    continue;
                }
                let arrived = now + 1_000;
                let out = free_at.max(arrived) + length;
                held.push((out, length));
                free_at = out;
                // Data not written out at the end of the write fits, a byte a ns.
                let end = now + model.latency(now, &write(length));
                let unwritten = |at: u64| -> u64 {
                    held.iter().map(|&(out, length)| out.saturating_sub(at).min(length)).sum()
                };
                prop_assert!(end >= arrived && unwritten(end) <= size, "{} of {size}", unwritten(end));
                prop_assert!(end == arrived || unwritten(end - 1) > size, "it waited for nothing");
            }
        }
    }
}
