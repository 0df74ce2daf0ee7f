//! An ordered disk as a medium: below a model, an image, or a server's queues.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{eventfd, EventfdFlags};
use stasis_block::{Command, Operation, Request, Tag};
use stasis_media::{Finished, HostMedium, Medium, MediumError};

use crate::{DiskError, Durability, OrderedDisk};

/// An I/O that waits for the log to be durable.
#[derive(Debug)]
struct Waiting {
    tag: Tag,
    command: Command,
    data: Vec<u8>,
}

/// A disk whose I/Os are done when they are submitted, but for those that wait
/// for the host's disk: a thread does these.
pub struct OrderedMedium {
    disk: Arc<OrderedDisk>,
    durability: Durability,
    finished: Vec<Finished>,
    waiting: usize,
    // `None` where the thread is to end.
    to_thread: Option<Sender<Waiting>>,
    // With whether the thread rings after it.
    from_thread: Receiver<(Finished, bool)>,
    thread: Option<JoinHandle<()>>,
    // Readable while the thread has finished something.
    ready: Arc<OwnedFd>,
    // Rings that were announced, less those that were heard.
    rings: u64,
}

impl OrderedMedium {
    /// Wraps `disk`, which was opened with `durability`. Others may use it as well.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn new(disk: Arc<OrderedDisk>, durability: Durability) -> std::io::Result<Self> {
        let (to_thread, work) = channel::<Waiting>();
        let (done, from_thread) = channel();
        let worker = disk.clone();
        let ready = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ring = ready.clone();
        let thread =
            std::thread::Builder::new().name("stasis-durable".into()).spawn(move || {
                while let Ok(first) = work.recv() {
                    // One sync is enough for all that wait.
                    let all: Vec<Waiting> = std::iter::once(first).chain(work.try_iter()).collect();
                    let result = worker.make_durable();
                    let mut heard = true;
                    let last = all.len() - 1;
                    for (index, Waiting { tag, command, data }) in all.into_iter().enumerate() {
                        let result = result.clone().map_err(|error| told(&command, error));
                        let finished = Finished { tag, result, data };
                        heard &= done.send((finished, index == last)).is_ok();
                    }
                    if !heard {
                        return;
                    }
                    // It can only fail where it is readable anyway.
                    let _ = rustix::io::write(&ring, &1u64.to_ne_bytes());
                }
            })?;
        Ok(Self {
            disk,
            durability,
            finished: Vec::new(),
            waiting: 0,
            to_thread: Some(to_thread),
            from_thread,
            thread: Some(thread),
            ready,
            rings: 0,
        })
    }

    /// Carries out the operation without waiting; returns whether the log has to be durable for it
    /// to end.
    fn perform(&self, command: &Command, data: &mut [u8]) -> Result<bool, DiskError> {
        let Command { operation, offset, length, fua, source, .. } = *command;
        match operation {
            Operation::Read | Operation::Verify => {
                if operation == Operation::Verify {
                    return Ok(false);
                }
                self.disk.read(offset, data)?;
            }
            Operation::Write => self.disk.write(offset, data, false)?,
            Operation::Discard => self.disk.discard(offset, length)?,
            Operation::WriteZeroes => self.disk.write_zeroes(offset, length, false)?,
            Operation::Copy => {
                let mut bytes = vec![0; length as usize];
                self.disk.read(source, &mut bytes)?;
                self.disk.write(offset, &bytes, false)?;
            }
            Operation::Flush if fua || self.durability != Durability::Ordered => return Ok(true),
            Operation::Flush => self.disk.flush()?,
            Operation::Barrier if self.durability == Durability::Flush => return Ok(true),
            Operation::Barrier => self.disk.barrier()?,
        }
        Ok(fua && !matches!(operation, Operation::Read | Operation::Barrier))
    }
}

/// The error of the disk as a medium's.
fn told(command: &Command, error: DiskError) -> MediumError {
    let Command { operation, offset, length, .. } = *command;
    match error {
        DiskError::OutOfRange { offset, length, capacity } => {
            MediumError::OutOfRange { operation, offset, length, capacity }
        }
        DiskError::Lost { path, .. } => MediumError::Lost { medium: path },
        DiskError::Host { path, source, .. } => {
            let source = match source.raw_os_error() {
                Some(number) => std::io::Error::from_raw_os_error(number),
                None => source.kind().into(),
            };
            MediumError::Os { medium: path, operation, offset, length, source }
        }
    }
}

impl Medium for OrderedMedium {
    fn capacity(&self) -> u64 {
        self.disk.capacity()
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, command, mut data, .. } = request;
        let moves = matches!(command.operation, Operation::Read | Operation::Write);
        let buffer = data.len() as u64;
        let result = if moves && buffer != command.length {
            let Command { operation, length, .. } = command;
            Err(MediumError::Buffer { operation, buffer, length })
        } else {
            self.perform(&command, &mut data).map_err(|error| told(&command, error))
        };
        match (result, &self.to_thread) {
            (Ok(true), Some(thread)) => {
                self.waiting += 1;
                // The thread ends after this is gone.
                let _ = thread.send(Waiting { tag, command, data });
            }
            (result, _) => {
                self.finished.push(Finished { tag, result: result.map(|_| ()), data });
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        done.append(&mut self.finished);
        if self.waiting == 0 && self.rings == 0 {
            return;
        }
        while let Ok((finished, rings)) = self.from_thread.try_recv() {
            self.waiting -= 1;
            self.rings += u64::from(rings);
            done.push(finished);
        }
        // Only announced completions: a ring of one that is not yet taken has to stay.
        let mut count = [0; 8];
        if self.rings > 0 && rustix::io::read(&self.ready, &mut count).is_ok() {
            let heard = u64::from_ne_bytes(count);
            let early = heard.saturating_sub(self.rings);
            self.rings = self.rings.saturating_sub(heard);
            if early > 0 {
                let _ = rustix::io::write(&self.ready, &early.to_ne_bytes());
            }
        }
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        let before = done.len();
        self.poll(done);
        if done.len() == before && self.waiting > 0 {
            if let Ok((finished, rings)) = self.from_thread.recv() {
                self.waiting -= 1;
                self.rings += u64::from(rings);
                done.push(finished);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.finished.len() + self.waiting
    }
}

impl HostMedium for OrderedMedium {
    fn needs_poll(&self) -> bool {
        !self.finished.is_empty()
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.ready.as_raw_fd()]
    }
}

impl Drop for OrderedMedium {
    fn drop(&mut self) {
        self.to_thread = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, MIN_LOG};
    use rustix::event::{poll, PollFd, PollFlags, Timespec};

    /// Without a call that waits: by its descriptor.
    fn heard(medium: &mut OrderedMedium, command: Command) {
        medium.submit(Request::new(5, command, vec![]));
        let mut done = Vec::new();
        medium.poll(&mut done);
        while done.is_empty() {
            let ready = medium.ready.clone();
            let mut descriptors = [PollFd::new(&ready, PollFlags::IN)];
            poll(&mut descriptors, None).unwrap();
            medium.poll(&mut done);
        }
        // In the end, and not at once, it is no longer readable.
        while medium.rings > 0 {
            medium.poll(&mut done);
        }
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = poll(&mut [PollFd::new(&medium.ready, PollFlags::IN)], Some(&now)).unwrap();
        assert_eq!((done.len(), count), (1, 0));
    }

    fn run(medium: &mut OrderedMedium, command: Command, data: Vec<u8>) -> Finished {
        medium.submit(Request::new(9, command, data));
        let mut done = Vec::new();
        medium.wait(&mut done);
        assert_eq!((done.len(), medium.in_flight(), done[0].tag), (1, 0, 9));
        done.pop().unwrap()
    }

    #[test]
    fn it_is_a_medium_in_each_way() {
        for durability in Durability::ALL {
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("disk");
            OrderedDisk::create(&image, 1 << 20).unwrap();
            let options = Options { durability, log_bytes: MIN_LOG, ..Options::default() };
            let disk = Arc::new(OrderedDisk::open(&image, options).unwrap().0);
            let mut medium = OrderedMedium::new(disk.clone(), durability).unwrap();
            let write = Command::new(Operation::Write, 4096, 1024);
            run(&mut medium, write, vec![3; 1024]).result.unwrap();
            let copy = Command { source: 4096, ..Command::new(Operation::Copy, 8192, 512) };
            run(&mut medium, copy, vec![]).result.unwrap();
            let read = Command::new(Operation::Read, 7680, 1536);
            let found = run(&mut medium, read, vec![1; 1536]);
            assert!(found.data == [vec![0; 512], vec![3; 512], vec![0; 512]].concat());
            run(&mut medium, Command::flush(), vec![]).result.unwrap();
            assert_eq!(disk.counters().durable > 0, durability != Durability::Ordered);
            let before = disk.counters().durable;
            run(&mut medium, Command::barrier(), vec![]).result.unwrap();
            assert_eq!(disk.counters().durable > before, durability == Durability::Flush);
            let before = disk.counters().durable;
            run(&mut medium, Command { fua: true, ..write }, vec![4; 1024]).result.unwrap();
            assert!(disk.counters().durable > before, "FUA is durable whatever the way");
            heard(&mut medium, Command { fua: true, ..Command::flush() });
            let beyond = Command::new(Operation::Write, 1 << 20, 512);
            let error = run(&mut medium, beyond, vec![0; 512]).result.unwrap_err();
            assert!(matches!(error, MediumError::OutOfRange { .. }));
            let error = run(&mut medium, write, vec![0; 512]).result.unwrap_err();
            assert!(matches!(error, MediumError::Buffer { .. }));
        }
    }
}
