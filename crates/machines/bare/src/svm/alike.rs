//! Memory that the guests of a run have alike: all use the first one's.
//!
//! QEMU keeps the code that it has translated by where the code lies in the emulated machine. Guests of
//! one kernel and one root have the same code at the same guest-physical addresses, each in memory of
//! its own, so that QEMU would translate it for each of them. Here the nested tables of all lead to the
//! memory of the first, and no guest can write to it. A write leaves the guest. Its tables lead to its
//! own memory then, which has the same bytes, and the instruction is executed.
//!
//! Promise: no guest sees it, neither by its memory nor by its time.

use super::nested::Nested;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The nested tables of a run's guests, in the order in which they were added.
#[derive(Default)]
pub struct Alike {
    tables: Mutex<Vec<Weak<Nested>>>,
}

impl Alike {
    /// Adds the tables of a guest, whose memory is mapped.
    pub fn add(self: &Arc<Self>, nested: &Arc<Nested>) {
        nested.be_among(self);
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(nested));
    }

    fn tables(&self) -> Vec<Arc<Nested>> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets all guests use the first one's memory for what they have alike in this range of
    /// guest-physical addresses. `equal`: all of it is known to be equal, and is not compared.
    ///
    /// # Safety
    /// On the bare machine, where a guest's memory is at the addresses that its tables name. No guest
    /// runs, nobody else writes to their memory, and who does so later calls [`Nested::own`] before.
    pub unsafe fn share(&self, range: Range<u64>, equal: bool) {
        if let Some((first, others)) = self.tables().split_first() {
            // SAFETY: the caller's promise.
            others.iter().for_each(|other| unsafe { other.use_of(first, &range, equal) });
        }
    }

    /// The memory of `nested` in this range is about to be written: it is the guest's own from now on. Where
    /// others use it, theirs is their own as well.
    pub(super) fn end(&self, nested: &Nested, range: Range<u64>) {
        let tables = self.tables();
        let is_first = tables.first().is_some_and(|first| std::ptr::eq(&**first, nested));
        match is_first {
            // All that one entry of the first maps: another's entries may be of other sizes.
            true => {
                let whole = nested.whole_pages(range);
                tables.iter().for_each(|one| one.be_own(whole.clone()));
            }
            false => nested.be_own(range),
        }
    }
}
