//! Files and devices by io_uring: whole blocks are read and written by the kernel behind the
//! caller's back, without a thread of ours; everything else is left to the threads of [`Workers`].
//!
//! Nothing is left to the kernel's own threads (io-wq): an I/O that would have to wait in the kernel
//! comes back (`RWF_NOWAIT`) and goes to [`Workers`], as flushes do at once. On Linux 6.18, one of
//! some 100,000 flushes that io-wq had got on a busy host was never done: no thread was there for
//! it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types, IoUring};
use slab::Slab;
use stasis_block::{Command, Operation, Request, Tag};

use crate::aligned::{Aligned, Buffers};
use crate::backing::Backing;
use crate::direct::{is_whole, Bounce};
use crate::medium::check;
use crate::workers::{Changes, IoResult, Perform, Workers};
use crate::{Finished, HostMedium, Medium, MediumError, OpenError};

/// I/Os that the kernel gets at a time; further ones wait their turn.
const DEPTH: u32 = 256;

/// The file's place among the registered ones.
const FILE: types::Fixed = types::Fixed(0);

/// Opens a backing for [`crate::Execution::Polled`]: by io_uring, or where the
/// kernel refuses it, by threads that ring a bell.
pub(crate) fn polled(backing: Backing) -> Result<Box<dyn HostMedium>, OpenError> {
    let path = std::path::PathBuf::from(&*backing.label);
    let backing = Arc::new(backing);
    let os = |source| OpenError::Os { path, action: "wait for its I/Os", source };
    let workers = Workers::with_bell(Arc::clone(&backing)).map_err(os)?;
    Ok(match start(&backing) {
        Ok(ring) => Box::new(Uring::new(backing, ring, workers)),
        Err(_) => Box::new(workers),
    })
}

fn start(backing: &Backing) -> io::Result<IoUring> {
    let ring = IoUring::builder().setup_clamp().setup_single_issuer().build(DEPTH);
    // Linux 6.0 has the hint that only one thread submits; older ones do without.
    let ring = ring.or_else(|_| IoUring::builder().setup_clamp().build(DEPTH))?;
    ring.submitter().register_files(&[backing.file.as_raw_fd()])?;
    Ok(ring)
}

impl Perform for Arc<Backing> {
    fn capacity(&self) -> u64 {
        (**self).capacity()
    }

    fn discard_zeroes(&self) -> bool {
        self.punches
    }

    fn resize(&self, capacity: u64) -> Result<(), OpenError> {
        (**self).resize(capacity)
    }

    fn perform(&self, command: &Command, data: &mut [u8], bounce: &mut Bounce) -> IoResult {
        (**self).perform(command, data, bounce)
    }
}

/// An I/O.
struct Slot {
    tag: Tag,
    command: Command,
    data: Vec<u8>,
    /// Aligned memory that direct I/O passes through.
    aligned: Option<Aligned>,
    /// Its number among the changes, if it is one.
    change: Option<u64>,
    /// True if others must not change anything meanwhile.
    alone: bool,
}

/// A file or device with a ring.
struct Uring {
    backing: Arc<Backing>,
    ring: IoUring,
    /// By index, which the kernel and the threads get as the I/O's name.
    slots: Slab<Slot>,
    /// Submitted, and not yet given to the kernel or to a thread.
    ready: VecDeque<usize>,
    /// Flushes, each with the number of changes that it has to wait for.
    flushes: VecDeque<(u64, usize)>,
    changes: Changes,
    /// Changes with the kernel or a thread.
    changing: usize,
    /// True if one of them must be alone.
    alone: bool,
    /// I/Os with the kernel.
    in_kernel: u32,
    /// True if the ring has entries that the kernel has not taken yet.
    unsubmitted: bool,
    /// Kinds of I/O (reads, writes) that never wait in this file system.
    never_wait: (bool, bool),
    workers: Workers<Arc<Backing>>,
    buffers: Buffers,
    finished: Vec<Finished>,
    by_workers: Vec<Finished>,
}

// SAFETY: the ring's mappings belong to it alone; the owner of the value is the one who uses them.
unsafe impl Send for Uring {}

impl Uring {
    fn new(backing: Arc<Backing>, ring: IoUring, workers: Workers<Arc<Backing>>) -> Self {
        Self {
            backing,
            ring,
            slots: Slab::new(),
            ready: VecDeque::new(),
            flushes: VecDeque::new(),
            changes: Changes::default(),
            changing: 0,
            alone: false,
            in_kernel: 0,
            unsubmitted: false,
            never_wait: (true, true),
            workers,
            buffers: Buffers::default(),
            finished: Vec::new(),
            by_workers: Vec::new(),
        }
    }

    /// Submits the I/Os that may begin.
    fn pump(&mut self) {
        while let Some(&index) = self.ready.front() {
            let Some(slot) = self.slots.get(index) else {
                self.ready.pop_front();
                continue;
            };
            if !self.can_begin(slot) {
                return;
            }
            let quick = self.is_quick(&slot.command);
            self.ready.pop_front();
            if slot.change.is_some() {
                self.changing += 1;
                self.alone = slot.alone;
            }
            if quick {
                self.push(index);
            } else {
                self.delegate(index);
            }
        }
    }

    /// Returns whether an I/O that waits may begin; otherwise the end of another lets it.
    fn can_begin(&self, slot: &Slot) -> bool {
        let held = slot.change.is_some() && (self.alone || slot.alone && self.changing > 0);
        let full = self.in_kernel >= DEPTH && self.is_quick(&slot.command);
        !held && !full
    }

    /// Gives the ring's entries to the kernel; those that it cannot take now, it can later.
    fn submit_ring(&mut self) {
        if self.unsubmitted {
            let _ = self.ring.submit();
            self.unsubmitted = !self.ring.submission().is_empty();
        }
    }

    /// Returns whether the kernel does it as it is.
    fn is_quick(&self, command: &Command) -> bool {
        let Command { operation, offset, length, .. } = *command;
        let never_waits = match operation {
            Operation::Read => self.never_wait.0,
            Operation::Write => self.never_wait.1,
            _ => false,
        };
        never_waits
            && length > 0
            && length <= 1 << 30
            && (!self.backing.direct || is_whole(offset, length, self.backing.block))
    }

    /// Hands an I/O to a thread.
    fn delegate(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            let data = std::mem::take(&mut slot.data);
            self.workers.submit(Request::new(index as Tag, slot.command, data));
        }
    }

    /// Hands an I/O to the kernel.
    fn push(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Command { operation, offset, length, fua, .. } = slot.command;
        let (pointer, fixed) = match self.backing.direct {
            true => {
                let aligned = slot.aligned.insert(self.buffers.take(length as usize, &self.ring));
                let memory = aligned.memory(length as usize);
                if operation == Operation::Write {
                    memory.copy_from_slice(&slot.data);
                }
                (memory.as_mut_ptr(), aligned.registered())
            }
            false => (slot.data.as_mut_ptr(), None),
        };
        let length = length as u32;
        let flags = NOWAIT | if fua && operation == Operation::Write { DSYNC } else { 0 };
        let entry = match (operation, fixed) {
            (Operation::Write, None) => {
                opcode::Write::new(FILE, pointer, length).offset(offset).rw_flags(flags).build()
            }
            (Operation::Write, Some(buffer)) => {
                opcode::WriteFixed::new(FILE, pointer, length, buffer)
                    .offset(offset)
                    .rw_flags(flags)
                    .build()
            }
            (_, None) => {
                opcode::Read::new(FILE, pointer, length).offset(offset).rw_flags(flags).build()
            }
            (_, Some(buffer)) => opcode::ReadFixed::new(FILE, pointer, length, buffer)
                .offset(offset)
                .rw_flags(flags)
                .build(),
        };
        self.submit_entry(&entry.user_data(index as u64));
        self.in_kernel += 1;
    }

    fn submit_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: the buffer is owned by the slot, which stays until the kernel
        // has completed the entry; dropping the medium waits for that.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            let _ = self.ring.submit();
        }
        self.unsubmitted = true;
    }

    /// Takes the I/Os that the kernel and the threads have done.
    fn reap(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { break };
            self.in_kernel -= 1;
            self.end(entry.user_data() as usize, entry.result());
        }
        let mut finished = std::mem::take(&mut self.by_workers);
        self.workers.poll(&mut finished);
        for Finished { tag, result, data } in finished.drain(..) {
            if let Some(slot) = self.slots.get_mut(tag as usize) {
                slot.data = data;
            }
            self.finish(tag as usize, result);
        }
        self.by_workers = finished;
    }

    /// The kernel has done an I/O.
    fn end(&mut self, index: usize, result: i32) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let Command { operation, length, .. } = slot.command;
        if result >= 0 && result as u64 == length {
            if let Some(mut aligned) = slot.aligned.take() {
                if operation == Operation::Read {
                    slot.data.copy_from_slice(aligned.memory(length as usize));
                }
                self.buffers.give(aligned);
            }
            return self.finish(index, Ok(()));
        }
        if let Some(aligned) = slot.aligned.take() {
            self.buffers.give(aligned);
        }
        if result == -EOPNOTSUPP {
            let (reads, writes) = &mut self.never_wait;
            *(if operation == Operation::Read { reads } else { writes }) = false;
        }
        if result >= 0 || [-EINTR, -EAGAIN, -EOPNOTSUPP].contains(&result) {
            // Nothing or a part of it: a thread does it again, may wait, and finds out why.
            return self.delegate(index);
        }
        let error = if slot.command.fua {
            self.backing.lost(&slot.command, os(result))
        } else {
            self.backing.failed(&slot.command, os(result))
        };
        self.finish(index, Err(error));
    }

    /// An I/O is over.
    fn finish(&mut self, index: usize, result: Result<(), MediumError>) {
        let Some(slot) = self.slots.try_remove(index) else { return };
        if let Some(change) = slot.change {
            self.changing -= 1;
            if slot.alone {
                self.alone = false;
            }
            self.changes.finish(change);
            while let Some(&(after, flush)) = self.flushes.front() {
                if after > self.changes.first {
                    break;
                }
                self.flushes.pop_front();
                self.ready.push_back(flush);
            }
        }
        self.finished.push(Finished { tag: slot.tag, result, data: slot.data });
    }
}

/// `RWF_DSYNC` (linux/fs.h).
const DSYNC: i32 = 2;
/// `RWF_NOWAIT` (linux/fs.h).
const NOWAIT: i32 = 8;
/// As a completion gives them (asm-generic/errno-base.h).
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
/// As a completion gives it (asm-generic/errno.h).
const EOPNOTSUPP: i32 = 95;

fn os(result: i32) -> io::Error {
    io::Error::from_raw_os_error(-result)
}

impl Medium for Uring {
    fn capacity(&self) -> u64 {
        self.backing.capacity()
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, command, data, .. } = request;
        if let Err(error) = check(&command, data.len(), self.backing.capacity()) {
            self.finished.push(Finished { tag, result: Err(error), data });
            return;
        }
        let Command { operation, offset, length, .. } = command;
        let changes = !matches!(
            operation,
            Operation::Read | Operation::Verify | Operation::Barrier | Operation::Flush
        );
        let before = self.changes.started();
        let change = changes.then(|| self.changes.start());
        let alone = changes && self.backing.direct && !is_whole(offset, length, self.backing.block);
        let slot = Slot { tag, command, data, aligned: None, change, alone };
        let index = self.slots.insert(slot);
        if operation == Operation::Flush && before > self.changes.first {
            self.flushes.push_back((before, index));
        } else {
            self.ready.push_back(index);
        }
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        if self.in_flight() == 0 {
            return;
        }
        self.pump();
        self.submit_ring();
        self.reap();
        self.pump();
        self.submit_ring();
        done.append(&mut self.finished);
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        let before = done.len();
        loop {
            self.poll(done);
            if done.len() > before || self.in_flight() == 0 {
                return;
            }
            if self.in_kernel > 0 {
                let _ = self.ring.submit_and_wait(1);
            } else {
                self.workers.wait(&mut self.by_workers);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() + self.finished.len()
    }
    fn discard_zeroes(&self) -> bool {
        self.backing.punches
    }
}

impl HostMedium for Uring {
    fn resize(&mut self, capacity: u64) -> Result<(), OpenError> {
        self.backing.resize(capacity)
    }

    fn needs_poll(&self) -> bool {
        let first = self.ready.front().and_then(|&index| self.slots.get(index));
        !self.finished.is_empty()
            || self.unsubmitted
            || first.is_some_and(|slot| self.can_begin(slot))
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let mut all = self.workers.descriptors();
        all.push(self.ring.as_raw_fd());
        all
    }
}

impl Drop for Uring {
    /// Waits for the kernel: it writes to our memory.
    fn drop(&mut self) {
        while self.in_kernel > 0 {
            let _ = self.ring.submit_and_wait(1);
            while self.ring.completion().next().is_some() {
                self.in_kernel -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
