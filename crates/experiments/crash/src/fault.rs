//! Fault injection, for crash tests to be tested: layers that lie, each as a
//! drive or an image could by mistake.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{Command, Delivery, Operation, Request, Status, Tag};
use stasis_drive::{Decorator, Done, Layer, LayerTimes};

/// A fault that can be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Every third order, a barrier or a flush, ends well and is not passed on.
    DroppedBarrier,
    /// Flushes and durable writes are acknowledged when they are submitted; they are then passed on
    /// and take their time.
    EarlyAcknowledgement,
    /// The last write before each order goes after it.
    SwappedTables,
    /// A write of more than a logical block is passed on in two steps, so that a power cut tears it
    /// whatever atomic unit the drive has promised.
    SplitWrites,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 4] =
        [Self::DroppedBarrier, Self::EarlyAcknowledgement, Self::SwappedTables, Self::SplitWrites];

    /// Faults by which acknowledged data gets lost. A write that is torn was not promised to anyone
    /// yet: only a program that relies on its atomicity can find that.
    pub const LOSSES: [Self; 3] =
        [Self::DroppedBarrier, Self::EarlyAcknowledgement, Self::SwappedTables];

    /// Name of the fault on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::DroppedBarrier => "dropped-barrier",
            Self::EarlyAcknowledgement => "early-acknowledgement",
            Self::SwappedTables => "swapped-tables",
            Self::SplitWrites => "split-writes",
        }
    }

    /// The harm of the fault in a clause, for people.
    pub fn harm(self) -> &'static str {
        match self {
            Self::DroppedBarrier => "every third flush or barrier ends well and does nothing",
            Self::EarlyAcknowledgement => {
                "flushes and durable writes are acknowledged before they are done"
            }
            Self::SwappedTables => "the last write before each flush or barrier goes after it",
            Self::SplitWrites => "a power cut tears writes of more than a block",
        }
    }

    /// The fault of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// Tag bit of commands whose completion the layer above has already seen.
const OWN: Tag = 1 << 31;

/// A layer that misreports the layer below to the layer above.
pub struct FaultInjector {
    lower: Box<dyn Layer>,
    fault: Fault,
    orders: u64,
    next: Tag,
    // Said to be over.
    over: VecDeque<Done>,
    // A write that slips behind the next order.
    held: Option<Request>,
    // Writes of which the first step is under way, or the second.
    split: Vec<Split>,
    // Size of a logical block in bytes.
    block: u64,
    done: Vec<Done>,
}

/// A write in two steps.
struct Split {
    // The tag of the step that is under way.
    step: Tag,
    // The write as it was asked for.
    asked: Request,
    submitted: Nanos,
    // The write of the second step.
    rest: Option<Request>,
}

fn is_order(command: &Command) -> bool {
    matches!(command.operation, Operation::Flush | Operation::Barrier)
}

impl FaultInjector {
    /// Injects the fault above `lower`, a drive with logical blocks of `block` bytes.
    pub fn new(lower: Box<dyn Layer>, fault: Fault, block: u64) -> Self {
        let (over, held, split, done) = (VecDeque::new(), None, Vec::new(), Vec::new());
        Self { lower, fault, orders: 0, next: 0, over, held, split, block, done }
    }

    fn own_tag(&mut self) -> Tag {
        self.next = (self.next + 1) % OWN;
        OWN | self.next
    }

    /// Passes on the first step of a write.
    fn split(&mut self, now: Nanos, asked: Request) {
        let command = asked.command;
        let half = (command.length / 2).next_multiple_of(self.block).min(command.length);
        let step = self.own_tag();
        let part = |tag, offset: u64, length: u64| Request {
            tag,
            command: Command { offset: command.offset + offset, length, ..command },
            data: asked.data[offset as usize..][..length as usize].to_vec(),
            ..Request { data: Vec::new(), ..asked.clone() }
        };
        let first = part(step, 0, half);
        let rest = (half < command.length).then(|| part(step, half, command.length - half));
        self.split.push(Split { step, asked, submitted: now, rest });
        self.lower.submit(now, first);
    }

    /// A step has ended: passes on the second one, or returns the end of the write.
    fn step_done(&mut self, now: Nanos, done: Done) -> Option<Done> {
        let at = self.split.iter().position(|split| split.step == done.tag)?;
        if done.status == Status::Ok {
            if let Some(rest) = self.split[at].rest.take() {
                let step = self.own_tag();
                self.split[at].step = step;
                self.lower.submit(now, Request { tag: step, ..rest });
                return None;
            }
        }
        let Split { asked, submitted, .. } = self.split.swap_remove(at);
        let Request { tag, queue, command, data, .. } = asked;
        // The first step's time is the fault's.
        let fault = done.layers.fault + done.submit.saturating_sub(submitted);
        let layers = LayerTimes { fault, ..done.layers };
        Some(Done { tag, queue, command, data, submit: submitted, layers, ..done })
    }

    /// Acknowledges `request`; returns it for the drive, with nobody waiting for its end.
    fn acknowledge(&mut self, now: Nanos, request: Request) -> Request {
        let acknowledgement = Done {
            tag: request.tag,
            queue: request.queue,
            command: request.command,
            status: Status::Ok,
            failed_at: 0,
            data: request.data.clone(),
            submit: now,
            order: 0,
            at: now,
            layers: LayerTimes::default(),
            delivery: Delivery::Once,
        };
        self.over.push_back(acknowledgement);
        self.next = (self.next + 1) % OWN;
        Request { tag: OWN | self.next, ..request }
    }

    fn release(&mut self, now: Nanos) {
        if let Some(held) = self.held.take() {
            self.lower.submit(now, held);
        }
    }
}

impl Decorator for FaultInjector {
    fn lower(&self) -> &dyn Layer {
        &*self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut *self.lower
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        let command = request.command;
        match self.fault {
            Fault::DroppedBarrier if is_order(&command) => {
                self.orders += 1;
                if self.orders.is_multiple_of(3) {
                    self.acknowledge(now, request);
                    return;
                }
                self.lower.submit(now, request);
            }
            Fault::EarlyAcknowledgement if command.operation == Operation::Flush || command.fua => {
                let silent = self.acknowledge(now, request);
                self.lower.submit(now, silent);
            }
            Fault::SplitWrites
                if command.operation == Operation::Write
                    && command.length > self.block
                    && request.data.len() as u64 == command.length =>
            {
                self.split(now, request);
            }
            Fault::SwappedTables if command.operation == Operation::Write && !command.fua => {
                self.release(now);
                let silent = self.acknowledge(now, request);
                self.held = Some(silent);
            }
            Fault::SwappedTables => {
                // A read sees all earlier writes.
                if !is_order(&command) {
                    self.release(now);
                }
                self.lower.submit(now, request);
                self.release(now);
            }
            _ => self.lower.submit(now, request),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let over = self.over.front().map(|done| done.at);
        over.into_iter().chain(self.lower.next_event()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.lower.advance(now, &mut self.done);
        let mut below = std::mem::take(&mut self.done);
        for one in below.drain(..) {
            let one = match one.tag & OWN {
                0 => one,
                _ => match self.step_done(now, one) {
                    Some(end) => end,
                    None => continue,
                },
            };
            while self.over.front().is_some_and(|acknowledgement| acknowledgement.at <= one.at) {
                done.extend(self.over.pop_front());
            }
            done.push(one);
        }
        self.done = below;
        while self.over.front().is_some_and(|acknowledgement| acknowledgement.at <= now) {
            done.extend(self.over.pop_front());
        }
    }

    fn in_flight(&self) -> usize {
        self.lower.in_flight() + self.over.len()
    }
}
