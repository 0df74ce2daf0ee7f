//! What a power cut may leave, against the rules taken one by one.

use proptest::prelude::*;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Operation, Status};
use stasis_drive::{History, Survival};

fn history(seed: u64, length: usize) -> (History, u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut history = History::default();
    let mut now = 0;
    for _ in 0..length {
        now += random.next_u64() % 3;
        let offset = random.next_u64() % 4 * 512;
        let mut command = match random.next_u64() % 6 {
            0 => Command::flush(),
            1 => Command::barrier(),
            _ => Command::new(Operation::Write, offset, 1024),
        };
        command.fua = command.operation == Operation::Write && random.next_u64() % 4 == 0;
        let data = vec![random.next_u64() as u8; command.length as usize];
        let place = history.submitted(now, command, data);
        let status = if random.next_u64() % 8 == 0 { Status::WriteError } else { Status::Ok };
        history.ended(place, now + random.next_u64() % 6, status);
    }
    (history, now + 6)
}

/// The rules as they are written, one pair of commands at a time.
fn rules(history: &History, at: u64, left: &[Survival]) -> bool {
    let events: Vec<_> = history.events().iter().take_while(|event| event.submit <= at).collect();
    let well =
        |place: usize| events[place].done.is_some_and(|(end, s)| end <= at && s == Status::Ok);
    let is = |place: usize, operation| events[place].command.operation == operation;
    (0..events.len()).filter(|&place| is(place, Operation::Write)).all(|place| {
        let fua = well(place) && events[place].command.fua;
        let flushed = well(place)
            && (place..events.len()).any(|other| is(other, Operation::Flush) && well(other));
        // Something that must or does survive lies behind a barrier behind it.
        let barrier = (place..events.len()).find(|&other| is(other, Operation::Barrier));
        let ordered = barrier.is_some_and(|barrier| {
            (barrier..events.len())
                .any(|other| is(other, Operation::Write) && left[other] != Survival::Lost)
        });
        !(fua || flushed || ordered) || left[place] == Survival::Whole
    })
}

proptest! {
    #[test]
    fn what_is_left_keeps_the_rules(seed: u64, length in 1usize..30, draw: u64) {
        let (history, end) = history(seed, length);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(draw);
        let at = random.next_u64() % (end + 1);
        let cut = history.cut(at);
        let left = cut.choose(|| random.next_u64());
        prop_assert!(rules(&history, at, &left), "{:?}", left);
        prop_assert!(cut.allows(&left));
        // Any other choice is allowed where the rules allow it.
        for _ in 0..20 {
            let other: Vec<_> = left
                .iter()
                .enumerate()
                .map(|(place, &own)| match random.next_u64() % 4 {
                    _ if history.events()[place].command.operation != Operation::Write => own,
                    0 => Survival::Lost,
                    1 => Survival::Torn(1),
                    2 => Survival::Whole,
                    _ => own,
                })
                .collect();
            prop_assert_eq!(cut.allows(&other), rules(&history, at, &other), "{:?}", other);
        }
    }
}

#[test]
fn a_cut_applies_what_is_left_in_order() {
    let mut history = History::default();
    for (value, offset) in [(1, 0), (2, 512), (3, 1024)] {
        let command = Command::new(Operation::Write, offset, 1024);
        history.submitted(0, command, vec![value; 1024]);
    }
    let cut = history.cut(0);
    let mut disk = vec![0; 512];
    cut.apply(&[Survival::Whole, Survival::Whole, Survival::Lost], &mut disk);
    let firsts: Vec<_> = disk.chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(firsts, [1, 2, 2]);
    assert!(cut.changes().all(|place| !cut.is_durable(place)));
    // Whatever is torn is torn between sectors.
    for seed in 0..20 {
        let mut disk = vec![0; 2048];
        cut.apply(&[Survival::Lost, Survival::Lost, Survival::Torn(seed)], &mut disk);
        assert!(disk.chunks(512).all(|s| s.iter().all(|&byte| byte == s[0])));
    }
}
