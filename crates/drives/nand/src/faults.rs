//! Faults of the array: where, when and how often its operations go wrong.

use std::ops::Range;

use stasis_block::clock::Nanos;

use crate::hash::{bits, unit};
use crate::{Geometry, PageAddress};

/// The kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A read gives no data.
    UncorrectableRead,
    /// A program fails.
    FailedProgram,
    /// An erase fails.
    FailedErase,
    /// A read gives wrong data without an error.
    CorruptedRead,
    /// Whatever is asked fails as soon as it is asked.
    DeadDie,
    /// The operation stands still for this long (ns) before it continues.
    Stuck(Nanos),
}

/// Places at which faults happen: everything that is given must agree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Where {
    /// The channel.
    pub channel: Option<u32>,
    /// The LUN at its channel.
    pub lun: Option<u32>,
    /// The plane of its LUN.
    pub plane: Option<u32>,
    /// Blocks of their plane.
    pub blocks: Option<Range<u32>>,
    /// Pages of their block; nothing to an erase.
    pub pages: Option<Range<u32>>,
}

/// One kind of fault, where, when and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRule {
    /// The kind of fault.
    pub fault: Fault,
    /// Where.
    pub place: Where,
    /// Times (ns of virtual time).
    pub time: Range<Nanos>,
    /// The share of operations that it happens to, 0 to 1.
    pub rate: f64,
    /// Maximum number of occurrences.
    pub count: u64,
    /// Growth with wear: the power of a block's erases, and the number of erases that the rate is
    /// for.
    pub wear: Option<(f64, u32)>,
}

impl FaultRule {
    /// A fault everywhere, always.
    pub fn new(fault: Fault) -> Self {
        let place = Where::default();
        let time = 0..Nanos::MAX;
        Self { fault, place, time, rate: 1.0, count: u64::MAX, wear: None }
    }

    /// At one place only.
    pub fn at(self, place: Where) -> Self {
        Self { place, ..self }
    }

    /// In a part of the time only.
    pub fn during(self, time: Range<Nanos>) -> Self {
        Self { time, ..self }
    }

    /// To a share of the operations only.
    pub fn rate(self, rate: f64) -> Self {
        Self { rate, ..self }
    }

    /// With the erases of a block to this power: the rate is that of `rated` erases.
    pub fn with_wear(self, power: f64, rated: u32) -> Self {
        Self { wear: Some((power, rated)), ..self }
    }

    /// At most so often.
    pub fn times(self, count: u64) -> Self {
        Self { count, ..self }
    }
}

/// A rule that can never apply, or a rate that is none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// The rate is not between 0 and 1.
    #[error(
        "`faults.rate` = {value} is no share of operations; the nearest that works is {nearest}"
    )]
    Rate {
        /// The value given.
        value: f64,
        /// The nearest valid rate, 0 or 1.
        nearest: f64,
    },
    /// The place is outside the array.
    #[error(
        "a fault's `{key}` = {value} is outside the array; the nearest that is inside is {nearest}"
    )]
    CellAddress {
        /// Which part of the address.
        key: &'static str,
        /// The value given.
        value: u32,
        /// The last valid value.
        nearest: u32,
    },
    /// The range ends before it begins.
    #[error(
        "a fault's `{key}` = {start}..{end} is empty; the nearest that works ends at {nearest}"
    )]
    Empty {
        /// Which range.
        key: &'static str,
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
        /// An end that works.
        nearest: u64,
    },
}

/// Faults in the order in which they are looked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    rules: Vec<FaultRule>,
}

/// An access to the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Program,
    Erase,
}

impl Fault {
    fn concerns(self, access: Access) -> bool {
        match self {
            Self::UncorrectableRead | Self::CorruptedRead => access == Access::Read,
            Self::FailedProgram => access == Access::Program,
            Self::FailedErase => access == Access::Erase,
            Self::DeadDie | Self::Stuck(_) => true,
        }
    }
}

impl Where {
    fn contains(&self, geometry: &Geometry, at: PageAddress, whole_block: bool) -> bool {
        let (channel, lun, plane) = geometry.place(at.plane);
        self.channel.is_none_or(|only| only == channel)
            && self.lun.is_none_or(|only| only == lun)
            && self.plane.is_none_or(|only| only == plane)
            && self.blocks.as_ref().is_none_or(|only| only.contains(&at.block))
            && (whole_block || self.pages.as_ref().is_none_or(|only| only.contains(&at.page)))
    }

    fn check(&self, geometry: &Geometry) -> Result<(), FaultError> {
        let last = |range: &Option<Range<u32>>| range.as_ref().map(|range| range.end - 1);
        for (key, range) in [("blocks", &self.blocks), ("pages", &self.pages)] {
            if let Some(range) = range.as_ref().filter(|range| range.is_empty()) {
                let (start, end) = (u64::from(range.start), u64::from(range.end));
                return Err(FaultError::Empty { key, start, end, nearest: start + 1 });
            }
        }
        for (key, value, parts) in [
            ("channel", self.channel, geometry.channels),
            ("lun", self.lun, geometry.luns),
            ("plane", self.plane, geometry.planes),
            ("blocks", last(&self.blocks), geometry.blocks),
            ("pages", last(&self.pages), geometry.pages),
        ] {
            if let Some(value) = value.filter(|&value| value >= parts) {
                return Err(FaultError::CellAddress { key, value, nearest: parts - 1 });
            }
        }
        Ok(())
    }
}

impl Faults {
    /// Makes a list of faults; the first that concerns an operation happens to it.
    pub fn new(rules: Vec<FaultRule>) -> Self {
        Self { rules }
    }

    /// One more, after those there are.
    pub fn push(&mut self, rule: FaultRule) {
        self.rules.push(rule);
    }

    /// Returns whether nothing ever goes wrong.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Checks that each rule can apply to such an array.
    ///
    /// # Errors
    /// [`FaultError`] names the first value that cannot work, and the nearest
    /// that does.
    pub fn check(&self, geometry: &Geometry) -> Result<(), FaultError> {
        for rule in &self.rules {
            if !(0.0..=1.0).contains(&rule.rate) {
                let nearest = if rule.rate > 1.0 { 1.0 } else { 0.0 };
                return Err(FaultError::Rate { value: rule.rate, nearest });
            }
            if rule.time.is_empty() {
                let Range { start, end } = rule.time;
                let nearest = start.saturating_add(1);
                return Err(FaultError::Empty { key: "time", start, end, nearest });
            }
            rule.place.check(geometry)?;
        }
        Ok(())
    }

    /// Applies the rules to operation number `number` as it reaches the cells of a block that was
    /// erased so often at `now`, and counts it.
    pub(crate) fn strike(
        &mut self,
        geometry: &Geometry,
        seed: u64,
        (now, number): (Nanos, u64),
        (access, at, erases): (Access, PageAddress, u32),
    ) -> Option<Fault> {
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let rate = match rule.wear {
                Some((power, rated)) => {
                    rule.rate * (f64::from(erases) / f64::from(rated.max(1))).powf(power)
                }
                None => rule.rate,
            };
            let struck = rule.count > 0
                && rule.fault.concerns(access)
                && rule.time.contains(&now)
                && rule.place.contains(geometry, at, access == Access::Erase)
                && (rate >= 1.0 || unit(bits(seed ^ (index as u64) << 32, number)) < rate);
            if struck {
                rule.count -= 1;
                return Some(rule.fault);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: Geometry = Geometry {
        channels: 2,
        luns: 2,
        planes: 2,
        blocks: 8,
        pages: 4,
        page_size: 4096,
        oob_size: 0,
    };

    fn page(plane: u32, block: u32, page: u32) -> PageAddress {
        PageAddress { plane: crate::PlaneId(plane), block, page }
    }

    #[test]
    fn rules_apply_where_when_and_as_often_as_they_say() {
        let place = Where { channel: Some(1), blocks: Some(2..4), ..Where::default() };
        let rule = FaultRule::new(Fault::UncorrectableRead).at(place).during(10..20).times(2);
        let mut faults = Faults::new(vec![rule]);
        let mut strike =
            |now, access, at| faults.strike(&ARRAY, 1, (now, 0), (access, at, 0)).is_some();
        assert!(!strike(9, Access::Read, page(4, 2, 0)));
        assert!(!strike(20, Access::Read, page(4, 2, 0)));
        assert!(!strike(10, Access::Program, page(4, 2, 0)));
        assert!(!strike(10, Access::Read, page(3, 2, 0)));
        assert!(!strike(10, Access::Read, page(4, 4, 0)));
        assert!(strike(10, Access::Read, page(4, 2, 0)));
        assert!(strike(19, Access::Read, page(7, 3, 3)));
        assert!(!strike(19, Access::Read, page(7, 3, 3)));
    }

    #[test]
    fn rates_are_shares_of_operations_and_repeat() {
        let draw = |seed| {
            let mut faults = Faults::new(vec![FaultRule::new(Fault::FailedProgram).rate(0.01)]);
            let strikes = (0..100_000).filter(|&number| {
                let access = (Access::Program, page(0, 0, 0), 0);
                faults.strike(&ARRAY, seed, (0, number), access).is_some()
            });
            strikes.collect::<Vec<_>>()
        };
        let one = draw(1);
        // Five deviations of a binomial around 1000.
        assert!((1000 - 158..1000 + 158).contains(&one.len()), "{}", one.len());
        assert_eq!(one, draw(1));
        assert_ne!(one, draw(2));
    }

    #[test]
    fn a_rate_grows_with_a_power_of_the_erases() {
        let rule = FaultRule::new(Fault::FailedErase).rate(0.4).with_wear(2.0, 1_000);
        let mut faults = Faults::new(vec![rule]);
        for (erases, expected) in [(0, 0.0), (500, 0.1), (1_000, 0.4), (1_500, 0.9), (9_000, 1.0)] {
            let access = (Access::Erase, page(0, 0, 0), erases);
            let strikes = (0..40_000u64)
                .filter(|&number| faults.strike(&ARRAY, 3, (0, number), access).is_some());
            let share = strikes.count() as f64 / 40_000.0;
            assert!((share - expected).abs() < 0.0125, "{erases}: {share} for {expected}");
        }
    }

    #[test]
    fn rules_that_never_apply_are_refused() {
        let at = |place| Faults::new(vec![FaultRule::new(Fault::DeadDie).at(place)]);
        let outside = at(Where { channel: Some(2), ..Where::default() });
        let says = outside.check(&ARRAY).unwrap_err().to_string();
        assert!(says.contains("`channel` = 2") && says.ends_with("is 1"), "{says}");
        let empty = at(Where { pages: Some(2..2), ..Where::default() });
        let says = empty.check(&ARRAY).unwrap_err().to_string();
        assert!(says.contains("`pages` = 2..2") && says.ends_with("at 3"), "{says}");
        let rate = Faults::new(vec![FaultRule::new(Fault::DeadDie).rate(1.5)]);
        assert!(rate.check(&ARRAY).unwrap_err().to_string().contains("`faults.rate` = 1.5"));
        assert_eq!(at(Where { lun: Some(1), ..Where::default() }).check(&ARRAY), Ok(()));
    }
}
