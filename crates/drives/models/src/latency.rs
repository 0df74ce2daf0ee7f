//! Models in closed form, and the adaptor that makes a [`Model`] of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stasis_block::clock::{EventQueue, Nanos};
use stasis_block::command_log::CommandLog;
use stasis_block::inside::{Inside, Parts, SlowCommand};
use stasis_block::timeline::Tracks;
use stasis_block::{Command, Completion, Fate, Model, Operation, PowerLoss, Random, Status, Tag};

use crate::span::Span;

/// The time that a command takes, known when its service begins.
pub trait Latency: Send {
    /// The time (ns) from `now`, when the service of `command` begins, to its
    /// completion. Calls come in the order of submission.
    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos;

    /// Returns whether [`Latency::parts`] tells more than one part.
    fn tells(&self) -> bool {
        false
    }

    /// Returns the parts of the time of the command of the last call of [`Latency::latency`], which
    /// is `latency` ns altogether.
    fn parts(&self, latency: Nanos) -> Parts<Nanos> {
        Parts { service: latency, ..Parts::default() }
    }

    /// The power fails at `now`, and comes back at once ([`Model::cut_power`]).
    fn cut_power(&mut self, _now: Nanos) {}

    /// Draws by `seed` from now on ([`Model::reseed`]).
    fn reseed(&mut self, _seed: u64) {}

    /// The contents of the write cache at `now` ([`Model::waiting`]).
    fn waiting(&self, _now: Nanos) -> Option<String> {
        None
    }

    /// The error with which the drive refuses `command`, if it does.
    fn refuses(&self, _command: &Command) -> Option<Status> {
        None
    }
}

/// Makes a [`Model`] of a [`Latency`]: commands do not wait for one another,
/// or, with a limit of `n`, at most `n` are in service and the others wait in
/// the order of their submission.
#[derive(Debug)]
pub struct Independent<L> {
    latency: L,
    due: EventQueue<(Tag, Fate)>,
    servers: Option<Servers>,
    barrier: Option<Nanos>,
    power_loss: PowerLoss,
    // True if commands can wait, or the latency tells its parts.
    tells: bool,
    commands: CommandLog,
}

/// Times at which each server is free again. Because the queue before them is first come, first
/// served, a command's start is known at its submission.
#[derive(Debug)]
struct Servers {
    limit: usize,
    free_at: BinaryHeap<Reverse<Nanos>>,
}

impl Servers {
    fn start(&mut self, now: Nanos) -> Nanos {
        if self.free_at.len() < self.limit {
            return now;
        }
        self.free_at.pop().map_or(now, |Reverse(free_at)| free_at.max(now))
    }
}

impl<L: Latency> Independent<L> {
    /// At most `parallelism` commands in service at once; any number with
    /// `None`. A limit of 0 is taken as 1.
    pub fn new(latency: L, parallelism: Option<u32>) -> Self {
        let servers = parallelism
            .map(|limit| Servers { limit: limit.max(1) as usize, free_at: BinaryHeap::new() });
        let tells = servers.is_some() || latency.tells();
        Self {
            latency,
            due: EventQueue::new(),
            tells,
            servers,
            barrier: None,
            power_loss: PowerLoss::default(),
            commands: CommandLog::default(),
        }
    }

    /// Sets the cost of a barrier (ns); None: the drive has no barrier.
    #[must_use]
    pub fn with_barrier(mut self, cost: Option<Nanos>) -> Self {
        self.barrier = cost;
        self
    }

    /// Sets what a power cut takes of the drive.
    #[must_use]
    pub fn with_power_loss(mut self, power_loss: PowerLoss) -> Self {
        self.power_loss = power_loss;
        self
    }
}

impl<L: Latency> Model for Independent<L> {
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        if let Some(status) = self.latency.refuses(command) {
            self.due.push(now, (tag, Fate::failed(status)));
            return;
        }
        let start = self.servers.as_mut().map_or(now, |servers| servers.start(now));
        let latency = self.latency.latency(start, command);
        let end = start.saturating_add(latency);
        if let Some(servers) = &mut self.servers {
            servers.free_at.push(Reverse(end));
        }
        if self.tells {
            let &Command { operation, offset, length: bytes, .. } = command;
            let mut parts = self.latency.parts(end - start);
            parts.queue += start - now;
            self.commands.record(SlowCommand { operation, offset, bytes, begin: now, end, parts });
        }
        self.due.push(end, (tag, Fate::Done));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.due.next_at()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, (tag, fate))) = self.due.pop_due(now) {
            done.push(Completion { tag, at, fate });
        }
    }

    fn barrier(&self) -> Option<Nanos> {
        self.barrier
    }

    fn power_loss(&self) -> PowerLoss {
        self.power_loss
    }

    fn cut_power(&mut self, now: Nanos) {
        if let Some(servers) = &mut self.servers {
            servers.free_at.clear();
        }
        self.commands.cut(now);
        self.latency.cut_power(now);
    }

    fn reseed(&mut self, seed: u64) {
        self.latency.reseed(seed);
    }

    fn waiting(&self, now: Nanos) -> Option<String> {
        self.latency.waiting(now)
    }

    fn start(&mut self, _: Nanos) {
        self.commands.clear();
    }

    fn inside(&self, _: Nanos) -> Option<Inside> {
        self.commands.inside()
    }

    fn watch(&mut self, owner: &str, tracks: &mut Tracks) {
        if self.tells {
            self.commands.watch(owner, tracks);
        }
    }

    fn take_spans(&mut self, spans: &mut stasis_block::timeline::Spans) {
        self.commands.take_spans(spans);
    }
}

/// A span of its own for each operation, independent of place and length:
/// the models `null`, `fixed` and `uniform`.
#[derive(Debug)]
pub struct Spans {
    spans: [Span; Operation::ALL.len()],
    random: Random,
}

impl Spans {
    /// Operation `o` takes `spans[o as usize]`, drawn with `seed`.
    pub fn new(spans: [Span; Operation::ALL.len()], seed: u64) -> Self {
        Self { spans, random: Random::new(seed) }
    }
}

impl Latency for Spans {
    fn latency(&mut self, _now: Nanos, command: &Command) -> Nanos {
        self.spans[command.operation as usize].sample(&mut self.random)
    }

    fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }
}

/// The parts of a latency (ns) of which the wait before it and the transfer are known: the rest is the service.
pub fn in_parts(latency: Nanos, queue: Nanos, transfer: Nanos) -> Parts<Nanos> {
    let service = latency.saturating_sub(queue.saturating_add(transfer));
    Parts { queue, transfer, service, ..Parts::default() }
}
