//! A volatile write cache as tables describe it.

use serde::Serialize;
use stasis_block::units;
use stasis_clock::Nanos;

use super::error::SpecError;
use super::reader::Reader;
use crate::random::Span;
use crate::rate::Rate;

/// The key `cache` of drives in closed form: acknowledged writes wait there for
/// the medium, and are lost without power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheSpec {
    /// Bytes that it holds.
    #[serde(with = "units::size")]
    pub size: u64,
    /// What the medium takes.
    pub drain: Rate,
    /// What a write with FUA takes besides being written out; 0 if not given.
    pub fua: Span,
    /// Whether a flush is a command among others, as in NVMe; yes if not given.
    /// In ATA it waits for all that are under way, and the next wait for it.
    pub queued_flush: bool,
    /// What a barrier costs (ns), where the drive offers one.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::duration_option")]
    pub barrier: Option<Nanos>,
}

impl CacheSpec {
    const KEYS: &'static [&'static str] = &["size", "drain", "fua", "queued_flush", "barrier"];

    pub(super) fn read(from: &mut Reader, key: &str) -> Result<Self, SpecError> {
        let mut from = from.table(key, Self::KEYS)?;
        Ok(Self {
            size: from.required("size", Reader::size)?,
            drain: from.required("drain", Reader::rate)?,
            fua: from.or("fua", Reader::span, Span::default())?,
            queued_flush: from.or("queued_flush", Reader::number, true)?,
            barrier: from.optional("barrier", Reader::duration)?,
        })
    }
}
