//! Files and devices in place: an I/O is over when its submission returns.

use stasis_block::Command;

use crate::backing::Backing;
use crate::direct::Bounce;
use crate::workers::Perform;
use crate::{Finished, Medium, Ticket};

/// Performs each I/O while it is submitted.
#[derive(Debug)]
pub(crate) struct Synchronous {
    backing: Backing,
    bounce: Bounce,
    finished: Vec<Finished>,
}

impl Synchronous {
    pub(crate) fn new(backing: Backing) -> Self {
        Self { backing, bounce: Bounce::default(), finished: Vec::new() }
    }
}

impl Medium for Synchronous {
    fn capacity(&self) -> u64 {
        self.backing.capacity
    }

    fn submit(&mut self, ticket: Ticket, command: Command, mut data: Vec<u8>) {
        let result = self.backing.perform(&command, &mut data, &mut self.bounce);
        self.finished.push(Finished { ticket, result, data });
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        done.append(&mut self.finished);
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        self.poll(done);
    }

    fn in_flight(&self) -> usize {
        self.finished.len()
    }

    fn discard_zeroes(&self) -> bool {
        self.backing.punches
    }
}
