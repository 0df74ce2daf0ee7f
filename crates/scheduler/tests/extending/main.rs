//! The example of `docs/guides/extending.md` is this file, and does what the page says.

mod newest;

use newest::Newest;
use stasis_block::{Command, Operation};
use stasis_scheduler::{QueueId, QueueSpec, Refused, Request, Scheduler};

#[test]
fn the_page_shows_the_file() {
    let page = include_str!("../../../../docs/guides/extending.md");
    let code = include_str!("newest.rs");
    assert!(page.contains(&format!("```rust\n{code}```")), "newest.rs is not as in the page");
}

#[test]
fn a_scheduler_of_ones_own_runs() {
    let mut scheduler = Newest::default();
    let queue = scheduler.create(0, &QueueSpec::default());
    let read =
        |tag: u32| Request::new(tag, Command::new(Operation::Read, 4096 * u64::from(tag), 4096));
    for tag in 0..3 {
        let request = read(tag);
        scheduler.add(0, queue, &request).unwrap();
    }
    let order: Vec<_> = std::iter::from_fn(|| scheduler.dispatch(0)).collect();
    assert_eq!(order, [2, 1, 0]);
    assert_eq!(scheduler.statistics(0, queue).requests, 3);
    assert_eq!(scheduler.add(0, queue, &read(2)), Err(Refused::Tag(2)), "it is in flight");
    scheduler.complete(0, 2);
    assert_eq!(scheduler.add(0, queue, &read(2)), Ok(()));
    let nobody = QueueId(7);
    assert_eq!(scheduler.add(0, nobody, &read(3)), Err(Refused::Queue(nobody)));
}
