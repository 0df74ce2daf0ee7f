//! A command on its way down, and on its way back up: the one form in which controllers, layers,
//! drives and media pass I/O on.

use crate::{Command, Tag};

/// A command with its data, from the controller that made it to the drive at the bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sender's name for it, which comes back with it: unique among those in flight.
    pub tag: Tag,
    /// The queue it came by; 0 if no guest sent it.
    pub queue: u16,
    /// True if the sender prefers it to its others: a shared drive's scheduler can do so as well.
    pub urgent: bool,
    /// The command, in bytes of the layer that gets it.
    pub command: Command,
    /// Data to write, or room for exactly the data to read; otherwise empty. The buffer comes back
    /// with the completion, to be used again.
    pub data: Vec<u8>,
}

impl Request {
    /// A request of queue 0, preferred to no other.
    pub fn new(tag: Tag, command: Command, data: Vec<u8>) -> Self {
        Self { tag, queue: 0, urgent: false, command, data }
    }
}
