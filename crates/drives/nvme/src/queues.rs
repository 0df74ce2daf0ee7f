//! The queues of a controller, and the shadow doorbells before them.
//!
//! Invariants: the completion queue of each submission queue is there; it counts its users; a
//! completion queue that has some is not deleted.

use stasis_block::Doorbells;
use stasis_nvme_layout::queue::DoorbellPair;

use crate::config::MAX_QUEUES;
use crate::narrow::count16;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::shadow::Shadow;
use crate::status::StatusCode;
use crate::{Memory, OutOfMemoryRange};

// A bit for each pair, the admin queues' included.
const _: () = assert!(MAX_QUEUES <= u128::BITS as usize);

/// By identifier; 0 is the pair of the admin queues.
#[derive(Debug)]
pub struct Queues {
    submission: Vec<Option<SubmissionQueue>>,
    completion: Vec<Option<CompletionQueue>>,
    shadow: Option<Shadow>,
    // True if a command or a completion waits for room.
    waiting: bool,
    // The doorbells that begin again at 0, a bit for each queue: tails, and heads.
    stale: [u128; 2],
}

/// Human-readable state of a submission queue and its completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePair {
    /// The submission queue's identifier; 0 is the admin queue.
    pub number: u16,
    /// Its entries.
    pub size: u16,
    /// Entries that the controller fetches next, and that the host fills next.
    pub submission: (u16, u16),
    /// True if a fault has stopped it.
    pub is_stopped: bool,
    /// The completion queue's identifier.
    pub to: u16,
    /// Entries that the host reads next, as far as known, and that the controller fills next.
    pub completion: (u16, u16),
    /// Completions that wait for room.
    pub held: usize,
    /// The interrupt vector, if interrupts are enabled.
    pub vector: Option<u16>,
}

/// The tails, and the heads, in the doorbells.
const TAILS: usize = 0;
const HEADS: usize = 1;

impl Queues {
    /// Room for so many pairs of I/O queues, none of which is there yet.
    pub fn new(io_pairs: u16) -> Self {
        let pairs = usize::from(io_pairs) + 1;
        Self {
            submission: (0..pairs).map(|_| None).collect(),
            completion: (0..pairs).map(|_| None).collect(),
            shadow: None,
            waiting: false,
            stale: [0; 2],
        }
    }

    /// Notes that the doorbell of a queue begins again at 0.
    fn stale(&mut self, which: usize, id: u16) {
        self.stale[which] |= 1 << id;
    }

    /// The index among the doorbells of one whose queue has come or gone.
    pub fn pop_stale(&mut self) -> Option<u64> {
        let which = self.stale.iter().position(|bits| *bits != 0)?;
        let id = self.stale[which].trailing_zeros();
        self.stale[which] &= self.stale[which] - 1;
        Some(2 * u64::from(id) + which as u64)
    }

    /// Drops every queue, as a reset does.
    pub fn reset(&mut self) {
        self.submission.fill_with(|| None);
        self.completion.fill_with(|| None);
        self.shadow = None;
        self.waiting = false;
        for id in self.identifiers() {
            self.stale(TAILS, id);
            self.stale(HEADS, id);
        }
    }

    /// Drops every queue but the admin queues, whose commands are dropped: the reset of a
    /// controller on a fabric keeps its connection (NVMe over Fabrics 1.1 section 3.5.1).
    pub fn reset_io(&mut self) {
        self.submission.iter_mut().skip(1).for_each(|queue| *queue = None);
        self.completion.iter_mut().skip(1).for_each(|queue| *queue = None);
        self.waiting = false;
    }

    /// Returns the present pairs of queues.
    pub fn pairs(&self) -> impl Iterator<Item = QueuePair> + '_ {
        self.identifiers().filter_map(|number| {
            let submission = self.submission(number)?;
            let completion = self.completion[usize::from(submission.cq)].as_ref()?;
            Some(QueuePair {
                number,
                size: submission.size,
                submission: (submission.head, submission.tail),
                is_stopped: submission.is_stopped,
                to: submission.cq,
                completion: (completion.head, completion.tail),
                held: completion.held.len(),
                vector: completion.vector,
            })
        })
    }

    /// Returns the identifiers of all queues, present or not.
    pub fn identifiers(&self) -> std::ops::Range<u16> {
        0..count16(self.submission.len())
    }

    /// A submission queue that is there.
    pub fn submission(&self, id: u16) -> Option<&SubmissionQueue> {
        self.submission.get(usize::from(id))?.as_ref()
    }

    /// Like [`Self::submission`], but mutable.
    pub fn submission_mut(&mut self, id: u16) -> Option<&mut SubmissionQueue> {
        self.submission.get_mut(usize::from(id))?.as_mut()
    }

    /// A completion queue that is there.
    pub fn completion(&self, id: u16) -> Option<&CompletionQueue> {
        self.completion.get(usize::from(id))?.as_ref()
    }

    /// Like [`Self::completion`], but mutable.
    pub fn completion_mut(&mut self, id: u16) -> Option<&mut CompletionQueue> {
        self.completion.get_mut(usize::from(id))?.as_mut()
    }

    /// Returns whether there is a completion queue for I/O.
    pub fn has_io(&self) -> bool {
        self.completion.iter().skip(1).any(Option::is_some)
    }

    /// Puts a submission queue in, whose completions go to the queue `queue.cq`. The identifier is
    /// one of [`Queues::identifiers`].
    pub fn create_submission(&mut self, id: u16, queue: SubmissionQueue) {
        debug_assert!(self.submission(id).is_none(), "one queue of an identifier");
        if let Some(cq) = self.completion_mut(queue.cq) {
            cq.users += 1;
        }
        if let Some(place) = self.submission.get_mut(usize::from(id)) {
            *place = Some(queue);
            self.stale(TAILS, id);
        }
        debug_assert!(self.counts_users());
    }

    /// Puts a completion queue in. The identifier is one of [`Queues::identifiers`].
    pub fn create_completion(&mut self, id: u16, queue: CompletionQueue) {
        if let Some(place) = self.completion.get_mut(usize::from(id)) {
            *place = Some(queue);
            self.stale(HEADS, id);
        }
    }

    /// Takes a submission queue away.
    pub fn delete_submission(&mut self, id: u16) {
        let queue = self.submission.get_mut(usize::from(id)).and_then(Option::take);
        if let Some(cq) = queue.and_then(|queue| self.completion_mut(queue.cq)) {
            cq.users -= 1;
        }
        if usize::from(id) < self.submission.len() {
            self.stale(TAILS, id);
        }
        debug_assert!(self.counts_users());
    }

    /// Returns whether each completion queue counts the submission queues that complete to it, and
    /// each of those has one.
    fn counts_users(&self) -> bool {
        let users = |id: usize| {
            let submission = self.submission.iter().flatten();
            submission.filter(|queue| usize::from(queue.cq) == id).count()
        };
        let counted = |(id, queue): (usize, &Option<CompletionQueue>)| {
            queue.as_ref().map_or(0, |queue| queue.users.into()) == users(id)
        };
        self.completion.iter().enumerate().all(counted)
    }

    /// Takes a completion queue for I/O away.
    ///
    /// # Errors
    /// There is none, or a submission queue uses it.
    pub fn delete_completion(&mut self, id: u16) -> Result<(), StatusCode> {
        match self.completion.get_mut(usize::from(id)).filter(|_| id != 0) {
            Some(Some(queue)) if queue.users > 0 => Err(StatusCode::InvalidQueueDeletion),
            Some(queue @ Some(_)) => {
                *queue = None;
                self.stale(HEADS, id);
                Ok(())
            }
            _ => Err(StatusCode::InvalidQueueIdentifier),
        }
    }

    /// Returns whether the driver has given shadow doorbells.
    pub fn has_shadow(&self) -> bool {
        self.shadow.is_some()
    }

    /// The shadow doorbells, if a queue has some: the admin queues have none.
    pub fn shadow_of(&self, id: u16) -> Option<Shadow> {
        self.shadow.filter(|_| id != 0)
    }

    /// Gives all I/O queues shadow doorbells.
    ///
    /// # Errors
    /// The doorbells are not in guest memory.
    pub fn set_shadow(
        &mut self,
        memory: &dyn Memory,
        shadow: Shadow,
        policy: Doorbells,
    ) -> Result<(), OutOfMemoryRange> {
        self.shadow = Some(shadow);
        for id in self.identifiers().skip(1) {
            if let Some(sq) = self.submission(id) {
                shadow.set_tail_event(memory, id, sq.tail, sq.size, policy)?;
            }
            if let Some(cq) = self.completion(id) {
                let waits = !cq.held.is_empty();
                shadow.set_head_event(memory, id, cq.head, cq.size, waits)?;
            }
        }
        Ok(())
    }

    /// The I/O submission queues whose shadow doorbells have moved, a bit for each.
    ///
    /// # Errors
    /// The doorbells are not in guest memory.
    pub fn moved(&self, memory: &dyn Memory) -> Result<u128, OutOfMemoryRange> {
        let Some(shadow) = self.shadow else { return Ok(0) };
        let mut doorbells = [DoorbellPair::default(); MAX_QUEUES];
        shadow.read_all(memory, self.submission.len(), &mut doorbells)?;
        let mut moved = 0;
        for id in self.identifiers().skip(1) {
            let tail = doorbells[usize::from(id)].sq_tail.get();
            if self.submission(id).is_some_and(|sq| u32::from(sq.tail) != tail) {
                moved |= 1 << id;
            }
        }
        Ok(moved)
    }

    /// A command or a completion waits for room.
    pub fn wait_for_room(&mut self) {
        self.waiting = true;
    }

    /// Returns whether a command or a completion waits for room.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Ends the wait; returns whether there was one. A command or completion that still has no room
    /// must wait again.
    pub fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waiting)
    }
}
