//! For whom each operation of the array is, while the drive is watched.
//!
//! Commands have the numbers of their submissions, collections numbers of their own, in the order of
//! their first operations. Data in the write buffer is that of the command that wrote it last.

use std::collections::{BTreeMap, VecDeque};

use crate::narrow;
use stasis_block::timeline::{Purpose, Whom};
use stasis_nand::Array;

/// No command.
const NOBODY: u64 = u64::MAX;

/// The purpose of an operation, and for which commands it is: their numbers, rising.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    whom: Whom,
    // Commands after the first.
    more: Vec<u64>,
}

impl Owner {
    /// Makes the owner of a purpose that has no number.
    pub(crate) fn of(purpose: Purpose) -> Self {
        Whom { purpose, ..Whom::default() }.into()
    }

    /// Makes the owner of a purpose that has no number, while the commands of `by` wait for it.
    pub(crate) fn awaited(purpose: Purpose, by: &Self) -> Self {
        Whom { purpose, ..by.whom }.into()
    }

    /// Takes in the commands of another.
    fn add(&mut self, other: &Self) {
        other.numbers().for_each(|number| self.add_command(number));
        // The host's commands are named if several are there at once.
        if self.whom.purpose == Purpose::None || other.whom.purpose == Purpose::Command {
            self.whom.purpose = other.whom.purpose;
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.whom.first_command().into_iter().chain(self.more.iter().copied())
    }

    /// One more command, or one that is there.
    fn add_command(&mut self, mut number: u64) {
        let Whom { number: first, commands, .. } = &mut self.whom;
        if *commands == 0 {
            *first = number;
        } else if *first == number {
            return;
        } else {
            if number < *first {
                std::mem::swap(first, &mut number);
            }
            match self.more.binary_search(&number) {
                Ok(_) => return,
                Err(place) => self.more.insert(place, number),
            }
        }
        *commands += 1;
    }
}

impl From<Whom> for Owner {
    fn from(whom: Whom) -> Self {
        Self { whom, more: Vec::new() }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Owners {
    // Commands so far.
    submitted: u64,
    // By request: the number of its command.
    requests: Vec<u64>,
    // By entry of the write buffer.
    entries: Vec<Owner>,
    // By page in a zoned drive's memory.
    pages: Vec<Owner>,
    // By plane: its collection, once that has an operation.
    collecting: Vec<Option<u64>>,
    collections: u64,
    // Blocks that merges left to be erased, with the numbers of the collections.
    awaiting_erase: BTreeMap<u32, u64>,
    // Operations from the number `first` on, and whether each has ended.
    first: u64,
    operations: VecDeque<(Owner, bool)>,
}

impl Owners {
    /// Makes the owners of an array of so many planes, whose next operation has the number `first`.
    pub(crate) fn new(planes: u32, first: u64) -> Self {
        Self {
            submitted: 0,
            requests: Vec::new(),
            entries: Vec::new(),
            pages: Vec::new(),
            collecting: vec![None; planes as usize],
            collections: 0,
            awaiting_erase: BTreeMap::new(),
            first,
            operations: VecDeque::new(),
        }
    }

    /// A request is the next command of the host's.
    pub(crate) fn begin(&mut self, id: u32) {
        let number = self.submitted;
        self.submitted += 1;
        self.set(id, number);
    }

    /// A request is no command of the host's.
    pub(crate) fn begin_ahead(&mut self, id: u32) {
        self.set(id, NOBODY);
    }

    fn set(&mut self, id: u32, number: u64) {
        let place = id as usize;
        if self.requests.len() <= place {
            self.requests.resize(place + 1, NOBODY);
        }
        self.requests[place] = number;
    }

    /// The number of a request's command.
    pub(crate) fn command(&self, id: u32) -> Option<u64> {
        self.requests.get(id as usize).copied().filter(|&number| number != NOBODY)
    }

    /// A request, as an operation's purpose.
    pub(crate) fn request(&self, id: u32) -> Owner {
        match self.command(id) {
            Some(number) => Whom::command(number).into(),
            None => Owner::of(Purpose::ReadAhead),
        }
    }

    /// An entry of the write buffer has new data: a request's, or of none a unit of the map.
    pub(crate) fn fill_entry(&mut self, entry: u32, id: Option<u32>) {
        let owner = match id {
            Some(id) => self.request(id),
            None => Owner::of(Purpose::Map),
        };
        put(&mut self.entries, entry, owner);
    }

    /// The page that entries of the write buffer fill.
    pub(crate) fn gathered(&self, entries: &[u32]) -> Owner {
        let mut all = Owner::default();
        for &entry in entries {
            match self.entries.get(entry as usize).filter(|one| one.whom != Whom::default()) {
                Some(one) => all.add(one),
                None if all.whom.purpose == Purpose::None => {
                    all.whom.purpose = Purpose::Recovery;
                }
                None => {}
            }
        }
        all
    }

    /// A page in a zoned drive's memory begins empty.
    pub(crate) fn begin_page(&mut self, page: u32) {
        put(&mut self.pages, page, Owner::default());
    }

    /// Notes that a page in a zoned drive's memory gets data of the request `id`.
    pub(crate) fn fill_page(&mut self, page: u32, id: u32) {
        let one = self.request(id);
        if let Some(owner) = self.pages.get_mut(page as usize) {
            owner.add(&one);
        }
    }

    /// The data of a page in a zoned drive's memory.
    pub(crate) fn page(&self, page: u32) -> Owner {
        let owner = self.pages.get(page as usize).filter(|one| one.whom != Whom::default());
        owner.cloned().unwrap_or_else(|| Owner::of(Purpose::Recovery))
    }

    /// A plane's collection.
    pub(crate) fn collection(&mut self, plane: u32) -> Owner {
        self.collection_of(plane).into()
    }

    fn collection_of(&mut self, plane: u32) -> Whom {
        let collections = &mut self.collections;
        let number = *self.collecting[plane as usize].get_or_insert_with(|| {
            *collections += 1;
            *collections - 1
        });
        Whom::collection(number)
    }

    /// A plane's collection ends.
    pub(crate) fn end_collection(&mut self, plane: u32) -> Whom {
        let whom = self.collection_of(plane);
        self.collecting[plane as usize] = None;
        whom
    }

    /// A plane's collection ends without a block that it has emptied.
    pub(crate) fn abandon_collection(&mut self, plane: u32) {
        self.collecting[plane as usize] = None;
    }

    /// A merge leaves a block to be erased, of its plane.
    pub(crate) fn leave(&mut self, plane: u32, block: u32) {
        let whom = self.collection_of(plane);
        self.awaiting_erase.insert(block, whom.number);
    }

    /// Returns the owner of the erase of such a block.
    pub(crate) fn erase_left(&mut self, block: u32) -> Owner {
        match self.awaiting_erase.remove(&block) {
            Some(number) => Whom::collection(number).into(),
            None => Owner::of(Purpose::Recovery),
        }
    }

    /// The operation of the number `number`, which is the next, is for `owner`.
    pub(crate) fn submit(&mut self, number: u64, owner: Owner) {
        // Operations of which nobody has told.
        let end = self.first + self.operations.len() as u64;
        (end..number).for_each(|_| self.operations.push_back((Owner::default(), true)));
        self.operations.push_back((owner, false));
    }

    /// An operation has ended.
    pub(crate) fn end(&mut self, number: u64) {
        if let Some(place) = number.checked_sub(self.first) {
            if let Some(operation) = self.operations.get_mut(narrow::place(place)) {
                operation.1 = true;
            }
        }
    }

    fn owner(&self, number: u64) -> Option<&Owner> {
        let place = number.checked_sub(self.first)?;
        self.operations.get(narrow::place(place)).map(|(owner, _)| owner)
    }

    /// Multi-plane operations are for all for whom their parts are.
    pub(crate) fn join(&mut self, array: &mut Array) {
        array.take_joined(|leader, mate| {
            let Some(other) = self.owner(mate).cloned() else { return };
            let place = leader.checked_sub(self.first).unwrap_or(u64::MAX);
            if let Some((owner, _)) = self.operations.get_mut(narrow::place(place)) {
                owner.add(&other);
            }
        });
    }

    /// For whom an operation is.
    pub(crate) fn of(&self, number: u64) -> Whom {
        self.owner(number).map(|owner| owner.whom).unwrap_or_default()
    }

    /// Removes the first operations that have ended.
    pub(crate) fn forget_ended(&mut self) {
        while self.operations.front().is_some_and(|(_, ended)| *ended) {
            self.operations.pop_front();
            self.first += 1;
        }
    }

    /// The power failed: nothing is under way. What is left in memory is nobody's.
    pub(crate) fn power_cut(&mut self) {
        self.operations.iter_mut().for_each(|(_, ended)| *ended = true);
        self.entries.clear();
        self.pages.clear();
        self.awaiting_erase.clear();
        self.collecting.fill(None);
    }
}

fn put(all: &mut Vec<Owner>, place: u32, owner: Owner) {
    let place = place as usize;
    if all.len() <= place {
        all.resize(place + 1, Owner::default());
    }
    all[place] = owner;
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn an_owner_is_the_set_of_its_commands(numbers in prop::collection::vec(0u64..9, 0..12)) {
            let mut owner = Owner::default();
            numbers.iter().for_each(|&number| owner.add(&Whom::command(number).into()));
            let set: BTreeSet<u64> = numbers.iter().copied().collect();
            prop_assert_eq!(owner.numbers().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(owner.whom.commands as usize, set.len());
            prop_assert_eq!(owner.whom.first_command(), set.first().copied());
        }
    }

    #[test]
    fn operations_are_forgotten_once_all_before_them_have_ended() {
        let mut owners = Owners::new(1, 5);
        (0..3).for_each(|id| owners.begin(id));
        for number in [5, 6, 8] {
            let owner = owners.request(number as u32 % 3);
            owners.submit(number, owner);
        }
        let numbers =
            |owners: &Owners| [5, 6, 7, 8].map(|number| owners.of(number).first_command());
        assert_eq!(numbers(&owners), [Some(2), Some(0), None, Some(2)]);
        owners.end(6);
        owners.forget_ended();
        assert_eq!(owners.of(6).first_command(), Some(0), "one before it is under way");
        owners.end(5);
        owners.forget_ended();
        assert_eq!(numbers(&owners), [None, None, None, Some(2)]);
        owners.power_cut();
        owners.forget_ended();
        assert_eq!((owners.operations.len(), owners.first), (0, 9));
    }
}
