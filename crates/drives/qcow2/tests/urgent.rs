//! Requests that a guest prefers are preferred below an image as well, at the image's place for
//! them.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::*;
use stasis_block::{Command, Operation};
use stasis_clock::Nanos;
use stasis_drive::{Decorator, Drive, Layer, Submission};
use stasis_qcow2::{create, CreateOptions, Durability};

/// Arrivals below the image: urged places, and requested places.
#[derive(Default)]
struct Seen {
    urged: Vec<u64>,
    asked: Vec<u64>,
}

struct Watched {
    lower: Drive,
    seen: Rc<RefCell<Seen>>,
}

impl Decorator for Watched {
    fn lower(&self) -> &dyn Layer {
        &self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut self.lower
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.seen.borrow_mut().asked.push(submission.command.offset / 512);
        Layer::submit(&mut self.lower, now, submission);
    }

    fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        self.seen.borrow_mut().urged.extend(sectors);
    }
}

#[test]
fn an_urgent_read_is_urgent_below() {
    let folder = folder();
    let path = name(&folder, "d.qcow2");
    create(&path, &CreateOptions { size: Some(8 << 20), ..CreateOptions::default() }).unwrap();
    let (opening, medium) = open_files(&path, true, &options()).unwrap();
    let seen = Rc::<RefCell<Seen>>::default();
    let drive = Drive::new(0, "d".into(), Latencies::new(1), medium);
    let watched = Watched { lower: drive, seen: Rc::clone(&seen) };
    let image = opening.open(Box::new(watched), settings(Durability::Flush)).unwrap();
    let mut driver = Driver::new(image);
    driver.write(4 << 20, vec![7; 4096]);
    driver.flush();
    *seen.borrow_mut() = Seen::default();

    driver.layer.urge(&mut [(4 << 20) / 512].into_iter());
    assert!(seen.borrow().urged.is_empty(), "nothing is asked for yet");
    assert_eq!(driver.read(4 << 20, 4096), vec![7; 4096]);
    let first = seen.borrow().asked.clone();
    assert_eq!((first.len(), &seen.borrow().urged), (1, &first));
    // It holds for one command.
    driver.run(Command::new(Operation::Read, 4 << 20, 4096), vec![0; 4096]);
    assert_eq!((seen.borrow().asked.len(), seen.borrow().urged.len()), (2, 1));
}
