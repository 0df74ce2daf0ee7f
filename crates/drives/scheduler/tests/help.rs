//! Effect of help on the one helped, and the limit on its cost to the others.

use crate::common::{Client, World, DISK, FLASH};
use stasis_block::clock::{Nanos, SECOND};
use stasis_scheduler::{Bfq, BfqSpec, QueueSpec};

const TIME: Nanos = 100 * SECOND;

fn spec() -> BfqSpec {
    let (help_share, help_burst) = (200_000, 5 * SECOND);
    BfqSpec { low_latency: false, help_share, help_burst, ..BfqSpec::default() }
}

/// Service of each of four on flash if the first `ask` of them always ask.
fn shares(ask: usize) -> (Vec<u64>, World) {
    let clients = vec![Client::reader(QueueSpec::default()); 4];
    let mut world = World::new(Box::new(Bfq::new(spec())), FLASH, clients);
    (0..ask).for_each(|number| world.help(number, true));
    world.run(TIME);
    (world.got.iter().map(|got| got.sectors).collect(), world)
}

/// In 100 s: 5 s and a fifth of the time, so a quarter of the drive's work.
#[test]
fn one_that_always_asks_takes_no_more_than_its_bound() {
    let ((plain, _), (helped, mut world)) = (shares(0), shares(1));
    let total: u64 = plain.iter().sum();
    let lost: u64 = plain[1..].iter().sum::<u64>() - helped[1..].iter().sum::<u64>();
    let bound = total / 4;
    assert!(lost <= bound, "{lost} of {total}");
    // While it is helped it has 300/303, of which a quarter was its own.
    let gain = (300.0 / 303.0 - 0.25) * bound as f64;
    assert!((lost as f64 / gain - 1.0).abs() < 0.1, "{lost} is not about {gain}");
    let id = world.queues[0];
    let got = world.dispatcher.scheduler().statistics(TIME, id);
    assert_eq!(got.help_calls, 1);
    assert!(got.helped <= 25 * SECOND + 1 && got.helped >= 24 * SECOND, "{}", got.helped);
    assert_eq!(got.helped + got.unhelped, TIME);
}

#[test]
fn several_that_ask_share_help_and_its_bound() {
    let ((plain, _), (helped, mut world)) = (shares(0), shares(3));
    let total: u64 = plain.iter().sum();
    for number in 0..3 {
        let off = helped[number] as f64 / helped[0] as f64 - 1.0;
        assert!(off.abs() < 0.02, "{off}");
    }
    // All three stores and a fifth of the time: 35 s.
    let lost = plain[3] - helped[3];
    assert!(lost <= total * 35 / 100, "{lost} of {total}");
    let ids = world.queues.clone();
    let given: Nanos =
        ids.iter().map(|&id| world.dispatcher.scheduler().statistics(TIME, id).helped).sum();
    assert!(given <= 35 * SECOND + 10, "{given}");
}

/// Start-up time of an application that reads 20 MB at random places, beside five sequential
/// readers that came before it, in units of its time alone.
fn start_up(helped: bool) -> f64 {
    let run = |others: usize, helped: bool| {
        let start = Client {
            sizes: vec![4096, 131_072],
            begin: 10 * SECOND,
            think: 1_000_000,
            sectors: 40_000,
            ..Client::random(QueueSpec::default())
        };
        let mut clients = vec![Client::reader(QueueSpec::default()); others];
        clients.push(start);
        let spec = BfqSpec { low_latency: false, ..BfqSpec::default() };
        let mut world = World::new(Box::new(Bfq::new(spec)), DISK, clients);
        world.run(10 * SECOND - 1);
        world.help(others, helped);
        world.run(200 * SECOND);
        world.got[others].finished.unwrap_or(200 * SECOND) - 10 * SECOND
    };
    run(5, helped) as f64 / run(0, false) as f64
}

/// The publication's figure in small: about the same as alone with help, several
/// times as long without.
#[test]
fn a_start_up_that_is_helped_takes_little_longer_than_alone() {
    let (helped, not) = (start_up(true), start_up(false));
    assert!(helped < 1.25, "{helped}");
    assert!(not > 3.0, "{not}");
}

/// Six on flash, of which one asks always and one begins and ends to ask a million times a second:
/// the loss of the other four against nobody's asking, and its bound: all of the time that help is
/// given, less the part of it that was the two's own. With `--nocapture` it prints both.
#[test]
fn those_who_ask_always_and_who_flip_take_no_more_than_their_bound() {
    const FLIP: Nanos = 1_000;
    let time = 2 * SECOND;
    let (help_share, help_burst) = (200_000, SECOND / 10);
    let spec = BfqSpec { low_latency: false, help_share, help_burst, ..BfqSpec::default() };
    let run = |always: bool, flips: bool| {
        let clients = vec![Client::reader(QueueSpec::default()); 6];
        let mut world = World::new(Box::new(Bfq::new(spec)), FLASH, clients);
        world.help(0, always);
        for step in 0..if flips { time / FLIP } else { 0 } {
            world.run(step * FLIP);
            world.help(1, step % 2 == 0);
        }
        world.run(time);
        let ids = world.queues.clone();
        let got: Vec<_> =
            ids.iter().map(|&id| world.dispatcher.scheduler().statistics(time, id)).collect();
        (world.got.iter().map(|got| got.sectors).collect::<Vec<u64>>(), got)
    };
    let (plain, _) = run(false, false);
    let total: u64 = plain.iter().sum();
    for (always, flips) in [(true, false), (false, true), (true, true)] {
        let (got, helped) = run(always, flips);
        let askers = u64::from(always) + u64::from(flips);
        let bound = askers * help_burst + time * u64::from(help_share) / 1_000_000;
        let given: Nanos = helped.iter().map(|got| got.helped).sum();
        assert!(given <= bound + 100, "{given} of {bound}");
        // A client that does not ask gets its sixth of the time without help.
        let least = total as f64 * (1.0 - bound as f64 / time as f64) / 6.0;
        for (number, &got) in got.iter().enumerate().skip(2) {
            let (part, least) = (got as f64 / total as f64, least / total as f64);
            assert!(part >= least - 0.01, "{number} has {part}, not {least}");
        }
        let lost = plain[2..].iter().sum::<u64>() as f64 - got[2..].iter().sum::<u64>() as f64;
        let most = bound as f64 / time as f64 * 4.0 / 6.0 * 100.0;
        let (lost, calls) = (lost / total as f64 * 100.0, helped[1].help_calls);
        println!(
            "always {always}, flips {flips}: {lost:.1} % lost, bound {most:.1} %; {calls} calls"
        );
        assert!(lost <= most + 0.5, "{lost} of {most}");
        assert_eq!(got.iter().sum::<u64>() * 100 / total, 100, "the drive is as busy");
        assert!(!flips || calls >= 1_900_000, "{calls}");
    }
}

#[test]
fn a_flood_of_calls_gives_no_more() {
    let clients = vec![Client::reader(QueueSpec::default()); 2];
    let mut world = World::new(Box::new(Bfq::new(spec())), FLASH, clients);
    for step in 0..20_000u64 {
        world.run(step * TIME / 20_000);
        world.help(0, step % 3 != 0);
    }
    world.run(TIME);
    let id = world.queues[0];
    let got = world.dispatcher.scheduler().statistics(TIME, id);
    assert!(got.help_calls > 10_000);
    assert!(got.helped <= 25 * SECOND + 1, "{}", got.helped);
    assert!(world.got[1].sectors * 3 > world.got[0].sectors, "{:?}", world.got);
}
