//! The parts of a NAND array, and how they are numbered.

use serde::{Deserialize, Serialize};

/// Limits of a [`Geometry`]: beyond them, packed numbers would not fit.
const MAX_CHANNELS: u32 = 256;
const MAX_LUNS: u32 = 256;
/// Planes of a LUN: a multi-plane operation's are the bits of 16.
pub const MAX_PLANES: u32 = 16;
const MAX_BLOCKS: u32 = 1 << 24;
const MAX_PAGES: u32 = 1 << 16;
/// Bytes that a page is a multiple of, the sector of every block device.
const SECTOR: u32 = 512;
const MAX_PAGE_SIZE: u32 = 1 << 20;
const MAX_OOB_SIZE: u32 = 1 << 16;

/// The parts of a NAND array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Channels (buses).
    pub channels: u32,
    /// LUNs (dies) at each channel.
    pub luns: u32,
    /// Planes of each LUN.
    pub planes: u32,
    /// Blocks of each plane.
    pub blocks: u32,
    /// Pages of each block.
    pub pages: u32,
    /// Data of each page (bytes).
    pub page_size: u32,
    /// Out-of-band area of each page (bytes); 0 in results from before it was written there.
    #[serde(default)]
    pub oob_size: u32,
}

/// A value that no array can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` = {value} cannot work: {reason}; the nearest that works is {nearest}")]
pub struct GeometryError {
    /// The key of the value.
    pub key: &'static str,
    /// The value given.
    pub value: u32,
    /// Why the value cannot work.
    pub reason: String,
    /// The nearest value that works.
    pub nearest: u32,
}

/// A plane's number: planes of a LUN follow one another, then LUNs, then
/// channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PlaneId(pub u32);

/// Address of a page (or, its page ignored, of a block).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PageAddress {
    /// The plane.
    pub plane: PlaneId,
    /// The block in the plane.
    pub block: u32,
    /// The page in the block.
    pub page: u32,
}

impl Geometry {
    /// Checks that an array can have this geometry.
    ///
    /// # Errors
    /// [`GeometryError`] names the first value that cannot work, and the nearest
    /// that does.
    pub fn check(&self) -> Result<(), GeometryError> {
        for (key, value, least, most) in [
            ("channels", self.channels, 1, MAX_CHANNELS),
            ("luns", self.luns, 1, MAX_LUNS),
            ("planes", self.planes, 1, MAX_PLANES),
            ("blocks", self.blocks, 1, MAX_BLOCKS),
            ("pages", self.pages, 1, MAX_PAGES),
            ("page_size", self.page_size, SECTOR, MAX_PAGE_SIZE),
            ("oob_size", self.oob_size, 0, MAX_OOB_SIZE),
        ] {
            if !(least..=most).contains(&value) {
                let reason = format!("it is {least} to {most}");
                let nearest = value.clamp(least, most);
                return Err(GeometryError { key, value, reason, nearest });
            }
        }
        if !self.page_size.is_multiple_of(SECTOR) {
            let nearest = (self.page_size + SECTOR / 2) / SECTOR * SECTOR;
            let reason = format!("a page is a multiple of {SECTOR} bytes");
            let value = self.page_size;
            return Err(GeometryError { key: "page_size", value, reason, nearest });
        }
        let most = u32::MAX / self.total_planes();
        if self.blocks > most {
            let reason = format!("{} planes of it are more than 2^32 blocks", self.total_planes());
            let value = self.blocks;
            return Err(GeometryError { key: "blocks", value, reason, nearest: most });
        }
        Ok(())
    }

    /// LUNs of the array.
    pub fn total_luns(&self) -> u32 {
        self.channels * self.luns
    }

    /// Planes of the array.
    pub fn total_planes(&self) -> u32 {
        self.total_luns() * self.planes
    }

    /// Blocks of the array.
    pub fn total_blocks(&self) -> u64 {
        u64::from(self.total_planes()) * u64::from(self.blocks)
    }

    /// Pages of the array.
    pub fn total_pages(&self) -> u64 {
        self.total_blocks() * u64::from(self.pages)
    }

    /// The plane `plane` of LUN `lun` at channel `channel`.
    pub fn plane(&self, channel: u32, lun: u32, plane: u32) -> PlaneId {
        debug_assert!(channel < self.channels && lun < self.luns && plane < self.planes);
        PlaneId((channel * self.luns + lun) * self.planes + plane)
    }

    /// The channel of a plane, the LUN at that channel, and the plane there.
    pub fn place(&self, plane: PlaneId) -> (u32, u32, u32) {
        let lun = plane.0 / self.planes;
        (lun / self.luns, lun % self.luns, plane.0 % self.planes)
    }

    /// The channel of a plane.
    pub fn channel(&self, plane: PlaneId) -> u32 {
        plane.0 / (self.planes * self.luns)
    }

    /// The LUN of a plane, counted through the array.
    pub fn lun(&self, plane: PlaneId) -> u32 {
        plane.0 / self.planes
    }

    /// The block's number, counted through the array.
    pub fn block_index(&self, plane: PlaneId, block: u32) -> u64 {
        u64::from(plane.0) * u64::from(self.blocks) + u64::from(block)
    }

    /// Returns whether there is such a page.
    pub fn contains(&self, at: PageAddress) -> bool {
        at.plane.0 < self.total_planes() && at.block < self.blocks && at.page < self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry {
        channels: 3,
        luns: 2,
        planes: 4,
        blocks: 5,
        pages: 7,
        page_size: 4096,
        oob_size: 64,
    };

    #[test]
    fn numbers_name_each_block_once() {
        assert_eq!(SMALL.check(), Ok(()));
        let mut index = 0;
        for channel in 0..3 {
            for lun in 0..2 {
                for plane in 0..4 {
                    let id = SMALL.plane(channel, lun, plane);
                    assert_eq!(SMALL.place(id), (channel, lun, plane));
                    assert_eq!(SMALL.channel(id), channel);
                    assert_eq!(SMALL.lun(id), channel * 2 + lun);
                    for block in 0..5 {
                        assert_eq!(SMALL.block_index(id, block), index);
                        index += 1;
                    }
                }
            }
        }
        assert_eq!(index, SMALL.total_blocks());
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_nearest_that_does() {
        let cases = [
            (Geometry { channels: 0, ..SMALL }, "channels", 1),
            (Geometry { planes: 17, ..SMALL }, "planes", 16),
            (Geometry { pages: 70_000, ..SMALL }, "pages", 65_536),
            (Geometry { page_size: 4000, ..SMALL }, "page_size", 4096),
            (Geometry { page_size: 4_200, ..SMALL }, "page_size", 4096),
            (
                Geometry { channels: 256, luns: 256, blocks: 1 << 20, ..SMALL },
                "blocks",
                u32::MAX / (256 * 256 * 4),
            ),
        ];
        for (geometry, key, nearest) in cases {
            let error = geometry.check().unwrap_err();
            assert_eq!((error.key, error.nearest), (key, nearest), "{error}");
            assert!(error.to_string().contains(&format!("`{key}`")), "{error}");
        }
    }
}
