//! Expected answers of a drive, from a plain array.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use stasis_block::{Command, Operation, Status};
use stasis_drive::Done;

use super::{Contents, SECTOR};

/// The contents that a drive should have, given that overlapping commands are
/// never in flight together.
pub struct Reference {
    contents: Vec<u8>,
    // Expected data of reads, overwritten data of changes.
    before: HashMap<u32, Vec<u8>>,
    flushes: Vec<Flush>,
    durable: Option<Arc<Mutex<Contents>>>,
    pub failed: usize,
}

struct Flush {
    tag: u32,
    contents: Vec<u8>,
    // By sector: changed by a command that came after the flush.
    changed: Vec<bool>,
}

fn range(command: &Command) -> std::ops::Range<usize> {
    command.offset as usize..(command.offset + command.length) as usize
}

impl Reference {
    /// With `durable`, flushes are checked too.
    pub fn new(capacity: usize, durable: Option<Arc<Mutex<Contents>>>) -> Self {
        let (before, flushes) = (HashMap::new(), Vec::new());
        Self { contents: vec![0; capacity], before, flushes, durable, failed: 0 }
    }

    pub fn submit(&mut self, tag: u32, command: &Command, data: &[u8]) {
        let range = range(command);
        self.before.insert(tag, self.contents[range.clone()].to_vec());
        match command.operation {
            Operation::Read | Operation::Verify | Operation::Barrier => return,
            Operation::Copy => {
                let source = command.source as usize;
                self.contents.copy_within(source..source + range.len(), range.start);
            }
            Operation::Write => self.contents[range.clone()].copy_from_slice(data),
            Operation::Discard | Operation::WriteZeroes => self.contents[range.clone()].fill(0),
            Operation::Flush => {
                let changed = vec![false; self.contents.len() / SECTOR];
                self.flushes.push(Flush { tag, contents: self.contents.clone(), changed });
            }
        }
        for flush in &mut self.flushes {
            flush.changed[range.start / SECTOR..range.end / SECTOR].fill(true);
        }
    }

    pub fn complete(&mut self, done: &Done) {
        let (range, before) = (range(&done.command), self.before.remove(&done.tag).unwrap());
        if done.status != Status::Ok {
            let read = done.command.operation == Operation::Read;
            assert_eq!(done.status, if read { Status::ReadError } else { Status::WriteError });
            self.contents[range].copy_from_slice(&before);
            self.failed += 1;
            return;
        }
        match done.command.operation {
            Operation::Read => assert!(done.data == before, "{done:?}"),
            Operation::Write if done.command.fua => {
                if let Some(durable) = &self.durable {
                    assert!(durable.lock().unwrap().durable[range] == done.data, "{done:?}");
                }
            }
            Operation::Flush => self.check_flush(done.tag),
            _ => {}
        }
    }

    fn check_flush(&mut self, tag: u32) {
        let at = self.flushes.iter().position(|flush| flush.tag == tag).unwrap();
        let flush = self.flushes.swap_remove(at);
        let Some(durable) = &self.durable else { return };
        let durable = durable.lock().unwrap();
        let sectors = flush.contents.chunks(SECTOR).zip(durable.durable.chunks(SECTOR));
        for (sector, ((expected, survives), changed)) in sectors.zip(flush.changed).enumerate() {
            assert!(changed || expected == survives, "sector {sector} would not survive");
        }
    }
}
