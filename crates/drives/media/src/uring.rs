//! Files and devices by io_uring: whole blocks are read, written and made
//! durable by the kernel behind the caller's back, without a thread of ours;
//! everything else is left to the threads of [`Workers`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::{opcode, squeue, types, IoUring};
use stasis_block::{Command, Operation};

use crate::aligned::{Aligned, Buffers};
use crate::backing::Backing;
use crate::direct::{is_whole, Bounce};
use crate::medium::check;
use crate::workers::{Changes, IoResult, Perform, Workers};
use crate::{Finished, Medium, MediumError, OpenError, Ticket};

/// I/Os that the kernel gets at a time; what is more waits its turn.
const DEPTH: u32 = 256;

/// The file's place among the registered ones.
const FILE: types::Fixed = types::Fixed(0);

/// Opens a backing for [`crate::Execution::Polled`]: by io_uring, or where the
/// kernel refuses it, by threads that ring a bell.
pub(crate) fn polled(backing: Backing) -> Result<Box<dyn Medium>, OpenError> {
    let path = std::path::PathBuf::from(&*backing.label);
    let backing = Arc::new(backing);
    let os = |source| OpenError::Os { path, what: "wait for its I/Os", source };
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
    ticket: Ticket,
    command: Command,
    data: Vec<u8>,
    /// Aligned memory that direct I/O passes through.
    aligned: Option<Aligned>,
    /// Its number among the changes, if it is one.
    change: Option<u64>,
    /// Whether others must not change anything meanwhile.
    alone: bool,
}

/// A file or device with a ring.
struct Uring {
    backing: Arc<Backing>,
    ring: IoUring,
    /// By index, which the kernel and the threads get as the I/O's name.
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Submitted, and not yet given to the kernel or to a thread.
    ready: VecDeque<usize>,
    /// Flushes, each with the number of changes that it has to wait for.
    flushes: VecDeque<(u64, usize)>,
    changes: Changes,
    /// Changes with the kernel or a thread.
    changing: usize,
    /// Whether one of them must be alone.
    alone: bool,
    /// I/Os with the kernel.
    in_kernel: u32,
    /// Whether the ring has entries that the kernel has not taken yet.
    unsubmitted: bool,
    workers: Workers<Arc<Backing>>,
    buffers: Buffers,
    finished: Vec<Finished>,
    by_workers: Vec<Finished>,
}

// SAFETY: the ring's mappings belong to it alone; whoever owns the value is the
// one who uses them.
unsafe impl Send for Uring {}

impl Uring {
    fn new(backing: Arc<Backing>, ring: IoUring, workers: Workers<Arc<Backing>>) -> Self {
        Self {
            backing,
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            flushes: VecDeque::new(),
            changes: Changes::default(),
            changing: 0,
            alone: false,
            in_kernel: 0,
            unsubmitted: false,
            workers,
            buffers: Buffers::default(),
            finished: Vec::new(),
            by_workers: Vec::new(),
        }
    }

    /// Gives out what may begin.
    fn pump(&mut self) {
        while let Some(&index) = self.ready.front() {
            let Some(Some(slot)) = self.slots.get(index) else {
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

    /// Whether an I/O that waits may begin; otherwise the end of another lets it.
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

    /// Whether the kernel does it as it is.
    fn is_quick(&self, command: &Command) -> bool {
        let Command { operation, offset, length, .. } = *command;
        match operation {
            Operation::Read | Operation::Write => {
                length > 0
                    && length <= 1 << 30
                    && (!self.backing.direct || is_whole(offset, length, self.backing.block))
            }
            Operation::Flush => true,
            _ => false,
        }
    }

    /// Gives an I/O to a thread.
    fn delegate(&mut self, index: usize) {
        if let Some(Some(slot)) = self.slots.get_mut(index) {
            let data = std::mem::take(&mut slot.data);
            self.workers.submit(index as Ticket, slot.command, data);
        }
    }

    /// Gives an I/O to the kernel.
    fn push(&mut self, index: usize) {
        let Some(Some(slot)) = self.slots.get_mut(index) else { return };
        let Command { operation, offset, length, fua, .. } = slot.command;
        let (pointer, fixed) = match operation {
            Operation::Flush => (std::ptr::null_mut(), None),
            _ if self.backing.direct => {
                let aligned = slot.aligned.insert(self.buffers.take(length as usize, &self.ring));
                let memory = aligned.memory(length as usize);
                if operation == Operation::Write {
                    memory.copy_from_slice(&slot.data);
                }
                (memory.as_mut_ptr(), aligned.registered())
            }
            _ => (slot.data.as_mut_ptr(), None),
        };
        let length = length as u32;
        let durable = if fua { DSYNC } else { 0 };
        let entry = match (operation, fixed) {
            (Operation::Read, None) => {
                opcode::Read::new(FILE, pointer, length).offset(offset).build()
            }
            (Operation::Read, Some(buffer)) => {
                opcode::ReadFixed::new(FILE, pointer, length, buffer).offset(offset).build()
            }
            (Operation::Write, None) => {
                opcode::Write::new(FILE, pointer, length).offset(offset).rw_flags(durable).build()
            }
            (Operation::Write, Some(buffer)) => {
                opcode::WriteFixed::new(FILE, pointer, length, buffer)
                    .offset(offset)
                    .rw_flags(durable)
                    .build()
            }
            _ => opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build(),
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

    /// Takes what the kernel and the threads have done.
    fn reap(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { break };
            self.in_kernel -= 1;
            self.end(entry.user_data() as usize, entry.result());
        }
        let mut finished = std::mem::take(&mut self.by_workers);
        self.workers.poll(&mut finished);
        for Finished { ticket, result, data } in finished.drain(..) {
            if let Some(Some(slot)) = self.slots.get_mut(ticket as usize) {
                slot.data = data;
            }
            self.finish(ticket as usize, result);
        }
        self.by_workers = finished;
    }

    /// The kernel has done an I/O.
    fn end(&mut self, index: usize, result: i32) {
        let Some(Some(slot)) = self.slots.get_mut(index) else { return };
        let Command { operation, length, .. } = slot.command;
        if operation == Operation::Flush {
            let result = if result < 0 {
                Err(self.backing.lost(&slot.command, os(result)))
            } else {
                self.backing.believed()
            };
            return self.finish(index, result);
        }
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
        if result >= 0 || [-EINTR, -EAGAIN].contains(&result) {
            // Part of it: a thread does it again, and finds out why.
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
        let Some(slot) = self.slots.get_mut(index).and_then(Option::take) else { return };
        self.free.push(index);
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
        self.finished.push(Finished { ticket: slot.ticket, result, data: slot.data });
    }
}

/// `RWF_DSYNC` (linux/fs.h).
const DSYNC: i32 = 2;
/// As a completion gives them (asm-generic/errno-base.h).
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

fn os(result: i32) -> io::Error {
    io::Error::from_raw_os_error(-result)
}

impl Medium for Uring {
    fn capacity(&self) -> u64 {
        self.backing.capacity()
    }

    fn submit(&mut self, ticket: Ticket, command: Command, data: Vec<u8>) {
        if let Err(error) = check(&command, data.len(), self.backing.capacity()) {
            self.finished.push(Finished { ticket, result: Err(error), data });
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
        let slot = Slot { ticket, command, data, aligned: None, change, alone };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() - 1
            }
        };
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
        self.slots.len() - self.free.len() + self.finished.len()
    }

    fn resize(&mut self, capacity: u64) -> Result<(), OpenError> {
        self.backing.resize(capacity)
    }

    fn needs_poll(&self) -> bool {
        let first = self.ready.front().and_then(|&index| self.slots.get(index)?.as_ref());
        !self.finished.is_empty()
            || self.unsubmitted
            || first.is_some_and(|slot| self.can_begin(slot))
    }

    fn discard_zeroes(&self) -> bool {
        self.backing.punches
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
mod tests {
    use super::*;
    use crate::{Execution, MediumSpec, OpenOptions};
    use proptest::prelude::*;
    use std::time::Duration;

    const SIZE: u64 = 4 << 20;

    fn open(direct: bool, folder: &std::path::Path) -> Box<dyn Medium> {
        let spec = MediumSpec::File { path: "disk".into(), size: Some(SIZE), direct };
        let options =
            OpenOptions { execution: Execution::Polled, delay: Duration::ZERO, base: folder };
        spec.open(&options).unwrap()
    }

    fn folder() -> tempfile::TempDir {
        // A file system in memory refuses direct I/O.
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    fn run(medium: &mut dyn Medium, command: Command, data: Vec<u8>) -> Vec<u8> {
        medium.submit(7, command, data);
        let mut done = Vec::new();
        while done.is_empty() {
            medium.wait(&mut done);
        }
        let finished = done.pop().unwrap();
        assert_eq!(finished.ticket, 7);
        finished.result.unwrap();
        finished.data
    }

    #[derive(Debug, Clone)]
    struct Step {
        operation: Operation,
        sector: u64,
        sectors: u64,
        value: u8,
        fua: bool,
    }

    fn step() -> impl Strategy<Value = Step> {
        let operation = prop::sample::select(vec![
            Operation::Read,
            Operation::Write,
            Operation::Write,
            Operation::Flush,
            Operation::Discard,
            Operation::WriteZeroes,
        ]);
        let sectors = prop_oneof![1..64u64, Just(8), Just(1024)];
        let aligned = any::<bool>();
        (operation, 0..SIZE / 512 - 1024, sectors, any::<u8>(), any::<bool>(), aligned).prop_map(
            |(operation, sector, sectors, value, fua, aligned)| {
                let sector = if aligned { sector / 8 * 8 } else { sector };
                Step { operation, sector, sectors, value, fua }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Against plain memory: what overlaps waits for what is under way.
        #[test]
        fn it_holds_what_was_written(
            steps in prop::collection::vec(step(), 1..60),
            direct in any::<bool>(),
        ) {
            let folder = folder();
            let mut medium = open(direct, folder.path());
            let mut model = vec![0u8; SIZE as usize];
            let (mut done, mut expected) = (Vec::new(), std::collections::HashMap::new());
            let mut busy: Vec<std::ops::Range<u64>> = Vec::new();
            for (ticket, step) in steps.iter().enumerate() {
                let (from, to) = (step.sector * 512, (step.sector + step.sectors) * 512);
                if busy.iter().any(|other| other.start < to && from < other.end) {
                    while medium.in_flight() > 0 {
                        medium.wait(&mut done);
                    }
                    busy.clear();
                }
                busy.push(from..to);
                let range = from as usize..to as usize;
                let mut command = Command::new(step.operation, from, to - from);
                command.fua = step.fua && step.operation != Operation::Read;
                let mut data = Vec::new();
                match step.operation {
                    Operation::Read => {
                        data = vec![0xee; range.len()];
                        expected.insert(ticket as u64, model[range].to_vec());
                    }
                    Operation::Write => {
                        data = vec![step.value; range.len()];
                        model[range].fill(step.value);
                    }
                    Operation::Flush => command = Command::flush(),
                    _ => model[range].fill(0),
                }
                medium.submit(ticket as u64, command, data);
                medium.poll(&mut done);
            }
            while medium.in_flight() > 0 {
                medium.wait(&mut done);
            }
            prop_assert_eq!(done.len(), steps.len());
            for finished in done {
                prop_assert!(finished.result.is_ok(), "{:?}", finished.result);
                if let Some(expected) = expected.get(&finished.ticket) {
                    prop_assert_eq!(&finished.data, expected);
                }
            }
            let all = run(&mut *medium, Command::new(Operation::Read, 0, SIZE), vec![1; SIZE as usize]);
            prop_assert!(all == model);
            drop(medium);
            prop_assert!(std::fs::read(folder.path().join("disk")).unwrap() == model);
        }
    }

    #[test]
    fn a_descriptor_is_readable_when_something_has_finished() {
        use rustix::event::{poll, PollFd, PollFlags};
        let folder = folder();
        for (direct, command, data) in [
            (true, Command::new(Operation::Write, 4096, 4096), vec![1; 4096]),
            (true, Command::new(Operation::Write, 512, 512), vec![1; 512]),
            (false, Command::new(Operation::Discard, 0, 4096), vec![]),
            (false, Command::flush(), vec![]),
        ] {
            let mut medium = open(direct, folder.path());
            let mut done = Vec::new();
            medium.submit(1, command, data);
            medium.poll(&mut done);
            while done.is_empty() {
                let raw = medium.descriptors();
                assert!(!raw.is_empty());
                // SAFETY: the medium keeps them open.
                let borrowed = raw
                    .iter()
                    .map(|&fd| unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) })
                    .collect::<Vec<_>>();
                let mut fds: Vec<_> =
                    borrowed.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
                let limit = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
                assert!(poll(&mut fds, Some(&limit)).unwrap() > 0, "nothing rang");
                medium.poll(&mut done);
            }
            assert!(done[0].result.is_ok());
        }
    }

    #[test]
    fn many_more_than_the_kernel_takes_at_a_time_all_end() {
        let folder = folder();
        let mut medium = open(true, folder.path());
        let mut done = Vec::new();
        for ticket in 0..2000 {
            let offset = ticket % (SIZE / 4096) * 4096;
            medium.submit(ticket, Command::new(Operation::Read, offset, 4096), vec![1; 4096]);
        }
        while medium.in_flight() > 0 {
            medium.wait(&mut done);
        }
        assert_eq!(done.len(), 2000);
        assert!(done.iter().all(|finished| finished.result.is_ok()));
    }
}
