//! A barrier is acknowledged after its own cost and waits for nothing.

use crate::common::Lowest;
use stasis_block::{Command, Operation, Request, Status};
use stasis_drive::{Done, Drive, Layer};
use stasis_media::Ram;

fn drive() -> Drive {
    Drive::new(0, "d".into(), Box::<Lowest>::default(), Box::new(Ram::new(1 << 20)))
}

/// Two writes with a barrier between them, and one more at 100 ns.
fn run(mut drive: Drive) -> Vec<(u32, u64, Status)> {
    let mut done: Vec<Done> = Vec::new();
    let write = |offset| Command::new(Operation::Write, offset, 512);
    for (tag, command) in [(0, write(0)), (1, Command::barrier()), (2, write(512))] {
        let data = vec![7; command.length as usize];
        drive.submit(0, Request { queue: 1, ..Request::new(tag, command, data) });
    }
    drive.submit(100, Request { queue: 1, ..Request::new(3, Command::barrier(), vec![]) });
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut done);
        assert!(done.iter().all(|done| done.at <= at));
    }
    assert_eq!(drive.in_flight(), 0);
    done.iter().map(|done| (done.tag, done.at, done.status)).collect()
}

#[test]
fn barriers_wait_for_nothing_and_cost_what_is_said() {
    let service = Lowest::SERVICE;
    let expected = |cost| {
        vec![
            (1, cost, Status::Ok),
            (3, 100 + cost, Status::Ok),
            (0, service, Status::Ok),
            (2, 2 * service, Status::Ok),
        ]
    };
    assert_eq!(run(drive().with_barrier(0)), expected(0));
    assert_eq!(run(drive().with_barrier(2_000)), expected(2_000));
    assert_eq!(drive().with_barrier(7).properties().barrier, Some(7));
}

#[test]
fn a_drive_without_barriers_says_so() {
    assert_eq!(drive().properties().barrier, None);
    let done = run(drive());
    assert_eq!(done[..2], [(1, 0, Status::WriteError), (3, 100, Status::WriteError)]);
}
