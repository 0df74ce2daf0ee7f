//! Survival of acknowledged writes, and not only of flushed ones, when the program is killed.

use std::path::Path;
use std::sync::Mutex;

use crate::lock::lock;
use crate::redo_log::RedoLog;

/// Part of an image's tables that survives when the program is killed.
#[derive(Debug, Default)]
pub(crate) struct KillSafety {
    pub(crate) strategy: Strategy,
    pub(crate) changes: Mutex<Changes>,
}

/// Way in which changes survive.
#[derive(Debug, Default)]
pub(crate) enum Strategy {
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
pub(crate) struct Changes {
    pub(crate) under_way: u32,
    pub(crate) any: bool,
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
