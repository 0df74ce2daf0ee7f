//! Which pages of the array each zone of the drive has.

use crate::ftl::Shape;
use crate::spec::{Spec, SpecError};

/// Zones of equal size, one after another, each of some blocks. Their pages
/// go round the blocks of a row, then on in the same blocks.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Pages of a zone that hold its bytes.
    pub pages: u32,
    /// Zones.
    pub zones: u32,
    /// Blocks of a zone.
    pub width: u32,
    // Blocks that are written in turn.
    row: u32,
    block_pages: u32,
}

impl Layout {
    /// Zones of so many pages, over as many of `planes` as they can have.
    pub fn new(shape: &Shape, zone_pages: u32, planes: u32) -> Self {
        let block_pages = shape.geometry.pages;
        let blocks = zone_pages.div_ceil(block_pages);
        let row = blocks.min(planes);
        Self {
            pages: zone_pages,
            zones: (shape.units / shape.slots) / zone_pages.max(1),
            width: blocks.div_ceil(row) * row,
            row,
            block_pages,
        }
    }

    /// The zone of a page of the drive, its block there, and the page of that.
    pub fn place(&self, page: u32) -> (u32, u32, u32) {
        let (zone, inside) = (page / self.pages, page % self.pages);
        let of_row = self.row * self.block_pages;
        let within = inside % of_row;
        let block = inside / of_row * self.row + within % self.row;
        (zone, zone * self.width + block, within / self.row)
    }

    /// The page of the drive behind another in the same block.
    pub fn next(&self, page: u32) -> Option<u32> {
        let next = page + self.row;
        let here = self.place(page);
        let same = next / self.pages == page / self.pages && self.place(next).1 == here.1;
        same.then_some(next)
    }

    /// The page of the drive in a block's page.
    pub fn page(&self, block: u32, page: u32) -> u32 {
        let (zone, inside) = (block / self.width, block % self.width);
        let of_row = self.row * self.block_pages;
        zone * self.pages + inside / self.row * of_row + page * self.row + inside % self.row
    }
}

/// The blocks of zones: round the planes in the order of the stripe.
pub(super) fn zone_blocks(
    spec: &Spec,
    shape: &Shape,
    (count, width): (u32, u32),
) -> Result<Vec<u32>, SpecError> {
    let order = spec.stripe_order()?;
    let groups = spec.zone_groups();
    // Each group of channels has its planes in the order of the stripe; zones go round the groups.
    let channels = spec.channels / groups;
    let of_group = |group: u32| -> Vec<u32> {
        let here = |&plane: &u32| plane / (shape.planes / spec.channels) / channels == group;
        order.iter().copied().filter(here).collect()
    };
    let orders: Vec<Vec<u32>> = (0..groups).map(of_group).collect();
    let planes = shape.planes / groups;
    let place = |at: u32| {
        let (zone, inside) = (at / width, at % width);
        // The blocks of a group's zones, one zone after the other.
        let number = zone / groups * width + inside;
        let plane = orders[(zone % groups) as usize][(number % planes) as usize];
        shape.block(plane, number / planes)
    };
    Ok((0..count).map(place).collect())
}

/// The blocks of chunks: those of one number in the planes of a LUN.
pub(super) fn chunk_blocks(shape: &Shape) -> Vec<u32> {
    let geometry = shape.geometry;
    let luns = 0..geometry.total_luns();
    let chunks = luns.flat_map(|lun| (0..geometry.blocks).map(move |chunk| (lun, chunk)));
    let planes = 0..geometry.planes;
    chunks
        .flat_map(|(lun, chunk)| {
            planes.clone().map(move |plane| (lun * geometry.planes + plane, chunk))
        })
        .map(|(plane, block)| shape.block(plane, block))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_of_a_zone_has_its_own_place_in_order() {
        let spec = Spec {
            channels: 2,
            luns: 2,
            planes: 1,
            pages: Some(8),
            page_size: 4096,
            ..Spec::default()
        };
        let shape = Shape::new(&spec, 4 << 20);
        for (pages, planes) in [(8, 1), (24, 4), (20, 4), (64, 4), (70, 4), (1, 4)] {
            let layout = Layout::new(&shape, pages, planes);
            let mut next = std::collections::BTreeMap::new();
            for page in 0..pages * 3 {
                let (zone, block, at) = layout.place(page);
                assert_eq!((zone, block / layout.width), (page / pages, zone));
                let expected = next.entry(block).or_insert(0);
                assert_eq!(at, *expected, "{pages} pages over {planes}: {page}");
                *expected += 1;
                assert!(at < 8);
                assert_eq!(layout.page(block, at), page);
                if let Some(after) = layout.next(page) {
                    assert_eq!(layout.place(after), (zone, block, at + 1));
                }
            }
        }
    }
}
