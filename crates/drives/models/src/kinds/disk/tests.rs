use proptest::prelude::*;
use stasis_block::clock::MILLISECOND;

use super::*;
use stasis_block::Rate;

const MIB: u64 = 1 << 20;

pub(super) fn spec() -> DiskSpec {
    DiskSpec::new(1_000_000_000_000, 7200, Rate::per_second(125_000_000), 800_000, 8_500_000)
}

fn cached() -> DiskSpec {
    DiskSpec { write_cache: 32 * MIB, read_ahead: MIB, ..spec() }
}

fn command(operation: Operation, offset: u64, length: u64) -> Command {
    Command::new(operation, offset, length)
}

/// Submits at `now` and runs to the completion of everything: (tag, time).
fn finish(disk: &mut HardDisk) -> Vec<(Tag, Nanos)> {
    let mut done = Vec::new();
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut done);
    }
    done.iter().map(|completion| (completion.tag, completion.at)).collect()
}

/// One command after the other, `pause` ns apart: their latencies.
fn one_by_one(disk: &mut HardDisk, pause: Nanos, commands: &[Command]) -> Vec<Nanos> {
    let (mut now, mut done) = (MILLISECOND, Vec::new());
    let mut latencies = Vec::new();
    for command in commands {
        disk.submit(now, 7, command);
        while done.is_empty() {
            disk.advance(disk.next_event().unwrap(), &mut done);
        }
        let at = done.drain(..).next().unwrap().at;
        latencies.push(at - now);
        now = at + pause;
    }
    latencies
}

fn random_offsets(region: u64, count: usize) -> Vec<u64> {
    let mut random = Random::new(99);
    (0..count).map(|_| random.up_to(region / 4096 - 1) * 4096).collect()
}

fn mean(times: &[Nanos]) -> f64 {
    times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e6
}

/// Average seek, half a rotation, the electronics.
#[test]
fn random_reads_take_what_the_data_sheet_adds_up_to() {
    let mut disk = HardDisk::new(&spec(), 1).unwrap();
    let offsets = random_offsets(spec().capacity, 20_000);
    let reads: Vec<_> = offsets.iter().map(|&at| command(Operation::Read, at, 4096)).collect();
    let mean = mean(&one_by_one(&mut disk, 30_000, &reads));
    // More places lie outside than inside, so that seeks are a little shorter.
    let expected = 8.5 + 60_000.0 / 7200.0 / 2.0 + 0.1 + 0.04;
    assert!((expected * 0.97..expected * 1.005).contains(&mean), "{mean} for {expected}");
}

/// With reading ahead, small sequential reads stream at the platter's rate;
/// without it each waits for most of a rotation.
#[test]
fn reading_ahead_streams() {
    // With it the electronics are the limit: 4 KiB in 120 us, 32 MB/s.
    for (spec, low, high) in [(cached(), 30.0, 34.0), (spec(), 0.4, 0.6)] {
        let mut disk = HardDisk::new(&spec, 1).unwrap();
        let reads: Vec<_> =
            (0..4096u64).map(|i| command(Operation::Read, i * 4096, 4096)).collect();
        let latencies = one_by_one(&mut disk, 20_000, &reads);
        let time: u64 = latencies.iter().map(|latency| latency + 20_000).sum();
        let rate = 4096.0 * 4096.0 / (time as f64 / 1e9) / 1e6;
        assert!((low..high).contains(&rate), "{rate} MB/s");
    }
    let mut disk = HardDisk::new(&cached(), 1).unwrap();
    let reads: Vec<_> = (0..256u64).map(|i| command(Operation::Read, i * MIB, MIB)).collect();
    let time: u64 = one_by_one(&mut disk, 20_000, &reads).iter().map(|l| l + 20_000).sum();
    let rate = 256.0 * MIB as f64 / (time as f64 / 1e9) / 1e6;
    assert!((110.0..125.0).contains(&rate), "{rate} MB/s");
}

/// An interface slower than the surface is the limit of everything that crosses it: streams with
/// and without a buffer, commands that miss, and data that the caches hold.
#[test]
fn the_interface_carries_one_command_at_a_time() {
    let slow = |spec| DiskSpec { interface_rate: Rate::per_second(10_000_000), ..spec };
    for (operation, spec) in [
        (Operation::Read, slow(cached())),
        (Operation::Read, slow(spec())),
        (Operation::Write, slow(cached())),
        (Operation::Write, slow(spec())),
    ] {
        for depth in [1, 8] {
            let mut disk = HardDisk::new(&spec, 1).unwrap();
            let (mut done, mut now) = (Vec::new(), 0);
            for next in 0..256 {
                while next as usize - done.len() >= depth {
                    now = disk.next_event().unwrap();
                    disk.advance(now, &mut done);
                }
                disk.submit(now, next, &command(operation, u64::from(next) * MIB, MIB));
            }
            let (_, end) = finish(&mut disk).pop().unwrap();
            let rate = 256.0 * MIB as f64 / (end as f64 / 1e9) / 1e6;
            assert!((8.0..=10.0).contains(&rate), "{operation:?} at depth {depth}: {rate} MB/s");
        }
    }
}

/// The read buffer is small: data that a stream left far behind is read again.
#[test]
fn a_stream_forgets_what_it_passed() {
    let mut disk = HardDisk::new(&cached(), 1).unwrap();
    let at = |i: u64| command(Operation::Read, i * 65536, 65536);
    let reads: Vec<_> = (0..1024).chain([1020, 0]).map(at).collect();
    let latencies = one_by_one(&mut disk, 20_000, &reads);
    assert!(latencies[1024] < 300_000 && latencies[1025] > 600_000, "{:?}", &latencies[1024..]);
}

/// Sequential writes leave the cache at the platter's rate, which the full
/// cache then imposes on the host.
#[test]
fn sequential_writes_run_at_the_platters_rate() {
    let mut disk = HardDisk::new(&cached(), 1).unwrap();
    let writes: Vec<_> = (0..1024u64).map(|i| command(Operation::Write, i * MIB, MIB)).collect();
    let time: u64 = one_by_one(&mut disk, 20_000, &writes).iter().map(|l| l + 20_000).sum();
    let rate = 1024.0 * MIB as f64 / (time as f64 / 1e9) / 1e6;
    // 32 of 1024 MiB are still in the cache.
    assert!((110.0..130.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn the_cache_takes_a_burst_and_then_presses_back() {
    let small = DiskSpec { write_cache_extents: 64, ..cached() };
    let mut disk = HardDisk::new(&small, 1).unwrap();
    let offsets = random_offsets(small.capacity, 1000);
    let writes: Vec<_> = offsets.iter().map(|&at| command(Operation::Write, at, 4096)).collect();
    let latencies = one_by_one(&mut disk, 0, &writes);
    assert!(latencies[..60].iter().all(|&l| l < 120_000), "the burst");
    let steady = mean(&latencies[200..]);
    assert!((3.0..9.0).contains(&steady), "{steady} ms per destaged write");
    // After a pause in which the arm had time for it, the cache is empty again.
    let mut done = Vec::new();
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut done);
    }
    assert!(disk.cache.is_clean());
}

#[test]
fn a_flush_waits_for_what_was_acknowledged() {
    let mut disk = HardDisk::new(&DiskSpec { flush: Span::fixed(5_000), ..cached() }, 1).unwrap();
    assert_eq!(one_by_one(&mut disk, 0, &[command(Operation::Flush, 0, 0)]), [105_000]);
    for (tag, offset) in random_offsets(spec().capacity, 20).into_iter().enumerate() {
        disk.submit(2 * MILLISECOND, tag as Tag, &command(Operation::Write, offset, 4096));
    }
    disk.submit(4 * MILLISECOND, 100, &command(Operation::Flush, 0, 0));
    // Nothing that comes later keeps it waiting for long.
    for tag in 101..120 {
        let offset = u64::from(tag) * 1_000_000_000;
        disk.submit(4 * MILLISECOND, tag, &command(Operation::Write, offset, 4096));
    }
    let done = finish(&mut disk);
    let at = |tag| done.iter().find(|(t, _)| *t == tag).unwrap().1;
    assert!((0..20).all(|tag| at(tag) < 5 * MILLISECOND));
    let flush = at(100) as f64 / 1e6;
    // Twenty to forty positionings of some 3 to 8 ms.
    assert!((60.0..320.0).contains(&flush), "{flush} ms");
    // Forced unit access goes past the cache.
    let fua = Command { fua: true, ..command(Operation::Write, 500_000_000_000, 4096) };
    assert!(one_by_one(&mut disk, 0, &[fua])[0] > 110_000 + spec().single_track_seek);
}

#[test]
fn cached_bytes_are_read_from_the_cache() {
    let mut disk = HardDisk::new(&cached(), 1).unwrap();
    let latencies = one_by_one(
        &mut disk,
        0,
        &[
            command(Operation::Read, 40_960, 4096),
            command(Operation::Read, 40_960, 4096),
            command(Operation::Write, 40_960, 4096),
            command(Operation::Read, 40_960, 4096),
        ],
    );
    assert!(latencies[0] > 200_000 && latencies[1..].iter().all(|&l| l < 120_000), "{latencies:?}");
}

/// The deeper the queue, the shorter the way from one command to the next.
#[test]
fn shortest_first_beats_first_come() {
    let total = |queue| {
        let mut disk = HardDisk::new(&DiskSpec { queue, ..spec() }, 1).unwrap();
        for (tag, offset) in random_offsets(spec().capacity, 400).into_iter().enumerate() {
            disk.submit(0, tag as Tag, &command(Operation::Read, offset, 4096));
        }
        let done = finish(&mut disk);
        if queue == Queue::Fifo {
            assert!(done.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        done.last().unwrap().1 as f64
    };
    let ratio = total(Queue::Shortest) / total(Queue::Fifo);
    // Known of native command queueing with 32 commands: about half.
    assert!((0.3..0.6).contains(&ratio), "{ratio}");
}

/// A stream of near commands does not starve a far one.
#[test]
fn nothing_starves() {
    let mut disk = HardDisk::new(&spec(), 1).unwrap();
    disk.submit(0, 1000, &command(Operation::Read, 0, 4096));
    disk.submit(0, 1001, &command(Operation::Read, 999_000_000_000, 4096));
    let (mut done, mut random) = (Vec::new(), Random::new(5));
    let near = |random: &mut Random| random.up_to(100_000) * 4096;
    // Command 1000 is under way at once.
    let mut passed: u32 = 0;
    (0..8).for_each(|tag| disk.submit(0, tag, &command(Operation::Read, near(&mut random), 4096)));
    for _ in 0..1000 {
        let now = disk.next_event().unwrap();
        disk.advance(now, &mut done);
        for completion in done.drain(..) {
            if completion.tag == 1001 {
                // Command 1000, which was there before it, and those that passed.
                assert_eq!(passed, 1 + MAX_PASSES);
                return;
            }
            passed += 1;
            disk.submit(now, completion.tag, &command(Operation::Read, near(&mut random), 4096));
        }
    }
    panic!("the far command never completed");
}

fn slowest(disk: &HardDisk) -> Vec<SlowCommand> {
    match disk.inside(0) {
        Some(Inside::Commands { slowest, .. }) => slowest,
        None => Vec::new(),
        Some(other) => panic!("{other:?}"),
    }
}

/// One at a time a read's time is the arm's; of many at once it is the queue's; a write waits for
/// room in the cache, and a flush for what is in it.
#[test]
fn the_slowest_commands_tell_where_their_time_went() {
    let part = |disk: &HardDisk, operation, pick: fn(&Parts<Nanos>) -> Nanos| {
        let slowest = slowest(disk);
        let all: Vec<_> = slowest.iter().filter(|slow| slow.operation == operation).collect();
        let time: Nanos = all.iter().map(|slow| slow.end - slow.begin).sum();
        all.iter().map(|slow| pick(&slow.parts)).sum::<Nanos>() as f64 / time as f64
    };
    let reads: Vec<_> = random_offsets(spec().capacity, 100)
        .into_iter()
        .map(|at| command(Operation::Read, at, 4096))
        .collect();
    let mut disk = HardDisk::new(&spec(), 1).unwrap();
    one_by_one(&mut disk, 0, &reads);
    assert!(part(&disk, Operation::Read, |parts| parts.positioning) > 0.95);
    disk.start(0);
    assert_eq!(disk.inside(0), None);
    for (tag, read) in reads.iter().enumerate() {
        disk.submit(10_000 * MILLISECOND, tag as Tag, read);
    }
    finish(&mut disk);
    assert!(part(&disk, Operation::Read, |parts| parts.queue) > 0.9);

    let mut disk = HardDisk::new(&cached(), 1).unwrap();
    for (tag, at) in random_offsets(spec().capacity, 100).into_iter().enumerate() {
        disk.submit(0, tag as Tag, &command(Operation::Write, at, MIB));
    }
    disk.submit(0, 100, &command(Operation::Flush, 0, 0));
    finish(&mut disk);
    assert!(part(&disk, Operation::Write, |parts| parts.buffer) > 0.9);
    assert!(part(&disk, Operation::Flush, |parts| parts.buffer) > 0.9);
}

prop_compose! {
    fn any_command()(
        operation in 0u8..5,
        offset in prop_oneof![0u64..1 << 24, 0u64..1 << 41, Just(u64::MAX - 5)],
        length in prop_oneof![Just(4096u64), 0u64..1 << 20, Just(u64::MAX)],
        fua in any::<bool>(),
    ) -> Command {
        let operation = Operation::from_number(operation).unwrap();
        Command { fua, ..Command::new(operation, offset, length) }
    }
}

proptest! {
    /// Whatever comes: every command completes once, not before its submission,
    /// and completions come in the order of time.
    #[test]
    fn every_command_completes_once_and_in_order(
        commands in prop::collection::vec((any_command(), 0u64..20_000_000), 1..80),
        extents in 1u32..20,
        cache in prop_oneof![Just(0u64), Just(65536), Just(32 * MIB)],
        ahead in prop_oneof![Just(0u64), Just(MIB)],
        fifo in any::<bool>(),
        late in 0u64..10_000_000,
    ) {
        let queue = if fifo { Queue::Fifo } else { Queue::Shortest };
        let spec = DiskSpec {
            write_cache_extents: extents, write_cache: cache, read_ahead: ahead, queue, ..spec()
        };
        let run = || {
            let mut disk = HardDisk::new(&spec, 42).unwrap();
            let (mut now, mut done, mut submitted) = (0, Vec::new(), Vec::new());
            for (tag, (command, pause)) in commands.iter().enumerate() {
                while let Some(at) = disk.next_event().filter(|at| *at <= now) {
                    disk.advance((at + late).min(now), &mut done);
                }
                disk.submit(now, tag as Tag, command);
                submitted.push(now);
                now += pause;
            }
            while let Some(at) = disk.next_event() {
                disk.advance(at, &mut done);
            }
            (submitted, done, slowest(&disk))
        };
        let (submitted, done, slowest) = run();
        for slow in &slowest {
            let sum: Nanos = slow.parts.named().iter().map(|(_, part)| part).sum();
            prop_assert_eq!(sum, slow.end - slow.begin, "{:?}", slow);
            let is = |c: &Completion| (submitted[c.tag as usize], c.at) == (slow.begin, slow.end);
            prop_assert!(done.iter().any(is), "{:?}", slow);
        }
        let mut tags: Vec<_> = done.iter().map(|completion| completion.tag as usize).collect();
        prop_assert!(done.windows(2).all(|pair| pair[0].at <= pair[1].at));
        prop_assert!(done.iter().all(|c| c.at >= submitted[c.tag as usize]));
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..commands.len()).collect::<Vec<_>>());
        prop_assert_eq!(run(), (submitted, done, slowest));
    }
}
