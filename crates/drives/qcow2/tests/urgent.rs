//! Requests that a guest prefers are preferred below an image as well, at the image's place for
//! them.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::*;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Request};
use stasis_drive::{Decorator, Drive, Layer};
use stasis_qcow2::{create, CreateOptions, Durability};

/// Arrivals below the image: whether each is urgent.
type Seen = Vec<bool>;

struct Watched {
    lower: Drive,
    urgencies: Rc<RefCell<Seen>>,
}

impl Decorator for Watched {
    fn lower(&self) -> &dyn Layer {
        &self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut self.lower
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.urgencies.borrow_mut().push(request.urgent);
        Layer::submit(&mut self.lower, now, request);
    }
}

#[test]
fn an_urgent_read_is_urgent_below() {
    let folder = folder();
    let path = name(&folder, "d.qcow2");
    create(&path, &CreateOptions { size: Some(8 << 20), ..CreateOptions::default() }).unwrap();
    let (opening, medium) = open_files(&path, true, &options()).unwrap();
    let urgencies = Rc::<RefCell<Seen>>::default();
    let drive = Drive::new(0, "d".into(), Latencies::new(1), medium);
    let watched = Watched { lower: drive, urgencies: Rc::clone(&urgencies) };
    let image = opening.open(Box::new(watched), settings(Durability::Flush)).unwrap();
    let mut driver = Driver::new(image);
    driver.write(4 << 20, vec![7; 4096]);
    driver.flush();
    assert!(!urgencies.borrow().contains(&true), "nothing was urgent");
    urgencies.borrow_mut().clear();

    let read = Command::new(Operation::Read, 4 << 20, 4096);
    let urgent = Request { urgent: true, ..Request::new(1_000, read, vec![0; 4096]) };
    driver.layer.submit(driver.now, urgent);
    assert_eq!(driver.wait(1_000).data, vec![7; 4096]);
    assert_eq!(*urgencies.borrow(), [true]);
    // It holds for one command.
    driver.run(read, vec![0; 4096]);
    assert_eq!(*urgencies.borrow(), [true, false]);
}
