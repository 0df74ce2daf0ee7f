//! Small writes that are durable at once: each programs a page that is mostly empty.

use stasis_block::{Command, Fate, Model, Operation, Random};

use super::load::{drain, on, run, shadowed};
use crate::spec::Precondition;
use crate::Spec;

/// Writes (and copies) of 512 bytes to 4 KiB at random places of a whole drive of 7 % of spare
/// flash: its garbage comes to lie so evenly that no block has a page of it.
#[test]
fn a_drive_whose_garbage_lies_evenly_takes_writes_forever() {
    for (planes, capacity, copies) in
        [(1, 20 << 20, false), (1, 20 << 20, true), (2, 40 << 20, true)]
    {
        // The shadow array knows what is written only.
        let precondition = Some(Precondition::None);
        let spec = Spec { channels: planes, luns: 1, planes: 1, precondition, ..Spec::default() };
        let mut ssd = shadowed(&spec, capacity, 1);
        let (units, sectors) = (capacity / 4096, capacity / 512 - 8);
        let filled = run(&mut ssd, 0, 32, units, |n| on(Operation::Write, n, 1));
        let now = filled.last().unwrap().at;
        let mut random = Random::new(7);
        let done = run(&mut ssd, now, 32, 6 * units, |_| {
            let [at, source] = [sectors, sectors].map(|sectors| 512 * random.below(sectors));
            let length = 512 * (1 + random.below(8));
            let operation =
                if copies && random.below(2) == 0 { Operation::Copy } else { Operation::Write };
            Command { source, fua: true, ..Command::new(operation, at, length) }
        });
        let refused = done.iter().position(|completion| completion.fate != Fate::Done);
        assert_eq!(refused, None, "{planes} {copies}");
        drain(&mut ssd);
        assert!(!ssd.health().read_only);
        let now = done.last().unwrap().at + 1_000_000_000;
        let read = run(&mut ssd, now, 8, units, |n| on(Operation::Read, n, 1));
        assert!(read.iter().all(|completion| completion.fate == Fate::Done));
        ssd.ftl().check();
    }
}
