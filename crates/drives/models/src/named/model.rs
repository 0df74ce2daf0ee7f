//! A named model, and values in the units of its sheet.

use std::borrow::Cow;

use stasis_block::clock::{Nanos, MICROSECOND};
use stasis_block::{Link, Rate};

use crate::kinds::rated::{RatedLatency, Rating};
use crate::kinds::ModelKind;
use crate::span::Span;

/// A model with a name.
#[derive(Debug, Clone, Copy)]
pub struct NamedModel {
    /// Its name in experiments.
    pub name: &'static str,
    /// Its description, in a line.
    pub summary: &'static str,
    /// Its figures: the name of each, and the value with its unit.
    pub figures: &'static [(&'static str, &'static str)],
    /// Its link, where its sheet states one.
    pub link: Option<Link>,
    /// Its size in bytes, where it has one.
    pub capacity: Option<u64>,
    /// Year in which it was first sold, or published where it is no product.
    pub year: Option<u16>,
    /// Source of the figures.
    pub source: &'static str,
    /// Values that the source does not give, and the assumptions in their place.
    pub assumptions: &'static str,
    /// Up to where the figures hold.
    pub ends: &'static str,
    pub(super) make: fn() -> ModelKind,
}

impl NamedModel {
    /// The kind of the model, with its keys.
    pub fn kind(&self) -> ModelKind {
        (self.make)()
    }

    /// Returns the drive's figures and its link, for display.
    pub fn sheet(&self) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
        let link = self.link.map(|link| ("link", link.to_string().into()));
        self.figures.iter().map(|&(title, figure)| (title, figure.into())).chain(link)
    }
}

/// The size of a drive that is sold as so many GB (bytes): IDEMA LBA1-03.
pub(crate) const fn sold_as(gigabytes: u64) -> Option<u64> {
    Some((97_696_368 + 1_953_504 * (gigabytes - 50)) * 512)
}

/// A span from `min` to `max` us.
pub(super) fn micros(min: u64, max: u64) -> Span {
    Span::between(min * MICROSECOND, max * MICROSECOND)
}

/// Always the same latency (ns).
pub(super) fn fixed(latency: Nanos) -> RatedLatency {
    RatedLatency::Span(Span::fixed(latency))
}

/// Pairs of (percentile, us).
pub(super) fn percentiles(points: &[(f64, u64)]) -> RatedLatency {
    let point = |&(percent, us): &(f64, u64)| (percent, Span::fixed(us * MICROSECOND));
    RatedLatency::Percentiles(points.iter().map(point).collect())
}

/// A latency, commands a second, and a bandwidth in MB/s.
pub(super) fn rating(latency: RatedLatency, iops: u64, megabytes: u64) -> Rating {
    Rating { latency, iops, bandwidth: Rate::per_second(megabytes * 1_000_000) }
}
