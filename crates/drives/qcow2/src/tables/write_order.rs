//! From tables that have changed to writes in a sound order.

use super::roles::Role;
use super::{changes, Tables, Write};
use crate::header::DIRTY;
use crate::{layout, refcounts};

/// Writes to be done, in order.
#[derive(Debug, Default)]
pub(crate) struct UpdatePlan {
    /// Writes of one group may happen in any order.
    pub(crate) groups: Vec<Group>,
    /// Content that the plan covers, for [`Tables::failed`].
    covered: Vec<(u64, Option<Vec<u8>>)>,
}

/// Writes without an order between them.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) writes: Vec<Write>,
    /// True if the drive below may have to find room for them.
    pub(crate) fresh: bool,
    /// True if they may happen together with earlier writes.
    pub(crate) early: bool,
}

impl Tables {
    /// Plans the writes after which the drive below has the tables as they are now. From here on
    /// they count as written.
    ///
    /// The order, for an image that is sound whatever part of a group is lost:
    /// 1. data that nothing points to yet, and refcounts that grow;
    /// 2. pointers to refcounts;
    /// 3. pointers to data: L1 and L2 entries, and the header;
    /// 4. refcounts that shrink.
    ///
    /// `whole`: refcounts that are kept late are written too.
    pub(crate) fn plan(&mut self, whole: bool) -> UpdatePlan {
        self.forget();
        let late = self.lazy && !whole;
        let pointers = [self.pointers(true), self.pointers(false)];
        let blocks = self.blocks(&pointers[0]);
        let moved = pointers[0].reftable != pointers[1].reftable;
        let dirty: Vec<u64> =
            self.clusters.iter().filter(|(_, t)| t.dirty).map(|(c, _)| *c).collect();
        let fresh: Vec<bool> = dirty.iter().map(|&cluster| !self.is_used(cluster)).collect();
        let mut plan = UpdatePlan::default();
        let mut groups: [Group; 5] = Default::default();
        let mut any = false;
        for (cluster, fresh) in dirty.into_iter().zip(fresh) {
            let role = self.role(cluster, &pointers, &blocks);
            let counts = matches!(role, Role::Reftable | Role::RefBlock);
            let order = self.order;
            let start = cluster << self.cluster_bits;
            let Some(table) = self.clusters.get_mut(&cluster) else { continue };
            let counted = table.counted.take();
            if role == Role::RefBlock {
                table.counted = Some(table.now.clone());
            }
            plan.covered.push((cluster, counted.clone()));
            if late && counts {
                // Found again from the other tables, should it be lost. Stays dirty.
                any = true;
                if !std::mem::replace(&mut table.late, true) {
                    self.dirty_bytes -= 1 << self.cluster_bits;
                }
                continue;
            }
            table.dirty = false;
            if !std::mem::take(&mut table.late) {
                self.dirty_bytes -= 1 << self.cluster_bits;
            }
            let place = match role {
                _ if fresh => 1,
                Role::RefBlock => 1,
                Role::Reftable => 2,
                Role::Header if moved => 2,
                Role::Header | Role::L1 | Role::L2 => 3,
            };
            groups[place].fresh |= fresh;
            let unsure = std::mem::take(&mut table.unsure);
            let below = table.below.take().filter(|_| !unsure && !fresh);
            if role == Role::RefBlock && !fresh {
                let first = match &counted {
                    Some(counted) => refcounts::larger(&table.now, counted, order),
                    None => table.now.clone(),
                };
                changes(start, below.as_deref(), &first, &mut groups[1].writes);
                changes(start, Some(&first), &table.now, &mut groups[4].writes);
            } else {
                changes(start, below.as_deref(), &table.now, &mut groups[place].writes);
            }
            table.below = Some(table.now.clone());
        }
        if any {
            groups[0].writes.extend(self.mark_dirty());
        }
        // Data that nothing points to needs no order with refcounts.
        groups[0].early = true;
        groups[1].early = groups[0].writes.is_empty();
        plan.groups = groups.into_iter().filter(|group| !group.writes.is_empty()).collect();
        plan
    }

    /// Sets the bit that marks refcounts as late, where it is not set and the format's version has
    /// it.
    fn mark_dirty(&mut self) -> Option<Write> {
        let header = self.clusters.get_mut(&0)?;
        let below = header.below.as_mut()?;
        if layout::version3(below)?.incompatible.get() & DIRTY != 0 {
            return None;
        }
        for bytes in [&mut header.now, &mut *below] {
            layout::set_feature(&mut layout::version3_mut(bytes)?.incompatible, DIRTY, true);
        }
        Some(Write { offset: 0, data: below[..512].to_vec() })
    }

    /// Clears the bit again: the header's first sector, to be written last.
    pub(crate) fn mark_clean(&mut self) -> Option<Write> {
        let header = self.clusters.get_mut(&0)?;
        let version3 = layout::version3_mut(&mut header.now)?;
        if version3.incompatible.get() & DIRTY == 0 {
            return None;
        }
        layout::set_feature(&mut version3.incompatible, DIRTY, false);
        header.below = Some(header.now.clone());
        Some(Write { offset: 0, data: header.now[..512].to_vec() })
    }

    /// Takes a plan back that was not carried out as a whole: its part at the drive below is
    /// unknown.
    pub(crate) fn failed(&mut self, plan: UpdatePlan) {
        let order = self.order;
        for (cluster, counted) in plan.covered {
            let Some(table) = self.clusters.get_mut(&cluster) else { continue };
            table.unsure = true;
            table.counted = match (counted, table.counted.take()) {
                (Some(before), Some(now)) => Some(refcounts::larger(&before, &now, order)),
                (_, now) => now,
            };
            if !table.dirty {
                table.dirty = true;
                self.dirty_bytes += 1 << self.cluster_bits;
            }
        }
    }
}
