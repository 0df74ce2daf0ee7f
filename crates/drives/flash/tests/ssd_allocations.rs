//! Once it is warm, a drive allocates nothing per I/O.

use stasis_block::{Command, Completion, Model, Operation};
use stasis_flash::spec::{Blocking, GcSpec, Precondition, WearLevelling};
use stasis_flash::{Spec, Ssd};

fn work(ssd: &mut Ssd, state: &mut u64, start: u64, count: u32, done: &mut Vec<Completion>) -> u64 {
    let units = ssd.capacity() / 4096;
    let mut next = || {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let operation = match *state >> 60 {
            0..6 => Operation::Read,
            6 => Operation::Flush,
            7 => Operation::Discard,
            8 => Operation::Copy,
            _ => Operation::Write,
        };
        let length = if operation == Operation::Flush { 0 } else { 8192 };
        let offset = (*state >> 20) % (units - 2) * 4096 + (*state >> 59 & 1) * 512;
        Command { source: 4096, ..Command::new(operation, offset, length) }
    };
    (0..64).for_each(|tag| ssd.submit(start, tag, &next()));
    let (mut sent, mut flying, mut now) = (64, 64, start);
    while flying > 0 {
        now = ssd.next_event().unwrap();
        ssd.advance(now, done);
        while let Some(completion) = done.pop() {
            flying -= 1;
            if sent < count {
                ssd.submit(now, completion.tag, &next());
                (sent, flying) = (sent + 1, flying + 1);
            }
        }
    }
    now
}

#[test]
fn a_warm_drive_allocates_nothing() {
    for (buffer, blocking) in [(0, Blocking::None), (1 << 20, Blocking::Plane)] {
        let spec = Spec {
            channels: 2,
            luns: 2,
            planes: 2,
            pages: Some(32),
            page_size: 8192,
            over_provisioning: Some(0.3),
            buffer,
            streams: 2,
            hot_cold: true,
            wear_levelling: WearLevelling::Static,
            precondition: Some(Precondition::Steady),
            gc: GcSpec { blocking, ..GcSpec::default() },
            ..Spec::default()
        };
        let mut ssd = Ssd::new(&spec, 64 << 20, 1).unwrap();
        let (mut state, mut done) = (1, Vec::with_capacity(1024));
        let now = work(&mut ssd, &mut state, 0, 60_000, &mut done);
        let measured = allocation_counter::measure(|| {
            work(&mut ssd, &mut state, now, 30_000, &mut done);
        });
        assert_eq!(measured.count_total, 0);
        assert!(ssd.context().statistics.collections > 100);
    }
}
