//! Survival of acknowledged writes, and not only of flushed ones, when the program is killed.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use crate::core::{Core, End};
use crate::lock::lock;
use crate::redo_log::RedoLog;
use crate::tables::Write;
use crate::turns::Subject;

/// Part of an image's tables that survives when the program is killed.
#[derive(Debug, Default)]
pub(crate) struct KillSafety {
    strategy: Strategy,
    changes: Mutex<Changes>,
}

#[derive(Debug, Default)]
enum Strategy {
    /// Flushed changes.
    #[default]
    Flushed,
    /// Changes in the log. `None` once the image is closed.
    Logged(Mutex<Option<RedoLog>>),
    /// Tables are written before a command that changed them ends.
    Written,
}

/// Changes of tables that may not outlive the program yet.
#[derive(Debug, Default)]
struct Changes {
    under_way: u32,
    any: bool,
}

/// A change of tables that is under way.
#[must_use]
pub(crate) struct Change<'a>(&'a KillSafety);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut changes = lock(&self.0.changes);
        changes.under_way -= 1;
        changes.any = true;
    }
}

impl KillSafety {
    /// Everything that is acknowledged outlives the program that has the image at
    /// `path`. `log`: whether its format has room for the mark that a log needs;
    /// where it has not, or no file can be made beside it, tables are written
    /// early.
    pub(crate) fn everything(path: &Path, log: bool) -> Self {
        let log = log.then(|| RedoLog::create(path).ok()).flatten();
        let strategy = log.map_or(Strategy::Written, |log| Strategy::Logged(Mutex::new(Some(log))));
        Self { strategy, ..Self::default() }
    }

    /// Returns whether there is a log.
    pub(crate) fn is_logged(&self) -> bool {
        matches!(self.strategy, Strategy::Logged(_))
    }

    pub(crate) fn changed(&self) -> Change<'_> {
        lock(&self.changes).under_way += 1;
        Change(self)
    }

    /// Removes the log: everything is in the image.
    pub(crate) fn remove(&self) {
        if let Strategy::Logged(log) = &self.strategy {
            if let Some(log) = lock(log).take() {
                log.remove();
            }
        }
    }
}

impl Core {
    /// Ensures that the tables outlive the program as they are, those that others changed
    /// included: data written in place may lie where another command is about to have allocated.
    pub(crate) async fn make_kill_safe(&self) -> io::Result<()> {
        let pending = || {
            let changes = lock(&self.kill_safety.changes);
            changes.any || changes.under_way > 0
        };
        if matches!(self.kill_safety.strategy, Strategy::Flushed) || !pending() {
            return Ok(());
        }
        let _turn = self.turns.shared(Subject::Mappings).await;
        if self.kill_safety.is_logged() && self.log_changes() {
            return Ok(());
        }
        self.write_tables(End::Ordered).await
    }

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
