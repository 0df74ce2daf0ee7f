//! The channels: who has one, and who is next.

use super::holders::Holders;
use super::slots::{List, Phase, NONE};
use super::{Array, ChannelOrder, Priority, Scheduling, MAX_PASSED};

/// Priorities of operations.
const PRIORITIES: usize = 3;

/// A channel.
#[derive(Debug)]
pub(super) struct Channel {
    /// Ready operations by priority, in one list where that does not count; behind these, where
    /// data of reads comes first, those that wait for another phase.
    queues: [List; 2 * PRIORITIES],
    /// The operation that has it.
    pub busy: u32,
    /// True if it is in the list of those that may start something.
    dirty: bool,
    /// Transfers of the host's in a row that passed one of housekeeping.
    passed: u8,
    /// Who has it.
    holders: Holders,
}

impl Channel {
    pub fn new() -> Self {
        Self {
            queues: [List::EMPTY; 2 * PRIORITIES],
            busy: NONE,
            dirty: false,
            passed: 0,
            holders: Holders::default(),
        }
    }
}

/// Returns whether the operations of a queue are housekeeping, where queues are by priority.
fn keeps_house(queue: usize) -> bool {
    queue % PRIORITIES == Priority::Gc as usize
}

impl Channel {
    /// The queue whose first operation is next; `by_class`: queues are by priority.
    fn next(&self, by_class: bool) -> Option<usize> {
        let waits = |&queue: &usize| !self.queues[queue].is_empty();
        let mut queues = 0..self.queues.len();
        if by_class && self.passed >= MAX_PASSED {
            let house = queues.clone().find(|queue| keeps_house(*queue) && waits(queue));
            return house.or_else(|| queues.find(waits));
        }
        queues.find(waits)
    }

    /// An operation of a queue has its turn.
    fn count(&mut self, queue: usize) {
        let waits = (0..self.queues.len()).any(|q| keeps_house(q) && !self.queues[q].is_empty());
        let passes = !keeps_house(queue) && waits;
        self.passed = if passes { self.passed.saturating_add(1) } else { 0 };
    }
}

impl Array {
    /// Makes an operation wait for its channel; `false` if it needs no time
    /// there, and so has no need to.
    pub(super) fn request(&mut self, channel: u32, index: u32, phase: Phase) -> bool {
        if self.medium.transfer(&self.slots[index], phase) == 0 {
            return false;
        }
        let this = &mut self.channels[channel as usize];
        let slot = &mut self.slots[index];
        debug_assert_eq!(slot.since, self.now);
        (slot.phase, slot.mark) = (phase, this.holders.at(self.now));
        let class = match self.options.scheduling {
            Scheduling::Fifo => 0,
            Scheduling::ReadFirst => slot.op.priority as usize,
        };
        let class = match (self.options.channel_order, phase) {
            (ChannelOrder::DataFirst, Phase::Command | Phase::DataIn) => PRIORITIES + class,
            _ => class,
        };
        self.slots.push_ready(&mut this.queues[class], index);
        self.touch_channel(channel);
        true
    }

    /// Lets an idle channel decide once everything that ends now has ended.
    fn touch_channel(&mut self, channel: u32) {
        let this = &mut self.channels[channel as usize];
        if !this.dirty && this.busy == NONE {
            this.dirty = true;
            self.dirty_channels.push(channel);
        }
    }

    /// Starts the next transfer.
    pub(super) fn dispatch_channel(&mut self, channel: u32) {
        let now = self.now;
        let this = &mut self.channels[channel as usize];
        this.dirty = false;
        debug_assert_eq!(this.busy, NONE, "a channel is used once at a time");
        let by_class = self.options.scheduling == Scheduling::ReadFirst;
        let Some(queue) = this.next(by_class) else { return };
        let index = self.slots.pop(&mut this.queues[queue]);
        if by_class {
            this.count(queue);
        }
        this.busy = index;
        self.slots.waited(index, now, this.holders.at(now));
        this.holders.start(self.slots[index].op.priority, now);
        let end =
            now.saturating_add(self.medium.transfer(&self.slots[index], self.slots[index].phase));
        self.schedule(end, self.units.len() as u32 + channel);
    }

    /// A transfer is over.
    pub(super) fn end_transfer(&mut self, channel: u32) {
        let now = self.now;
        let this = &mut self.channels[channel as usize];
        let index = std::mem::replace(&mut this.busy, NONE);
        debug_assert_ne!(index, NONE);
        this.holders.stop(self.slots[index].op.priority, now);
        if this.queues.iter().any(|queue| !queue.is_empty()) {
            self.touch_channel(channel);
        }
        self.channel_usage.add(channel, self.slots[index].since, now);
        if let Some(log) = &mut self.log {
            log.transfer(channel, &self.slots[index], now);
        }
        let (times, took) = self.slots.spent(index, now);
        times.channel += took;

        let (phase, plane) = (self.slots[index].phase, self.slots[index].op.at.plane);
        let (unit, bit) = (self.unit_of(plane), self.plane_bit(plane));
        let this = &mut self.units[unit as usize];
        self.slots[index].mark = this.holders.at(now);
        match phase {
            Phase::DataIn if self.options.cache_register => {
                this.loading -= 1;
                self.touch(unit);
            }
            Phase::Command | Phase::DataIn => {
                this.pending -= 1;
                if this.pending == 0 {
                    self.begin_cells(unit);
                }
            }
            Phase::DataOut => {
                this.cache &= !bit;
                self.finish(index);
                self.touch_if_waiting(unit);
            }
            Phase::DataOutHolding => {
                this.pending -= 1;
                if this.pending == 0 {
                    self.free_array(unit, self.slots[index].op.priority);
                }
                self.finish(index);
            }
        }
    }
}
