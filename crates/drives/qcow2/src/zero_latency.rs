//! A model that takes no time: for work on images outside of experiments.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::{Command, Completion, Model, Tag};

/// Completes every command at once.
#[derive(Debug, Default)]
pub struct ZeroLatency {
    done: VecDeque<Completion>,
}

impl Model for ZeroLatency {
    fn submit(&mut self, now: Nanos, tag: Tag, _: &Command) {
        self.done.push_back(Completion::done(tag, now));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.done.front().map(|completion| completion.at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while self.done.front().is_some_and(|completion| completion.at <= now) {
            done.extend(self.done.pop_front());
        }
    }

    fn barrier(&self) -> Option<Nanos> {
        Some(0)
    }
}
