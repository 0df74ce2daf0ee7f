//! The kinds of model that an experiment can describe, but for the disk.

use serde::Serialize;
use serde_json::Value;
use stasis_block::Operation;

use super::cache::CacheSpec;
use super::error::SpecError;
use super::reader::Reader;
use crate::distribution::{Distribution, Interpolation};
use crate::profile::Profile;
use crate::random::Span;
use crate::rate::Rate;
use crate::rated::{Direction, Draw};

/// The kinds `fixed` and `uniform`: a span per operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SpansSpec {
    /// What an operation takes that is not named below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
    /// What a read takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Span>,
    /// What a write takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Span>,
    /// What a flush takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<Span>,
    /// What a discard takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<Span>,
    /// What a write-zeroes takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
    /// Commands in service at once; any number if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u32>,
    /// A volatile write cache; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// Whether what is acknowledged survives a power cut, without a flush; no if
    /// not given. It changes no time.
    #[serde(skip_serializing_if = "is_false")]
    pub plp: bool,
}

fn is_false(plp: &bool) -> bool {
    !plp
}

/// A volatile cache is not protected.
fn not_both(from: &Reader, plp: bool, cache: Option<&CacheSpec>) -> Result<(), SpecError> {
    if plp && cache.is_some() {
        let problem = "`cache` is a volatile write cache, which a power cut empties: leave one of \
                       `plp` and `cache` out";
        return Err(from.bad("plp", &problem));
    }
    Ok(())
}

impl SpansSpec {
    pub(super) const KEYS: &'static [&'static str] = &[
        "latency",
        "read",
        "write",
        "flush",
        "discard",
        "write_zeroes",
        "parallelism",
        "cache",
        "plp",
    ];

    /// Every operation takes `latency`.
    pub fn all(latency: Span) -> Self {
        Self { latency: Some(latency), ..Self::default() }
    }

    pub(super) fn read(from: &mut Reader, fixed: bool) -> Result<Self, SpecError> {
        let mut span = |key: &str| {
            from.optional(key, |from, key| {
                let span = from.span(key)?;
                if fixed && !span.is_fixed() {
                    let problem = format!("`{span}` is no single duration; take kind `uniform`");
                    return Err(from.bad(key, &problem));
                }
                Ok(span)
            })
        };
        let spec = Self {
            latency: span("latency")?,
            read: span("read")?,
            write: span("write")?,
            flush: span("flush")?,
            discard: span("discard")?,
            write_zeroes: span("write_zeroes")?,
            parallelism: from.optional("parallelism", Reader::count)?,
            cache: from.optional("cache", CacheSpec::read)?,
            plp: from.or("plp", Reader::number, false)?,
        };
        not_both(from, spec.plp, spec.cache.as_ref())?;
        if spec.latency.is_none() && spec.read.is_none() && spec.write.is_none() {
            from.required("latency", Reader::span)?;
        }
        Ok(spec)
    }

    /// By [`Operation`] number. What is not given takes `latency`; without that
    /// as long as a write, a write as long as a read, a read as long as a write.
    /// A copy takes as long as a write, a verify as long as a read.
    pub(super) fn spans(&self) -> [Span; Operation::ALL.len()] {
        let (copy, verify) = (self.write, self.read);
        let own = [
            self.read,
            self.write,
            self.flush,
            self.discard,
            self.write_zeroes,
            copy,
            verify,
            None,
        ];
        own.map(|own| own.or(self.latency).or(self.write).or(self.read).unwrap_or_default())
    }
}

/// The kind `profile`: latencies as measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProfileSpec {
    /// The profile's file, relative to the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its content; [`ModelSpec::resolve`](super::ModelSpec::resolve) puts it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What a flush takes, in place of the profile's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<Span>,
    /// What a discard takes, in place of the profile's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<Span>,
    /// What a write-zeroes takes, in place of the profile's figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
    /// Commands in service at once; any number if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u32>,
    /// A volatile write cache; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// Whether what is acknowledged survives a power cut, without a flush; no if
    /// not given. It changes no time.
    #[serde(skip_serializing_if = "is_false")]
    pub plp: bool,
}

impl ProfileSpec {
    pub(super) const KEYS: &'static [&'static str] =
        &["file", "profile", "flush", "discard", "write_zeroes", "parallelism", "cache", "plp"];

    pub(super) fn read(from: &mut Reader) -> Result<Self, SpecError> {
        let profile = from.optional("profile", |from, key| {
            let mut profile: Profile = from.number(key)?;
            profile.check().map_err(|e| from.bad(key, &e))?;
            Ok(profile)
        })?;
        let file = from.optional("file", Reader::string)?;
        if profile.is_none() && file.is_none() {
            from.required("file", Reader::string)?;
        }
        let spec = Self {
            file,
            profile,
            flush: from.optional("flush", Reader::span)?,
            discard: from.optional("discard", Reader::span)?,
            write_zeroes: from.optional("write_zeroes", Reader::span)?,
            parallelism: from.optional("parallelism", Reader::count)?,
            cache: from.optional("cache", CacheSpec::read)?,
            plp: from.or("plp", Reader::number, false)?,
        };
        not_both(from, spec.plp, spec.cache.as_ref())?;
        Ok(spec)
    }

    pub(super) fn costs(&self) -> [Option<Span>; Operation::ALL.len()] {
        [None, None, self.flush, self.discard, self.write_zeroes, None, None, None]
    }
}

/// The latency of a command of 4 KiB at queue depth 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RatedLatency {
    /// `"67us"` or `"60us-80us"`.
    Span(Span),
    /// Pairs of percentile and duration: `[[99, "10us"], [99.999, "60us"]]`.
    Percentiles(Vec<(f64, Span)>),
}

/// A direction's figures in a data sheet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rating {
    /// Of a command of 4 KiB at queue depth 1.
    pub latency: RatedLatency,
    /// The most commands of 4 KiB a second.
    pub iops: u64,
    /// Of large commands.
    pub bandwidth: Rate,
}

/// The kind `rated`: a solid-state drive by its data sheet; see
/// [`Rated`](crate::Rated).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatedSpec {
    /// Reads.
    pub read: Rating,
    /// Writes.
    pub write: Rating,
    /// What a flush takes; 0 if not given.
    pub flush: Span,
    /// What a discard takes; 0 if not given.
    pub discard: Span,
    /// What a write-zeroes takes; as a write of its length if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
    /// A volatile write cache; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    /// Whether what is acknowledged survives a power cut, without a flush; no if
    /// not given. It changes no time.
    #[serde(skip_serializing_if = "is_false")]
    pub plp: bool,
}

impl RatedSpec {
    pub(super) const KEYS: &'static [&'static str] =
        &["read", "write", "flush", "discard", "write_zeroes", "cache", "plp"];

    pub(super) fn read(from: &mut Reader) -> Result<Self, SpecError> {
        let spec = Self {
            read: from.required("read", Rating::read)?,
            write: from.required("write", Rating::read)?,
            flush: from.or("flush", Reader::span, Span::default())?,
            discard: from.or("discard", Reader::span, Span::default())?,
            write_zeroes: from.optional("write_zeroes", Reader::span)?,
            cache: from.optional("cache", CacheSpec::read)?,
            plp: from.or("plp", Reader::number, false)?,
        };
        not_both(from, spec.plp, spec.cache.as_ref())?;
        Ok(spec)
    }
}

impl Rating {
    const KEYS: &'static [&'static str] = &["latency", "iops", "bandwidth"];

    fn read(from: &mut Reader, key: &str) -> Result<Self, SpecError> {
        let mut from = from.table(key, Self::KEYS)?;
        let iops = from.required("iops", Reader::number::<u64>)?;
        if !(1..=1_000_000_000).contains(&iops) {
            return Err(from.bad("iops", &"must be from 1 to 1000000000"));
        }
        Ok(Self {
            latency: from.required("latency", RatedLatency::read)?,
            iops,
            bandwidth: from.required("bandwidth", Reader::rate)?,
        })
    }

    pub(super) fn direction(&self) -> Direction {
        let draw = match &self.latency {
            RatedLatency::Span(span) => Draw::Span(*span),
            RatedLatency::Percentiles(points) => {
                let points: Vec<_> =
                    points.iter().map(|&(percent, at)| (percent, at.min() as f64)).collect();
                Draw::Distribution(Distribution::of_percentiles(&points, Interpolation::Linear))
            }
        };
        Direction::new(draw, self.iops, self.bandwidth)
    }
}

impl RatedLatency {
    fn read(from: &mut Reader, key: &str) -> Result<Self, SpecError> {
        let Value::Array(pairs) = from.value(key)? else {
            return from.span(key).map(Self::Span);
        };
        let mut points: Vec<(f64, Span)> = Vec::new();
        for pair in pairs {
            let point = match pair.as_array().map(Vec::as_slice) {
                Some([percent, Value::String(word)]) => {
                    percent.as_f64().zip(Span::parse(word).ok())
                }
                _ => None,
            };
            let ascends = |&(percent, span): &(f64, Span)| {
                let (p, s) = points.last().copied().unwrap_or((0.0, Span::default()));
                (p..=100.0).contains(&percent) && span.is_fixed() && s.min() <= span.min()
            };
            let point = point.filter(ascends).ok_or_else(|| {
                let wanted = "pairs of percentile and duration that ascend in both";
                from.bad(key, &format!("`{pair}`: write {wanted}, such as [[99, \"10us\"]]"))
            })?;
            points.push(point);
        }
        if points.is_empty() {
            return Err(from.bad(key, &"is empty: write a duration such as \"10us\""));
        }
        Ok(Self::Percentiles(points))
    }
}
