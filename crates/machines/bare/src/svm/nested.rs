//! Nested page tables: where guest-physical memory lies in the bare machine.
//!
//! The tables are filled before the guest runs, in the largest pages that fit, so that no access to
//! memory leaves the guest; addresses that are left out are devices.

use super::alike::Alike;
use std::ops::Range as Span;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

const PRESENT_WRITABLE_USER: u64 = 7;
const WRITABLE: u64 = 1 << 1;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const ACCESSED_DIRTY: u64 = ACCESSED | DIRTY;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const PAGE: u64 = 1 << 12;
const TWO_MIB: u64 = 1 << 21;
const GIB: u64 = 1 << 30;
/// Guest-physical addresses end here: one table at the top.
const END: u64 = 1 << 48;

#[repr(C, align(4096))]
struct Table([u64; 512]);

/// A range cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("guest memory at {0:#x} is not aligned, too high, or there twice")]
pub struct NotMappable(pub u64);

impl Range {
    #[inline]
    fn find(&self, guest: u64) -> Option<(u64, u64)> {
        let offset = guest.wrapping_sub(self.guest);
        (offset < self.length).then(|| (self.host + offset, self.length - offset))
    }
}

/// A guest's nested page tables.
pub struct Nested {
    root: Box<Table>,
    // Owned by the entries that point to them; kept for their lives.
    tables: Vec<Box<Table>>,
    // The contents of the tables, for the host's own look-ups: the first range that was mapped, the
    // guest's main memory, and a few others.
    first: Range,
    others: Vec<Range>,
    /// True if the processor notes in the tables which pages are written.
    notes_writes: bool,
    // Ranges of guest memory in pages of 4 KiB.
    fine: Vec<Span<u64>>,
    // The guests with which this one may share memory.
    alike: OnceLock<Weak<Alike>>,
    // Pages that the guest cannot execute, and the tables that have come for them.
    forbidden: Mutex<Forbidden>,
}

#[derive(Default)]
struct Forbidden {
    pages: Vec<u64>,
    // Kept as long as the others: entries point to them.
    tables: Vec<Box<Table>>,
}

/// Guest memory in one piece.
#[derive(Debug, Clone, Copy, Default)]
struct Range {
    guest: u64,
    host: u64,
    length: u64,
}

impl Nested {
    /// Tables that map nothing.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            root: Box::new(Table([0; 512])),
            tables: Vec::new(),
            first: Range::default(),
            others: Vec::new(),
            notes_writes: false,
            fine: Vec::new(),
            alike: OnceLock::new(),
            forbidden: Mutex::default(),
        }
    }

    /// Tables that map nothing, and that tell which parts of memory the guest [has
    /// written](Self::take_written). Their pages have 2 MiB at most, so that a step more leads to each.
    pub fn noting_writes() -> Self {
        Self { notes_writes: true, ..Self::new() }
    }

    /// Memory that is mapped in these ranges from now on has pages of 4 KiB, of which each can be shared by
    /// itself ([`Alike::share`]).
    pub fn set_fine(&mut self, ranges: &[Span<u64>]) {
        self.fine = ranges.to_vec();
    }

    /// The top table's address.
    pub(super) fn root(&self) -> u64 {
        self.root.0.as_ptr() as u64
    }

    /// Maps `length` bytes of guest memory from `guest` on to the bare machine's
    /// memory at `host`; all are multiples of 4096.
    ///
    /// # Errors
    /// A number is no multiple of 4096, or something is mapped there.
    pub fn map(&mut self, guest: u64, host: u64, length: u64) -> Result<(), NotMappable> {
        let refused = Err(NotMappable(guest));
        let Some(end) = guest.checked_add(length).filter(|end| *end <= END) else {
            return refused;
        };
        if !(guest | host | length).is_multiple_of(PAGE) || host.checked_add(length).is_none() {
            return refused;
        }
        let mut at = guest;
        while at < end {
            let to = host + (at - guest);
            let sizes =
                if self.notes_writes { &[TWO_MIB, PAGE][..] } else { &[GIB, TWO_MIB, PAGE] };
            let is_fine =
                |size| self.fine.iter().any(|fine| fine.start < at + size && at < fine.end);
            let fits = |size: &u64| {
                (at | to).is_multiple_of(*size)
                    && end - at >= *size
                    && (*size == PAGE || !is_fine(*size))
            };
            let size = sizes.iter().copied().find(fits);
            let Some(size) = size else { return refused };
            if !self.enter(at, to, size) {
                return refused;
            }
            at += size;
        }
        let range = Range { guest, host, length };
        match self.first.length {
            0 => self.first = range,
            _ => self.others.push(range),
        }
        Ok(())
    }

    fn enter(&mut self, guest: u64, host: u64, size: u64) -> bool {
        let mut table = &mut self.root.0 as *mut [u64; 512];
        let mut span = 1 << 39;
        loop {
            let index = (guest / span % 512) as usize;
            // SAFETY: the root, or a table in `tables`: both live as long as
            // this value, and nothing else refers to them now.
            let entry = unsafe { &mut (*table)[index] };
            if span == size {
                let free = *entry == 0;
                if free {
                    let large = if size == PAGE { 0 } else { LARGE };
                    let dirty = if self.notes_writes { 0 } else { DIRTY };
                    *entry = host | PRESENT_WRITABLE_USER | ACCESSED | dirty | large;
                }
                return free;
            }
            if *entry == 0 {
                let mut new = Box::new(Table([0; 512]));
                *entry = new.0.as_mut_ptr() as u64 | PRESENT_WRITABLE_USER | ACCESSED_DIRTY;
                self.tables.push(new);
            } else if *entry & LARGE != 0 {
                return false;
            }
            table = (*entry & ADDRESS) as *mut [u64; 512];
            span /= 512;
        }
    }

    /// Names the pages (guest-physical address, length in bytes) that a guest has written to since the
    /// last call, and those that were written for it by an instruction that was carried out outside.
    /// Returns false, and names none, where the tables do not note it.
    ///
    /// The processor sets the dirty bit of an entry at the first write (AMD64 APM vol. 2, 5.4.2 and
    /// 15.25.5). To be called between two entries: an entry to the guest drops what the processor
    /// remembers of the tables.
    pub fn take_written(&self, found: &mut dyn FnMut(u64, u64)) -> bool {
        if !self.notes_writes {
            return false;
        }
        for range in std::iter::once(&self.first).chain(&self.others) {
            let mut at = range.guest;
            while at < range.guest + range.length {
                let Some((entry, size)) = self.leaf(at) else { break };
                // SAFETY: an entry of a table that lives as long as this value; the guest, whose
                // processor writes to it, does not run.
                unsafe {
                    let value = entry.read_volatile();
                    if value & DIRTY != 0 {
                        entry.write_volatile(value & !DIRTY);
                        found(at, size);
                    }
                }
                at += size;
            }
        }
        true
    }

    /// The entry that maps `guest`, and the length of its page.
    fn leaf(&self, guest: u64) -> Option<(*mut u64, u64)> {
        let (mut table, mut span) = (self.root(), 1 << 39);
        loop {
            let entry = (table as *mut u64).wrapping_add((guest / span % 512) as usize);
            // SAFETY: `table` is the root or came from an entry: both live as long as this value.
            let value = unsafe { entry.read_volatile() };
            if value == 0 {
                return None;
            }
            if span == PAGE || value & LARGE != 0 {
                return Some((entry, span));
            }
            table = value & ADDRESS;
            span /= 512;
        }
    }

    /// Keeps the guest from executing these pages, by their guest-physical addresses, and lets it execute all
    /// others. To be called between two entries, as [`Self::take_written`].
    pub(super) fn forbid(&self, pages: impl Iterator<Item = u64>) {
        let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pages = pages.peekable();
        if forbidden.pages.is_empty() && pages.peek().is_none() {
            return;
        }
        let Forbidden { pages: before, tables } = &mut *forbidden;
        for page in before.drain(..) {
            self.set_executable(page, true);
        }
        for page in pages {
            if self.split(page, tables) {
                self.set_executable(page, false);
                before.push(page);
            }
        }
    }

    fn set_executable(&self, page: u64, is_executable: bool) {
        if let Some((entry, _)) = self.leaf(page) {
            // SAFETY: as in `take_written`.
            unsafe {
                let value = entry.read_volatile() & !NO_EXECUTE;
                let bit = if is_executable { 0 } else { NO_EXECUTE };
                entry.write_volatile(value | bit);
            }
        }
    }

    /// Has the memory at `guest` in a page of 4 KiB. Returns whether there is memory.
    fn split(&self, guest: u64, tables: &mut Vec<Box<Table>>) -> bool {
        loop {
            let Some((entry, size)) = self.leaf(guest) else { return false };
            if size == PAGE {
                return true;
            }
            let part = size / 512;
            // SAFETY: as in `take_written`.
            let value = unsafe { entry.read_volatile() };
            let flags = if part == PAGE { value & !LARGE } else { value };
            let mut table =
                Box::new(Table(std::array::from_fn(|index| flags + index as u64 * part)));
            let to = table.0.as_mut_ptr() as u64;
            // SAFETY: the same; the table lives as long as this value.
            unsafe { entry.write_volatile(to | PRESENT_WRITABLE_USER | ACCESSED_DIRTY) };
            tables.push(table);
        }
    }

    pub(super) fn be_among(&self, alike: &Arc<Alike>) {
        // The first ones are those that it stays with.
        let _ = self.alike.set(Arc::downgrade(alike));
    }

    /// The pages of this range that are there: the entry of each, its address and its length.
    fn pages(&self, range: Span<u64>) -> impl Iterator<Item = (*mut u64, u64, u64)> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            while at < range.end {
                let here = at;
                match self.leaf(here) {
                    Some((entry, size)) => {
                        let start = here & !(size - 1);
                        at = start + size;
                        return Some((entry, start, size));
                    }
                    None => at = (here & !(PAGE - 1)) + PAGE,
                }
            }
            None
        })
    }

    /// The whole pages in which this range lies.
    pub(super) fn whole_pages(&self, range: Span<u64>) -> Span<u64> {
        let pages = self.pages(range.clone());
        pages.fold(range, |all, (_, start, size)| all.start.min(start)..all.end.max(start + size))
    }

    /// Leads to the memory of `first` where both have a page of the same bytes, and neither guest can
    /// write there any more.
    ///
    /// # Safety
    /// As of [`Alike::share`].
    pub(super) unsafe fn use_of(&self, first: &Self, range: &Span<u64>, equal: bool) {
        for (entry, start, size) in self.pages(range.clone()) {
            let end = start + size;
            let (Some((own, room)), Some((other, others_room))) =
                (self.find(start), first.find(start))
            else {
                continue;
            };
            let fits = room >= size && others_room >= size && other.is_multiple_of(size);
            // SAFETY: memory that both map, which nobody writes to meanwhile.
            let same = || unsafe {
                let bytes = |host| std::slice::from_raw_parts(host as *const u8, size as usize);
                bytes(own) == bytes(other)
            };
            if start < range.start || end > range.end || !fits || !(equal || same()) {
                continue;
            }
            // SAFETY: entries of tables that live as long as these values; no guest runs.
            unsafe {
                for (theirs, ..) in first.pages(start..end) {
                    theirs.write_volatile(theirs.read_volatile() & !WRITABLE);
                }
                let flags = entry.read_volatile() & !(ADDRESS | WRITABLE);
                entry.write_volatile(flags | other);
            }
        }
    }

    /// Leads to the guest's own memory in this range, which it may write to.
    pub(super) fn be_own(&self, range: Span<u64>) {
        for (entry, start, _) in self.pages(range) {
            // SAFETY: as in `use_of`.
            unsafe {
                let value = entry.read_volatile();
                if let (0, Some((own, _))) = (value & WRITABLE, self.find(start)) {
                    entry.write_volatile(value & !ADDRESS | own | WRITABLE);
                }
            }
        }
    }

    /// Memory in this range is about to be written: where it was shared it is the guest's own from now on.
    /// Returns whether any was.
    pub fn own(&self, range: Span<u64>) -> bool {
        let Some(alike) = self.alike.get().and_then(Weak::upgrade) else { return false };
        // SAFETY: as in `take_written`.
        let is_shared = |entry: *mut u64| unsafe { entry.read_volatile() & WRITABLE == 0 };
        let shared = self.pages(range.clone()).any(|(entry, ..)| is_shared(entry));
        if shared {
            alike.end(self, range);
        }
        shared
    }

    /// Notes that the page at `guest` is written.
    fn note(&self, guest: u64) {
        if let Some((entry, _)) = self.notes_writes.then(|| self.leaf(guest)).flatten() {
            // SAFETY: as in `take_written`.
            unsafe { entry.write_volatile(entry.read_volatile() | DIRTY) };
        }
    }

    /// Returns the place of the byte at `guest`, and the number of those that follow it in one
    /// piece, itself included.
    #[inline]
    pub fn find(&self, guest: u64) -> Option<(u64, u64)> {
        self.first.find(guest).or_else(|| self.find_others(guest))
    }

    #[cold]
    fn find_others(&self, guest: u64) -> Option<(u64, u64)> {
        self.others.iter().find_map(|range| range.find(guest))
    }

    /// The 8 bytes of guest memory at `guest`, a multiple of 8; `None` where there is
    /// no memory.
    pub(super) fn word(&self, guest: u64) -> Option<u64> {
        let (host, _) = self.find(guest & !7)?;
        // SAFETY: as in `read`; aligned, so that it ends within its page.
        Some(unsafe { std::ptr::read(host as *const u64) })
    }

    /// The 16 bytes of guest memory at `guest`, where they are in one piece.
    pub(super) fn array(&self, guest: u64) -> Option<[u8; 16]> {
        let (host, room) = self.find(guest)?;
        // SAFETY: as in `read`.
        (room >= 16).then(|| unsafe { std::ptr::read_unaligned(host as *const [u8; 16]) })
    }

    /// Copies guest memory from `guest` on; whether all of it is memory.
    pub(super) fn read(&self, mut guest: u64, mut into: &mut [u8]) -> bool {
        while !into.is_empty() {
            let Some((host, room)) = self.find(guest) else { return false };
            let length = into.len().min(room as usize);
            let (part, rest) = into.split_at_mut(length);
            // SAFETY: mapped memory, which the caller of `map` keeps; guests
            // write to it only while they run.
            unsafe { std::ptr::copy_nonoverlapping(host as *const u8, part.as_mut_ptr(), length) };
            into = rest;
            guest += length as u64;
        }
        true
    }

    /// Copies to guest memory from `guest` on; whether all of it is memory.
    pub(super) fn write(&self, mut guest: u64, mut from: &[u8]) -> bool {
        while !from.is_empty() {
            let Some((host, room)) = self.find(guest) else { return false };
            let length = from.len().min(room as usize);
            let (part, rest) = from.split_at(length);
            self.own(guest..guest + length as u64);
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), host as *mut u8, length) };
            self.note(guest);
            self.note(guest + (length as u64 - 1));
            from = rest;
            guest += length as u64;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_pages_are_used() {
        let mut nested = Nested::new();
        nested.map(0, 5 * GIB, 2 * GIB + TWO_MIB + PAGE).unwrap();
        // Two levels, for the third and the fourth.
        assert_eq!(nested.tables.len(), 3);
        let length = 2 * GIB + TWO_MIB + PAGE;
        assert_eq!(nested.find(0), Some((5 * GIB, length)));
        assert_eq!(nested.find(2 * GIB + 5), Some((7 * GIB + 5, TWO_MIB + PAGE - 5)));
        assert_eq!(nested.find(length), None);
        assert_eq!(nested.find(u64::MAX), None);
    }

    #[test]
    fn what_is_written_is_named_once() {
        let mut memory = vec![0u64; (5 * TWO_MIB / 8) as usize];
        let start = (memory.as_mut_ptr() as u64).next_multiple_of(TWO_MIB);
        let mut nested = Nested::noting_writes();
        nested.map(0, start, 2 * TWO_MIB).unwrap();
        nested.map(GIB, start + 2 * TWO_MIB, TWO_MIB + PAGE).unwrap();
        let written = || {
            let mut found = Vec::new();
            assert!(nested.take_written(&mut |at, length| found.push((at, length))));
            found
        };
        assert_eq!(written(), []);
        assert!(nested.write(TWO_MIB - 1, &[1, 2]));
        assert!(nested.write(GIB + TWO_MIB + 5, &[3]));
        assert_eq!(written(), [(0, TWO_MIB), (TWO_MIB, TWO_MIB), (GIB + TWO_MIB, PAGE)]);
        assert_eq!(written(), []);
        assert!(!Nested::new().take_written(&mut |_, _| panic!("nothing is noted")));
    }

    #[test]
    fn a_page_is_shared_until_one_guest_writes_to_it() {
        let mut memory = vec![7u64; (12 * TWO_MIB / 8) as usize];
        let start = (memory.as_mut_ptr() as u64).next_multiple_of(TWO_MIB);
        let alike = Arc::new(Alike::default());
        let guests = [0, 1, 2].map(|number| {
            let mut nested = if number == 1 { Nested::noting_writes() } else { Nested::new() };
            nested.set_fine(std::slice::from_ref(&(PAGE..4 * PAGE)));
            nested.map(0, start + number * 2 * TWO_MIB, 2 * TWO_MIB).unwrap();
            let nested = Arc::new(nested);
            alike.add(&nested);
            nested
        });
        let [first, second, third] = &guests;
        let place = |nested: &Nested, at| {
            let (entry, _) = nested.leaf(at).unwrap();
            // SAFETY: an entry of tables that are there.
            let value = unsafe { entry.read_volatile() };
            (value & ADDRESS, value & WRITABLE != 0)
        };
        let own = |nested: &Nested, at| (nested.find(at).unwrap().0, true);
        assert!(third.write(2 * PAGE, &[1]));
        // SAFETY: memory of this test's own, which no guest runs in.
        unsafe { alike.share(0..2 * TWO_MIB, false) };
        let shared = |at| (start + at, false);
        for at in [PAGE, 3 * PAGE, TWO_MIB] {
            assert_eq!(guests.each_ref().map(|guest| place(guest, at)), [shared(at); 3]);
        }
        assert_eq!(place(third, 2 * PAGE), own(third, 2 * PAGE), "it is not equal");
        // Others go on sharing it.
        assert!(second.write(PAGE + 5, &[1]));
        assert_eq!(place(second, PAGE), own(second, PAGE));
        assert_eq!([first, third].map(|guest| place(guest, PAGE)), [shared(PAGE); 2]);
        assert!(!second.own(PAGE..PAGE + 1));
        // The first one's is everybody's.
        assert!(first.own(TWO_MIB..TWO_MIB + 1));
        for guest in &guests {
            assert_eq!(place(guest, TWO_MIB), own(guest, TWO_MIB));
        }
        let mut found = Vec::new();
        second.take_written(&mut |at, length| found.push((at, length)));
        assert_eq!(found, [(PAGE, PAGE)]);
    }

    #[test]
    fn a_page_that_cannot_be_executed_leads_where_it_did() {
        let mut nested = Nested::new();
        nested.map(0, 4 * GIB, 2 * GIB).unwrap();
        let page = GIB + 3 * TWO_MIB + 5 * PAGE;
        let entry = |at| {
            let (entry, size) = nested.leaf(at).unwrap();
            // SAFETY: an entry of tables that are there.
            let value = unsafe { entry.read_volatile() };
            (value & ADDRESS, size, value & NO_EXECUTE != 0)
        };
        nested.forbid([page, 9 * GIB, page].into_iter());
        assert_eq!(entry(page), (4 * GIB + page, PAGE, true));
        assert_eq!(entry(page + PAGE), (4 * GIB + page + PAGE, PAGE, false));
        assert_eq!(entry(GIB), (5 * GIB, TWO_MIB, false));
        assert_eq!(entry(0), (4 * GIB, GIB, false));
        nested.forbid([0].into_iter());
        assert_eq!([entry(page).2, entry(0).2], [false, true]);
        nested.forbid(std::iter::empty());
        assert_eq!(entry(0), (4 * GIB, PAGE, false));
        nested.forbid(std::iter::empty());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut nested = Nested::new();
        assert!(nested.map(1, 0, PAGE).is_err());
        assert!(nested.map(0, 0, 5).is_err());
        assert!(nested.map(END, 0, PAGE).is_err());
        assert!(nested.map(u64::MAX - 4095, 0, PAGE).is_err());
        nested.map(0, GIB, GIB).unwrap();
        assert!(nested.map(4096, GIB, PAGE).is_err());
        assert!(nested.map(0, GIB, GIB).is_err());
    }
}
