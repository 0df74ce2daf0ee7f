//! State that a controller keeps while its power is off: how its namespaces are formatted, the
//! states and pointers of zones and chunks, pairs, what cannot be read, and Flexible Data Placement.
//!
//! [`Subsystem::kept_state`](crate::Subsystem::kept_state) gives it,
//! [`Subsystem::with_state`](crate::Subsystem::with_state) makes a subsystem that resumes from it as
//! after a power cycle: open zones are closed then, or empty. A caller that has better information about
//! the effects of a power cut than a controller, such as a test of power cuts, begins with
//! [`KeptState::as_made`] and changes it. Volatile are features, logs, counters and queues.

use serde::{Deserialize, Serialize};
use stasis_block::units::format_size;

use crate::config::{Config, ConfigError, Namespace};
use crate::key_value::{KeptPairs, KeyValue};
use crate::metadata::Metadata;
use crate::ocssd::{KeptChunks, Ocssd};
use crate::older;
use crate::placement::Placement;
use crate::zoned::{KeptZones, Zones};

/// The form of [`KeptState`]; another one is refused.
pub const STATE_VERSION: u32 = 1;

/// State that a controller keeps while its power is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptState {
    /// [`STATE_VERSION`].
    pub version: u32,
    /// The namespaces that the drive was made with, numbered from 1.
    pub namespaces: Vec<KeptNamespace>,
    /// The namespaces that hosts have created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<KeptCreated>,
    /// Number of namespaces ever created.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub creations: u32,
    /// NSIDs of namespaces that the host on PCIe has detached, or not attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<u32>,
    /// Placement of data as the drive was made.
    #[serde(deserialize_with = "older::placement")]
    pub placement: Placement,
    /// Flexible Data Placement, where the drive was made with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fdp: Option<KeptFdp>,
    /// Flexible Data Placement of each endurance group that has it, where the drive was made with
    /// groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<KeptGroup>,
    /// The last sanitize operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sanitize: Option<KeptSanitize>,
    /// The slots of firmware, where they are not as the drive was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<KeptFirmware>,
    /// The Persistent Event Log, the oldest event first, each in hexadecimal: empty where nothing
    /// but power-ons, resets and times is in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
}

/// State that a namespace keeps while the power is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptNamespace {
    /// Its configuration. Whether it may be written is left out.
    pub made: Namespace,
    /// Size of a logical block as it is formatted now (bytes).
    pub block_size: u32,
    /// Metadata of a block as it is formatted now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// True if a host has deleted it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleted: bool,
    /// Blocks that Write Uncorrectable has marked: first byte and end of each range, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncorrectable: Vec<(u64, u64)>,
    /// Its zones but the empty ones, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<KeptZones>,
    /// Its chunks but those that are as new, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<KeptChunks>,
    /// Its pairs of keys and values, where it has been used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<KeptPairs>,
}

/// A namespace that a host has created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptCreated {
    /// Its number.
    pub nsid: u32,
    /// Number of namespaces created up to this one.
    pub number: u32,
    /// True if several controllers can have it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// The NQN of the host; `None`: that on PCIe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The reclaim unit handles of its placement handles, under Flexible Data Placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<u8>,
    /// Its state.
    pub namespace: KeptNamespace,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// State that Flexible Data Placement keeps while the power is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptFdp {
    /// The reclaim unit handles.
    pub handles: Vec<KeptHandle>,
    /// Bytes that the reclaim unit of each handle has room for, reclaim group after reclaim group.
    pub room: Vec<u64>,
    /// Bytes that the host has written.
    pub host_written: u64,
    /// Bytes that the medium has taken.
    pub media_written: u64,
    /// Bytes that the medium has erased.
    pub media_erased: u64,
    /// True if a host has disabled it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disabled: bool,
}

/// State of an endurance group that outlasts the loss of power.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptGroup {
    /// Its identifier.
    pub id: u16,
    /// Placement of data as it was made.
    pub placement: Placement,
    /// Its Flexible Data Placement.
    pub fdp: KeptFdp,
}

/// State that a reclaim unit handle keeps while the power is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptHandle {
    /// True if data was placed by it.
    pub used: bool,
    /// The events that are logged, a bit for each type.
    pub events: u8,
}

/// State of the last sanitize operation: the values of Sanitize Status in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// There was none.
    #[default]
    Never = 0,
    /// The operation has ended well.
    Done = 1,
    /// The operation is under way.
    UnderWay = 2,
    /// The operation has failed.
    Failed = 3,
}

/// State of the last sanitize operation that outlasts the loss of power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptSanitize {
    /// State of the operation.
    pub standing: Standing,
    /// Dword 10 of its command.
    pub dword10: u32,
    /// Dword 11 of its command: the pattern of an overwrite.
    pub pattern: u32,
    /// True if nothing was written since it ended.
    pub erased: bool,
}

/// State of the slots of firmware that outlasts the loss of power.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptFirmware {
    /// The revisions of the slots from the second on.
    pub slots: Vec<Option<String>>,
    /// The slot that is active, from 1 on.
    pub active: u8,
    /// The slot that the next reset activates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u8>,
}

/// Why a controller cannot resume from a kept state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// There can be no such controller.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state has a version that this program does not support.
    #[error("the state has version {0}, and this program knows version {STATE_VERSION}")]
    Version(u32),
    /// The state is of another drive.
    #[error("the drive was made with {kept}, and now is to have {now}")]
    Other {
        /// The drive of the state.
        kept: String,
        /// The drive now configured.
        now: String,
    },
    /// No drive can be in this state.
    #[error("the state is damaged: namespace {nsid}: {reason}")]
    Damaged {
        /// Number of the namespace, from 1.
        nsid: usize,
        /// The fault.
        reason: &'static str,
    },
}

impl KeptNamespace {
    /// A namespace on which nothing was done yet.
    pub fn as_made(namespace: &Namespace) -> Self {
        Self {
            made: Namespace { read_only: false, ..namespace.clone() },
            block_size: namespace.block_size,
            metadata: namespace.metadata,
            deleted: false,
            uncorrectable: Vec::new(),
            zones: Vec::new(),
            chunks: Vec::new(),
            pairs: None,
        }
    }

    /// Returns whether nothing distinguishes it from a new one, whatever its contents are.
    fn is_as_made(&self) -> bool {
        *self == Self::as_made(&self.made)
    }
}

impl KeptState {
    /// State of a drive on which nothing was done yet. `config` has been checked.
    pub fn as_made(config: &Config) -> Self {
        Self {
            version: STATE_VERSION,
            namespaces: config.namespaces.iter().map(KeptNamespace::as_made).collect(),
            created: Vec::new(),
            creations: 0,
            detached: Vec::new(),
            placement: config.placement,
            fdp: None,
            groups: Vec::new(),
            sanitize: None,
            firmware: None,
            events: Vec::new(),
        }
    }

    /// Returns the first byte on the drive of each zone that is not empty, and the bytes before its
    /// write pointer.
    pub fn zone_ends(&self) -> Vec<(u64, u64)> {
        let mut ends = Vec::new();
        let created = self.created.iter().map(|created| &created.namespace);
        for namespace in self.namespaces.iter().chain(created) {
            let Some(zones) = &namespace.made.zoned else { continue };
            let block = u64::from(namespace.block_size);
            for kept in &namespace.zones {
                let place = |index| namespace.made.start + index * zones.size;
                ends.extend(kept.indexes().map(|index| (place(index), kept.written * block)));
            }
        }
        ends.retain(|(_, bytes)| *bytes > 0);
        ends
    }

    /// A power cut has left zones so: `written` has of each zone that is not empty its first byte on
    /// the drive, and the bytes before its write pointer.
    pub fn cut_zones(&mut self, written: &[(u64, u64)]) {
        let created = self.created.iter_mut().map(|created| &mut created.namespace);
        for namespace in self.namespaces.iter_mut().chain(created) {
            let Some(zones) = &namespace.made.zoned else { continue };
            let block = u64::from(namespace.block_size.max(1));
            let (start, end) =
                (namespace.made.start, namespace.made.start + namespace.made.bytes());
            let own = written.iter().filter(|(zone, _)| (start..end).contains(zone));
            let ends = own.map(|(zone, bytes)| ((zone - start) / zones.size.max(1), bytes / block));
            namespace.zones = KeptZones::after_power_cut(&namespace.zones, zones, block, ends);
        }
    }

    /// Returns whether a drive that is made anew is the same but for its contents.
    pub fn is_as_made(&self) -> bool {
        let as_made = self.namespaces.iter().all(KeptNamespace::is_as_made);
        as_made
            && self.creations == 0
            && self.detached.is_empty()
            && self.fdp.is_none()
            && self.groups.is_empty()
            && self.sanitize.is_none()
            && self.firmware.is_none()
            && self.events.is_empty()
    }

    /// Returns whether contents are meaningful only together with this state: zones and chunks,
    /// whose pointers determine the readable range, pairs, and other namespaces than the drive was
    /// made with.
    pub fn governs_contents(&self) -> bool {
        let governs = |one: &KeptNamespace| {
            let made = &one.made;
            made.zoned.is_some() || made.ocssd.is_some() || made.key_value.is_some()
        };
        self.namespaces.iter().any(governs) || self.has_other_namespaces()
    }

    /// Returns whether the drive was made with zones or chunks.
    pub fn has_regions(&self) -> bool {
        let has = |one: &KeptNamespace| one.made.zoned.is_some() || one.made.ocssd.is_some();
        self.namespaces.iter().any(has)
    }

    /// Returns whether the drive was made with pairs.
    pub fn has_pairs(&self) -> bool {
        self.namespaces.iter().any(|one| one.made.key_value.is_some())
    }

    /// Returns whether hosts have created or deleted namespaces.
    pub fn has_other_namespaces(&self) -> bool {
        !self.created.is_empty() || self.namespaces.iter().any(|namespace| namespace.deleted)
    }

    /// Checks that a drive of `config` can resume from this state. Placement may differ: the
    /// state's placement is used only if the drive is configured with the same one.
    ///
    /// # Errors
    /// [`StateError::Version`], [`StateError::Other`] with the first thing that differs.
    pub fn check(&self, config: &Config) -> Result<(), StateError> {
        if self.version != STATE_VERSION {
            return Err(StateError::Version(self.version));
        }
        let (kept, now) = (self.namespaces.len(), config.namespaces.len());
        if kept != now {
            let count = |count| format!("{count} namespaces");
            return Err(other(count(kept), count(now)));
        }
        for (kept, now) in self.namespaces.iter().zip(&config.namespaces) {
            check_namespace(&kept.made, now)?;
        }
        Ok(())
    }
}

fn other(kept: String, now: String) -> StateError {
    StateError::Other { kept, now }
}

fn check_namespace(kept: &Namespace, now: &Namespace) -> Result<(), StateError> {
    let differs = |in_words: fn(&Namespace) -> String| Err(other(in_words(kept), in_words(now)));
    if !alike(&kept.zoned, &now.zoned, Zones::is_like) {
        return differs(|one| one.zoned.as_ref().map_or("no zones".into(), describe_zones));
    }
    if !alike(&kept.ocssd, &now.ocssd, Ocssd::is_like) {
        return differs(|one| one.ocssd.as_ref().map_or("no geometry".into(), describe_geometry));
    }
    let log = |one: &Namespace| {
        let segment = |pairs: &KeyValue| Some(pairs.segment(one.bytes()));
        // Pages that are filled before a flush are the flash's matter.
        one.key_value.map(|pairs| KeyValue { segment: segment(&pairs), page: None, ..pairs })
    };
    if log(kept) != log(now) {
        let in_words = |one: &Namespace| log(one).map_or("no pairs".into(), describe_pairs);
        return Err(other(in_words(kept), in_words(now)));
    }
    if kept.format() != now.format() {
        return differs(|one| one.format().to_string());
    }
    if kept.bytes() != now.bytes() {
        return differs(|one| format!("a namespace of {}", format_size(one.bytes())));
    }
    let home = |one: &Namespace| (one.endurance_group, one.nvm_set);
    if home(kept) != home(now) {
        return differs(|one| {
            format!("endurance group {}, NVM set {}", one.endurance_group, one.nvm_set)
        });
    }
    if kept.start != now.start {
        return differs(|one| format!("a namespace from byte {} on", one.start));
    }
    Ok(())
}

/// Returns whether both have none, or what is alike.
fn alike<T>(one: &Option<T>, other: &Option<T>, are: impl Fn(&T, &T) -> bool) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => are(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// Zones in words.
fn describe_zones(zones: &Zones) -> String {
    let Zones { size, max_open, max_active, extension_size, zrwa, reads_cross_zones, .. } = zones;
    let mut text = format!("zones of {}", format_size(*size));
    if zones.capacity() != *size {
        text += &format!(" with a capacity of {}", format_size(zones.capacity()));
    }
    for (name, limit) in [("open", max_open), ("active", max_active)] {
        if let Some(limit) = limit {
            text += &format!(", at most {limit} {name}");
        }
    }
    if *extension_size > 0 {
        text += &format!(", extensions of {extension_size} bytes");
    }
    if let Some(zrwa) = zrwa {
        let (size, step) = (format_size(zrwa.size), format_size(zrwa.granularity));
        text += &format!(", {} random write areas of {size} by {step}", zrwa.count);
    }
    if *reads_cross_zones {
        text += ", reads over their ends";
    }
    text
}

/// Pairs in words.
fn describe_pairs(log: KeyValue) -> String {
    let KeyValue { segment, spare_percent, max_keys, index_cache, page: _ } = log;
    let segment = format_size(segment.unwrap_or(0));
    let cache = index_cache.map_or(String::new(), |cache| {
        format!(", with {} for pages of their index", format_size(cache))
    });
    format!(
        "pairs of {max_keys} keys in segments of {segment}, of which {spare_percent} % are spare{cache}"
    )
}

/// A geometry in words.
fn describe_geometry(ocssd: &Ocssd) -> String {
    let Ocssd { groups, units, chunks, sectors, write_min, cached, .. } = ocssd;
    let write_optimal = ocssd.write_optimal();
    let mut text = format!(
        "a geometry of {groups}x{units}x{chunks}x{sectors}, written by {write_min} or {write_optimal} \
         sectors, {cached} cached"
    );
    let limits = [
        ("open chunks", ocssd.max_open),
        ("open chunks of a unit", ocssd.max_open_per_unit),
        ("resets", ocssd.endurance),
    ];
    for (name, limit) in limits {
        if let Some(limit) = limit {
            text += &format!(", at most {limit} {name}");
        }
    }
    text
}
