//! The description of an array: its cells, and how its parts work together.

use stasis_block::clock::Nanos;

use crate::{CellPattern, Ecc, Faults, Geometry, Timing, Variation};

/// Times of a page in a block whose cells hold one bit each, whatever they can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlcTimes {
    /// Cells to register (ns).
    pub read: Nanos,
    /// Register to cells (ns).
    pub program: Nanos,
}

/// Programming of word lines in two passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoPass {
    /// Pages of a word line: the bits of a cell.
    pub pages: u32,
    /// The coarse pass (ns).
    pub coarse: Nanos,
    /// The fine pass (ns), behind the transfer of the word line's data.
    pub fine: Nanos,
}

impl TwoPass {
    /// The time of the cells for a page of a block of so many pages: the last of its word line
    /// carries the coarse pass.
    pub(super) fn time(&self, page: u32, pages: u32) -> Nanos {
        if self.ends_line(page, pages) {
            self.coarse
        } else {
            0
        }
    }

    /// Returns whether a page is the last of its word line.
    pub(super) fn ends_line(&self, page: u32, pages: u32) -> bool {
        (page + 1).is_multiple_of(self.pages) || page + 1 == pages
    }
}

/// The cells of an array: their arrangement, times, differences and faults.
#[derive(Debug, Clone)]
pub struct ArrayConfig {
    /// The parts of the array.
    pub geometry: Geometry,
    /// The type of each page of a block.
    pub cells: CellPattern,
    /// Times of operations and of the channels.
    pub timing: Timing,
    /// Differences between cells.
    pub variation: Variation,
    /// Faults from the beginning on.
    pub faults: Faults,
    /// Seed of the differences and of random faults.
    pub seed: u64,
    /// Times of blocks in SLC mode ([`crate::Array::use_as_slc`]); none where no block is ever.
    pub slc: Option<SlcTimes>,
    /// Bit errors and their correction; none where every read is right.
    pub ecc: Option<Ecc>,
    /// Passes in which word lines are programmed; none where each page is by itself.
    pub two_pass: Option<TwoPass>,
}

impl ArrayConfig {
    /// Cells that are all alike and have no faults.
    pub fn new(geometry: Geometry, cells: CellPattern, timing: Timing) -> Self {
        let (variation, faults) = (Variation::default(), Faults::default());
        let (slc, ecc, two_pass) = (None, None, None);
        Self { geometry, cells, timing, variation, faults, seed: 1, slc, ecc, two_pass }
    }
}

/// Which parts of a LUN work at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlaneMode {
    /// Each plane on its own, as FEMU has it (FAST 2018, section 3.2.2).
    #[default]
    Independent,
    /// One operation at a time in each LUN, which may be a multi-plane one.
    Lockstep,
}

/// Who comes first where several wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// Planes: who was submitted first. Channels: who was ready first.
    #[default]
    Fifo,
    /// Host reads before host writes before housekeeping, and then as `Fifo`. After
    /// [`MAX_PASSED`] operations of the host's in a row that passed one of housekeeping, that one is
    /// next.
    ReadFirst,
}

/// Operations of the host's in a row, at a plane or a channel, that pass one of housekeeping: it has
/// a ninth of the turns at least, whatever the host does. The number is this project's own choice.
pub const MAX_PASSED: u8 = 8;

/// Which transfers of a channel come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelOrder {
    /// All as [`Scheduling`] orders them.
    #[default]
    Fifo,
    /// Data of reads before commands and data of programs, each as [`Scheduling`] orders them: an
    /// idle LUN waits for its next command until no read's data waits, as in MQSim (Tavakkol et
    /// al., FAST 2018).
    DataFirst,
}

/// Options of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayOptions {
    /// True if each plane has a cache register beside its data register.
    pub cache_register: bool,
    /// Which parts of a LUN work at the same time.
    pub planes: PlaneMode,
    /// Number of host reads that a program or erase gives way to; 0 for none.
    pub suspensions: u8,
    /// Who comes first where several wait.
    pub scheduling: Scheduling,
    /// Which transfers of a channel come first.
    pub channel_order: ChannelOrder,
}

impl Default for ArrayOptions {
    fn default() -> Self {
        Self {
            cache_register: true,
            planes: PlaneMode::default(),
            suspensions: 0,
            scheduling: Scheduling::default(),
            channel_order: ChannelOrder::default(),
        }
    }
}
