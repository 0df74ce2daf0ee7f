//! Configuration of a controller.

mod namespace;

use stasis_block::{Doorbells, Operation};

use crate::atomicity::DEFAULT_UNIT;
use crate::computing::{self, Programs, ProgramsError};
use crate::endurance::config::{check_groups, EnduranceGroup};
use crate::identity::subsystem_name;
use crate::key_value::{self, KeyValueError};
use crate::memory_buffer;
use crate::metadata::{
    BlockFormat, LbaFormat, Metadata, Protection, BLOCK_SIZES, LBA_FORMATS, PLAIN_FORMATS,
};
use crate::ocssd::OcssdError;
use crate::optional::{NotBuilt, OptionalKind};
use crate::placement::{Placement, HANDLES, RECLAIM_GROUPS, STREAMS, UNIT_STEP};
use crate::power_states::PowerStates;
use crate::zoned::{self, ZonesError};

pub use namespace::Namespace;
pub(crate) use namespace::NVM_COMMAND_SET;

/// Configuration of a controller. `Default` has everything but namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Serial number: 1 to 20 printable ASCII characters. The namespaces'
    /// identifiers are derived from it, so no two drives may share one.
    pub serial: String,
    /// Model number: 1 to 40 printable ASCII characters.
    pub model: String,
    /// Firmware revision: 1 to 8 printable ASCII characters.
    pub firmware: String,
    /// PCI vendor, as Identify Controller repeats it.
    pub vendor_id: u16,
    /// PCI subsystem vendor, as Identify Controller repeats it.
    pub subsystem_vendor_id: u16,
    /// I/O queue pairs, 1 to 64. There are `queue_pairs + 1` interrupt vectors.
    pub queue_pairs: u16,
    /// Entries of the largest queue (`CAP.MQES + 1`), 2 to 1024.
    pub queue_entries: u16,
    /// The namespaces as they are at first, numbered from 1; 1 to 128 of them, each a separate part
    /// of the drive.
    pub namespaces: Vec<Namespace>,
    /// True if the drive has a volatile write cache, which a guest can then flush and turn off.
    pub volatile_write_cache: bool,
    /// Delivery of submissions once the driver has configured shadow doorbells. If lazy, the driver
    /// never rings a doorbell register of an I/O queue, and the carrier calls
    /// [`crate::Controller::poll_shadow`]. Completion queue heads never ring.
    pub shadow: Doorbells,
    /// True if Doorbell Buffer Config is offered at all.
    pub shadow_doorbells: bool,
    /// Maximum transfer size of a command in bytes (MDTS): a power of two, 8 KiB to
    /// 2 MiB.
    pub max_transfer: u32,
    /// Limit on the bytes of data in all requests that the drive holds; above it the
    /// controller stops fetching commands until some complete. At least
    /// `max_transfer`, and twice that where metadata is offered.
    pub max_in_flight_bytes: usize,
    /// True if interrupts are held back as the driver's Interrupt Coalescing feature asks. The
    /// carrier must then call [`crate::Controller::set_time`] at
    /// [`crate::Controller::next_deadline`]. Without it the feature's value is kept but nothing is
    /// delayed, which the specification allows.
    pub interrupt_coalescing: bool,
    /// True if discarded blocks read as zeroes afterwards; otherwise a secure erase writes zeroes.
    pub discard_zeroes: bool,
    /// Ways for a guest to mark related data: Flexible Data Placement only where the drive has no
    /// endurance groups, of which each has its own.
    pub placement: Placement,
    /// Endurance groups, of which each namespace is in one; none by default. One of Flexible Data
    /// Placement is there without being named.
    pub endurance_groups: Vec<EnduranceGroup>,
    /// The unit that a power cut does not tear, in bytes: units lie side by side from the drive's
    /// first byte on. Namespaces tell of it where their blocks are smaller.
    pub atomic_unit: u64,
    /// True if LBA formats with metadata are offered: none are by drives with zones, pairs or
    /// chunks.
    pub metadata: bool,
    /// Power states. Several are of a drive with one controller, on PCIe, whose carrier must then
    /// call [`crate::Controller::set_time`] at [`crate::Controller::next_deadline`].
    pub power_states: PowerStates,
    /// Computational programs: a memory namespace and a compute namespace behind the others. The
    /// carrier must then call [`crate::Controller::set_time`] at
    /// [`crate::Controller::next_deadline`].
    pub programs: Option<Programs>,
    /// Size in bytes of the memory buffer of each controller, if they have one: a power of two, 2 MiB
    /// to 64 MiB. The carrier is to have it in the host's memory, and to say where
    /// ([`crate::ControllerMut::place_memory_buffer`]).
    pub memory_buffer: Option<u64>,
}

/// The vendor of the controller and of its PCI function, which must agree (NVM
/// Express Base 2.0, figure 275): "ST", which is no registered vendor's, so no quirk of
/// Linux's driver matches it.
pub const VENDOR_ID: u16 = 0x5354;

impl Default for Config {
    fn default() -> Self {
        Self {
            serial: "STASIS0".into(),
            model: "Stasis NVMe drive".into(),
            firmware: "1.0".into(),
            vendor_id: VENDOR_ID,
            subsystem_vendor_id: VENDOR_ID,
            queue_pairs: 64,
            queue_entries: 1024,
            namespaces: Vec::new(),
            volatile_write_cache: true,
            shadow: Doorbells::default(),
            shadow_doorbells: true,
            max_transfer: 512 << 10,
            max_in_flight_bytes: 256 << 20,
            interrupt_coalescing: false,
            discard_zeroes: false,
            placement: Placement::None,
            endurance_groups: Vec::new(),
            atomic_unit: DEFAULT_UNIT,
            metadata: false,
            power_states: PowerStates::default(),
            programs: None,
            memory_buffer: None,
        }
    }
}

/// Why a controller cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A string that does not fit its Identify field.
    #[error("NVMe {field} {value:?} must be 1 to {longest} printable ASCII characters")]
    Text {
        /// Which of serial, model and firmware.
        field: &'static str,
        /// The value given.
        value: String,
        /// Maximum length in characters.
        longest: usize,
    },
    /// A number outside its range.
    #[error("NVMe {field} is {value}, but must be {expected}")]
    Number {
        /// The name of the field.
        field: &'static str,
        /// The value given.
        value: u64,
        /// The allowed values.
        expected: &'static str,
    },
    /// An invalid value of a namespace.
    #[error("NVMe namespace {nsid}: {field} is {value}, but must be {expected}")]
    Namespace {
        /// Number of the namespace, from 1.
        nsid: usize,
        /// The name of the field.
        field: &'static str,
        /// The value given.
        value: u64,
        /// The allowed values.
        expected: &'static str,
    },
    /// An invalid configuration of zones.
    #[error("NVMe namespace {nsid}: {error}")]
    Zones {
        /// Number of the namespace, from 1.
        nsid: usize,
        /// The fault.
        error: ZonesError,
    },
    /// An invalid Open-Channel geometry.
    #[error("NVMe namespace {nsid}: {error}")]
    Ocssd {
        /// Number of the namespace, from 1.
        nsid: usize,
        /// The fault.
        error: OcssdError,
    },
    /// An invalid configuration of pairs.
    #[error("NVMe namespace {nsid}: {error}")]
    KeyValue {
        /// Number of the namespace, from 1.
        nsid: usize,
        /// The fault.
        error: KeyValueError,
    },
    /// Invalid computational programs.
    #[error("NVMe {0}")]
    Programs(#[from] ProgramsError),
    /// A kind that the program was built without.
    #[error("NVMe: {0}")]
    NotBuilt(#[from] NotBuilt),
    /// Metadata that cannot be.
    #[error("NVMe namespace {nsid}: {reason}")]
    Metadata {
        /// Number of the namespace, from 1.
        nsid: usize,
        /// The reason.
        reason: String,
    },
    /// Endurance groups or NVM sets that cannot be.
    #[error("NVMe {0}")]
    Groups(String),
    /// A namespace of two kinds.
    #[error("NVMe namespace {nsid} is two of zoned, Open-Channel and key-value; leave one")]
    Both {
        /// Number of the namespace, from 1.
        nsid: usize,
    },
}

/// Maximum number of queue pairs, the admin queues included.
pub(crate) const MAX_QUEUES: usize = 65;
/// Maximum number of namespaces. A command for all of them becomes as many requests.
pub const MAX_NAMESPACES: usize = MAX_NSID as usize;
/// The highest NSID of a namespace.
pub(crate) const MAX_NSID: u32 = 128;

impl Config {
    /// Checks that a controller can be made with this configuration.
    ///
    /// # Errors
    /// Returns the invalid field and its allowed values.
    pub fn check(&self) -> Result<(), ConfigError> {
        text("serial", &self.serial, 20)?;
        text("model", &self.model, 40)?;
        text("firmware", &self.firmware, 8)?;
        OptionalKind::OPEN_CHANNEL.check(self.has_chunks())?;
        OptionalKind::COMPUTATIONAL.check(self.programs.is_some())?;
        OptionalKind::KEY_VALUE.check(self.has_pairs())?;
        number("queue_pairs", self.queue_pairs.into(), 1..=64, "1 to 64")?;
        number("queue_entries", self.queue_entries.into(), 2..=1024, "2 to 1024")?;
        let transfer = u64::from(self.max_transfer);
        // A limit of one page cannot be expressed: MDTS 0 is no limit.
        number("max_transfer", transfer, 8192..=2 << 20, "8192 to 2097152 bytes")?;
        if !transfer.is_power_of_two() {
            let expected = "a power of two";
            return Err(ConfigError::Number { field: "max_transfer", value: transfer, expected });
        }
        let held = self.max_in_flight_bytes as u64;
        let least = self.largest_request() as u64;
        let expected = "at least max_transfer, twice that with metadata";
        number("max_in_flight_bytes", held, least..=u64::MAX, expected)?;
        if let Some(size) = self.memory_buffer {
            if !memory_buffer::can_have(size) {
                let (field, expected) = ("memory buffer", memory_buffer::SIZES);
                return Err(ConfigError::Number { field, value: size, expected });
            }
        }
        check_placement(self.placement)?;
        for group in &self.endurance_groups {
            check_placement(group.placement)?;
        }
        let count = self.namespaces.len() as u64;
        let most = MAX_NAMESPACES as u64;
        match &self.programs {
            None => number("count of namespaces", count, 1..=most, "1 to 128")?,
            Some(programs) => {
                programs.check()?;
                let expected = "1 to 126 beside those of programs";
                number("count of namespaces", count, 1..=most - 2, expected)?;
            }
        }
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let wrong = |field, value, expected| {
                Err(ConfigError::Namespace { nsid: index + 1, field, value, expected })
            };
            let size = namespace.block_size;
            if !LBA_FORMATS[..PLAIN_FORMATS].iter().any(|format| format.size == size) {
                return wrong("block_size", size.into(), BLOCK_SIZES);
            }
            let behind = namespace.metadata.filter(|metadata| metadata.extended);
            if u64::from(size) + behind.map_or(0, |metadata| metadata.size) > transfer {
                return wrong("block_size", size.into(), "at most max_transfer with its metadata");
            }
            if let Some(metadata) = &namespace.metadata {
                let checked = if self.offers_metadata() {
                    metadata.check(size)
                } else {
                    Err("metadata is of drives of blocks alone that offer it".into())
                };
                checked.map_err(|reason| ConfigError::Metadata { nsid: index + 1, reason })?;
            }
            let most = (i64::MAX as u64) / u64::from(namespace.stride());
            if !(1..=most).contains(&namespace.blocks) {
                return wrong("blocks", namespace.blocks, "at least 1 and less than 2^63 bytes");
            }
            check_layout(namespace, index + 1, self.max_transfer)?;
            if namespace.start > i64::MAX as u64 - namespace.bytes() {
                return wrong("start", namespace.start, "such that its end is below 2^63 bytes");
            }
            let end = namespace.start + namespace.bytes();
            let apart = |other: &Namespace| {
                other.start >= end || other.start.saturating_add(other.bytes()) <= namespace.start
            };
            if !self.namespaces[..index].iter().all(apart) {
                return wrong("start", namespace.start, "apart from the namespaces before it");
            }
        }
        let groups = &self.endurance_groups;
        check_groups(groups, &self.namespaces, self.placement).map_err(ConfigError::Groups)
    }

    /// Returns whether any namespace is zoned.
    pub(crate) fn has_zones(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.zoned.is_some())
    }

    /// Returns whether any namespace has pairs.
    pub(crate) fn has_pairs(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.key_value.is_some())
    }

    /// Returns whether the drive has the command set `set`.
    pub(crate) fn has_command_set(&self, set: u8) -> bool {
        match set {
            NVM_COMMAND_SET => true,
            key_value::CSI => self.has_pairs(),
            zoned::CSI => self.has_zones(),
            computing::MEMORY_CSI | computing::COMPUTE_CSI => self.programs.is_some(),
            _ => false,
        }
    }

    /// Returns whether there are others than the NVM command set: then they are to be chosen.
    pub(crate) fn has_command_sets(&self) -> bool {
        self.has_zones() || self.has_pairs() || self.programs.is_some()
    }

    /// Returns whether any namespace is an Open-Channel drive.
    pub(crate) fn has_chunks(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.ocssd.is_some())
    }

    /// Returns whether LBA formats with metadata are offered.
    pub(crate) fn offers_metadata(&self) -> bool {
        self.metadata && !self.has_command_sets() && !self.has_chunks()
    }

    /// Maximum bytes of a request to the drive: blocks with metadata take at most twice their data.
    pub(crate) fn largest_request(&self) -> usize {
        self.max_transfer as usize * if self.offers_metadata() { 2 } else { 1 }
    }

    /// Returns whether there is Identify by command sets: there are several, or protection
    /// information of formats that only the NVM command set's structures tell.
    pub(crate) fn has_set_structures(&self) -> bool {
        self.has_command_sets() || self.offers_metadata()
    }

    /// The LBA formats that are offered, by their numbers.
    pub(crate) fn formats(&self) -> &'static [LbaFormat] {
        match self.offers_metadata() {
            true => &LBA_FORMATS,
            false => &LBA_FORMATS[..PLAIN_FORMATS],
        }
    }

    /// The format of these choices of Format NVM and Namespace Management: the number of an LBA
    /// format, whether metadata is behind the data, and the type of protection information and
    /// whether that comes first.
    pub(crate) fn format_of(
        &self,
        number: u32,
        extended: bool,
        protection: u8,
        first: bool,
    ) -> Option<BlockFormat> {
        let &LbaFormat { size, metadata, guard } = self.formats().get(number as usize)?;
        let protection = Protection::try_from(protection).ok()?;
        let protects = protection != Protection::None;
        let behind = if extended { u32::from(metadata) } else { 0 };
        if protects && metadata == 0 || size + behind > self.max_transfer {
            return None;
        }
        let (bytes, first) = (metadata.into(), protects && first);
        let metadata = Metadata { size: bytes, extended, protection, guard, first };
        Some(BlockFormat { size, metadata: (bytes > 0).then_some(metadata) })
    }

    /// Returns whether a command set has commands of Open-Channel namespaces: theirs is the NVM
    /// command set.
    pub(crate) fn has_chunk_commands(&self, set: u8) -> bool {
        set == 0 && self.has_chunks()
    }

    /// The operation that leaves nothing to read of what it is done to.
    pub(crate) fn erasure(&self) -> Operation {
        match self.discard_zeroes {
            true => Operation::Discard,
            false => Operation::WriteZeroes,
        }
    }

    /// The NVMe Qualified Name of the subsystem.
    pub fn nqn(&self) -> String {
        subsystem_name(&self.serial)
    }

    /// Interrupt vectors: one for each queue pair and one for the admin queues.
    pub(crate) fn vectors(&self) -> u16 {
        self.queue_pairs + 1
    }
}

/// Checks that a namespace has one layout at most, and one that is whole.
fn check_layout(namespace: &Namespace, nsid: usize, transfer: u32) -> Result<(), ConfigError> {
    let size = u64::from(namespace.block_size);
    let kinds =
        [namespace.zoned.is_some(), namespace.ocssd.is_some(), namespace.key_value.is_some()];
    if kinds.into_iter().filter(|is| *is).count() > 1 {
        return Err(ConfigError::Both { nsid });
    }
    if let Some(zones) = &namespace.zoned {
        let checked = zones.check(namespace.blocks * size, size);
        checked.map_err(|error| ConfigError::Zones { nsid, error })?;
    }
    if let Some(key_value) = &namespace.key_value {
        let layout = key_value.layout(namespace.bytes(), namespace.block_size, transfer);
        layout.map_err(|error| ConfigError::KeyValue { nsid, error })?;
    }
    if let Some(ocssd) = &namespace.ocssd {
        let checked = ocssd.check(namespace.blocks, size);
        checked.map_err(|error| ConfigError::Ocssd { nsid, error })?;
    }
    Ok(())
}

fn text(field: &'static str, value: &str, longest: usize) -> Result<(), ConfigError> {
    let printable = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if value.is_empty() || value.len() > longest || !printable {
        return Err(ConfigError::Text { field, value: value.into(), longest });
    }
    Ok(())
}

fn number(
    field: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::Number { field, value, expected })
}

fn check_placement(placement: Placement) -> Result<(), ConfigError> {
    match placement {
        Placement::None => {}
        Placement::Streams { max } => {
            number("count of streams", max.into(), 1..=STREAMS.into(), "1 to 1024")?;
        }
        Placement::Fdp { reclaim_groups, handles, reclaim_unit } => {
            let (groups, most) = (reclaim_groups.into(), RECLAIM_GROUPS.into());
            number("reclaim groups", groups, 1..=most, "1 to 64")?;
            number("reclaim unit handles", handles.into(), 1..=HANDLES.into(), "1 to 128")?;
            let (field, expected) = ("reclaim unit", "a multiple of 4096 bytes");
            number(field, reclaim_unit, UNIT_STEP..=1 << 62, expected)?;
            if !reclaim_unit.is_multiple_of(UNIT_STEP) {
                return Err(ConfigError::Number { field, value: reclaim_unit, expected });
            }
        }
    }
    Ok(())
}
