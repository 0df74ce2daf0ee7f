//! A flash SSD as an experiment describes it: `{ kind = "ssd", ... }`.
//!
//! Everything that is not given has a default, so that an empty table is a
//! drive. [`Spec::check`] refuses invalid values before anything is built.

mod blocks;
mod cache_conditions;
mod cache_shape;
mod check;
mod ecc;
mod error;
mod faults;
mod front;
pub(crate) mod geometry;
mod hybrid;
mod parts;
mod read_cache;
mod scrub;
mod slc_cache;
mod timing;
mod two_pass;
mod variation;
mod zones;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, MICROSECOND, MILLISECOND};
use stasis_block::units;
use stasis_nand::{ArrayOptions, CellPattern, ChannelOrder, PlaneMode, Scheduling};

pub(crate) use self::cache_shape::CacheShape;
pub use self::ecc::{EccSpec, EccStepSpec, ErrorsSpec};
pub use self::error::SpecError;
pub use self::faults::{FaultKind, FaultSpec};
pub use self::front::{DramSpec, PcieSpec, ProcessorsSpec, TrimSpec};
pub(crate) use self::geometry::RESERVE;
pub use self::read_cache::{CachedWrites, ReadCacheSpec, Replacement};
pub use self::scrub::ScrubSpec;
pub use self::slc_cache::{CacheSize, SlcCacheSpec, WhenFull};
pub use self::timing::{ByLetter, Duration, TimingSpec};
pub use self::two_pass::TwoPassSpec;
pub use self::variation::{RetrySpec, VariationSpec};
use crate::{ftl, gc};
pub use stasis_block::Rate;

/// The planes of a LUN work each on its own, or together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Planes {
    /// Each on its own.
    #[default]
    Independent,
    /// One operation at a time in each LUN, which may be a multi-plane one.
    Lockstep,
}

/// Who comes first at a plane or channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// First come, first served.
    #[default]
    Fifo,
    /// Host reads before host writes before housekeeping.
    ReadFirst,
}

/// Order of commands and data on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transfers {
    /// First ready, first served.
    #[default]
    Fifo,
    /// Data of reads before commands and data of programs.
    DataFirst,
}

/// How worn blocks are spared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WearLevelling {
    /// Not at all: free blocks are used in the order in which they came free.
    None,
    /// The least worn free block is used first.
    #[default]
    Dynamic,
    /// And data that stays in little worn blocks is moved out of them.
    Static,
}

/// The part of the drive that housekeeping closes to the host's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Blocking {
    /// Nothing: they take turns, operation by operation.
    #[default]
    None,
    /// The plane that is collected.
    Plane,
    /// Its channel.
    Channel,
    /// The whole drive.
    Controller,
}

/// Who chooses the block to collect; see [`crate::gc`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GcSpec {
    /// A policy of [`crate::gc::POLICIES`].
    #[schemars(extend("enum" = gc::POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>()))]
    pub policy: String,
    /// Blocks that `d-choices` draws.
    pub choices: u32,
    /// The part of the drive that collection closes to the host's operations.
    pub blocking: Blocking,
    /// Copyback: whole pages move inside their plane, without the channel; if not given, where
    /// `blocking = "plane"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copyback: Option<bool>,
    /// Free blocks of a plane below which it is collected; at least 3.
    pub foreground: u32,
    /// Free blocks that an idle drive collects up to in each plane; 0 for no
    /// collection in the background.
    pub background: u32,
    /// How long the host is silent before a drive counts as idle (ns).
    #[serde(with = "units::duration")]
    pub idle: Nanos,
}

impl Default for GcSpec {
    fn default() -> Self {
        Self {
            policy: "greedy".into(),
            choices: 10,
            blocking: Blocking::default(),
            copyback: None,
            foreground: 4,
            background: 0,
            idle: 10 * MILLISECOND,
        }
    }
}

/// The state that a drive begins in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// Nothing was ever written: reads are answered without the cells.
    None,
    /// Everything was written once, in order.
    #[default]
    Sequential,
    /// Uniformly random writes continued until nothing changed on average.
    Steady,
}

/// Ends of the log of pairs.
const LOG_ENDS: u32 = 2;

/// A flash SSD's description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Channels (buses).
    pub channels: u32,
    /// LUNs (dies) at each channel.
    pub luns: u32,
    /// Planes of each LUN.
    pub planes: u32,
    /// Blocks of each plane; if not given, as many as `over_provisioning` needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Pages of each block; if not given, [`Spec::pages`] has the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// Data of each page (bytes).
    #[serde(with = "units::size")]
    pub page_size: u64,
    /// Out-of-band area of each page (bytes).
    #[serde(with = "units::size")]
    pub oob_size: u64,
    /// The types of a block's pages: `slc`, `mlc`, `tlc`, `qlc` or a pattern
    /// such as `LLLLLuLLu(LLuu)*`.
    pub cells: String,
    /// 1, or 2 with a cache register.
    pub registers: u8,
    /// Which planes of a LUN work at the same time.
    pub plane_mode: Planes,
    /// Reads that a program or erase gives way to.
    pub suspensions: u8,
    /// Who comes first at a plane or channel.
    pub scheduling: Order,
    /// Order of commands and data on a channel; among equals as `scheduling` says.
    pub channel_order: Transfers,

    /// A translation layer of [`crate::ftl::FTLS`].
    #[schemars(extend("enum" = ftl::FTLS.iter().map(|ftl| ftl.name).collect::<Vec<_>>()))]
    #[serde(deserialize_with = "ftl_name")]
    pub ftl: String,
    /// Size of a mapping unit (bytes); a page or a part of a page.
    #[serde(with = "units::size")]
    pub mapping_unit: u64,
    /// Memory for the map of `dftl`, 4 bytes for each unit (bytes).
    #[serde(with = "units::size")]
    pub mapping_cache: u64,
    /// Entries of the map that `dftl` keeps or drops together, a power of two.
    pub mapping_line: u32,
    /// Log blocks of each plane of `hybrid`.
    pub log_blocks: u32,
    /// Bytes of each zone of `zoned`; if not given, those of a block on every
    /// plane.
    #[serde(with = "units::size_option", skip_serializing_if = "Option::is_none")]
    pub zone_size: Option<u64>,
    /// Channels that each zone of `zoned` has; all of them if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_channels: Option<u32>,
    /// Bytes of flash beyond the drive's capacity, as a share of the capacity;
    /// not with `blocks`. If neither is given, 0.07, or the least that the
    /// geometry can work with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_provisioning: Option<f64>,
    /// In which order writes go round the planes, the fastest first.
    pub stripe: String,
    /// Write buffer; 0 to write through (bytes).
    #[serde(with = "units::size")]
    pub buffer: u64,
    /// The rate at which the buffer's memory takes the host's writes, one after another; not a
    /// limit if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_rate: Option<Rate>,
    /// True if data in the buffer survives a power cut.
    pub plp: bool,
    /// Streams of the host that are kept apart.
    pub streams: u16,
    /// True if often written data is kept apart from the rest.
    pub hot_cold: bool,
    /// How worn blocks are spared.
    pub wear_levelling: WearLevelling,
    /// Host reads of a block's pages after which its data is moved, as reads disturb what lies
    /// beside them; not at all if not given. With `ftl` = `page` or `dftl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_reclaim: Option<u32>,
    /// Erases that a block is good for, for the health log.
    pub endurance: u32,
    /// The time of a command before it reaches the translation layer (ns).
    #[serde(with = "units::duration")]
    pub controller: Nanos,
    /// The rate of the host interface, each way; not a limit if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_rate: Option<Rate>,
    /// The host interface as its link has it, in place of `interface_rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<PcieSpec>,
    /// Processors that the firmware runs on; not a limit if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorsSpec>,
    /// Memory that the host's data goes through; not a limit if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dram: Option<DramSpec>,
    /// The work of a discard; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim: Option<TrimSpec>,
    /// The state that the drive begins in; if not given, `sequential`. Zones and
    /// chunks begin empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precondition: Option<Precondition>,

    /// A file that keeps the drive's state between runs: a drive begins as its last run with it
    /// ended, or, where there is no such file yet, as `precondition` says. With `ftl` = `page` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The file's content, if there is one: what reads descriptions puts it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,

    /// The time that passed since the run before with `state` (ns): data has aged.
    #[serde(with = "units::duration", skip_serializing_if = "is_none")]
    pub unpowered: Nanos,

    /// Memory that keeps what the host reads; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<ReadCacheSpec>,
    /// Blocks in SLC mode that the host's writes go to first; none if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCacheSpec>,
    /// The collection of garbage.
    pub gc: GcSpec,
    /// How long things take; the cells' usual times if not given.
    pub timing: TimingSpec,
    /// Bit errors, and the steps that correct them; every read is right if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<EccSpec>,
    /// Visits of blocks that move old data; none if not given. With `ftl` = `page` or `dftl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubSpec>,
    /// Passes in which word lines are programmed; each page is by itself if not given. With `ftl` =
    /// `page` or `dftl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_pass: Option<TwoPassSpec>,
    /// Blocks of each LUN that are bad from the factory; in which of its planes, the seed says. With
    /// `ftl` = `page` or `dftl`.
    #[serde(skip_serializing_if = "no_blocks")]
    pub bad_blocks: u32,
    /// How cells differ.
    pub variation: VariationSpec,
    /// Faults of the drive.
    pub faults: Vec<FaultSpec>,
    /// True if there is a log of pairs on it: [`Spec::for_pairs`].
    #[serde(skip)]
    pub pairs: bool,
}

fn no_blocks(count: &u32) -> bool {
    *count == 0
}

fn is_none(time: &Nanos) -> bool {
    *time == 0
}

/// `physical` is the older name of `ocssd`.
fn ftl_name<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    Ok(if name == "physical" { "ocssd".into() } else { name })
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            channels: 8,
            luns: 4,
            planes: 2,
            blocks: None,
            pages: None,
            page_size: 16 << 10,
            oob_size: 1 << 10,
            cells: "tlc".into(),
            registers: 2,
            plane_mode: Planes::default(),
            suspensions: 0,
            scheduling: Order::default(),
            channel_order: Transfers::default(),
            ftl: "page".into(),
            mapping_unit: 4 << 10,
            mapping_cache: 1 << 20,
            mapping_line: 16,
            log_blocks: 8,
            zone_size: None,
            zone_channels: None,
            over_provisioning: None,
            stripe: "channel,lun,plane".into(),
            buffer: 8 << 20,
            buffer_rate: None,
            plp: false,
            streams: 1,
            hot_cold: false,
            wear_levelling: WearLevelling::default(),
            read_reclaim: None,
            endurance: 3_000,
            controller: 2 * MICROSECOND,
            interface_rate: None,
            pcie: None,
            processors: None,
            dram: None,
            trim: None,
            precondition: None,
            state: None,
            kept: None,
            unpowered: 0,
            read_cache: None,
            slc_cache: None,
            gc: GcSpec::default(),
            timing: TimingSpec::default(),
            ecc: None,
            scrub: None,
            two_pass: None,
            bad_blocks: 0,
            variation: VariationSpec::default(),
            faults: Vec::new(),
            pairs: false,
        }
    }
}

impl Spec {
    /// Slots of a page: units that it holds.
    #[expect(clippy::cast_possible_truncation, reason = "a description with more slots is refused")]
    pub fn slots(&self) -> u32 {
        (self.page_size / self.mapping_unit.max(1)).max(1) as u32
    }

    /// Returns whether the drive is made of zones or chunks, which the host writes in order.
    pub(super) fn has_regions(&self) -> bool {
        matches!(self.ftl.as_str(), "zoned" | "ocssd")
    }

    /// The state that a drive begins in. Zones and chunks begin empty, as their controller reports
    /// them.
    pub fn initial(&self) -> Precondition {
        let usual = if self.has_regions() { Precondition::None } else { Precondition::default() };
        self.precondition.unwrap_or(usual)
    }

    /// The types of the pages of a block of so many.
    ///
    /// # Errors
    /// [`SpecError`] if the pattern is none.
    pub fn pattern(&self, pages: u32) -> Result<CellPattern, SpecError> {
        Ok(CellPattern::parse(&self.cells, pages)?)
    }

    /// Returns the array's ways of working.
    pub fn options(&self) -> ArrayOptions {
        ArrayOptions {
            cache_register: self.registers >= 2,
            planes: match self.plane_mode {
                Planes::Independent => PlaneMode::Independent,
                Planes::Lockstep => PlaneMode::Lockstep,
            },
            suspensions: self.suspensions,
            scheduling: match self.scheduling {
                Order::Fifo => Scheduling::Fifo,
                Order::ReadFirst => Scheduling::ReadFirst,
            },
            channel_order: match self.channel_order {
                Transfers::Fifo => ChannelOrder::Fifo,
                Transfers::DataFirst => ChannelOrder::DataFirst,
            },
        }
    }

    /// Streams that blocks are open for: the host's, and the ends of the log of pairs.
    pub fn open_streams(&self) -> u32 {
        self.host_streams() + if self.pairs { LOG_ENDS } else { 0 }
    }

    /// Returns the number of the host's streams, hot and cold ones.
    pub(crate) fn host_streams(&self) -> u32 {
        u32::from(self.streams.max(1)) * if self.hot_cold { 2 } else { 1 }
    }

    /// Returns the specification of the drive with a log of pairs on it. Nothing is written, unless
    /// `precondition` says so. Data of the log's ends has open blocks of its own, and waits in the
    /// buffer until it fills units.
    #[must_use]
    pub fn for_pairs(self) -> Self {
        if !matches!(self.ftl.as_str(), "page" | "dftl") {
            return self;
        }
        let precondition = Some(self.precondition.unwrap_or(Precondition::None));
        Self { precondition, pairs: true, ..self }
    }
}

#[cfg(test)]
mod tests;
