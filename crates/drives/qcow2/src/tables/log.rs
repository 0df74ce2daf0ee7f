//! Changes of the tables that would be lost with a killed program.

use super::{changes, Tables, Write};
use crate::redo_log;

impl Tables {
    /// Begins to note changes for the log: the header's first sector with the mark of a log, to
    /// be written first.
    pub(crate) fn log(&mut self) -> Option<Write> {
        self.unlogged = Some(Vec::new());
        self.mark(true)
    }

    /// Ends that: the header's first sector without the mark, to be written last.
    pub(crate) fn end_log(&mut self) -> Option<Write> {
        self.unlogged = None;
        self.mark(false)
    }

    fn mark(&mut self, on: bool) -> Option<Write> {
        let header = self.clusters.get_mut(&0)?;
        let below = header.below.as_mut()?;
        for bytes in [&mut header.now, &mut *below].into_iter().chain(&mut header.logged) {
            if !redo_log::mark(bytes, on) {
                return None;
            }
        }
        Some(Write { offset: 0, data: below[..512].to_vec() })
    }

    /// Changes of tables since the last call.
    pub(crate) fn unlogged(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        for cluster in self.unlogged.as_mut().map(std::mem::take).unwrap_or_default() {
            let Some(table) = self.clusters.get_mut(&cluster) else { continue };
            table.unlogged = false;
            let start = cluster << self.cluster_bits;
            let first = writes.len();
            changes(start, table.logged.as_deref(), &table.now, &mut writes);
            let logged = table.logged.get_or_insert_with(|| table.now.clone());
            for Write { offset, data } in &writes[first..] {
                let at = (offset - start) as usize;
                logged[at..at + data.len()].copy_from_slice(data);
            }
        }
        writes
    }

    /// Changes of the tables that the file below does not have; no plan may be under way.
    pub(crate) fn unwritten(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        let dirty: Vec<u64> =
            self.clusters.iter().filter(|(_, t)| t.dirty).map(|(c, _)| *c).collect();
        for cluster in dirty {
            // A cluster that is no table any more may have become data.
            if self.is_free(cluster) {
                continue;
            }
            let Some(table) = self.clusters.get(&cluster) else { continue };
            let below = table.below.as_deref().filter(|_| !table.unsure);
            changes(cluster << self.cluster_bits, below, &table.now, &mut writes);
        }
        writes
    }
}
