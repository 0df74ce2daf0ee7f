//! Newest first: the request that came last goes first.

use stasis_block::Tag;
use stasis_clock::Nanos;
use stasis_scheduler::{sectors, QueueId, QueueSpec, QueueStatistics, Refused, Request, Scheduler};

#[derive(Debug, Default)]
pub struct Newest {
    /// By the queue's number; none: it was removed.
    queues: Vec<Option<QueueStatistics>>,
    waiting: Vec<(QueueId, Request)>,
    in_flight: Vec<Tag>,
}

impl Scheduler for Newest {
    fn name(&self) -> &'static str {
        "newest"
    }

    fn create(&mut self, _now: Nanos, _spec: &QueueSpec) -> QueueId {
        self.queues.push(Some(QueueStatistics::default()));
        QueueId(self.queues.len() as u32 - 1)
    }

    fn remove(&mut self, _now: Nanos, queue: QueueId) {
        if let Some(removed) = self.queues.get_mut(queue.0 as usize) {
            *removed = None;
        }
    }

    fn add(&mut self, _now: Nanos, queue: QueueId, request: &Request) -> Result<(), Refused> {
        let known = self.queues.get(queue.0 as usize).is_some_and(Option::is_some);
        if !known {
            return Err(Refused::Queue(queue));
        }
        let waits = self.waiting.iter().any(|(_, other)| other.tag == request.tag);
        if waits || self.in_flight.contains(&request.tag) {
            return Err(Refused::Tag(request.tag));
        }
        self.waiting.push((queue, *request));
        Ok(())
    }

    fn dispatch(&mut self, _now: Nanos) -> Option<Tag> {
        let (queue, request) = self.waiting.pop()?;
        if let Some(Some(statistics)) = self.queues.get_mut(queue.0 as usize) {
            statistics.requests += 1;
            statistics.sectors += sectors(&request.command);
        }
        self.in_flight.push(request.tag);
        Some(request.tag)
    }

    fn complete(&mut self, _now: Nanos, tag: Tag) {
        self.in_flight.retain(|other| *other != tag);
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn statistics(&self, _now: Nanos, queue: QueueId) -> QueueStatistics {
        self.queues.get(queue.0 as usize).copied().flatten().unwrap_or_default()
    }
}
