//! Word lines that are programmed in two passes: a coarse one, and a fine one that needs their data
//! again.
//!
//! The pages of a word line are loaded one by one; with the last of them the coarse pass begins. The
//! fine pass follows once the next word line has had its coarse one, which would disturb finer levels,
//! or once nothing more comes: the block is full, or [`crate::Array::close_lines`]. Until then no page of it
//! has ended, and nothing of it can be read.
//!
//! Invariants: a page is held by one word line at most, from the end of its own step to that of the
//! fine pass; a block has one word line that is being filled and one that waits at most; pages of a
//! block end in their order.

use crate::{PageAddress, PlaneId, TwoPass};

/// Word lines of a block that are not programmed finely yet: operations that are held.
#[derive(Debug)]
pub(super) struct Line {
    pub plane: PlaneId,
    pub block: u32,
    /// Pages of the word line that is being filled.
    pub filling: Vec<u32>,
    /// Pages of the word line before it, which is programmed coarsely.
    pub coarse: Vec<u32>,
    /// The last page that has ended.
    pub ended: u32,
    /// The page behind which nothing comes for now.
    pub closes: Option<u32>,
}

/// A fine pass under way.
#[derive(Debug)]
pub(super) struct Fine {
    /// Its operation.
    pub index: u32,
    pub at: PageAddress,
    /// The pages that it ends.
    pub held: Vec<u32>,
    /// Pages that have failed meanwhile, and end behind them.
    pub failed: Vec<u32>,
}

/// The word lines under way; see the [module](self).
#[derive(Debug)]
pub(super) struct WordLines {
    pub two_pass: TwoPass,
    pub open: Vec<Line>,
    // Fine passes under way, in the order of their beginning.
    pub fine: Vec<Fine>,
    // Blocks in which a program has failed: no page of them is good any more.
    pub failed: Vec<(PlaneId, u32)>,
    // Memory for lists of operations.
    spare: Vec<Vec<u32>>,
    pub passes: u64,
}

impl WordLines {
    /// Creates the state without a word line under way.
    pub fn new(two_pass: TwoPass) -> Self {
        let (open, fine, failed, spare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { two_pass, open, fine, failed, spare, passes: 0 }
    }

    /// Returns whether an operation is held.
    pub fn holds(&self, index: u32) -> bool {
        let lines = self.open.iter().flat_map(|line| [&line.filling, &line.coarse]);
        let fine = self.fine.iter().flat_map(|fine| [&fine.held, &fine.failed]);
        lines.chain(fine).any(|held| held.contains(&index))
    }

    /// The power failed: nothing is under way.
    pub fn clear(&mut self) {
        self.open.clear();
        self.fine.clear();
    }

    pub fn list(&mut self) -> Vec<u32> {
        let pages = self.two_pass.pages as usize;
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(pages))
    }

    pub fn give(&mut self, mut list: Vec<u32>) {
        list.clear();
        self.spare.push(list);
    }

    pub fn place(&self, plane: PlaneId, block: u32) -> Option<usize> {
        self.open.iter().position(|line| (line.plane, line.block) == (plane, block))
    }

    /// The line of a page's block.
    pub fn line(&mut self, at: PageAddress) -> usize {
        self.place(at.plane, at.block).unwrap_or_else(|| {
            let (filling, coarse) = (self.list(), self.list());
            let (plane, block) = (at.plane, at.block);
            self.open.push(Line { plane, block, filling, coarse, ended: 0, closes: None });
            self.open.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use stasis_block::clock::Nanos;

    use super::*;
    use crate::{
        Array, ArrayConfig, ArrayOptions, BusRate, CellPattern, Fault, FaultRule, Geometry, Op,
        OpDone, OpKind, OpStatus, Priority, Timing,
    };

    const GEOMETRY: Geometry = Geometry {
        channels: 1,
        luns: 1,
        planes: 1,
        blocks: 4,
        pages: 12,
        page_size: 4096,
        oob_size: 0,
    };
    const TWO_PASS: TwoPass = TwoPass { pages: 4, coarse: 1_000, fine: 3_000 };

    fn array() -> Array {
        let cells = CellPattern::parse("qlc", GEOMETRY.pages).unwrap();
        let timing = Timing::uniform(50, 7_000, 9_000, BusRate::UNLIMITED);
        let config =
            ArrayConfig { two_pass: Some(TWO_PASS), ..ArrayConfig::new(GEOMETRY, cells, timing) };
        Array::new(config, ArrayOptions::default())
    }

    fn program(block: u32, page: u32) -> Op {
        let at = PageAddress { plane: PlaneId(0), block, page };
        let (kind, priority, token) = (OpKind::Program, Priority::Write, page.into());
        Op { kind, at, source: at, bytes: 4096, priority, token, group: 0 }
    }

    fn ends(array: &mut Array, until: Nanos) -> Vec<(Nanos, u64, OpStatus)> {
        let all = std::iter::from_fn(|| array.pop(until));
        all.map(|OpDone { at, token, status, times, .. }| {
            assert_eq!(times.total(), at, "all were submitted at 0");
            (at, token, status)
        })
        .collect()
    }

    #[test]
    fn a_fine_pass_follows_the_next_coarse_one() {
        let mut array = array();
        (0..4).for_each(|page| array.submit(0, program(1, page)));
        assert_eq!(ends(&mut array, 100_000), [], "a word line alone has no fine pass");
        assert_eq!(array.next_event(), None);
        let mut array = self::array();
        (0..12).for_each(|page| array.submit(0, program(1, page)));
        let ended = ends(&mut array, 100_000);
        // Coarse passes of the three are queued before the first fine one, and the last word line's
        // pass comes as the block is full.
        let expected = |line: u64, at| (0..4).map(move |page| (at, 4 * line + page, OpStatus::Ok));
        let all = expected(0, 6_000).chain(expected(1, 9_000)).chain(expected(2, 12_000));
        assert_eq!(ended, all.collect::<Vec<_>>());
        assert_eq!((array.fine_passes(), array.in_flight()), (3, 0));
    }

    #[test]
    fn a_closed_line_is_finished_whether_it_has_ended_or_not() {
        for late in [false, true] {
            let mut array = array();
            (0..4).for_each(|page| array.submit(0, program(1, page)));
            if late {
                assert_eq!(ends(&mut array, 5_000), []);
            }
            let now = if late { 5_000 } else { 0 };
            array.close_lines(now, PageAddress { plane: PlaneId(0), block: 1, page: 3 });
            let ended: Vec<_> = ends(&mut array, 100_000).iter().map(|end| end.0).collect();
            assert_eq!(ended, [now.max(1_000) + 3_000; 4], "{late}");
            // The next word line waits for its neighbour again.
            array.submit(100_000, program(1, 4));
            assert_eq!(array.pop(200_000), None);
        }
    }

    #[test]
    fn a_failed_page_fails_its_line_and_what_follows_but_not_the_line_before() {
        let mut array = array();
        let mut rule = FaultRule::new(Fault::FailedProgram);
        rule.place.pages = Some(5..6);
        array.inject(rule);
        (0..8).for_each(|page| array.submit(0, program(1, page)));
        let ended = ends(&mut array, 100_000);
        let failed: Vec<u64> =
            ended.iter().filter(|end| end.2 == OpStatus::ProgramFailed).map(|end| end.1).collect();
        assert_eq!(failed, [4, 5, 6, 7]);
        assert_eq!((ended.len(), array.in_flight()), (8, 0));
    }

    #[test]
    fn a_power_cut_leaves_nothing_of_lines_between_their_passes() {
        let mut array = array();
        (0..8).for_each(|page| array.submit(0, program(1, page)));
        // The second word line's coarse pass has ended; the first one's fine pass is under way.
        assert_eq!(ends(&mut array, 3_000), []);
        let mut dropped = Vec::new();
        array.power_cut(3_000, |op, started| dropped.push((op.token, started)));
        assert_eq!(dropped, (0..8).map(|page| (page, true)).collect::<Vec<_>>());
        assert_eq!((array.in_flight(), array.next_event()), (0, None));
    }

    #[test]
    fn blocks_in_slc_mode_have_one_pass() {
        let cells = CellPattern::parse("qlc", GEOMETRY.pages).unwrap();
        let timing = Timing::uniform(50, 7_000, 9_000, BusRate::UNLIMITED);
        let config = ArrayConfig {
            two_pass: Some(TWO_PASS),
            slc: Some(crate::SlcTimes { read: 10, program: 200 }),
            ..ArrayConfig::new(GEOMETRY, cells, timing)
        };
        let mut array = Array::new(config, ArrayOptions::default());
        array.use_as_slc(PlaneId(0), 1);
        array.submit(0, program(1, 0));
        assert_eq!(ends(&mut array, 9_000), [(200, 0, OpStatus::Ok)]);
    }
}
