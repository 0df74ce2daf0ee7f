//! Disks as the contents of their sectors, where they differ from those before a run.

use std::collections::HashMap;

use stasis_block::splitmix;

use crate::sectors::Content;

/// Sectors that are kept together.
const CHUNK: u64 = 128;

/// The written sectors of a disk.
#[derive(Debug, Clone, Default)]
pub struct WrittenSectors {
    chunks: HashMap<u64, Box<[Option<Content>; CHUNK as usize]>>,
    print: u128,
}

/// Contribution of one sector to the print of a disk.
pub(crate) fn print(sector: u64, content: Content) -> u128 {
    let half = |seed: u64| {
        let mut value = sector.wrapping_mul(splitmix::GAMMA) ^ seed;
        value = value.wrapping_add(content.number().wrapping_mul(0xd6e8_feb8_6659_fd93));
        u128::from(splitmix::mix(value))
    };
    half(0x243f_6a88_85a3_08d3) << 64 | half(0x1319_8a2e_0370_7344)
}

impl WrittenSectors {
    /// Content of `sector`; `None` if it was never written.
    pub fn get(&self, sector: u64) -> Option<Content> {
        self.chunks.get(&(sector / CHUNK)).and_then(|chunk| chunk[(sector % CHUNK) as usize])
    }

    /// Writes `sector`; returns its former content.
    pub fn set(&mut self, sector: u64, content: Option<Content>) -> Option<Content> {
        let chunk = self.chunks.entry(sector / CHUNK).or_insert_with(|| Box::new([None; 128]));
        let before = std::mem::replace(&mut chunk[(sector % CHUNK) as usize], content);
        for held in [before, content].into_iter().flatten() {
            self.print ^= print(sector, held);
        }
        before
    }

    /// Every sector that was written, in no order.
    pub fn each(&self) -> impl Iterator<Item = (u64, Content)> + '_ {
        self.chunks.iter().flat_map(|(chunk, contents)| {
            contents
                .iter()
                .enumerate()
                .filter_map(move |(index, held)| Some((chunk * CHUNK + index as u64, (*held)?)))
        })
    }

    /// A number that disks with the same contents share, and others, as good as
    /// certainly, do not.
    pub fn print(&self) -> u128 {
        self.print
    }
}
