//! Commands that wait for others (formats, deletions, self-tests and fused pairs) in any order and
//! beside I/O, aborts and resets: each command ends once, and nobody is held up for good.

use crate::support::*;
use proptest::prelude::*;
use stasis_block::Status;
use stasis_nvme::{Config, Namespace};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// To the admin queue.
    Admin(Sqe),
    /// To I/O queue 1 or 2.
    Io(u16, Sqe),
    /// A Compare and a Write of one block, fused.
    Pair(u16, u32, u64),
    /// Ends the oldest request of the drive, or the newest; well, or not.
    End(bool, bool),
    /// Aborts a command of a queue.
    Abort(u16, u16),
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let nsid = prop_oneof![8 => 1..5u32, 1 => Just(u32::MAX), 1 => Just(0u32)];
    let admin = (prop::sample::select(vec![0x0du8, 0x14, 0x15, 0x80]), nsid.clone(), 0..4u32);
    let admin = admin.prop_map(|(opcode, nsid, cdw10)| {
        Step::Admin(Sqe { opcode, nsid, cdw10, prp1: SCRATCH, ..Default::default() })
    });
    let io =
        (1..3u16, prop::sample::select(vec![0u8, 1, 2, 4, 5, 9]), nsid.clone(), 0..40u64, 0..3u8);
    let io = io.prop_map(|(queue, opcode, nsid, lba, flags)| {
        Step::Io(queue, Sqe { nsid, flags, ..Sqe::io(opcode, lba, 1, DATA, 0) })
    });
    let step = prop_oneof![
        4 => admin,
        4 => io,
        3 => (1..3u16, nsid, 0..40u64).prop_map(|(queue, nsid, lba)| Step::Pair(queue, nsid, lba)),
        6 => (any::<bool>(), prop::bool::weighted(0.9)).prop_map(|(first, well)| Step::End(first, well)),
        1 => (0..3u16, 1..20u16).prop_map(|(queue, cid)| Step::Abort(queue, cid)),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..60)
}

fn driver() -> Driver {
    let namespace = |index: u64| Namespace { start: index << 16, ..Namespace::new(128, 512) };
    let namespaces = (0..3).map(namespace).collect();
    Driver::with_queues(Config { namespaces, ..config() }, 2, 32)
}

/// Returns whether a queue has room for two more commands.
fn has_room(waiting: usize) -> bool {
    waiting < 28
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_command_ends_once(steps in steps()) {
        let mut driver = driver();
        // A new namespace of 16 blocks, and the list of controllers that has number 0, at once: NSZE
        // and NCAP are 1 | 0 << 16.
        let mut page = vec![0; 4096];
        page[..4].copy_from_slice(&[1, 0, 0, 0]);
        page[8] = 1;
        driver.ram.set(SCRATCH, &page);
        let mut held = Vec::new();
        // By queue: the commands that have not ended.
        let mut waiting: [Vec<u16>; 3] = Default::default();
        let collect = |driver: &mut Driver, waiting: &mut [Vec<u16>; 3]| {
            for (queue, waiting) in (0u16..).zip(waiting) {
                for end in driver.reap(queue) {
                    let at = waiting.iter().position(|cid| *cid == end.cid);
                    prop_assert!(at.is_some(), "{end:?} of queue {queue}");
                    waiting.swap_remove(at.unwrap());
                }
            }
            Ok(())
        };
        for step in steps {
            match step {
                Step::Admin(sqe) if has_room(waiting[0].len()) => {
                    waiting[0].push(driver.submit(0, sqe));
                }
                Step::Io(queue, sqe) if has_room(waiting[usize::from(queue)].len()) => {
                    waiting[usize::from(queue)].push(driver.submit(queue, sqe));
                }
                Step::Pair(queue, nsid, lba) if has_room(waiting[usize::from(queue)].len()) => {
                    for (opcode, flags) in [(5, 1), (1, 2)] {
                        let sqe = Sqe { nsid, flags, ..Sqe::io(opcode, lba, 1, DATA, 0) };
                        waiting[usize::from(queue)].push(driver.put(queue, sqe));
                    }
                    driver.ring(queue);
                }
                Step::End(first, well) => {
                    held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
                    if held.is_empty() {
                        continue;
                    }
                    let mut request = held.remove(if first { 0 } else { held.len() - 1 });
                    driver.perform(&mut request);
                    let status = if well { Status::Ok } else { Status::ReadError };
                    driver.controller.complete(&driver.ram, request.tag, status, request.data);
                }
                Step::Abort(queue, cid) if has_room(waiting[0].len()) => {
                    let cdw10 = u32::from(cid) << 16 | u32::from(queue);
                    waiting[0].push(driver.submit(0, Sqe { opcode: 8, cdw10, ..Default::default() }));
                }
                Step::Reset => {
                    driver.disable();
                    driver.enable();
                    driver.create_pair(1, 32, 32, 1);
                    driver.create_pair(2, 32, 32, 2);
                    waiting.iter_mut().for_each(Vec::clear);
                }
                _ => {}
            }
            collect(&mut driver, &mut waiting)?;
        }
        // All that the drive has ends; a last command of each queue ends a fused one that stands alone.
        for queue in [1, 2] {
            waiting[usize::from(queue)].push(driver.submit(queue, Sqe::io(2, 0, 1, DATA, 0)));
        }
        loop {
            held.extend(std::iter::from_fn(|| driver.controller.pop_request()));
            let Some(mut request) = held.pop() else { break };
            driver.perform(&mut request);
            driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
            collect(&mut driver, &mut waiting)?;
        }
        collect(&mut driver, &mut waiting)?;
        prop_assert_eq!(driver.controller.in_flight(), 0);
        prop_assert!(waiting.iter().all(Vec::is_empty), "never end: {:?}", waiting);
        // And the controller works on.
        let page = driver.identify(1, 0).1;
        prop_assert_eq!(page[522], 1);
    }
}
