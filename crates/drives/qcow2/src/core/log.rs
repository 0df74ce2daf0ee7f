//! The log of an image's changes, by which they survive when the program is killed.

use super::Core;
use crate::kill_safety::Strategy;
use crate::lock::lock;
use crate::tables::Write;

impl Core {
    /// Logs the changes; `false` if the tables had better be written.
    pub(crate) fn log_changes(&self) -> bool {
        let Strategy::Logged(log) = &self.kill_safety.strategy else { return true };
        let unlogged = self.shared.lock().disk.tables.unlogged();
        let mut log = lock(log);
        let Some(log) = log.as_mut() else { return true };
        let logged = log.append(&unlogged).is_ok() && !log.is_long();
        if logged {
            lock(&self.kill_safety.changes).any = false;
        }
        logged
    }

    /// Drops the changes that the image's file has, now that tables were written.
    /// `freed`: whether clusters are about to get a new use.
    pub(crate) fn shorten_log(&self, freed: bool) {
        match &self.kill_safety.strategy {
            Strategy::Flushed => {}
            Strategy::Written => {
                let mut changes = lock(&self.kill_safety.changes);
                changes.any = changes.under_way > 0;
            }
            Strategy::Logged(log) => {
                self.log_changes();
                let unwritten = self.shared.lock().disk.tables.unwritten();
                if let Some(log) = lock(log).as_mut() {
                    if freed || unwritten.is_empty() || log.is_long() {
                        log.restart(&unwritten);
                    }
                }
            }
        }
    }

    /// Ends the log, for the image to be closed; returns the write that takes its mark away.
    pub(crate) fn end_log(&self) -> Option<Write> {
        let logged = self.kill_safety.is_logged();
        logged.then(|| self.shared.lock().disk.tables.end_log()).flatten()
    }
}
