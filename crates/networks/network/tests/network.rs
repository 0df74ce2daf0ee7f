//! Networks against closed forms and the simplest reference.

use proptest::prelude::*;
use stasis_block::clock::Nanos;
use stasis_network::{Delivery, Network, NetworkFault, NetworkSpec};

const MACHINES: [&str; 3] = ["a", "b", "c"];

fn network(text: &str, seed: u64) -> Network {
    let machines = MACHINES.map(String::from).to_vec();
    let spec = NetworkSpec { machines, ..toml::from_str(text).unwrap() };
    spec.check().unwrap();
    Network::new(&spec, 0, seed)
}

/// A frame of `length` bytes from one port to another, or to all, with a number in it.
fn frame(from: usize, to: Option<usize>, length: usize, number: u32) -> Vec<u8> {
    let mut frame = vec![0; length.max(18)];
    frame[..6].copy_from_slice(&to.map_or([0xff; 6], |to| Network::address(0, to)));
    frame[6..12].copy_from_slice(&Network::address(0, from));
    frame[14..18].copy_from_slice(&number.to_le_bytes());
    frame
}

fn number(delivery: &Delivery) -> u32 {
    u32::from_le_bytes(delivery.frame[14..18].try_into().unwrap())
}

/// Everything that is under way, each at its own time.
fn drain(network: &mut Network) -> Vec<Delivery> {
    let mut all = Vec::new();
    while let Some(at) = next_event(network) {
        for delivery in advance(network, at) {
            assert_eq!(delivery.at, at, "a frame is handed over when it has arrived");
            network.arrived(&delivery, at);
            all.push(delivery);
        }
    }
    all
}

fn next_event(network: &Network) -> Option<Nanos> {
    (0..network.ports()).filter_map(|port| network.next_event(port)).min()
}

fn advance(network: &mut Network, now: Nanos) -> Vec<Delivery> {
    let mut all = Vec::new();
    for port in 0..network.ports() {
        while let Some(delivery) = network.advance(port, now) {
            all.push(delivery);
        }
    }
    all
}

#[test]
fn a_network_that_draws_by_another_seed_is_the_network_of_that_seed() {
    let text = "delay = '50us'\njitter = '40us'\nloss = 0.3\nbandwidth = '10Mbit/s'\n\
                queue = '64KiB'\nred = { min = '2KiB', max = '9KiB' }";
    let arrivals = |network: &mut Network| {
        let frames = (0..200u32).map(|number| (number % 3, 500 * u64::from(number)));
        for (number, (from, at)) in frames.enumerate() {
            let to = (from as usize + 1) % 3;
            network.send(from as usize, &frame(from as usize, Some(to), 900, number as u32), at);
        }
        drain(network).iter().map(|one| (number(one), one.at)).collect::<Vec<_>>()
    };
    let mut changed = network(text, 1);
    changed.reseed(2);
    let (one, two) = (arrivals(&mut network(text, 1)), arrivals(&mut network(text, 2)));
    assert_eq!(arrivals(&mut changed), two);
    assert_ne!(one, two);
}

#[test]
fn a_frame_takes_its_delay_and_its_time_on_the_wire_once() {
    let mut plain = network("delay = '50us'", 1);
    assert_eq!(plain.send(0, &frame(0, Some(1), 1_514, 7), 1_000), (1_000, 1_000));
    assert_eq!(drain(&mut plain)[0].at, 51_000);
    // 1,514 + 24 bytes at 1.25 bytes/ns are 1,230.4 ns.
    let mut fast = network("delay = '50us'\nbandwidth = '10Gbit/s'", 1);
    assert_eq!(fast.send(0, &frame(0, Some(1), 1_514, 7), 1_000), (1_000, 2_230));
    assert_eq!(drain(&mut fast)[0].at, 52_230);
    // At the lowest bandwidth of its way: 1,538 bytes at 0.125 bytes/ns.
    let slow =
        "delay = '50us'\nbandwidth = '10Gbit/s'\n[[link]]\nfrom = 'a'\nbandwidth = '1Gbit/s'";
    let mut slow = network(slow, 1);
    slow.send(0, &frame(0, Some(1), 1_514, 7), 1_000);
    assert_eq!(drain(&mut slow)[0].at, 51_000 + 12_304);
}

#[test]
fn frames_back_to_back_come_at_the_rate_of_the_wire() {
    let mut network = network("delay = '20us'\nbandwidth = '8Gbit/s'", 1);
    for number in 0..1_000 {
        network.send(0, &frame(0, Some(1), 976, number), 0);
    }
    for (index, delivery) in drain(&mut network).iter().enumerate() {
        assert_eq!(delivery.at, 20_000 + 1_000 * (index as Nanos + 1));
        assert_eq!(number(delivery), index as u32);
    }
}

#[test]
fn two_senders_share_the_receivers_port_and_its_queue_is_bounded() {
    let text = "delay = '20us'\nbandwidth = '8Gbit/s'\nqueue = '10kB'";
    let mut network = network(text, 1);
    for number in 0..50 {
        network.send(0, &frame(0, Some(2), 976, number), 0);
        network.send(1, &frame(1, Some(2), 976, number), 0);
    }
    let all = drain(&mut network);
    // One of every two frames waits longer, until 10 kB wait.
    let dropped: u64 = network.outcome().links.iter().map(|link| link.queue_full).sum();
    assert_eq!(all.len() as u64 + dropped, 100);
    assert!((35..=45).contains(&dropped), "{dropped}");
    for pair in all.windows(2) {
        assert!(pair[1].at - pair[0].at >= 1_000);
    }
    let last = all.last().unwrap().at;
    assert!(last <= 20_000 + 50_000 + 11_000, "{last}");
}

/// Two senders at the receiver's rate: the queue grows until each frame that finds 10 kB waiting is
/// marked, or dropped where its sender understands no marks.
#[test]
fn a_queue_marks_or_drops_before_it_is_full() {
    let text = "delay = '20us'\nbandwidth = '8Gbit/s'\nqueue = '1MB'\n\
         red = { min = '10kB', max = '10kB', probability = 1, weight = 1, ecn = true }";
    for (capable, ecn) in [(true, 0x02), (false, 0x00)] {
        let mut network = network(text, 1);
        for number in 0..50 {
            for from in 0..2 {
                let mut frame = frame(from, Some(2), 976, number);
                frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, ecn]);
                network.send(from, &frame, 0);
            }
        }
        let all = drain(&mut network);
        let outcome = network.outcome();
        let sum = |count: fn(&stasis_network::Counts) -> u64| {
            outcome.links.iter().map(count).sum::<u64>()
        };
        assert_eq!(sum(|link| link.queue_full), 0);
        let early = sum(|link| link.dropped_early);
        assert_eq!(all.len() as u64 + early, 100);
        let marked = all.iter().filter(|delivery| delivery.frame[15] & 3 == 3).count() as u64;
        assert_eq!(sum(|link| link.marked), marked);
        // The second of a pair waits one frame longer than its predecessor: after ten pairs 10 kB.
        match capable {
            true => assert!((75..=81).contains(&marked) && early == 0, "{marked} {early}"),
            false => assert!((35..=45).contains(&early) && marked == 0, "{marked} {early}"),
        }
    }
}

#[test]
fn a_broadcast_reaches_the_others_and_no_frame_its_sender() {
    let mut network = network("", 1);
    network.send(1, &frame(1, None, 60, 3), 0);
    let to: Vec<usize> = drain(&mut network).iter().map(|delivery| delivery.to).collect();
    assert_eq!(to, [0, 2]);
    network.send(1, &frame(1, Some(1), 60, 3), 0);
    network.send(1, &[1, 2, 3], 0);
    assert_eq!(drain(&mut network), []);
}

#[test]
fn a_partition_begins_heals_and_takes_what_is_sent_meanwhile() {
    let text = "delay = '10us'\n[[link]]\nfrom = 'a'\nboth-ways = true\nbegin = '100us'\n\
                end = '300us'\nloss = 1\n[[link]]\nfrom = 'b'\nbegin = '400us'\ndelay = '2us'";
    let mut network = network(text, 1);
    assert_eq!(network.lookahead(), 2_000, "of all conditions that there will be");
    let mut send = |at: Nanos| {
        for (from, to) in [(0, 1), (1, 0), (1, 2)] {
            network.send(from, &frame(from, Some(to), 60, 0), at);
        }
        if at == 0 {
            network.begin(1_000_000);
        }
        drain(&mut network).iter().map(|all| (all.from, all.to, all.at - at)).collect::<Vec<_>>()
    };
    let all = [(1, 0, 10_000), (0, 1, 10_000), (1, 2, 10_000)];
    assert_eq!(send(0), all, "before the commands");
    assert_eq!(send(1_099_999), all);
    assert_eq!(send(1_100_000), [(1, 2, 10_000)]);
    assert_eq!(send(1_299_999), [(1, 2, 10_000)]);
    assert_eq!(send(1_300_000), all);
    assert_eq!(send(1_400_000), [(1, 0, 2_000), (1, 2, 2_000), (0, 1, 10_000)]);
}

#[test]
fn shares_are_met_and_the_links_draw_apart() {
    let text = "loss = 0.1\nduplicate = 0.05\ncorrupt = 0.02\nreorder = 0.03";
    let count = 20_000;
    let run = |with_others: bool| {
        let mut network = network(text, 9);
        for number in 0..count {
            network.send(0, &frame(0, Some(1), 100, number), u64::from(number) * 1_000);
            if with_others {
                network.send(2, &frame(2, Some(1), 100, number), u64::from(number) * 1_000);
            }
        }
        let all = drain(&mut network);
        let mine: Vec<Delivery> = all.into_iter().filter(|delivery| delivery.from == 0).collect();
        (mine, network.outcome().links[0].clone())
    };
    let (mine, counts) = run(false);
    let near = |value: u64, share: f64, total: u64| {
        let expected = share * total as f64;
        let deviation = (total as f64 * share * (1.0 - share)).sqrt();
        assert!((value as f64 - expected).abs() < 4.0 * deviation, "{value} of {expected}");
    };
    let passed = u64::from(count) - counts.lost;
    near(counts.lost, 0.1, u64::from(count));
    near(counts.duplicated, 0.05, passed);
    near(counts.corrupted, 0.02, passed);
    near(counts.reordered, 0.03, passed);
    assert_eq!(counts.arrived, passed + counts.duplicated);
    let changed = mine.iter().filter(|delivery| {
        let right = frame(0, Some(1), 100, number(delivery));
        let bits =
            delivery.frame.iter().zip(&right).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        assert!(bits <= 1);
        // A bit of the number itself is not seen here.
        bits == 1
    });
    assert!(changed.count() as u64 <= counts.corrupted + counts.duplicated);
    assert!(mine.windows(2).any(|pair| number(&pair[0]) > number(&pair[1])), "overtaken");
    let (beside, again) = run(true);
    assert_eq!(counts, again, "other links move nothing");
    assert_eq!(mine, beside);
}

proptest! {
    /// Without bandwidths and faults each frame arrives after its delay; with jitter within it, and
    /// in order; never earlier than the lookahead.
    #[test]
    fn delays_are_kept(
        sends in prop::collection::vec((0u64..5_000, 0usize..3, 0usize..3, 60usize..1_500), 1..60),
        jitter in 0u64..9,
        seed in any::<u64>(),
    ) {
        let text = format!("delay = '10us'\njitter = '{jitter}us'\n[[link]]\nto = 'c'\ndelay = '30us'");
        let mut network = network(&text, seed);
        prop_assert_eq!(network.lookahead(), 10_000 - jitter * 1_000);
        let (mut now, mut expected) = (0, 0);
        for (number, &(pause, from, to, length)) in sends.iter().enumerate() {
            now += pause;
            network.send(from, &frame(from, Some(to), length, number as u32), now);
            expected += usize::from(from != to);
        }
        let all = drain(&mut network);
        prop_assert_eq!(all.len(), expected);
        for delivery in &all {
            let delay = if delivery.to == 2 { 30_000 } else { 10_000 };
            let late = (delivery.at - delivery.sent).abs_diff(delay);
            // Waiting for an earlier one adds less than the jitter's span.
            prop_assert!(late <= 2 * jitter * 1_000, "{late}");
            prop_assert!(delivery.at >= delivery.sent + network.lookahead());
        }
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 1)] {
            let numbers = all.iter().filter(|d| (d.from, d.to) == (from, to)).map(number);
            prop_assert!(numbers.collect::<Vec<_>>().is_sorted());
        }
        for link in network.outcome().links {
            prop_assert_eq!((link.arrived, link.max_error_ns), (link.frames, 0));
        }
    }

    /// The same frames make the same deliveries, however often the network is looked at between.
    #[test]
    fn a_network_repeats_itself(
        sends in prop::collection::vec((0u64..90_000, 0usize..3, prop::option::of(0usize..3)), 1..40),
        seed in any::<u64>(),
    ) {
        let text = "delay = '20us'\njitter = '5us'\nloss = 0.2\nduplicate = 0.2\nreorder = 0.2\n\
                    corrupt = 0.2\nbandwidth = '100Mbit/s'\nqueue = '4KiB'";
        let run = |steps: u64| {
            let mut network = network(text, seed);
            let (mut now, mut all) = (0, Vec::new());
            for (number, &(pause, from, to)) in sends.iter().enumerate() {
                for _ in 0..steps {
                    now += pause / steps / 2;
                    all.extend(advance(&mut network, now));
                }
                now += pause - steps * (pause / steps / 2);
                all.extend(advance(&mut network, now));
                network.send(from, &frame(from, to, 18, number as u32), now);
            }
            all.extend(drain(&mut network));
            // Between ports there is no order.
            all.sort_by_key(|delivery| delivery.to);
            all
        };
        let (once, often) = (run(1), run(7));
        prop_assert_eq!(once, often);
    }

    /// A partition takes the frames between its sides, in its time, and no others; a delay adds to
    /// theirs what it says.
    #[test]
    fn a_fault_befalls_what_it_names(
        sends in prop::collection::vec((0u64..5_000, 0usize..3, 0usize..3), 1..60),
        (begin, length) in (0u64..100_000, prop::option::of(1u64..100_000)),
        side in prop::collection::btree_set(0usize..3, 1..3),
        one_way in any::<bool>(),
        triggered in prop::option::of(0u64..60_000),
        parts in any::<bool>(),
    ) {
        const BEGUN: u64 = 500;
        let peers: Vec<usize> = (0..3).filter(|port| !side.contains(port)).collect();
        let side: Vec<usize> = side.into_iter().collect();
        let (loss, delay) = if parts { (1.0, 0) } else { (0.0, 7_000) };
        let end = length.map(|length| begin + length);
        let fault = NetworkFault {
            number: 3,
            begin,
            end,
            triggered: triggered.is_some(),
            side: side.clone(),
            peers: peers.clone(),
            one_way,
            loss,
            delay,
        };
        let run = |faults: Vec<NetworkFault>| {
            let mut network = network("delay = '10us'", 1);
            network.set_faults(faults);
            network.begin(BEGUN);
            let (mut now, mut pulled) = (BEGUN, triggered);
            for (number, &(pause, from, to)) in sends.iter().enumerate() {
                now += pause;
                if let Some(at) = pulled.filter(|at| BEGUN + at <= now) {
                    network.trigger(9, BEGUN + at);
                    network.trigger(3, BEGUN + at);
                    pulled = None;
                }
                network.send(from, &frame(from, Some(to), 60, number as u32), now);
            }
            let befallen = network.take_befallen();
            let all = drain(&mut network).into_iter().map(|d| (number(&d), d.sent, d.at));
            (all.collect::<std::collections::BTreeSet<_>>(), befallen)
        };
        let (without, none) = run(vec![]);
        prop_assert!(none.is_empty());
        let (with, befallen) = run(vec![fault]);
        let since = triggered.unwrap_or(0);
        let mut expected = std::collections::BTreeSet::new();
        let mut count = 0;
        for (frame, sent, at) in without {
            let (_, from, to) = sends[frame as usize];
            let between = |from, to| side.contains(&from) && peers.contains(&to);
            let after = (sent - BEGUN).checked_sub(since + begin);
            let holds = after.is_some_and(|after| length.is_none_or(|length| after < length));
            let befalls = holds && (between(from, to) || !one_way && between(to, from));
            count += usize::from(befalls);
            if !(befalls && parts) {
                expected.insert((frame, sent, at + if befalls { delay } else { 0 }));
            }
        }
        // Frames keep their order: those behind a late one wait for it.
        let shape = |all: &std::collections::BTreeSet<(u32, u64, u64)>| {
            all.iter().map(|(frame, sent, _)| (*frame, *sent)).collect::<Vec<_>>()
        };
        prop_assert_eq!(shape(&with), shape(&expected));
        for ((_, _, at), (_, _, least)) in with.iter().zip(&expected) {
            prop_assert!(at >= least && (parts && at == least || *at <= least + delay));
        }
        prop_assert_eq!(befallen.len(), count);
        prop_assert!(befallen.iter().all(|record| record.fault == 3 && record.length == 60));
    }
}
