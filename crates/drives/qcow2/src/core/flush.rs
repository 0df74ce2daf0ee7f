//! Flushes and orders of the guest, and the tables that are written for them.

use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use stasis_block::Command;

use super::{Core, End};
use crate::job::Job;
use crate::kill_safety::{Change, Strategy};
use crate::lag::Covered;
use crate::lock::lock;
use crate::tables::UpdatePlan;
use crate::turns::{Subject, Turn};
use crate::Durability;

impl Core {
    /// Ensures that nothing points to a freed cluster any more when it gets a new use.
    pub(super) async fn before_allocation(&self) -> io::Result<()> {
        let freed = || !lock(&self.freed).is_empty();
        if freed() {
            let turn = self.turns.alone(Subject::Tables).await;
            // Another may have seen to it meanwhile.
            if freed() {
                self.write_tables_in_turn(turn, End::Ordered).await?;
            }
        }
        Ok(())
    }

    /// A flush of the guest. `acknowledge` is called where it is over for the
    /// guest before it is over.
    pub(super) async fn flush(&self, urgent: bool, acknowledge: &dyn Fn()) -> io::Result<()> {
        {
            let counters = &mut self.shared.lock().counters;
            counters.guest_flushes += 1;
            counters.guest_durable += u64::from(urgent);
        }
        if self.settings.durability != Durability::Ordered || urgent {
            return self.make_durable().await;
        }
        self.order(acknowledge).await
    }

    /// Makes everything submitted before durable before anything submitted later.
    pub(super) async fn order(&self, acknowledge: &dyn Fn()) -> io::Result<()> {
        let _mappings = self.turns.shared(Subject::Mappings).await;
        let turn = self.turns.alone(Subject::Tables).await;
        let mut job = self.job(turn);
        job.submit(End::Ordered).await?;
        job.ordered().await?;
        if self.settings.durability == Durability::Ordered {
            {
                let state = &mut *self.shared.lock();
                lock(&self.lag).ordered(state.now, &mut state.counters);
            }
            self.wait_for_lag().await;
        }
        acknowledge();
        job.settle().await
    }

    /// Waits while a crash could undo more than is allowed.
    async fn wait_for_lag(&self) {
        let mut waited = false;
        poll_fn(|context| {
            let state = &mut *self.shared.lock();
            if !lock(&self.lag).is_over(state.now, &self.settings) {
                return Poll::Ready(());
            }
            state.counters.lag_waits += u64::from(!std::mem::replace(&mut waited, true));
            lock(&self.behind).push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub(super) async fn make_durable(&self) -> io::Result<()> {
        let _mappings = self.turns.shared(Subject::Mappings).await;
        let turn = self.turns.alone(Subject::Tables).await;
        let covered = lock(&self.lag).flush();
        let outcome = self.write_tables_in_turn(turn, End::Durable).await;
        self.flushed(covered, outcome.is_ok());
        outcome
    }

    /// Marks the data that a flush of the drive below covered as durable, if the flush succeeded.
    fn flushed(&self, covered: Covered, well: bool) {
        {
            let state = &mut *self.shared.lock();
            let now = well.then_some(state.now);
            lock(&self.lag).flushed(covered, now, &mut state.counters);
        }
        lock(&self.behind).drain(..).for_each(Waker::wake);
    }

    /// Makes everything durable that was ordered, for a crash to undo no more
    /// than is allowed.
    pub(crate) async fn catch_up(&self) {
        self.shared.lock().counters.lag_flushes += 1;
        let flush = self.shared.io(Command::flush(), Vec::new());
        let covered = lock(&self.lag).flush();
        let outcome = flush.await;
        self.flushed(covered, outcome.is_ok());
    }

    /// Writes the remaining tables, for the image to be closed.
    pub(crate) async fn close(&self) -> io::Result<()> {
        let _mappings = self.turns.shared(Subject::Mappings).await;
        self.write_tables(End::Durable).await?;
        let turn = self.turns.alone(Subject::Tables).await;
        let mut job = Job::new(self, turn, Vec::new(), self.plan(true));
        job.submit(End::Durable).await?;
        job.settle().await?;
        let clean = self.shared.lock().disk.tables.mark_clean();
        // The later of the two includes the other's content.
        if let Some(write) = self.end_log().or(clean) {
            self.submit(write).await?;
            self.shared.io(Command::flush(), Vec::new()).await?;
        }
        self.kill_safety.remove();
        Ok(())
    }

    /// Writes the tables in a sound order, and ends with a flush or a barrier.
    pub(crate) async fn write_tables(&self, end: End) -> io::Result<()> {
        let turn = self.turns.alone(Subject::Tables).await;
        self.write_tables_in_turn(turn, end).await
    }

    /// Like [`Self::write_tables`], for a caller that has the turn.
    pub(super) async fn write_tables_in_turn(&self, turn: Turn<'_>, end: End) -> io::Result<()> {
        let mut job = self.job(turn);
        job.submit(end).await?;
        job.settle().await
    }

    fn job<'a>(&'a self, turn: Turn<'a>) -> Job<'a> {
        // Nothing is freed while anybody has a turn at the mappings.
        let freed = lock(&self.freed).clone();
        Job::new(self, turn, freed, self.plan(false))
    }

    /// Marks the image's tables as being changed, until the result is dropped.
    pub(super) fn changed(&self) -> Change<'_> {
        *lock(&self.stale) = true;
        self.kill_safety.changed()
    }

    /// Plans the tables' content as it is to be now.
    fn plan(&self, whole: bool) -> UpdatePlan {
        // The file is to have nothing that the log does not have.
        self.log_changes();
        self.shared.lock().disk.tables.plan(whole)
    }

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
}
