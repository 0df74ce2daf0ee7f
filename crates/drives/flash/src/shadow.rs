//! For tests: a NAND array that records the contents reported to it, checks its rules, and has the
//! content that each unit should hold.
//!
//! Rules: pages of a block are programmed in order and once between erases, only
//! programmed pages are read, and no block is erased while a read of it is under
//! way. It panics where one is broken.

use std::collections::{BTreeMap, HashMap};

use stasis_nand::{Op, OpDone, OpKind, OpStatus, PageAddress};

use crate::ftl::{Dropped, Shape};

/// A unit, and the number of the write that it is from.
type Content = (u32, u64);

/// Pages of a block whose erase a power cut put an end to.
const TORN: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Shadow {
    shape: Shape,
    slots: HashMap<u32, Content>,
    // By block, programmed pages.
    pages: Vec<u32>,
    reads: Vec<u32>,
    // Contents that programs under way write, by their page's first slot.
    writing: HashMap<u32, Vec<Content>>,
    // The content that each unit should hold.
    pub expected: BTreeMap<u32, u64>,
    newest: u64,
    // Writes up to this number no longer count.
    forgotten: BTreeMap<u32, u64>,
    pub erases: u64,
    pub programs: u64,
}

impl Shadow {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            slots: HashMap::new(),
            pages: vec![0; shape.blocks() as usize],
            reads: vec![0; shape.blocks() as usize],
            writing: HashMap::new(),
            expected: BTreeMap::new(),
            newest: 0,
            forgotten: BTreeMap::new(),
            erases: 0,
            programs: 0,
        }
    }

    fn block(&self, at: PageAddress) -> usize {
        self.shape.block(at.plane.0, at.block) as usize
    }

    /// A unit is written.
    pub fn admit(&mut self, unit: u32, version: u64) {
        self.expected.insert(unit, version);
        self.newest = self.newest.max(version);
    }

    /// A unit is no longer needed.
    pub fn trim(&mut self, unit: u32) {
        self.expected.remove(&unit);
        self.forgotten.insert(unit, self.newest);
    }

    /// A unit in a slot could not be moved.
    pub fn damage(&mut self, unit: u32, slot: u32) {
        let version = self.slots[&slot].1;
        if self.expected.get(&unit) == Some(&version) {
            self.expected.remove(&unit);
        }
        let forgotten = self.forgotten.entry(unit).or_default();
        *forgotten = version.max(*forgotten);
    }

    /// Checks a read of a unit that finds this version in the buffer, or this slot.
    pub fn read(&self, unit: u32, version: Option<u64>, slot: Option<u32>) {
        let held = slot.map(|slot| self.slots[&slot]);
        let found = version.or_else(|| {
            held.map(|(owner, version)| {
                assert_eq!(owner, unit, "slot {slot:?} is another unit's");
                version
            })
        });
        assert_eq!(found, self.expected.get(&unit).copied(), "unit {unit} at {slot:?}");
    }

    /// A page will hold these units.
    pub fn program(&mut self, at: PageAddress, contents: Vec<Content>) {
        self.writing.insert(self.shape.slot_at(at), contents);
    }

    /// A page will hold the contents of these slots.
    pub fn moved(&mut self, at: PageAddress, from: &[u32]) {
        let contents = from.iter().map(|slot| self.slots[slot]).collect();
        self.writing.insert(self.shape.slot_at(at), contents);
    }

    pub fn submit(&mut self, op: &Op) {
        let block = self.block(op.at);
        match op.kind {
            OpKind::Read => {
                assert!(op.at.page < self.pages[block], "{op:?} reads what is not programmed");
                assert_ne!(self.pages[block], TORN, "{op:?}");
                self.reads[block] += 1;
            }
            OpKind::Copyback => {
                let source = self.block(op.source);
                assert!(op.source.page < self.pages[source], "{op:?}");
                assert_eq!(op.source.plane, op.at.plane, "{op:?}");
            }
            OpKind::Program => {}
            OpKind::Erase => assert_eq!(self.reads[block], 0, "{op:?} while it is read"),
        }
    }

    pub fn done(&mut self, done: &OpDone) {
        let block = self.block(done.op.at);
        match done.op.kind {
            OpKind::Read => {
                assert!(done.op.at.page < self.pages[block], "{done:?}");
                self.reads[block] -= 1;
            }
            OpKind::Program | OpKind::Copyback => {
                assert_eq!(done.op.at.page, self.pages[block], "{done:?} is out of order");
                self.pages[block] += 1;
                self.programs += 1;
                let first = self.shape.slot_at(done.op.at);
                let contents = self.writing.remove(&first).expect("it was said what is written");
                if matches!(done.status, OpStatus::Ok | OpStatus::Corrupted { .. }) {
                    for (slot, content) in (first..).zip(contents) {
                        assert!(self.slots.insert(slot, content).is_none(), "{done:?} twice");
                    }
                }
            }
            OpKind::Erase => {
                self.erases += 1;
                if done.status == OpStatus::Ok {
                    self.clear(block);
                    self.pages[block] = 0;
                } else {
                    self.pages[block] = TORN;
                }
            }
        }
    }

    /// Pages of a block up to this one are not programmed.
    pub fn skip(&mut self, block: u32, page: u32) {
        self.pages[block as usize] = page;
    }

    fn clear(&mut self, block: usize) {
        let first = self.shape.slot(block as u32, 0);
        for slot in first..first + self.shape.block_slots {
            self.slots.remove(&slot);
        }
    }

    /// Operations that had begun are neither done nor undone; each unit holds the newest of its
    /// versions in the cells.
    pub fn power_cut(&mut self, dropped: &[Dropped]) {
        for drop in dropped.iter().filter(|drop| drop.started) {
            let block = self.block(drop.op.at);
            match drop.op.kind {
                OpKind::Read => {}
                OpKind::Program | OpKind::Copyback => {
                    assert_eq!(drop.op.at.page, self.pages[block], "{drop:?} is out of order");
                    self.pages[block] += 1;
                }
                OpKind::Erase => {
                    self.clear(block);
                    self.pages[block] = TORN;
                }
            }
        }
        self.writing.clear();
        self.reads.fill(0);
        self.expected.clear();
        for &(unit, version) in self.slots.values() {
            if version > self.forgotten.get(&unit).copied().unwrap_or(0) {
                let newest = self.expected.entry(unit).or_default();
                *newest = version.max(*newest);
            }
        }
    }
}
