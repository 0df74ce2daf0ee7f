//! Limits on rates, against a level that is filled and drained with exact arithmetic.

use proptest::prelude::*;
use stasis_block::clock::{Nanos, SECOND};
use stasis_block::{Command, Operation, Rate};
use stasis_scheduler::{Dispatcher, LimitSpec, QueueId, QueueSpec, QueuedRequest, SchedulerSpec};

/// A drive without latency behind the scheduler `none`, with queues that share a limit.
struct Drive {
    dispatcher: Dispatcher,
    queues: Vec<QueueId>,
    sent: Vec<(Nanos, u32)>,
}

impl Drive {
    fn new(spec: &LimitSpec, queues: usize) -> Self {
        spec.check().unwrap();
        let mut dispatcher = Dispatcher::new(SchedulerSpec::parse("none").unwrap().build(), 64);
        let limit = dispatcher.create_limit(spec);
        let queues = (0..queues).map(|_| dispatcher.scheduler().create(0, &QueueSpec::default()));
        let queues: Vec<_> = queues.collect();
        for &queue in &queues {
            dispatcher.limit(queue, limit);
        }
        Self { dispatcher, queues, sent: Vec::new() }
    }

    fn fill(&mut self, now: Nanos) {
        while let Some(tag) = self.dispatcher.next(now).map(|next| next.tag) {
            self.sent.push((now, tag));
            self.dispatcher.complete(now, tag);
        }
    }

    fn events_before(&mut self, end: Nanos) {
        while let Some(at) = self.dispatcher.next_event().filter(|&at| at < end) {
            self.fill(at);
        }
    }

    fn submit(&mut self, now: Nanos, queue: usize, tag: u32, command: Command) {
        self.events_before(now);
        self.fill(now);
        let request = QueuedRequest::new(tag, command);
        self.dispatcher.submit(now, self.queues[queue], &request).unwrap();
        self.fill(now);
    }
}

/// A level of tokens, each of `SECOND` parts; below 0 nothing passes.
struct Level {
    rate: i128,
    capacity: i128,
    level: i128,
    at: Nanos,
}

impl Level {
    fn new(rate: u64, capacity: i128) -> Self {
        Self { rate: rate.into(), capacity, level: capacity, at: 0 }
    }

    fn fill(&mut self, now: Nanos) {
        let added = i128::from(now - self.at) * self.rate;
        (self.level, self.at) = (self.capacity.min(self.level + added), now);
    }

    fn ready(&self, now: Nanos) -> Nanos {
        let missing = -self.level - i128::from(now - self.at) * self.rate;
        now + Nanos::try_from((missing + self.rate - 1).max(0) / self.rate).unwrap()
    }
}

fn levels(rate: Option<u64>, burst: Option<u64>, length: Nanos) -> Vec<Level> {
    let Some(rate) = rate else { return Vec::new() };
    let Some(burst) = burst else { return vec![Level::new(rate, 0)] };
    // The capacity lasts for `length` at the burst's rate, to the nanosecond of the tolerance.
    let early = u128::from(length) * u128::from(burst - rate) / u128::from(rate);
    let capacity = (early * u128::from(rate)) as i128;
    vec![Level::new(rate, capacity), Level::new(burst, 0)]
}

fn spec() -> impl Strategy<Value = LimitSpec> {
    let rate = |most: u64| proptest::option::of((1..most, proptest::option::of(1..most)));
    let burst = 1..10 * SECOND;
    (rate(100_000), rate(1 << 30), burst, proptest::option::of(512u64..1 << 20)).prop_map(
        |(iops, bandwidth, length, io_size)| {
            let burst_iops = iops.and_then(|(rate, more)| more.map(|more| (rate + more) as u32));
            let burst_bandwidth =
                bandwidth.and_then(|(rate, more)| more.map(|more| Rate::per_second(rate + more)));
            let bursts = burst_iops.is_some() || burst_bandwidth.is_some();
            LimitSpec {
                iops: iops.map(|(rate, _)| rate as u32),
                burst_iops,
                bandwidth: bandwidth.map(|(rate, _)| Rate::per_second(rate)),
                burst_bandwidth,
                burst: bursts.then_some(length),
                io_size: io_size.filter(|_| iops.is_some()),
            }
        },
    )
}

proptest! {
    #[test]
    fn each_request_goes_as_soon_as_its_tokens_are_there(
        spec in spec().prop_filter("a limit", |spec| !spec.is_none()),
        arrivals in prop::collection::vec((0..SECOND / 50, 1u64..256, 0usize..3, 0u8..8), 1..60),
    ) {
        let mut drive = Drive::new(&spec, 3);
        let length = spec.burst.unwrap_or(0);
        let bytes = |rate: Option<Rate>| rate.map(Rate::bytes_per_second);
        let mut ios = levels(spec.iops.map(Into::into), spec.burst_iops.map(Into::into), length);
        let mut amounts = levels(bytes(spec.bandwidth), bytes(spec.burst_bandwidth), length);
        let (mut now, mut free, mut expected) = (0, 0, Vec::new());
        for (tag, (gap, sectors, queue, kind)) in arrivals.into_iter().enumerate() {
            now += gap;
            let command = match kind {
                0 => Command::flush(),
                1..4 => Command::new(Operation::Read, 0, 512 * sectors),
                _ => Command::new(Operation::Write, 0, 512 * sectors),
            };
            drive.submit(now, queue, tag as u32, command);
            // In the order of arrival.
            let mut at = now.max(free);
            if command.operation != Operation::Flush {
                let all = ios.iter().chain(&amounts);
                at = all.map(|level| level.ready(at)).max().unwrap_or(at).max(at);
                let count = spec.io_size.map_or(1, |size| command.length.div_ceil(size));
                for (levels, units) in [(&mut ios, count), (&mut amounts, command.length)] {
                    for level in levels.iter_mut() {
                        level.fill(at);
                        level.level -= i128::from(units) * i128::from(SECOND);
                    }
                }
            }
            free = at;
            expected.push((at, tag as u32));
        }
        drive.events_before(Nanos::MAX);
        prop_assert_eq!(drive.sent, expected);
        prop_assert_eq!(drive.dispatcher.waiting(), 0);
    }
}

fn read(length: u64) -> Command {
    Command::new(Operation::Read, 0, length)
}

/// I/Os in each second of a load that always has a request waiting.
fn each_second(spec: &LimitSpec, length: u64, seconds: usize) -> Vec<usize> {
    let mut drive = Drive::new(spec, 1);
    let (mut counts, mut tag) = (vec![0; seconds], 0);
    drive.submit(0, 0, tag, read(length));
    let end = seconds as u64 * SECOND;
    loop {
        for (at, _) in drive.sent.drain(..).collect::<Vec<_>>() {
            counts[(at / SECOND) as usize] += 1;
            tag += 1;
            drive.submit(at, 0, tag, read(length));
        }
        match drive.dispatcher.next_event() {
            Some(at) if at < end => drive.fill(at),
            _ => return counts,
        }
    }
}

#[test]
fn rates_and_bursts_are_those_that_were_set() {
    let limit = LimitSpec { iops: Some(300), ..LimitSpec::default() };
    assert_eq!(each_second(&limit, 4096, 4), [300; 4]);
    let limit = LimitSpec { bandwidth: Some(Rate::per_second(4096 * 100)), ..LimitSpec::default() };
    assert_eq!(each_second(&limit, 4096, 3), [100; 3]);
    assert_eq!(each_second(&limit, 8192, 3), [50; 3]);
    // A burst of 3 s, then the rate.
    let limit = LimitSpec {
        iops: Some(100),
        burst_iops: Some(1000),
        burst: Some(3 * SECOND),
        ..LimitSpec::default()
    };
    let counts = each_second(&limit, 4096, 6);
    assert_eq!(counts[..3], [1000; 3]);
    assert!(counts[3..].iter().all(|count| (99..=101).contains(count)), "{counts:?}");
    // 256 KiB are four I/Os of 64 KiB.
    let limit = LimitSpec { iops: Some(400), io_size: Some(64 << 10), ..LimitSpec::default() };
    assert_eq!(each_second(&limit, 256 << 10, 2), [100; 2]);
}

#[test]
fn what_waited_is_counted_and_barriers_keep_their_place() {
    let mut drive = Drive::new(&LimitSpec { iops: Some(1000), ..LimitSpec::default() }, 1);
    drive.submit(0, 0, 0, read(512));
    drive.submit(0, 0, 1, read(512));
    drive.submit(0, 0, 2, Command::barrier());
    drive.submit(0, 0, 3, Command::flush());
    drive.submit(0, 0, 4, read(512));
    assert_eq!(drive.dispatcher.waiting(), 4);
    drive.events_before(Nanos::MAX);
    let ms = SECOND / 1000;
    assert_eq!(drive.sent, [(0, 0), (ms, 1), (ms, 2), (ms, 3), (2 * ms, 4)]);
    let statistics = drive.dispatcher.limit_statistics(drive.queues[0]).unwrap();
    assert_eq!((statistics.requests, statistics.waited), (4, u128::from(5 * ms)));
}

#[test]
fn what_cannot_be_is_refused() {
    let table = |text: &str| {
        let spec: LimitSpec = toml::from_str(text).map_err(|error| error.to_string())?;
        spec.check().map_err(String::from)
    };
    assert_eq!(table("iops = 3000\nbandwidth = '125MiB/s'\nio-size = '256KiB'"), Ok(()));
    assert_eq!(table("iops = 100\nburst-iops = 3000\nburst = '30min'"), Ok(()));
    assert_eq!(table(""), Ok(()));
    for (text, expected) in [
        ("iops = 0", "iops must be at least 1"),
        ("burst-iops = 5\nburst = '1s'", "burst-iops needs iops"),
        ("iops = 9\nburst-iops = 5\nburst = '1s'", "burst-iops must be more than iops"),
        ("bandwidth = '1MB/s'\nburst-bandwidth = '2MB/s'", "burst-bandwidth needs burst, a time"),
        ("iops = 9\nburst = '1s'", "burst needs burst-iops or burst-bandwidth"),
        ("bandwidth = '1MB/s'\nio-size = '4KiB'", "io-size needs iops"),
        ("bandwidth = '1MB'", "3400MB/s"),
        ("iops = 9\nio-size = 0", "io-size must be at least 1 byte"),
        ("iopss = 9", "iopss"),
    ] {
        let error = table(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
