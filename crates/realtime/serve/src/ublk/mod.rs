//! Drives as block devices of the host, for software that is not in a VM: the
//! kernel's ublk driver (Documentation/block/ublk.rst) hands requests over by
//! io_uring, and the polling thread answers them there.
//!
//! A device outlives its server: requests that were under way when that was killed are issued to
//! the next one.

mod abi;
mod control;
mod device;
mod queue;

use std::fs::File;
use std::io;
use std::time::Instant;

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::Done;

use crate::backend::{Backend, Counted, GRACE};
use crate::statistics::InUse;
use crate::store::register;
use abi::{Descriptor, Info};
use queue::{Queue, QueueEvent};

pub(crate) use device::{open, Device, Wanted};

/// A ublk device as its thread sees it.
pub(crate) struct Ublk {
    pub(crate) backend: Backend,
    capacity: u64,
    queues: Vec<Queue>,
    /// Kept open for as long as there are queues.
    _device: File,
    done: Vec<Done>,
    counted: Vec<Counted>,
    in_flight: usize,
    /// True if a fault was logged.
    logged: bool,
    /// True if another server takes over the device.
    handed_over: bool,
    /// Time (ns) at which the model holds requests back no longer: the device is about to end.
    release_at: Option<Nanos>,
}

impl Ublk {
    /// Begins to fetch requests.
    fn start(device: File, info: &Info, capacity: u64, backend: Backend) -> io::Result<Self> {
        let mut queues = Vec::with_capacity(info.queues.into());
        for number in 0..info.queues {
            let queue = Queue::start(&device, number, info.depth, info.max_bytes)?;
            // SAFETY: the ring is open for as long as its queue; closing it
            // takes it out.
            unsafe { register(&backend.epoll, queue.ring()) }?;
            queues.push(queue);
        }
        let (done, counted) = Default::default();
        Ok(Self {
            backend,
            capacity,
            queues,
            _device: device,
            done,
            counted,
            in_flight: 0,
            logged: false,
            handed_over: false,
            release_at: None,
        })
    }

    pub(crate) fn in_use(&self) -> InUse {
        InUse { capacity: self.capacity, in_use: true, in_flight: self.in_flight, way: None }
    }

    /// Does the work that is due; returns whether there was any.
    pub(crate) fn turn(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        let mut work = false;
        for queue in 0..self.queues.len() {
            while let Some(event) = self.queues[queue].next() {
                work = true;
                match event {
                    QueueEvent::Request(tag, descriptor) => {
                        self.request(now, queue, tag, descriptor)
                    }
                    QueueEvent::Gone => {}
                    QueueEvent::Failed(error) => {
                        self.warn("the kernel refuses a queue's place", &error)
                    }
                }
            }
        }
        work | self.answer(now, clock)
    }

    fn request(&mut self, now: Nanos, queue: usize, tag: u16, descriptor: Descriptor) {
        let command = command(&descriptor, self.capacity);
        let moves = |command: &Command| match command.operation {
            Operation::Read | Operation::Write => command.length as usize,
            _ => 0,
        };
        let place = &mut self.queues[queue];
        let taken = command.and_then(|command| Some((command, place.take(tag, moves(&command))?)));
        let Some((command, data)) = taken else {
            self.backend.counts.faults += 1;
            let refused = self.queues[queue].refuse(tag, libc::EIO);
            return self.check(refused);
        };
        self.in_flight += 1;
        let name = (queue as u32) << 16 | u32::from(tag);
        let request = Request { queue: queue as u16, ..Request::new(name, command, data) };
        self.backend.store.submit(now, request);
    }

    /// Answers completed requests; returns whether there were any.
    fn answer(&mut self, now: Nanos, clock: &impl Fn() -> Nanos) -> bool {
        if self.release_at.is_some_and(|at| at <= now) {
            self.release_at = None;
            self.backend.release(now);
        }
        let mut done = std::mem::take(&mut self.done);
        let work = self.backend.advance(now, &mut done);
        let any = !done.is_empty();
        for done in done.drain(..) {
            self.counted.push(Counted::from(&done));
            self.in_flight -= 1;
            let result = match (done.status, done.command.operation) {
                (Status::Ok, Operation::Read | Operation::Write) => done.command.length as i32,
                (Status::Ok, _) => 0,
                _ => -libc::EIO,
            };
            let queue = &mut self.queues[(done.tag >> 16) as usize];
            let answered = queue.answer(done.tag as u16, result, done.data);
            self.check(answered);
        }
        self.done = done;
        for queue in 0..self.queues.len() {
            let sent = self.queues[queue].send();
            self.check(sent);
        }
        if any {
            // The host has them as of now.
            let delivered = clock();
            for counted in self.counted.drain(..) {
                self.backend.count(&counted, delivered);
            }
            self.backend.report_errors();
        }
        work
    }

    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.warn("a request cannot be answered", &error);
        }
    }

    /// Logs the first fault, and counts all.
    fn warn(&mut self, problem: &str, error: &io::Error) {
        self.backend.counts.faults += 1;
        if !std::mem::replace(&mut self.logged, true) {
            let message = format!("{problem}: {error} (said once; later ones are counted)");
            crate::log::warn(&self.backend.name, &message);
        }
    }

    /// Returns the time at which something is to be looked at even if nothing rings.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        [self.backend.store.next_event(), self.release_at].into_iter().flatten().min()
    }

    /// Leaves the device to another server.
    pub(crate) fn hand_over(&mut self) {
        self.handed_over = true;
    }

    /// The device is about to end. The kernel stops it only once each request is answered: what the
    /// model holds back for longer than a grace is over when the medium has done it.
    pub(crate) fn begin_end(&mut self, now: Nanos) {
        self.release_at.get_or_insert(now + GRACE.as_nanos() as Nanos);
    }

    /// Waits until `limit` for requests under way, makes everything durable and closes the device.
    /// The device is stopped, or was handed over.
    pub(crate) fn finish(
        mut self,
        clock: &impl Fn() -> Nanos,
        limit: Instant,
    ) -> Result<(), String> {
        self.begin_end(clock());
        let idle = loop {
            // Requests that come now are for the next server.
            let work = match self.handed_over {
                true => self.answer(clock(), clock),
                false => self.turn(clock(), clock),
            };
            let idle = self.in_flight == 0;
            let over = self.handed_over || self.queues.iter().all(Queue::is_over);
            if idle && over || Instant::now() > limit {
                break idle;
            }
            if !work {
                std::thread::yield_now();
            }
        };
        let idle = idle && self.backend.quiesce(clock, limit, |_, _| {});
        self.backend.finish(idle)
    }
}

/// The command of a request to a drive of `capacity` bytes, if it is possible.
fn command(descriptor: &Descriptor, capacity: u64) -> Option<Command> {
    let operation = match descriptor.word & 0xff {
        Descriptor::READ => Operation::Read,
        Descriptor::WRITE => Operation::Write,
        Descriptor::FLUSH => return Some(Command::flush()),
        Descriptor::DISCARD => Operation::Discard,
        Descriptor::WRITE_ZEROES => Operation::WriteZeroes,
        _ => return None,
    };
    let offset = descriptor.sector.checked_mul(512)?;
    let length = u64::from(descriptor.sectors) * 512;
    if length == 0 || offset.checked_add(length)? > capacity {
        return None;
    }
    let fua = descriptor.word & Descriptor::FUA != 0;
    Some(Command { fua, ..Command::new(operation, offset, length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_commands_within_the_drive() {
        let asked = |word, sector, sectors| command(&Descriptor { word, sectors, sector }, 1 << 20);
        let write = Command { fua: true, ..Command::new(Operation::Write, 4096, 8192) };
        assert_eq!(asked(1 | 1 << 13, 8, 16), Some(write));
        assert_eq!(asked(0, 2040, 8), Some(Command::new(Operation::Read, 2040 * 512, 4096)));
        assert_eq!(asked(2, 0, 0), Some(Command::flush()));
        assert_eq!(asked(3, 0, 2048), Some(Command::new(Operation::Discard, 0, 1 << 20)));
        // Past the end, nothing at all, past all numbers, and unknown operations.
        assert_eq!(asked(0, 2041, 8), None);
        assert_eq!(asked(1, 0, 0), None);
        assert_eq!(asked(5, u64::MAX / 512, 1), None);
        assert_eq!(asked(5, u64::MAX, 1), None);
        assert_eq!(asked(13, 0, 8), None);
    }

    /// The end of a device, without a kernel that has ublk: a plain file is in its place, whose
    /// queue is over at once.
    #[test]
    fn a_model_holds_no_request_back_once_a_device_is_about_to_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let info =
            Info { queues: 1, depth: 4, state: 0, max_bytes: 4096, id: 0, server: 0, mark: 0 };
        let hour = stasis_models::ModelSpec::parse("fixed:1h").unwrap();
        let context = stasis_models::BuildContext { seed: 0, capacity: 1 << 20, path: 0 };
        let ram = Box::new(stasis_media::Ram::new(1 << 20));
        let drive = crate::RealTime::new(0, "d".into(), Some(hour.build(&context).unwrap()), ram);
        let store = crate::Store::new(crate::SharedRealTime::new(drive));
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC);
        let backend = Backend::new("d".into(), store, None, epoll.unwrap().into()).unwrap();
        let mut ublk = Ublk::start(file, &info, 1 << 20, backend).unwrap();
        ublk.request(0, 0, 1, Descriptor { word: 1, sectors: 8, sector: 8 });
        let grace = GRACE.as_nanos() as Nanos;
        ublk.turn(0, &|| 0);
        assert!(ublk.next_event() > Some(grace) && ublk.in_flight == 1, "the model holds it");
        ublk.begin_end(5);
        // The kernel's order to stop ends only with the request: the drive's own thread sees to it.
        assert_eq!(ublk.next_event(), Some(grace + 5));
        ublk.turn(grace + 4, &|| grace + 4);
        assert_eq!(ublk.in_flight, 1, "it may end by itself until then");
        assert!(ublk.turn(grace + 5, &|| grace + 5));
        assert_eq!((ublk.in_flight, ublk.next_event()), (0, None));
        assert_eq!((ublk.backend.counts.writes, ublk.backend.counts.failed), (1, 0));
        ublk.finish(&|| grace + 6, Instant::now()).unwrap();
    }
}
