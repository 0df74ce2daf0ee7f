//! The network: frames under way, and what becomes of them.

use std::collections::VecDeque;

use stasis_block::clock::{EventQueue, Nanos};
use stasis_block::{splitmix, Random};
use stasis_run_events::{FaultRecord, LinkOutcome, NetworkOutcome};

use crate::faults::{Effect, Faults, NetworkFault};
use crate::red;
use crate::spec::{Conditions, NetworkSpec};
use crate::stage::{Dropped, Passed, Stage};
use crate::switch::{Ports, Switch};

/// Limit on the frames that are under way; more are dropped.
pub const MAX_IN_FLIGHT: usize = 1 << 16;
/// Random early detection draws other numbers than all else, and ports others than links.
const EARLY: u64 = 0x7265_6400;
const PORTS: u64 = 1 << 16;
/// Length of an Ethernet header (IEEE 802.3-2018, clause 3.1.1).
const ETHERNET_HEADER: usize = 14;

/// Counters of one direction of a link. Times are from a frame's first bit on the wire to its
/// arrival.
pub type Counts = LinkOutcome;

/// Address of a port, as its machine has it.
pub type Address = [u8; 6];

/// A frame that has arrived at a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Port of the receiver.
    pub to: usize,
    /// Port of the sender.
    pub from: usize,
    /// Time at which its first bit left the sender (ns).
    pub sent: Nanos,
    /// Time at which it has arrived by the network's conditions (ns).
    pub at: Nanos,
    /// The frame, from the destination's address on, without a check sequence.
    pub frame: Vec<u8>,
}

/// A machine's port of the switch.
#[derive(Debug)]
struct Port {
    /// From the machine.
    out: Stage,
    /// To the machine.
    into: Stage,
    /// Frames on their way, by when they are at the port in whole, if nothing else is.
    coming: EventQueue<Coming>,
    /// Frames on the port's own wire, in order.
    arriving: VecDeque<Delivery>,
}

/// A frame on its way to a port.
#[derive(Debug)]
struct Coming {
    delivery: Delivery,
    /// Time between its first and its last bit (ns).
    length: Nanos,
}

/// One direction of a link.
#[derive(Debug)]
struct Link {
    conditions: Conditions,
    /// Later conditions, and when they begin after the commands' start (ns), in order.
    later: VecDeque<(Nanos, Conditions)>,
    stage: Stage,
    /// The random numbers of its random early detection.
    early: Random,
    random: Random,
    /// Time at which the last frame in order arrives (ns).
    last: Nanos,
    counts: Counts,
    /// Sum of the times of `counts.arrived` frames (ns).
    sum: u128,
}

/// The random numbers of a network.
#[derive(Debug, Clone, Copy)]
struct Draws {
    seed: u64,
    /// The first number of the network's links among those of all networks.
    first: u64,
}

impl Draws {
    /// Returns the random numbers of random early detection on a link, which draws other numbers
    /// than its conditions.
    fn early(self, link: usize) -> Random {
        Random::new(splitmix::nth(self.seed ^ EARLY, self.first + link as u64 + 1))
    }

    /// Returns the random numbers of random early detection before a port.
    fn of_port(self, port: usize) -> Random {
        Random::new(splitmix::nth(self.seed ^ EARLY, self.first + PORTS + port as u64 + 1))
    }

    /// Returns the random numbers of a link's conditions.
    fn of_link(self, link: usize) -> Random {
        Random::new(splitmix::nth(self.seed, self.first + link as u64 + 1))
    }
}

/// A network.
#[derive(Debug)]
pub struct Network {
    name: String,
    draws: Draws,
    ports: Vec<Port>,
    /// By sender, and for each by receiver.
    links: Vec<Link>,
    switch: Switch,
    /// The first port that leads outside; those behind it do, too.
    first_outside: usize,
    in_flight: usize,
    faults: Faults,
    /// Frames that machines have sent since the commands began.
    sent: u64,
    /// Time at which the commands began (ns).
    begun: Option<Nanos>,
}

impl Network {
    /// The network of `spec`; `index` is its number among the networks of the experiment.
    pub fn new(spec: &NetworkSpec, index: u8, seed: u64) -> Self {
        let machines = spec.ports();
        let draws = Draws { seed, first: u64::from(index) << 32 };
        let port = |number: usize| {
            let stage = |queue| Stage::new(spec.bandwidth, queue);
            // Frames that wait to be sent wait in the machine.
            Port {
                out: stage(u64::MAX),
                into: stage(spec.queue_bytes()).with(spec.red.as_ref(), draws.of_port(number)),
                coming: EventQueue::new(),
                arriving: VecDeque::new(),
            }
        };
        let count = machines.len();
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let links = pairs.map(|(from, to)| {
            let (sender, receiver) = (machines[from], machines[to]);
            let conditions = spec.conditions(sender, receiver, None);
            let changes = spec.changes(sender, receiver).into_iter();
            let later = changes.map(|at| (at, spec.conditions(sender, receiver, Some(at))));
            let number = from * count + to;
            Link {
                conditions,
                later: later.collect(),
                stage: conditions.stage(draws.early(number)),
                early: draws.early(number),
                random: draws.of_link(number),
                last: 0,
                counts: Counts { from: sender.into(), to: receiver.into(), ..Counts::default() },
                sum: 0,
            }
        });
        let mut switch = Switch::default();
        for number in 0..spec.machines.len() {
            switch.learn(Self::address(index, number), number);
        }
        Self {
            name: spec.name.clone().unwrap_or_default(),
            draws,
            links: links.collect(),
            ports: (0..count).map(port).collect(),
            first_outside: spec.machines.len(),
            switch,
            in_flight: 0,
            faults: Faults::default(),
            sent: 0,
            begun: None,
        }
    }

    /// Gives the network its faults.
    pub fn set_faults(&mut self, faults: Vec<NetworkFault>) {
        self.faults = Faults::new(faults);
    }

    /// Replaces the faults of the network.
    pub fn change_faults(&mut self, faults: Vec<NetworkFault>) {
        self.faults.change(faults);
    }

    /// The network draws by `seed` from now on.
    pub fn reseed(&mut self, seed: u64) {
        let draws = Draws { seed, first: self.draws.first };
        for (number, port) in self.ports.iter_mut().enumerate() {
            port.into.reseed(draws.of_port(number));
        }
        for (number, link) in self.links.iter_mut().enumerate() {
            (link.early, link.random) = (draws.early(number), draws.of_link(number));
            link.stage.reseed(draws.early(number));
        }
        self.draws = draws;
    }

    /// Starts fault `number` at `now` (ns) if it is one of the network.
    pub fn trigger(&mut self, number: u16, now: Nanos) {
        if let Some(begun) = self.begun {
            self.faults.trigger(number, now.saturating_sub(begun));
        }
    }

    /// The frames that faults have befallen since the last call.
    pub fn take_befallen(&mut self) -> Vec<FaultRecord> {
        self.faults.take_befallen()
    }

    /// The machines' commands begin at `now`: times of conditions count from here.
    pub fn begin(&mut self, now: Nanos) {
        self.begun.get_or_insert(now);
    }

    /// Address of a machine on network `index`: a locally administered one, whose last bytes are
    /// the network and the port.
    pub fn address(index: u8, port: usize) -> Address {
        [0x02, b'S', b'T', index, 0, port as u8]
    }

    /// Returns the number of frames that machines have sent since their commands began.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Ports that lead outside.
    pub fn outside(&self) -> std::ops::Range<usize> {
        self.first_outside..self.ports.len()
    }

    /// Shortest time from a frame's sending to its arrival, whatever it meets (ns).
    pub fn lookahead(&self) -> Nanos {
        let count = self.ports.len();
        let links = self.links.iter().enumerate();
        let links = links.filter(|(number, _)| number / count != number % count);
        let each = links.flat_map(|(_, link)| {
            let later = link.later.iter().map(|(_, conditions)| conditions);
            later.chain([&link.conditions]).map(Conditions::shortest)
        });
        each.min().unwrap_or(Nanos::MAX)
    }

    /// The machine at `port` sends `frame` at `now`, not earlier than at any call before. Returns
    /// when its first and its last bit have left the machine (ns).
    pub fn send(&mut self, port: usize, frame: &[u8], now: Nanos) -> (Nanos, Nanos) {
        self.sent += u64::from(self.begun.is_some());
        // The queue of the sender's port has no limit.
        let out = self.ports[port].out.pass((now, now), frame.len(), false);
        let (first, last) = out.map_or((now, now), |passed| passed.bits);
        match self.switch.ports(port, frame) {
            Some(Ports::One(to)) => self.carry(port, to, frame, (first, last)),
            Some(Ports::Others) => {
                for to in (0..self.ports.len()).filter(|to| *to != port) {
                    self.carry(port, to, frame, (first, last));
                }
            }
            None => {}
        }
        (first, last)
    }

    /// Takes a frame whose bits leave the sender's port from `first` to `last` over a link.
    fn carry(&mut self, from: usize, to: usize, frame: &[u8], (first, last): (Nanos, Nanos)) {
        let sent = first;
        let link = &mut self.links[from * self.ports.len() + to];
        if let Some(begun) = self.begun {
            link.change(first.saturating_sub(begun));
        }
        link.counts.frames += 1;
        link.counts.bytes += frame.len() as u64;
        // Each frame draws as many numbers, so that one condition does not move the others.
        let draw = Draw::of(&mut link.random);
        let room = self.in_flight < MAX_IN_FLIGHT;
        let capable = red::is_capable(frame);
        let passed = link.stage.pass((first, last), frame.len(), capable);
        let Passed { bits: (first, last), marked } = match passed {
            Ok(passed) if room => passed,
            Ok(_) | Err(Dropped::Full) => {
                link.counts.queue_full += 1;
                return;
            }
            Err(Dropped::Early) => {
                link.counts.dropped_early += 1;
                return;
            }
        };
        let Conditions { loss, duplicate, reorder, corrupt, .. } = link.conditions;
        let mut effect = Effect { kept: 1.0, delay: 0 };
        if let (Some(begun), false) = (self.begun, self.faults.is_empty()) {
            let since = sent.saturating_sub(begun);
            effect = self.faults.effect(from, to, since);
            let lost = draw.loss >= loss && draw.loss < 1.0 - (1.0 - loss) * effect.kept;
            let length = frame.len() as u64;
            if lost || effect.delay > 0 && draw.loss >= loss {
                self.faults.befall((from, to), (since, sent), lost, length);
            }
        }
        if draw.loss < 1.0 - (1.0 - loss) * effect.kept {
            link.counts.lost += 1;
            return;
        }
        let mut frame = frame.to_vec();
        if marked {
            red::mark(&mut frame);
            link.counts.marked += 1;
        }
        if draw.corrupt < corrupt && frame.len() > ETHERNET_HEADER {
            let bits = (frame.len() - ETHERNET_HEADER) as u64 * 8;
            let bit = ((u128::from(draw.bit) * u128::from(bits)) >> 64) as usize;
            frame[ETHERNET_HEADER + bit / 8] ^= 1 << (bit % 8);
            link.counts.corrupted += 1;
        }
        let set_out = first.saturating_add(effect.delay);
        let at = link.arrival(set_out, draw.jitter, draw.reorder < reorder);
        let copies = if draw.duplicate < duplicate { 2 } else { 1 };
        link.counts.duplicated += copies - 1;
        for _ in 0..copies {
            let at = at.saturating_add(last - first);
            let delivery = Delivery { to, from, sent, at, frame: frame.clone() };
            self.in_flight += 1;
            self.ports[to].coming.push(at, Coming { delivery, length: last - first });
        }
    }

    /// Returns the time at which [`Self::advance`] is to be called next for `port` (ns).
    pub fn next_event(&self, port: usize) -> Option<Nanos> {
        let Port { coming, arriving, .. } = &self.ports[port];
        let arriving = arriving.front().map(|delivery| delivery.at);
        coming.next_at().into_iter().chain(arriving).min()
    }

    /// Virtual time is `now`: returns the next frame that has arrived at `port`, until there is
    /// none.
    pub fn advance(&mut self, port: usize, now: Nanos) -> Option<Delivery> {
        let Port { into, coming, arriving, .. } = &mut self.ports[port];
        while let Some((last, Coming { mut delivery, length })) = coming.pop_due(now) {
            let count = self.links.len().isqrt();
            let counts = &mut self.links[delivery.from * count + port].counts;
            let capable = red::is_capable(&delivery.frame);
            match into.pass((last - length, last), delivery.frame.len(), capable) {
                Ok(Passed { bits: (_, arrived), marked }) => {
                    if marked {
                        red::mark(&mut delivery.frame);
                        counts.marked += 1;
                    }
                    delivery.at = arrived;
                    arriving.push_back(delivery);
                }
                Err(why) => {
                    self.in_flight -= 1;
                    match why {
                        Dropped::Full => counts.queue_full += 1,
                        Dropped::Early => counts.dropped_early += 1,
                    }
                }
            }
        }
        arriving.front().filter(|delivery| delivery.at <= now)?;
        self.in_flight -= 1;
        arriving.pop_front()
    }

    /// The receiver of `delivery` has it at `now`.
    pub fn arrived(&mut self, delivery: &Delivery, now: Nanos) {
        let link = self.counts(delivery);
        let time = now - delivery.sent;
        let counts = &mut link.counts;
        counts.shortest_ns = if counts.arrived == 0 { time } else { counts.shortest_ns.min(time) };
        counts.longest_ns = counts.longest_ns.max(time);
        counts.max_error_ns = counts.max_error_ns.max(now - delivery.at);
        counts.arrived += 1;
        link.sum += u128::from(time);
    }

    /// The receiver of `delivery` had no buffer for it.
    pub fn missed(&mut self, delivery: &Delivery) {
        self.counts(delivery).counts.no_buffer += 1;
    }

    fn counts(&mut self, delivery: &Delivery) -> &mut Link {
        &mut self.links[delivery.from * self.ports.len() + delivery.to]
    }

    /// The figures so far, of the links over which frames were sent.
    pub fn outcome(&self) -> NetworkOutcome {
        let used = self.links.iter().filter(|link| link.counts.frames > 0);
        let links = used.map(|link| {
            let mean = link.sum.checked_div(u128::from(link.counts.arrived)).unwrap_or(0);
            Counts { mean_ns: mean as Nanos, ..link.counts.clone() }
        });
        NetworkOutcome { name: self.name.clone(), links: links.collect() }
    }
}

impl Link {
    /// Takes on the conditions of `at` after the commands' start.
    fn change(&mut self, at: Nanos) {
        while let Some(&(_, conditions)) = self.later.front().filter(|(begin, _)| *begin <= at) {
            self.later.pop_front();
            self.conditions = conditions;
            self.stage.change(conditions.stage(self.early.clone()));
        }
    }

    /// Returns the time at which a frame whose first bit sets out at `first` comes to the
    /// receiver's port.
    fn arrival(&mut self, first: Nanos, jitter: u64, overtaken: bool) -> Nanos {
        let Conditions { delay, jitter: most, .. } = self.conditions;
        let span = u128::from(most) * 2 + 1;
        let late = ((u128::from(jitter) * span) >> 64) as Nanos;
        let at = first.saturating_add(self.conditions.shortest()).saturating_add(late);
        if overtaken {
            self.counts.reordered += 1;
            return at.saturating_add(delay);
        }
        self.last = self.last.max(at);
        self.last
    }
}

/// The numbers that a frame draws.
struct Draw {
    loss: f64,
    duplicate: f64,
    reorder: f64,
    corrupt: f64,
    bit: u64,
    jitter: u64,
}

impl Draw {
    fn of(random: &mut Random) -> Self {
        Self {
            loss: random.unit(),
            duplicate: random.unit(),
            reorder: random.unit(),
            corrupt: random.unit(),
            bit: random.below(u64::MAX),
            jitter: random.below(u64::MAX),
        }
    }
}
