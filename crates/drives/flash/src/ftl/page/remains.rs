//! Blocks of a plane of which only units are left that were read, and do not fill a page: they wait
//! for those of the next block, and are erased once the last one is programmed elsewhere.
//!
//! Invariants: such a block is in state `Collected`, is no job's, and takes no pages; until the erase
//! its units are valid where they are, so that a power cut loses nothing.

/// A block that waits.
#[derive(Debug, Clone, Copy)]
struct Rest {
    block: u32,
    // Slots of it in pages under way.
    flying: u32,
    erasing: bool,
}

/// The blocks of a plane that wait; see the [module](self).
#[derive(Debug, Clone, Default)]
pub(super) struct Remains(Vec<Rest>);

impl Remains {
    /// Returns whether no block waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of blocks that are not yet being erased.
    pub fn waiting(&self) -> u32 {
        self.0.iter().map(|rest| u32::from(!rest.erasing)).sum()
    }

    /// Returns whether a block is one of them.
    pub fn contains(&self, block: u32) -> bool {
        self.0.iter().any(|rest| rest.block == block)
    }

    /// A block has only units left that wait.
    pub fn add(&mut self, block: u32) {
        self.0.push(Rest { block, flying: 0, erasing: false });
    }

    /// A slot of a block goes into a page under way.
    #[inline]
    pub fn take_off(&mut self, block: u32) {
        self.0.iter_mut().filter(|rest| rest.block == block).for_each(|rest| rest.flying += 1);
    }

    /// A page under way that has a slot of a block has ended.
    #[inline]
    pub fn land(&mut self, block: u32) {
        let here = self.0.iter_mut().filter(|rest| rest.block == block);
        here.for_each(|rest| rest.flying = rest.flying.saturating_sub(1));
    }

    /// A block that is `empty`, and of which no page under way has a slot: it is being erased from
    /// now on.
    pub fn begin_erase(&mut self, empty: impl Fn(u32) -> bool) -> Option<u32> {
        let ready = |rest: &&mut Rest| !rest.erasing && rest.flying == 0 && empty(rest.block);
        let rest = self.0.iter_mut().find(ready)?;
        rest.erasing = true;
        Some(rest.block)
    }

    /// A block no longer waits, if it is one of them.
    pub fn remove(&mut self, block: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|rest| rest.block != block);
        self.0.len() < before
    }

    /// Returns whether nothing of a block that waits is under way.
    pub fn is_idle(&self, block: u32) -> bool {
        let idle = |rest: &Rest| rest.block == block && rest.flying == 0 && !rest.erasing;
        self.0.iter().any(idle)
    }

    /// Takes out a block on which nothing is under way.
    pub fn take_any(&mut self) -> Option<u32> {
        let idle = |rest: &&Rest| rest.flying == 0 && !rest.erasing;
        let block = self.0.iter().find(idle)?.block;
        self.remove(block).then_some(block)
    }

    /// Takes out all, in the order of their numbers: nothing is under way any more.
    pub fn take_all(&mut self) -> Vec<u32> {
        let mut blocks: Vec<u32> = self.0.drain(..).map(|rest| rest.block).collect();
        blocks.sort_unstable();
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_erased_once_it_is_empty_and_no_page_has_a_slot_of_it() {
        let mut remains = Remains::default();
        remains.add(7);
        remains.add(3);
        remains.take_off(7);
        assert_eq!((remains.waiting(), remains.contains(3)), (2, true));
        assert_eq!(remains.begin_erase(|block| block == 7), None, "a page has a slot of it");
        assert!(!remains.is_idle(7) && remains.is_idle(3));
        remains.land(7);
        assert_eq!(remains.begin_erase(|block| block == 7), Some(7));
        assert_eq!(remains.begin_erase(|block| block == 7), None, "once");
        assert_eq!(
            (remains.waiting(), remains.is_idle(7), remains.take_any()),
            (1, false, Some(3))
        );
        assert!(remains.remove(7) && !remains.remove(7) && remains.is_empty());
        remains.add(9);
        remains.add(4);
        assert_eq!(remains.take_all(), [4, 9]);
    }
}
