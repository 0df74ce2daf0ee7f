//! A drive and its clients, in virtual time.
#![allow(dead_code)]

use std::collections::VecDeque;

use stasis_block::clock::{EventQueue, Nanos, SECOND};
use stasis_block::{Command, Operation, Tag};
use stasis_scheduler::{sectors, Dispatcher, QueueId, QueueSpec, QueuedRequest, Scheduler};

/// A drive that works off one request after the other: `overhead`, `seek` if it
/// does not begin where the last ended, and its length at `rate` (B/s).
#[derive(Debug, Clone, Copy)]
pub struct Serial {
    pub overhead: Nanos,
    pub seek: Nanos,
    pub rate: u64,
}

/// About a 1.8-inch disk, and about flash.
pub const DISK: Serial = Serial { overhead: 100_000, seek: 12_000_000, rate: 10_000_000 };
pub const FLASH: Serial = Serial { overhead: 20_000, seek: 0, rate: 200_000_000 };

#[derive(Debug)]
struct Drive {
    kind: Serial,
    end: u64,
    busy_until: Nanos,
    in_flight: VecDeque<(Nanos, Tag)>,
}

impl Drive {
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        let seek = if command.offset == self.end { 0 } else { self.kind.seek };
        let transfer = command.length * SECOND / self.kind.rate;
        self.end = command.offset + command.length;
        self.busy_until = self.busy_until.max(now) + self.kind.overhead + seek + transfer;
        self.in_flight.push_back((self.busy_until, tag));
    }

    fn done(&mut self, now: Nanos) -> Option<Tag> {
        self.in_flight.front().filter(|request| request.0 <= now)?;
        self.in_flight.pop_front().map(|request| request.1)
    }
}

/// Pseudo-random numbers (Knuth's MMIX).
#[derive(Debug, Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// Keeps `depth` requests in flight, each `think` after one is done.
#[derive(Debug, Clone)]
pub struct Client {
    pub spec: QueueSpec,
    pub depth: u32,
    pub think: Nanos,
    pub sizes: Vec<u64>,
    pub random: bool,
    pub writes: bool,
    /// True if its queue's owner prefers its requests.
    pub urgent: bool,
    /// Time at which it begins.
    pub begin: Nanos,
    /// The client whose queue it asks through, if it has no queue itself.
    pub through: Option<usize>,
    /// Number of sectors that it asks for before its end.
    pub sectors: u64,
}

impl Client {
    pub fn reader(spec: QueueSpec) -> Self {
        let (depth, think, sizes, begin, sectors) = (1, 0, vec![131_072], 0, u64::MAX);
        let (random, writes, urgent, through) = (false, false, false, None);
        Self { spec, depth, think, sizes, random, writes, urgent, begin, through, sectors }
    }

    pub fn random(spec: QueueSpec) -> Self {
        Self { sizes: vec![4096], random: true, ..Self::reader(spec) }
    }
}

/// Service of a client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Got {
    pub sectors: u64,
    pub requests: u64,
    /// The longest that one request took.
    pub longest: Nanos,
    /// Time at which it had all it asked for.
    pub finished: Option<Nanos>,
}

struct InFlight {
    client: usize,
    at: Nanos,
    command: Command,
}

/// Clients on one drive below a scheduler.
pub struct World {
    pub dispatcher: Dispatcher,
    drive: Drive,
    pub now: Nanos,
    pub got: Vec<Got>,
    pub queues: Vec<QueueId>,
    clients: Vec<Client>,
    positions: Vec<u64>,
    asked: Vec<u64>,
    numbers: Numbers,
    arrivals: EventQueue<usize>,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<Tag>,
}

/// Bytes of the drive that are each client's own.
const REGION: u64 = 1 << 34;

impl World {
    pub fn new(scheduler: Box<dyn Scheduler>, kind: Serial, clients: Vec<Client>) -> Self {
        let in_flight = VecDeque::new();
        let drive = Drive { kind, end: 0, busy_until: 0, in_flight };
        let mut dispatcher = Dispatcher::new(scheduler, 1);
        let mut arrivals = EventQueue::new();
        for (number, client) in clients.iter().enumerate() {
            (0..client.depth).for_each(|_| arrivals.push(client.begin, number));
        }
        let mut queues: Vec<QueueId> = Vec::new();
        for client in &clients {
            let other = client.through.map(|other| queues[other]);
            queues.push(other.unwrap_or_else(|| dispatcher.scheduler().create(0, &client.spec)));
        }
        Self {
            dispatcher,
            drive,
            now: 0,
            got: vec![Got::default(); clients.len()],
            queues,
            positions: (0..clients.len() as u64).map(|n| n * REGION).collect(),
            asked: vec![0; clients.len()],
            clients,
            numbers: Numbers(1),
            arrivals,
            in_flight: Vec::new(),
            free: Vec::new(),
        }
    }

    fn ask(&mut self, number: usize) {
        let client = &self.clients[number];
        if self.asked[number] >= client.sectors {
            return;
        }
        let size = client.sizes[self.numbers.next(client.sizes.len() as u64) as usize];
        if client.random {
            let place = self.numbers.next(REGION / 4096 - 1024) * 4096;
            self.positions[number] = number as u64 * REGION + place;
        }
        let operation = if client.writes { Operation::Write } else { Operation::Read };
        let command = Command::new(operation, self.positions[number], size);
        self.positions[number] += size;
        self.asked[number] += sectors(&command);
        let tag = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            self.in_flight.len() as Tag - 1
        });
        let at = self.now;
        self.in_flight[tag as usize] = Some(InFlight { client: number, at, command });
        let request = QueuedRequest { urgent: client.urgent, ..QueuedRequest::new(tag, command) };
        self.dispatcher.submit(at, self.queues[number], &request).unwrap();
    }

    fn fill(&mut self) {
        while let Some(tag) = self.dispatcher.next(self.now).map(|next| next.tag) {
            let request = self.in_flight[tag as usize].as_ref().unwrap();
            self.drive.submit(self.now, tag, &request.command);
        }
    }

    /// A client begins or ends to ask for help.
    pub fn help(&mut self, number: usize, on: bool) {
        self.dispatcher.scheduler().help(self.now, self.queues[number], on);
        self.fill();
    }

    /// Runs until `until`, or until nothing happens any more.
    pub fn run(&mut self, until: Nanos) {
        loop {
            let drive = self.drive.in_flight.front().map(|request| request.0);
            let next = [self.arrivals.next_at(), drive, self.dispatcher.next_event()];
            let Some(at) = next.into_iter().flatten().min().filter(|&at| at <= until) else {
                break;
            };
            self.now = at;
            while let Some(tag) = self.drive.done(at) {
                self.dispatcher.complete(at, tag);
                let request = self.in_flight[tag as usize].take().unwrap();
                self.free.push(tag);
                let (client, got) = (&self.clients[request.client], &mut self.got[request.client]);
                got.sectors += sectors(&request.command);
                got.requests += 1;
                got.longest = got.longest.max(at - request.at);
                if got.sectors >= client.sectors && got.finished.is_none() {
                    got.finished = Some(at);
                }
                self.arrivals.push(at + client.think, request.client);
            }
            while let Some((_, client)) = self.arrivals.pop_due(at) {
                self.ask(client);
            }
            self.fill();
        }
        self.now = until;
    }
}
