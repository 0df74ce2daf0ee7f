//! Operations of an image at the drive below it: they are submitted and end at their virtual time.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::LayerTimes;

use crate::disk::Disk;
use crate::Counters;

/// State that an image's tasks share with the layer that runs them.
#[derive(Debug)]
pub(crate) struct Shared(Mutex<State>);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) now: Nanos,
    /// The drive's command whose end is attended to.
    pub(crate) ended: Option<Ended>,
    pub(crate) disk: Disk,
    pub(crate) counters: Counters,
    /// True if anything was written since the last barrier, or since a flush that ended: a write
    /// beside one that is under way can overtake the writes that it covers.
    pub(crate) written: bool,
    // Number of writes so far, and as it was at each flush under way.
    writes: u64,
    flushes: Vec<(u32, u64)>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: VecDeque<u32>,
}

/// A command that the drive below has completed: the times of its submission and its end (ns), and
/// those of the layers there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) submit: Nanos,
    pub(crate) at: Nanos,
    pub(crate) layers: LayerTimes,
}

#[derive(Debug)]
enum Slot {
    Free,
    Queued(Command, Vec<u8>, Option<Waker>),
    /// Queued, and nobody waits for it any more.
    Orphan(Command, Vec<u8>),
    UnderWay(Option<Waker>),
    Done(Status, Vec<u8>),
    /// Under way, and nobody waits for it any more.
    Abandoned,
}

impl Shared {
    pub(crate) fn new(disk: Disk) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            now: 0,
            ended: None,
            disk,
            counters: Counters::default(),
            written: false,
            writes: 0,
            flushes: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a command; it is on its way whether or not it is waited for.
    pub(crate) fn io(self: &Arc<Self>, command: Command, data: Vec<u8>) -> HostIo {
        let mut state = self.lock();
        state.count(&command);
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot::Free);
            state.slots.len() as u32 - 1
        });
        state.slots[slot as usize] = Slot::Queued(command, data, None);
        if command.operation == Operation::Flush {
            let writes = state.writes;
            state.flushes.push((slot, writes));
        }
        state.queue.push_back(slot);
        HostIo { shared: Arc::clone(self), slot, operation: command.operation, over: false }
    }
}

impl State {
    /// The present time, and the layers' times of a command of `submit` that ends now: those of the
    /// drive's command that it waited for last, and the rest the image's. If that began before it, all
    /// are.
    pub(crate) fn moment(&self, submit: Nanos) -> (Nanos, LayerTimes) {
        let whole = self.now.saturating_sub(submit);
        let layers = match self.ended.filter(|ended| ended.submit >= submit) {
            Some(Ended { submit, at, layers }) => {
                let image = layers.image + whole.saturating_sub(at - submit);
                LayerTimes { image, ..layers }
            }
            None => LayerTimes { image: whole, ..LayerTimes::default() },
        };
        (self.now, layers)
    }

    /// Begins anew with this disk: what was submitted and not sent is not sent any more. Nobody waits
    /// for anything.
    pub(crate) fn start_again(&mut self, disk: Disk) {
        for slot in self.queue.drain(..) {
            self.slots[slot as usize] = Slot::Free;
            self.free.push(slot);
        }
        self.flushes.clear();
        (self.disk, self.written) = (disk, false);
    }

    fn count(&mut self, command: &Command) {
        match command.operation {
            Operation::Write | Operation::WriteZeroes | Operation::Discard | Operation::Copy => {
                self.written = true;
                self.writes += 1;
                self.counters.host_writes += 1;
                self.counters.host_write_bytes += command.length;
            }
            Operation::Flush => self.counters.host_flushes += 1,
            Operation::Barrier => {
                self.written = false;
                self.counters.host_barriers += 1;
            }
            Operation::Read => self.counters.host_reads += 1,
            Operation::Verify => {}
        }
    }

    /// The next request for the drive below.
    pub(crate) fn next(&mut self) -> Option<Request> {
        let slot = self.queue.pop_front()?;
        match std::mem::replace(&mut self.slots[slot as usize], Slot::Free) {
            Slot::Queued(command, data, waker) => {
                self.slots[slot as usize] = Slot::UnderWay(waker);
                Some(Request::new(slot, command, data))
            }
            Slot::Orphan(command, data) => {
                self.slots[slot as usize] = Slot::Abandoned;
                Some(Request::new(slot, command, data))
            }
            // Only queued operations are in the queue.
            other => {
                self.slots[slot as usize] = other;
                None
            }
        }
    }

    /// Takes a completion of the drive below.
    pub(crate) fn finish(&mut self, slot: u32, status: Status, data: Vec<u8>) {
        if let Some(place) = self.flushes.iter().position(|(flush, _)| *flush == slot) {
            let (_, writes) = self.flushes.swap_remove(place);
            self.written &= status != Status::Ok || writes < self.writes;
        }
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        match std::mem::replace(place, Slot::Done(status, data)) {
            Slot::UnderWay(Some(waker)) => waker.wake(),
            Slot::Abandoned => {
                *place = Slot::Free;
                self.free.push(slot);
            }
            _ => {}
        }
    }
}

/// A command at the drive below.
#[derive(Debug)]
pub(crate) struct HostIo {
    shared: Arc<Shared>,
    slot: u32,
    operation: Operation,
    over: bool,
}

impl Future for HostIo {
    type Output = io::Result<Vec<u8>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Self::Output> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let place = &mut state.slots[self.slot as usize];
        match std::mem::replace(place, Slot::Free) {
            Slot::Done(status, data) => {
                state.free.push(self.slot);
                self.over = true;
                Poll::Ready(match status {
                    Status::Ok => Ok(data),
                    status => {
                        let name = self.operation.name();
                        let kind = match status {
                            Status::NoSpace => io::ErrorKind::StorageFull,
                            _ => io::ErrorKind::Other,
                        };
                        Err(io::Error::new(kind, format!("the drive's {name} ended: {status:?}")))
                    }
                })
            }
            Slot::Queued(command, data, _) => {
                *place = Slot::Queued(command, data, Some(context.waker().clone()));
                Poll::Pending
            }
            Slot::UnderWay(_) => {
                *place = Slot::UnderWay(Some(context.waker().clone()));
                Poll::Pending
            }
            other => {
                *place = other;
                Poll::Pending
            }
        }
    }
}

impl Drop for HostIo {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut state = self.shared.lock();
        let place = &mut state.slots[self.slot as usize];
        match std::mem::replace(place, Slot::Abandoned) {
            Slot::Done(..) => {
                *place = Slot::Free;
                state.free.push(self.slot);
            }
            Slot::Queued(command, data, _) => *place = Slot::Orphan(command, data),
            _ => {}
        }
    }
}
