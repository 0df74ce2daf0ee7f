//! The context of a translation layer: the array, and the host's requests.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Status};
use stasis_nand::{Array, Breakdown, Op, OpDone, OpKind};

use super::request::{Open, Request, RequestId};
use crate::narrow::count;
use crate::owners::{Owner, Owners};
use crate::statistics::{Statistics, Temperature};
use crate::watch::Watch;

/// Units that have memory from the start.
pub(crate) const IN_FLIGHT: usize = 1024;

/// An operation that a power cut put an end to.
#[derive(Debug, Clone, Copy)]
pub struct Dropped {
    /// The operation.
    pub op: Op,
    /// True if its cells were at work: what it was to change is neither as before nor as after.
    pub started: bool,
}

/// A power cut, as reported to a translation layer.
#[derive(Debug)]
pub struct PowerCut<'a> {
    /// The operations that never ended.
    pub dropped: &'a [Dropped],
    /// Byte ranges whose acknowledged contents are lost: the layer adds them.
    pub lost: Vec<Range<u64>>,
}

/// One read of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageRead {
    pub page: u32,
    pub bytes: u32,
}

/// Units of one page that follow one another: one operation reads them.
#[derive(Debug, Default)]
pub(super) struct PageRun(Option<PageRead>);

impl PageRun {
    /// Adds `bytes` of `page`; calls `read` for the page before, if that is complete.
    #[inline]
    pub fn add(&mut self, page: u32, bytes: u32, read: impl FnOnce(PageRead)) {
        match &mut self.0 {
            Some(last) if last.page == page => last.bytes += bytes,
            other => {
                if let Some(whole) = other.replace(PageRead { page, bytes }) {
                    read(whole);
                }
            }
        }
    }

    /// Calls `read` for the last page.
    #[inline]
    pub fn end(self, read: impl FnOnce(PageRead)) {
        if let Some(whole) = self.0 {
            read(whole);
        }
    }
}

/// The programs of the host's data one after the other: each has the time since the one before
/// ended, in which the write buffer stayed full if writes waited for it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Drain {
    /// Their parts.
    pub parts: Breakdown,
    until: Nanos,
    // No block was free for the next one.
    starved: bool,
}

impl Drain {
    /// A program has ended.
    pub fn ended(&mut self, done: &OpDone) {
        let since = done.at.saturating_sub(self.until);
        let mut parts = done.times.ending(since);
        let before = since - parts.total();
        if self.starved {
            parts.gc += before;
        } else {
            parts.queue += before;
        }
        self.parts += parts;
        (self.until, self.starved) = (done.at, false);
    }
}

/// The array, the counts, and the requests under way, for a translation layer.
#[derive(Debug)]
pub struct Context {
    /// The array.
    pub array: Array,
    /// The drive's counts.
    pub statistics: Statistics,
    pub(crate) temperature: Temperature,
    pub(crate) requests: Vec<Open>,
    pub(crate) free: Vec<RequestId>,
    pub(crate) finished: Vec<RequestId>,
    // The collections that have ended, while the drive is watched.
    pub(crate) watch: Option<Box<Watch>>,
    pub(crate) drain: Drain,
    #[cfg(test)]
    pub(crate) shadow: Option<Box<crate::shadow::Shadow>>,
}

impl Context {
    pub(crate) fn new(array: Array, temperature: Temperature) -> Self {
        Self {
            array,
            statistics: Statistics::default(),
            temperature,
            requests: Vec::with_capacity(IN_FLIGHT),
            free: Vec::with_capacity(IN_FLIGHT),
            finished: Vec::with_capacity(IN_FLIGHT),
            watch: None,
            drain: Drain::default(),
            #[cfg(test)]
            shadow: None,
        }
    }

    /// Submits an operation to the array.
    pub fn submit(&mut self, now: Nanos, op: Op) {
        #[cfg(test)]
        if let Some(shadow) = &mut self.shadow {
            shadow.submit(&op);
        }
        self.statistics.count(&op);
        self.array.submit(now, op);
    }

    /// Like [`Self::submit`], but of a watched drive `owner` says for whom the operation is.
    #[inline]
    pub(crate) fn submit_for(
        &mut self,
        now: Nanos,
        op: Op,
        owner: impl FnOnce(&mut Owners) -> Owner,
    ) {
        let number = self.array.submitted();
        self.note(|owners| {
            let owner = owner(owners);
            owners.submit(number, owner);
        });
        self.submit(now, op);
    }

    /// Tells the observer of a watched drive whose something is.
    #[inline]
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Owners)) {
        if let Some(watch) = &mut self.watch {
            note(&mut watch.owners);
        }
    }

    /// Records that a block of a plane was emptied; `times`: when it was chosen, and when it was
    /// empty.
    pub fn collected(&mut self, plane: u32, block: u32, times: (Nanos, Nanos)) {
        self.statistics.collected(times.1 - times.0);
        if let Some(watch) = &mut self.watch {
            watch.collected(plane, block, times);
        }
    }

    /// Like [`Self::collected`], but for a block in SLC mode, whose data was folded.
    pub(crate) fn folded(&mut self, plane: u32, block: u32, times: (Nanos, Nanos)) {
        self.statistics.folds += 1;
        self.statistics.folding += times.1 - times.0;
        if let Some(watch) = &mut self.watch {
            watch.folded(plane, block, times);
        }
    }

    /// Bytes of the blocks that the array has erased.
    pub fn erased_bytes(&self) -> u64 {
        let geometry = self.array.geometry();
        let block = u64::from(geometry.pages) * u64::from(geometry.page_size);
        self.statistics.ops(OpKind::Erase) * block
    }

    /// The request waits for one thing more.
    pub fn open(&mut self, id: RequestId) {
        self.requests[id as usize].pieces += 1;
    }

    /// Ends a piece of the request; `times` is the breakdown of the piece's time.
    pub fn finish(&mut self, id: RequestId, fate: Fate, times: &Breakdown) {
        let open = &mut self.requests[id as usize];
        open.fate = worse(open.fate, fate);
        open.times = *times;
        open.pieces -= 1;
        if open.pieces == 0 {
            self.finished.push(id);
        }
    }

    /// The wait of a request ends at `now`, and its own pieces begin; `times` is the breakdown of
    /// the operation that it waited for.
    pub fn passed(&mut self, id: RequestId, now: Nanos, times: &Breakdown) {
        let open = &mut self.requests[id as usize];
        let since = (now - open.entered).saturating_sub(open.before.total());
        let mut parts = times.ending(since);
        parts.queue += since - parts.total();
        open.before += parts;
    }

    /// The host's data waits for a free block.
    pub fn starve(&mut self) {
        self.drain.starved = true;
    }

    /// A request reads so many units, of which `unwritten` were never written.
    #[inline]
    pub(super) fn reads(&mut self, id: RequestId, units: u32, unwritten: u32) {
        if !self.requests[id as usize].ahead {
            self.statistics.read_units += u64::from(units);
            self.statistics.unwritten_units += u64::from(unwritten);
        }
    }

    /// Returns the beginning of the request (bytes), of which a layer may be asked for a part.
    pub(super) fn begin_of(&self, id: RequestId) -> u64 {
        self.requests[id as usize].request.offset
    }

    /// Ends a piece of a request that reads a damaged unit, at the byte `at` of the request. The
    /// array has no record of the damage: the data is lost, or is wrong data made from a seed.
    pub(super) fn finish_damaged(&mut self, id: RequestId, at: u64, damage: Option<u64>) {
        let fate = match damage {
            None => Fate::Failed { status: Status::ReadError, at },
            Some(seed) => Fate::Corrupted { seed },
        };
        self.open(id);
        self.finish(id, fate, &Breakdown::default());
    }

    /// Ends a piece of a request without an error and without times.
    pub fn finish_ok(&mut self, id: RequestId) {
        let open = &mut self.requests[id as usize];
        open.pieces -= 1;
        if open.pieces == 0 {
            self.finished.push(id);
        }
    }

    /// A request under way.
    pub fn request(&self, id: RequestId) -> &Request {
        &self.requests[id as usize].request
    }

    /// The requests under way.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &Open> {
        let free: BTreeSet<RequestId> = self.free.iter().copied().collect();
        let numbered = (0..).zip(&self.requests);
        let here = move |(id, open): &(RequestId, &Open)| !free.contains(id) && !open.ahead;
        numbered.filter(here).map(|(_, open)| open)
    }

    /// Takes up a request, with one piece.
    pub(crate) fn begin(&mut self, mut open: Open) -> RequestId {
        let id = self.free.pop().unwrap_or(count(self.requests.len()));
        open.request.id = id;
        open.pieces = 1;
        if id as usize == self.requests.len() {
            self.requests.push(open);
        } else {
            self.requests[id as usize] = open;
        }
        id
    }
}

/// The fate of a whole from those of two pieces: an error outranks wrong data, which outranks
/// success; of two errors the one at the lower byte, else of two alike the first.
fn worse(one: Fate, other: Fate) -> Fate {
    let rank = |fate: &Fate| match fate {
        Fate::Done | Fate::Failed { status: Status::Ok, .. } => (0, Reverse(0)),
        Fate::Corrupted { .. } => (1, Reverse(0)),
        Fate::Failed { at, .. } => (2, Reverse(*at)),
    };
    if rank(&other) > rank(&one) {
        other
    } else {
        one
    }
}
