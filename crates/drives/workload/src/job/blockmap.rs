//! Set of the blocks of a region that were covered, for maps whose I/Os are of several sizes.

/// A set of blocks with a quick way to the next that is not in it: words of bits, and above
/// them levels whose bits are set where a word below is full.
#[derive(Debug, Clone)]
pub struct BlockMap {
    levels: Vec<Vec<u64>>,
    blocks: u64,
}

impl BlockMap {
    /// Limit on the number of blocks: 1 GiB of bits.
    pub const MAX_BLOCKS: u64 = 1 << 33;

    /// Starts with `blocks`, none of which is in it.
    pub fn new(blocks: u64) -> Self {
        let mut map = Self { levels: Vec::new(), blocks };
        let mut bits = blocks.max(1);
        loop {
            let words = bits.div_ceil(64);
            map.levels.push(vec![0; words as usize]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        map.seal();
        map
    }

    /// Empties the map.
    pub fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
        self.seal();
    }

    /// Bits beyond the end count as set.
    fn seal(&mut self) {
        let mut bits = self.blocks.max(1);
        for level in &mut self.levels {
            let used = bits % 64;
            if let Some(last) = level.last_mut().filter(|_| used > 0) {
                *last |= u64::MAX << used;
            }
            bits = bits.div_ceil(64);
        }
    }

    fn has(&self, block: u64) -> bool {
        self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    fn insert(&mut self, block: u64) {
        let mut place = block;
        for level in &mut self.levels {
            let word = &mut level[(place / 64) as usize];
            *word |= 1 << (place % 64);
            if *word != u64::MAX {
                break;
            }
            place /= 64;
        }
    }

    /// The first block from `from` on that is not in it, or else the first of all; `None`
    /// where all are.
    pub fn next_free(&self, from: u64) -> Option<u64> {
        self.free_from(from).or_else(|| self.free_from(0))
    }

    fn free_from(&self, from: u64) -> Option<u64> {
        if from >= self.blocks {
            return None;
        }
        // Up, as long as there is nothing to the right, then down again to the leftmost.
        let (mut level, mut place) = (0, from);
        loop {
            let word = *self.levels[level].get((place / 64) as usize)?;
            let free = !word & (u64::MAX << (place % 64));
            if free != 0 {
                place = place / 64 * 64 + u64::from(free.trailing_zeros());
                break;
            }
            level += 1;
            if level == self.levels.len() {
                return None;
            }
            place = place / 64 + 1;
        }
        while level > 0 {
            level -= 1;
            let word = self.levels[level][place as usize];
            place = place * 64 + u64::from((!word).trailing_zeros());
        }
        (place < self.blocks).then_some(place)
    }

    /// Takes `count` blocks from `block` on into it, up to the first that is in it already;
    /// returns how many.
    pub fn take(&mut self, block: u64, count: u64) -> u64 {
        let mut taken = 0;
        while taken < count && block + taken < self.blocks && !self.has(block + taken) {
            self.insert(block + taken);
            taken += 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_set(blocks in 1u64..9000, places: Vec<(u64, u64)>) {
            let mut map = BlockMap::new(blocks);
            let mut all = vec![false; blocks as usize];
            for (place, count) in places {
                let (place, count) = (place % blocks, count % 700 + 1);
                let free = |from: u64| (from..blocks).find(|&b| !all[b as usize]);
                prop_assert_eq!(map.next_free(place), free(place).or_else(|| free(0)));
                let run = (place..blocks.min(place + count)).take_while(|&b| !all[b as usize]);
                let run: Vec<u64> = run.collect();
                prop_assert_eq!(map.take(place, count), run.len() as u64);
                run.iter().for_each(|&b| all[b as usize] = true);
            }
            while let Some(free) = map.next_free(0) {
                prop_assert!(map.take(free, blocks) > 0);
            }
            map.clear();
            prop_assert_eq!(map.next_free(blocks - 1), Some(blocks - 1));
        }
    }
}
