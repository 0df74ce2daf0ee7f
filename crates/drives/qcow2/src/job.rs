//! Writing tables, from the plan to the end.

use std::io;

use stasis_block::Command;

use crate::core::{finish, Core, End};
use crate::host::HostIo;
use crate::lock::lock;
use crate::tables::UpdatePlan;
use crate::turns::Turn;

/// Tables on their way to the drive below. Dropped before it is settled, it
/// counts as failed.
pub(crate) struct Job<'a> {
    core: &'a Core,
    // One job at a time.
    _turn: Turn<'a>,
    freed: Vec<(u64, u64)>,
    plan: Option<UpdatePlan>,
    orders: Vec<HostIo>,
    writes: Vec<HostIo>,
    durable: bool,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        core: &'a Core,
        turn: Turn<'a>,
        freed: Vec<(u64, u64)>,
        plan: UpdatePlan,
    ) -> Self {
        *lock(&core.stale) = false;
        let (orders, writes) = (Vec::new(), Vec::new());
        Self { core, _turn: turn, freed, plan: Some(plan), orders, writes, durable: false }
    }

    /// Submits everything, and waits where there is no order without.
    pub(crate) async fn submit(&mut self, end: End) -> io::Result<()> {
        let groups = self.plan.as_mut().map(|plan| std::mem::take(&mut plan.groups));
        for group in groups.into_iter().flatten() {
            // Earlier writes come first: the data that it points to, and the group before it.
            if !group.early {
                self.order().await?;
            }
            let writes = group.writes.into_iter().map(|write| self.core.submit(write));
            self.writes.extend(writes);
            if group.fresh {
                // Nothing may point to data without room.
                finish(std::mem::take(&mut self.writes)).await?;
            }
        }
        if end == End::Durable {
            self.core.shared.io(Command::flush(), Vec::new()).await?;
            self.durable = true;
            return Ok(());
        }
        self.order().await
    }

    async fn order(&mut self) -> io::Result<()> {
        if self.core.shared.lock().written {
            if self.core.flushes_for_order() {
                // A flush covers only successful writes.
                finish(std::mem::take(&mut self.writes)).await?;
            }
            self.orders.extend(self.core.separate().await?);
        }
        Ok(())
    }

    /// Waits until the drive below has taken the orders.
    pub(crate) async fn ordered(&mut self) -> io::Result<()> {
        finish(std::mem::take(&mut self.orders)).await
    }

    /// Waits for the rest.
    pub(crate) async fn settle(mut self) -> io::Result<()> {
        self.ordered().await?;
        finish(std::mem::take(&mut self.writes)).await?;
        self.plan = None;
        self.core.shorten_log(!self.freed.is_empty());
        let freed = std::mem::take(&mut self.freed);
        let count = freed.len();
        self.core.discard(freed).await;
        lock(&self.core.freed).drain(..count);
        Ok(())
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Some(plan) = self.plan.take() {
            self.core.shared.lock().disk.tables.failed(plan);
            self.durable = false;
        }
        if !self.durable {
            *lock(&self.core.stale) = true;
        }
    }
}
