//! The example of `docs/guides/extending.md` is this file, and does what the page says.

mod tape;

use stasis_block::{Command, Model, Operation};
use stasis_clock::MILLISECOND;
use stasis_models::Independent;
use tape::Tape;

const MIB: u64 = 1 << 20;

#[test]
fn the_page_shows_the_file() {
    let page = include_str!("../../../../docs/guides/extending.md");
    let code = include_str!("tape.rs");
    assert!(page.contains(&format!("```rust\n{code}```")), "tape.rs is not as in the page");
}

#[test]
fn a_drive_model_of_ones_own_runs() {
    let mut drive = Independent::new(Tape::default(), Some(1));
    let read = |offset| Command::new(Operation::Read, offset, MIB);
    drive.submit(0, 0, &read(0));
    drive.submit(0, 1, &read(11 * MIB));
    let mut done = Vec::new();
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut done);
    }
    let times: Vec<_> = done.iter().map(|completion| completion.at / MILLISECOND).collect();
    assert_eq!(times, [1, 12], "the second one winds past 10 MiB and reads one");
}
