//! Flushes and orders of the guest, and the tables that are written for them.

use std::future::{poll_fn, Future};
use std::io;
use std::pin::pin;
use std::task::Poll;

use imago::FormatAccess;
use stasis_block::{Command, Operation};
use tokio::sync::MutexGuard;

use super::{finish, lock, Core, End};
use crate::host::HostIo;
use crate::job::Job;
use crate::kill_safety::Change;
use crate::lag::Covered;
use crate::storage::Handle;
use crate::tables::{UpdatePlan, Write};
use crate::Durability;

impl Core {
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
        let access = self.access.read().await;
        let turn = self.writing.lock().await;
        let mut job = self.job(turn, &access).await?;
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
        job.settle(&access).await
    }

    /// Waits while a crash could undo more than is allowed.
    async fn wait_for_lag(&self) {
        let mut waited = false;
        loop {
            let turn = self.caught_up.notified();
            let now = self.shared.lock().now;
            if !lock(&self.lag).is_over(now, &self.settings) {
                return;
            }
            if !std::mem::replace(&mut waited, true) {
                self.shared.lock().counters.lag_waits += 1;
            }
            turn.await;
        }
    }

    pub(super) async fn make_durable(&self) -> io::Result<()> {
        let access = self.access.read().await;
        let turn = self.writing.lock().await;
        let covered = lock(&self.lag).flush();
        let outcome = self.write_tables_in_turn(turn, &access, End::Durable).await;
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
        self.caught_up.notify_waiters();
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
        let access = self.access.read().await;
        self.write_tables(&access, End::Durable).await?;
        let turn = self.writing.lock().await;
        let plan = self.plan(&access, true).await?;
        let mut job = Job::new(self, turn, Vec::new(), plan);
        job.submit(End::Durable).await?;
        job.settle(&access).await?;
        let clean = self.shared.lock().tables.mark_clean();
        // The later of the two includes the other's content.
        if let Some(write) = self.end_log().or(clean) {
            self.submit(write).await?;
            self.shared.io(Command::flush(), Vec::new()).await?;
        }
        self.kill_safety.remove();
        Ok(())
    }

    /// Writes the tables in a sound order, and ends with a flush or a barrier.
    pub(crate) async fn write_tables(
        &self,
        access: &FormatAccess<Handle>,
        end: End,
    ) -> io::Result<()> {
        let turn = self.writing.lock().await;
        self.write_tables_in_turn(turn, access, end).await
    }

    /// The same, for a caller that has the turn.
    async fn write_tables_in_turn<'a>(
        &'a self,
        turn: MutexGuard<'a, ()>,
        access: &FormatAccess<Handle>,
        end: End,
    ) -> io::Result<()> {
        let mut job = self.job(turn, access).await?;
        job.submit(end).await?;
        job.settle(access).await
    }

    pub(super) async fn job<'a>(
        &'a self,
        turn: MutexGuard<'a, ()>,
        access: &FormatAccess<Handle>,
    ) -> io::Result<Job<'a>> {
        // Nothing is freed while anybody holds `access`.
        let freed = lock(&self.freed).clone();
        let plan = self.plan(access, false).await?;
        Ok(Job::new(self, turn, freed, plan))
    }

    /// Marks the image's tables as being changed, until the result is dropped.
    pub(super) fn changed(&self) -> Change<'_> {
        *lock(&self.stale) = true;
        self.kill_safety.changed()
    }

    /// Plans the tables' content as of one instant between all changes.
    async fn plan(&self, access: &FormatAccess<Handle>, whole: bool) -> io::Result<UpdatePlan> {
        self.settled(access, || {
            // The file is to have nothing that the log does not have.
            self.log_changes();
            self.shared.lock().tables.plan(whole)
        })
        .await
    }

    /// Does something at an instant between all changes at which the tables are
    /// known as they are to be.
    pub(crate) async fn settled<T>(
        &self,
        access: &FormatAccess<Handle>,
        then: impl FnOnce() -> T,
    ) -> io::Result<T> {
        loop {
            let mut flush = pin!(access.flush());
            // Within one poll nothing else runs.
            let first = poll_fn(|context| Poll::Ready(flush.as_mut().poll(context))).await;
            match first {
                Poll::Ready(outcome) => {
                    outcome?;
                    return Ok(then());
                }
                Poll::Pending => flush.await?,
            }
        }
    }

    pub(crate) fn submit(&self, write: Write) -> HostIo {
        let length = write.data.len() as u64;
        self.shared.lock().counters.table_write_bytes += length;
        self.shared.io(Command::new(Operation::Write, write.offset, length), write.data)
    }

    /// Order between groups, as the image's way has it.
    pub(crate) async fn separate(&self) -> io::Result<Option<HostIo>> {
        if self.flushes_for_order() {
            self.shared.io(Command::flush(), Vec::new()).await?;
            return Ok(None);
        }
        Ok(Some(self.shared.io(Command::barrier(), Vec::new())))
    }

    pub(crate) fn flushes_for_order(&self) -> bool {
        self.settings.durability == Durability::Flush || !self.barriers
    }

    /// Gives back freed ranges.
    pub(crate) async fn discard(&self, freed: Vec<(u64, u64)>) {
        let cluster = self.shared.lock().tables.size() as u64;
        let mut discards = Vec::new();
        for (offset, length) in freed {
            let start = offset.next_multiple_of(cluster);
            let end = (offset + length) / cluster * cluster;
            let mut at = start;
            while at < end {
                let from = at;
                {
                    let tables = &self.shared.lock().tables;
                    while at < end && tables.is_free(at / cluster) {
                        at += cluster;
                    }
                }
                if at > from {
                    let command = Command::new(Operation::Discard, from, at - from);
                    discards.push(self.shared.io(command, Vec::new()));
                } else {
                    at += cluster;
                }
            }
        }
        // A drive may ignore the advice.
        let _ = finish(discards).await;
    }
}
