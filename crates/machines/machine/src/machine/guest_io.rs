//! The time of I/Os in the guest's kernel: from the system call to the doorbell, and from the
//! interrupt until the thread that has submitted it runs again.
//!
//! Pure: what happens in the guest comes in, in the order of the run; whole I/Os go out. No time of an
//! I/O is before the one that it follows: processors are a quantum apart at most, and a later fact of
//! one that is behind counts as of the same instant. Owns the I/Os that are under way, and what is known
//! of threads.

use std::collections::{BTreeMap, HashMap, VecDeque};

use stasis_block::clock::Nanos;
use stasis_run_events::{GuestIo, KernelPlaces, Submitter, THREAD_NAME};

/// Limit on threads that are known, and on I/Os that have not ended.
const MAX_KNOWN: usize = 1 << 16;

/// A processor: its machine, and its number there.
pub(super) type Processor = (u16, usize);
/// A thread: its machine, and the address of its `task_struct`.
pub(super) type Thread = (u16, u64);
/// A drive's interrupt: its machine, its number there, its path, and that one's entry of MSI-X.
pub(super) type Interrupt = (u16, usize, usize, u16);

/// An I/O's way through the kernel at a doorbell, or where the block layer gets it: what the guest's
/// registers and stack tell of whose it is.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) processor: Processor,
    pub(super) thread: Thread,
    pub(super) name: [u8; THREAD_NAME],
    pub(super) in_interrupt: bool,
    pub(super) now: Nanos,
    /// The calls of the kernel that led to it, the innermost first, and those of the program below; none
    /// where there is no program.
    pub(super) frames: Vec<u64>,
    pub(super) program: Vec<u64>,
}

impl Caller {
    /// All calls, the innermost first.
    pub(super) fn calls(&self) -> Vec<u64> {
        [&self.frames[..], &self.program].concat()
    }
}

/// An I/O as the block layer got it.
#[derive(Debug, Clone)]
struct Bio {
    caller: Caller,
    submitter: Submitter,
    begun: Nanos,
    /// The address of its `struct gendisk`.
    disk: u64,
}

/// Map key for flushes, which have no sector.
const FLUSH: u64 = u64::MAX;

#[derive(Debug, Clone)]
struct Flight {
    io: GuestIo,
    /// None for an interrupt's.
    thread: Option<Thread>,
    /// The path to the drive by which it came.
    path: usize,
}

/// The I/Os of a run that have not ended, and what is known of its threads.
pub(super) struct GuestIos {
    pub(super) places: KernelPlaces,
    /// The thread on each processor, where it is known.
    on: HashMap<Processor, Thread>,
    /// Times at which each thread has entered its last system call, and at which it last began to
    /// run.
    calls: HashMap<Thread, Nanos>,
    ran: HashMap<Thread, Nanos>,
    /// I/Os that the block layer got and no drive has completed, by machine and first sector.
    bios: BTreeMap<(u16, u64), VecDeque<Bio>>,
    bio_count: usize,
    /// Which drive each disk of a kernel's is, as far as that has come out.
    disks: HashMap<(u16, u64), u16>,
    /// By drive and number.
    at_drives: HashMap<(u16, u64), Flight>,
    /// Delivered, until the drive signals its interrupt.
    delivered: HashMap<Interrupt, Vec<Flight>>,
    /// Signalled, by processor and vector.
    signalled: HashMap<(Processor, u8), Vec<Flight>>,
    /// I/Os whose thread was off its processor as the interrupt came.
    waiting: BTreeMap<Thread, Vec<Flight>>,
    open: usize,
    done: Vec<GuestIo>,
}

impl GuestIos {
    pub(super) fn new(places: KernelPlaces) -> Self {
        Self {
            places,
            on: HashMap::new(),
            calls: HashMap::new(),
            ran: HashMap::new(),
            bios: BTreeMap::new(),
            bio_count: 0,
            disks: HashMap::new(),
            at_drives: HashMap::new(),
            delivered: HashMap::new(),
            signalled: HashMap::new(),
            waiting: BTreeMap::new(),
            open: 0,
            done: Vec::new(),
        }
    }

    /// A thread enters a system call.
    pub(super) fn called(&mut self, processor: Processor, thread: Thread, now: Nanos) {
        self.on.insert(processor, thread);
        note(&mut self.calls, thread, now);
    }

    /// A processor goes on with the thread `next`.
    pub(super) fn switched(&mut self, processor: Processor, next: Thread, now: Nanos) {
        self.on.insert(processor, next);
        note(&mut self.ran, next, now);
        for mut flight in self.waiting.remove(&next).unwrap_or_default() {
            let since = flight.io.woken.unwrap_or(flight.io.interrupted);
            flight.io.ran = Some(now.max(since));
            self.end(flight);
        }
    }

    /// A thread is woken.
    pub(super) fn woken(&mut self, thread: Thread, now: Nanos) {
        for Flight { io, .. } in self.waiting.get_mut(&thread).into_iter().flatten() {
            let since = io.interrupted;
            io.woken.get_or_insert(now.max(since));
        }
    }

    /// A doorbell was rung for the I/Os of these numbers of a drive.
    pub(super) fn rung(
        &mut self,
        (drive, path): (u16, usize),
        orders: std::ops::Range<u64>,
        doorbell: &Caller,
    ) {
        let Caller { processor, thread, name, now, .. } = *doorbell;
        self.on.insert(processor, thread);
        let (submitter, begun) = self.submitted(doorbell);
        let is_of_none = submitter == Submitter::Interrupt;
        for order in orders {
            if self.open >= MAX_KNOWN {
                return;
            }
            let io = GuestIo {
                drive,
                order,
                submitter,
                thread: if is_of_none { [0; THREAD_NAME] } else { name },
                begun,
                queued: now,
                rung: now,
                delivered: now,
                interrupted: now,
                woken: None,
                ran: None,
                frames: doorbell.calls(),
            };
            let flight = Flight { io, thread: (!is_of_none).then_some(thread), path };
            self.open += usize::from(self.at_drives.insert((drive, order), flight).is_none());
        }
    }

    /// Who submits an I/O, and since when.
    fn submitted(&self, caller: &Caller) -> (Submitter, Nanos) {
        let submitter = self.submitter(caller);
        let known = match submitter {
            Submitter::SystemCall => self.calls.get(&caller.thread),
            Submitter::KernelThread => self.ran.get(&caller.thread),
            Submitter::Fault | Submitter::Interrupt => None,
        };
        (submitter, known.copied().unwrap_or(caller.now).min(caller.now))
    }

    /// The block layer gets an I/O from this sector (512 B) on, or a flush where it has no `bytes`.
    pub(super) fn queued(&mut self, caller: Caller, disk: u64, (sector, bytes): (u64, u32)) {
        self.on.insert(caller.processor, caller.thread);
        if self.bio_count >= MAX_KNOWN {
            self.bios.clear();
            self.bio_count = 0;
        }
        let (submitter, begun) = self.submitted(&caller);
        let key = (caller.processor.0, if bytes == 0 { FLUSH } else { sector });
        self.bios.entry(key).or_default().push_back(Bio { caller, submitter, begun, disk });
        self.bio_count += 1;
    }

    /// Takes the first I/O of the block layer's that a drive's I/O of these sectors was, with those
    /// that were merged into it.
    fn take_bio(
        &mut self,
        machine: u16,
        (drive, rung): (u16, Nanos),
        sectors: std::ops::Range<u64>,
    ) -> Option<Bio> {
        let Self { bios, disks, bio_count, .. } = self;
        let first = (machine, if sectors.is_empty() { FLUSH } else { sectors.start });
        let is = |bio: &Bio, disks: &HashMap<(u16, u64), u16>| {
            let owner = disks.get(&(machine, bio.disk));
            bio.caller.now <= rung && owner.is_none_or(|owner| *owner == drive)
        };
        let queue = bios.get_mut(&first)?;
        let place = queue.iter().position(|bio| is(bio, disks))?;
        let found = queue.remove(place)?;
        *bio_count -= 1;
        disks.insert((machine, found.disk), drive);
        let mut empty = Vec::new();
        if queue.is_empty() {
            empty.push(first);
        }
        if !sectors.is_empty() {
            for (&key, queue) in
                bios.range_mut((machine, sectors.start + 1)..(machine, sectors.end))
            {
                let before = queue.len();
                queue.retain(|bio| bio.disk != found.disk || !is(bio, disks));
                *bio_count -= before - queue.len();
                if queue.is_empty() {
                    empty.push(key);
                }
            }
        }
        for key in empty {
            bios.remove(&key);
        }
        Some(found)
    }

    /// Returns whether a thread is in a system call.
    pub(super) fn is_in_call(&self, caller: &Caller) -> bool {
        let call = self.places.system_call..self.places.system_call_end;
        caller.frames.last().is_some_and(|frame| call.contains(frame))
    }

    fn submitter(&self, doorbell: &Caller) -> Submitter {
        let is_program = !doorbell.program.is_empty();
        match (doorbell.in_interrupt, self.is_in_call(doorbell)) {
            (true, _) => Submitter::Interrupt,
            (false, true) => Submitter::SystemCall,
            (false, false) if is_program => Submitter::Fault,
            // A stack that is not known to its end.
            (false, false) if self.calls.contains_key(&doorbell.thread) => Submitter::SystemCall,
            (false, false) => Submitter::KernelThread,
        }
    }

    /// The path by which an I/O came that is at its drive.
    pub(super) fn path_of(&self, io: (u16, u64)) -> Option<usize> {
        self.at_drives.get(&io).map(|flight| flight.path)
    }

    /// The guest of `machine` can see that an I/O of these sectors (512 B; a flush has none) is complete;
    /// `interrupt` will tell it, if any does.
    pub(super) fn delivered(
        &mut self,
        machine: u16,
        (drive, order): (u16, u64),
        sectors: std::ops::Range<u64>,
        (interrupt, now): (Option<Interrupt>, Nanos),
    ) {
        let Some(mut flight) = self.at_drives.remove(&(drive, order)) else { return };
        if let Some(bio) = self.take_bio(machine, (drive, flight.io.rung), sectors) {
            let Bio { caller, submitter, begun, .. } = bio;
            let calls = caller.calls();
            let is_of_none = submitter == Submitter::Interrupt;
            flight.thread = (!is_of_none).then_some(caller.thread);
            let io = &mut flight.io;
            io.thread = if is_of_none { [0; THREAD_NAME] } else { caller.name };
            (io.submitter, io.begun, io.queued) = (submitter, begun, caller.now);
            io.frames = calls;
        }
        let now = now.max(flight.io.rung);
        (flight.io.delivered, flight.io.interrupted) = (now, now);
        match interrupt {
            Some(interrupt) => self.delivered.entry(interrupt).or_default().push(flight),
            None => self.end(flight),
        }
    }

    /// A drive signals an interrupt, as this vector of a processor.
    pub(super) fn signalled(&mut self, interrupt: Interrupt, processor: Processor, vector: u8) {
        if let Some(mut flights) = self.delivered.remove(&interrupt) {
            self.signalled.entry((processor, vector)).or_default().append(&mut flights);
        }
    }

    /// A processor takes an interrupt.
    pub(super) fn interrupted(&mut self, processor: Processor, vector: u8, now: Nanos) {
        for mut flight in self.signalled.remove(&(processor, vector)).unwrap_or_default() {
            flight.io.interrupted = now.max(flight.io.delivered);
            let thread = flight.thread.filter(|thread| self.on.values().all(|on| on != thread));
            match thread {
                Some(thread) => self.waiting.entry(thread).or_default().push(flight),
                None => self.end(flight),
            }
        }
    }

    fn end(&mut self, flight: Flight) {
        self.open -= 1;
        self.done.push(flight.io);
    }

    /// I/Os that have ended.
    pub(super) fn take(&mut self) -> Vec<GuestIo> {
        std::mem::take(&mut self.done)
    }

    /// Returns the number of those that have ended and were not taken.
    pub(super) fn ended(&self) -> usize {
        self.done.len()
    }

    /// Ends the record: delivered I/Os end as they are.
    pub(super) fn finish(mut self) -> Vec<GuestIo> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest: Vec<GuestIo> = waiting.into_values().flatten().map(|one| one.io).collect();
        rest.sort_by_key(|io| (io.interrupted, io.drive, io.order));
        self.done.append(&mut rest);
        self.done
    }
}

/// Notes when a thread was seen, if not too many are known.
fn note(all: &mut HashMap<Thread, Nanos>, thread: Thread, now: Nanos) {
    if all.len() < MAX_KNOWN || all.contains_key(&thread) {
        all.insert(thread, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KERNEL: u64 = 1 << 63;

    fn places() -> KernelPlaces {
        KernelPlaces {
            system_call: KERNEL + 100,
            system_call_end: KERNEL + 200,
            wake_up: KERNEL + 300,
            switch: KERNEL + 400,
            current: 0,
            preempt_count: 8,
            comm: None,
            tasks: None,
            bios: None,
        }
    }

    /// At the end of these calls: the kernel's, and those of a program below.
    fn doorbell(thread: u64, now: Nanos, frames: &[u64]) -> Caller {
        let is_kernel = |frame: &&u64| **frame >= KERNEL;
        let (frames, program) = frames.split_at(frames.iter().take_while(is_kernel).count());
        Caller {
            processor: (0, 0),
            thread: (0, thread),
            name: [7; THREAD_NAME],
            in_interrupt: false,
            now,
            frames: frames.to_vec(),
            program: program.to_vec(),
        }
    }

    const CALL: [u64; 3] = [KERNEL + 900, KERNEL + 150, 0x40_0000];

    /// A read of a thread that sleeps until it is woken.
    #[test]
    fn a_read_is_followed_from_its_call_to_its_thread() {
        let mut all = GuestIos::new(places());
        all.called((0, 0), (0, 1), 10);
        all.rung((3, 0), 5..6, &doorbell(1, 40, &CALL));
        all.switched((0, 0), (0, 99), 50);
        all.delivered(0, (3, 5), 0..8, (Some((0, 0, 0, 1)), 140));
        all.signalled((0, 0, 0, 1), (0, 0), 33);
        all.interrupted((0, 0), 34, 141);
        all.interrupted((0, 0), 33, 142);
        all.woken((0, 1), 150);
        // Only the first time is the one.
        all.woken((0, 1), 155);
        assert!(all.take().is_empty());
        all.switched((0, 0), (0, 1), 160);
        let [io] = &all.take()[..] else { panic!("one I/O") };
        assert_eq!((io.drive, io.order, io.submitter), (3, 5, Submitter::SystemCall));
        assert_eq!((io.begun, io.rung, io.delivered, io.interrupted), (10, 40, 140, 142));
        assert_eq!((io.woken, io.ran), (Some(150), Some(160)));
        assert_eq!(io.frames, CALL);
    }

    #[test]
    fn who_has_submitted_is_told_by_the_stack() {
        let mut all = GuestIos::new(places());
        all.called((0, 0), (0, 1), 10);
        let submitter_of = |doorbell: &Caller| all.submitter(doorbell);
        assert_eq!(submitter_of(&doorbell(1, 40, &CALL)), Submitter::SystemCall);
        assert_eq!(submitter_of(&doorbell(1, 40, &[KERNEL + 900, 0x40_0000])), Submitter::Fault);
        assert_eq!(submitter_of(&doorbell(2, 40, &[KERNEL + 900])), Submitter::KernelThread);
        assert_eq!(submitter_of(&doorbell(1, 40, &[KERNEL + 900])), Submitter::SystemCall);
        let inside = Caller { in_interrupt: true, ..doorbell(1, 40, &CALL) };
        assert_eq!(submitter_of(&inside), Submitter::Interrupt);
    }

    /// A thread that is on a processor is not waited for; one that was preempted is not woken.
    #[test]
    fn a_thread_that_runs_is_not_woken() {
        let mut all = GuestIos::new(places());
        all.called((0, 0), (0, 1), 10);
        all.rung((0, 0), 0..2, &doorbell(1, 40, &CALL));
        let complete = |all: &mut GuestIos, order| {
            all.delivered(0, (0, order), 0..8, (Some((0, 0, 0, 1)), 100));
            all.signalled((0, 0, 0, 1), (0, 0), 33);
            all.interrupted((0, 0), 33, 105);
        };
        complete(&mut all, 0);
        let ended = all.take();
        assert_eq!(ended.iter().map(|io| (io.woken, io.ran)).collect::<Vec<_>>(), [(None, None)]);
        all.switched((0, 0), (0, 2), 50);
        complete(&mut all, 1);
        assert!(all.take().is_empty());
        all.switched((0, 0), (0, 1), 120);
        assert_eq!(all.take()[0].ran, Some(120));
        assert_eq!(all.open, 0);
    }

    /// An I/O that another thread hands to the drive is of the thread from which the block layer has it;
    /// one that was merged into it goes with it, and one of another drive's disk does not.
    #[test]
    fn an_io_is_of_the_thread_that_gave_it_to_the_block_layer() {
        let mut all = GuestIos::new(places());
        let (mine, other) = (0xd0, 0xd1);
        for (thread, now) in [(1, 10), (2, 12)] {
            all.called((0, 0), (0, thread), now);
        }
        all.queued(doorbell(1, 20, &CALL), mine, (64, 4096));
        all.queued(doorbell(2, 22, &CALL), mine, (72, 4096));
        all.queued(doorbell(2, 23, &CALL), other, (72, 4096));
        all.queued(doorbell(2, 24, &CALL), mine, (0, 0));
        all.rung((7, 0), 0..2, &doorbell(9, 40, &[KERNEL + 900]));
        all.delivered(0, (7, 0), 64..80, (None, 100));
        all.delivered(0, (7, 1), 0..0, (None, 110));
        let [data, flush] = &all.take()[..] else { panic!("two I/Os") };
        assert_eq!(data.submitter, Submitter::SystemCall);
        assert_eq!((data.begun, data.queued, data.rung, data.delivered), (10, 20, 40, 100));
        assert_eq!((flush.begun, flush.queued, flush.rung), (12, 24, 40));
        assert_eq!((all.bio_count, all.bios.len()), (1, 1));
        // The I/O of another drive comes out when it is completed.
        all.rung((8, 0), 0..1, &doorbell(9, 41, &[KERNEL + 900]));
        all.delivered(0, (8, 0), 72..80, (None, 120));
        assert_eq!(all.take()[0].queued, 23);
        assert_eq!(all.bio_count, 0);
        // An I/O of the drive that is known by now.
        all.queued(doorbell(1, 130, &CALL), other, (8, 512));
        all.rung((7, 0), 2..3, &doorbell(9, 140, &[KERNEL + 900]));
        all.delivered(0, (7, 2), 8..9, (None, 150));
        assert_eq!((all.take()[0].queued, all.bio_count), (140, 1));
    }

    proptest! {
        /// Whatever happens, in whichever order: each I/O comes out once at most, and its times are
        /// in order.
        #[test]
        fn times_are_in_order(
            facts in prop::collection::vec((0u8..7, 0u64..4, 0u64..200, 0usize..2), 1..300),
        ) {
            let mut all = GuestIos::new(places());
            let (mut next, mut out) = (0u64, Vec::new());
            for (kind, thread, now, processor) in facts {
                let its_thread = (0, thread);
                match kind {
                    0 => all.called((0, processor), its_thread, now),
                    1 => all.switched((0, processor), its_thread, now),
                    2 => all.woken(its_thread, now),
                    3 => {
                        all.rung((0, 0), next..next + 1, &doorbell(thread, now, &CALL));
                        next += 1;
                    }
                    4 => {
                        let io = (0, now % next.max(1));
                        all.delivered(0, io, thread..2 * thread, (Some((0, 0, 0, 0)), now));
                    }
                    5 => {
                        let bytes = 512 * (thread as u32);
                        all.queued(doorbell(thread, now, &CALL), now % 2, (thread, bytes));
                    }
                    _ => {
                        all.signalled((0, 0, 0, 0), (0, processor), 33);
                        all.interrupted((0, processor), 33, now);
                    }
                }
                out.extend(all.take());
            }
            out.extend(all.finish());
            for io in &out {
                let times = [io.begun, io.queued, io.rung, io.delivered].map(Some);
                let times = times.into_iter().chain([Some(io.interrupted), io.woken, io.ran]);
                let times: Vec<Nanos> = times.flatten().collect();
                prop_assert!(times.is_sorted(), "{:?}", io);
            }
            let mut orders: Vec<u64> = out.iter().map(|io| io.order).collect();
            let count = orders.len();
            orders.sort_unstable();
            orders.dedup();
            prop_assert_eq!(orders.len(), count);
        }
    }
}
