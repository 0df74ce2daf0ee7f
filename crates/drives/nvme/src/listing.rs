//! Lists that a controller makes slice by slice ([`crate::slices`]).

use crate::command::{CommandId, SubmissionEntry};
use crate::controller_id::ControllerId;

/// A list that is being made.
#[derive(Debug)]
pub struct Listing {
    /// The command that asks for it.
    pub command: SubmissionEntry,
    /// The last element that is in it; none at its beginning.
    pub last: Vec<u8>,
    /// Number of its elements.
    pub count: u32,
    /// Its bytes so far, for the host.
    pub data: Vec<u8>,
}

/// The lists that are being made.
#[derive(Debug, Default)]
pub struct Listings(Vec<Listing>);

impl Listings {
    /// Returns whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is one of a controller.
    #[inline]
    pub fn is_of(&self, controller: ControllerId) -> bool {
        !self.is_empty() && self.0.iter().any(|list| list.command.controller == controller)
    }

    /// The commands that wait for theirs, with their namespaces.
    pub fn commands(&self) -> impl Iterator<Item = (CommandId, u32)> + '_ {
        self.0.iter().map(|list| (list.command.id(), list.command.nsid))
    }

    /// A list goes on behind the others.
    pub fn put(&mut self, list: Listing) {
        self.0.push(list);
    }

    /// Takes out the list of a controller whose turn it is.
    pub fn next(&mut self, controller: ControllerId) -> Option<Listing> {
        let index = self.0.iter().position(|list| list.command.controller == controller)?;
        Some(self.0.remove(index))
    }

    /// Drops the lists of the commands that `which` selects.
    pub fn abandon(&mut self, which: impl Fn(CommandId) -> bool, mut each: impl FnMut(CommandId)) {
        self.0.retain(|list| {
            let goes = which(list.command.id());
            if goes {
                each(list.command.id());
            }
            !goes
        });
    }
}
