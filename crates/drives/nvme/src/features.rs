//! The values of the features that a host sets (NVMe 1.4 section 5.21).

use std::collections::BTreeMap;
use std::ops::Range;

use stasis_block::clock::Nanos;

use crate::command::Dword;
use crate::condition::{Condition, WARNING_TEMPERATURE};
use crate::config::{Config, MAX_NAMESPACES};
use crate::controller_id::ControllerId;
use crate::transport::Transport;

/// Namespace Attribute Notices, in the Asynchronous Event Configuration
/// feature and in OAES of Identify Controller.
const NAMESPACE_NOTICES: u32 = 1 << 8;
/// Asymmetric Namespace Access Change Notices, in the same places.
const ACCESS_CHANGES: u32 = 1 << 11;
/// Firmware Activation Notices, in the same places.
const FIRMWARE_ACTIVATIONS: u32 = 1 << 9;
/// Telemetry Log Notices, in Asynchronous Event Configuration: LPA tells that there are some.
const TELEMETRY: u32 = 1 << 10;
/// Endurance Group Event Aggregate Log Page Change Notices, in the same places.
const GROUP_EVENTS: u32 = 1 << 14;
/// Zone Descriptor Changed Notices, in the Asynchronous Event Configuration
/// feature and in OAES (ZNS 1.1 section 4.1.1).
const ZONE_CHANGES: u32 = 1 << 27;

/// The features' values; `Features::new` has their defaults.
#[derive(Debug, Clone)]
pub struct Features {
    pub arbitration: u32,
    /// Temperature thresholds in kelvin.
    pub over_temperature: u16,
    pub under_temperature: u16,
    /// True if the volatile write cache is on.
    pub write_cache: bool,
    pub coalescing: u32,
    pub write_atomicity: u32,
    /// Asynchronous Event Configuration.
    pub events: u32,
    /// Time Limited Error Recovery, by namespace.
    error_recovery: Vec<u16>,
    /// Key Value Configuration, a bit for each namespace: a deletion of what is not there fails.
    missing_keys: u128,
    /// Milliseconds since 1970, and when it was set (ns).
    timestamp: (u64, Nanos),
    timestamp_was_set: bool,
    /// Advanced Command Retry Enable; no completion asks for a delay.
    pub retries: bool,
    /// LBA Format Extension Enable: namespaces with guards of more than 16 bits can be accessed.
    pub extended_formats: bool,
    /// Endurance Group Event Configuration: critical warnings by group.
    group_events: BTreeMap<u16, u8>,
}

impl Features {
    pub fn new() -> Self {
        Self {
            // Arbitration burst: no limit.
            arbitration: 7,
            over_temperature: WARNING_TEMPERATURE,
            under_temperature: 0,
            write_cache: true,
            coalescing: 0,
            write_atomicity: 0,
            events: 0,
            error_recovery: vec![0; MAX_NAMESPACES],
            missing_keys: 0,
            timestamp: (0, 0),
            timestamp_was_set: false,
            retries: false,
            extended_formats: false,
            group_events: BTreeMap::new(),
        }
    }

    /// Returns whether the host requested events of changed zones.
    pub fn reports_zone_changes(&self) -> bool {
        self.events & ZONE_CHANGES != 0
    }

    /// Returns whether the host requested events of changed access to namespaces.
    pub fn reports_access_changes(&self) -> bool {
        self.events & ACCESS_CHANGES != 0
    }

    /// Returns whether the host requested events of firmware that becomes active at once.
    pub fn reports_firmware(&self) -> bool {
        self.events & FIRMWARE_ACTIVATIONS != 0
    }

    /// Returns whether the host requested events of telemetry that the controller has captured.
    pub fn reports_telemetry(&self) -> bool {
        self.events & TELEMETRY != 0
    }

    /// Returns whether the host requested events of the log of endurance groups' events.
    pub fn reports_group_events(&self) -> bool {
        self.events & GROUP_EVENTS != 0
    }

    /// The critical warnings of an endurance group of which the host requested events.
    pub fn group_events(&self, group: u16) -> u8 {
        self.group_events.get(&group).copied().unwrap_or(0)
    }

    /// Sets them.
    pub fn set_group_events(&mut self, group: u16, warnings: u8) {
        self.group_events.insert(group, warnings);
    }

    /// Returns whether the host requested events of changed namespaces.
    pub fn reports_namespace_changes(&self) -> bool {
        self.events & NAMESPACE_NOTICES != 0
    }

    /// The critical warnings that hold, of the thresholds that the host set.
    pub fn critical_warning(&self, condition: &Condition) -> u8 {
        condition.critical_warning(self.under_temperature, self.over_temperature)
    }

    /// The warnings that hold and of which the host requested events.
    pub fn asked_warnings(&self, condition: &Condition) -> u8 {
        self.critical_warning(condition) & self.events.byte(0)
    }

    /// Time Limited Error Recovery of the namespace of this index (units of 100 ms).
    pub fn error_recovery(&self, index: usize) -> u16 {
        self.error_recovery.get(index).copied().unwrap_or_default()
    }

    /// Sets it, for these namespaces.
    pub fn set_error_recovery(&mut self, namespaces: Range<usize>, limit: u16) {
        if let Some(values) = self.error_recovery.get_mut(namespaces) {
            values.fill(limit);
        }
    }

    /// Returns whether the deletion of a key that is not there fails in a namespace.
    pub fn reports_missing_keys(&self, nsid: u32) -> bool {
        self.missing_keys & Self::bit(nsid) != 0
    }

    /// Sets it.
    pub fn set_missing_keys(&mut self, nsid: u32, reports: bool) {
        match reports {
            true => self.missing_keys |= Self::bit(nsid),
            false => self.missing_keys &= !Self::bit(nsid),
        }
    }

    fn bit(nsid: u32) -> u128 {
        nsid.checked_sub(1).and_then(|index| 1u128.checked_shl(index)).unwrap_or(0)
    }

    /// The Timestamp feature's data at `now` (section 5.21.1.14).
    pub fn timestamp_at(&self, now: Nanos) -> u64 {
        // Origin: set by the host, or else cleared at reset.
        const SET_BY_HOST: u64 = 1 << 49;
        let (then, at) = self.timestamp;
        let passed = now.saturating_sub(at) / stasis_block::clock::MILLISECOND;
        let origin = if self.timestamp_was_set { SET_BY_HOST } else { 0 };
        (then + passed) & 0xffff_ffff_ffff | origin
    }

    /// The host sets the time to `milliseconds` since 1970, of which 48 bits count.
    pub fn set_timestamp(&mut self, milliseconds: u64, now: Nanos) {
        self.timestamp = (milliseconds & 0xffff_ffff_ffff, now);
        self.timestamp_was_set = true;
    }
}

/// The features of all controllers: each host sets its own.
#[derive(Debug)]
pub struct FeaturesByController {
    set: Vec<Features>,
    default: Features,
}

impl FeaturesByController {
    pub fn new() -> Self {
        Self { set: Vec::new(), default: Features::new() }
    }

    /// Returns the features of a controller.
    pub fn of(&self, controller: ControllerId) -> &Features {
        self.set.get(controller.index()).unwrap_or(&self.default)
    }

    /// Returns the features of a controller, to change them.
    pub fn of_mut(&mut self, controller: ControllerId) -> &mut Features {
        let index = controller.index();
        if self.set.len() <= index {
            self.set.resize(index + 1, self.default.clone());
        }
        &mut self.set[index]
    }

    /// Forgets a deleted namespace.
    pub fn forget(&mut self, nsid: u32) {
        let index = (nsid as usize).saturating_sub(1);
        for features in &mut self.set {
            features.set_error_recovery(index..index + 1, 0);
            features.set_missing_keys(nsid, false);
        }
    }

    /// A controller's are the defaults again.
    pub fn reset(&mut self, controller: ControllerId) {
        let default = self.default.clone();
        *self.of_mut(controller) = default;
    }
}

/// Optional Asynchronous Events Supported of a controller on `transport`.
pub fn notices(config: &Config, transport: Transport) -> u32 {
    let zones = if config.has_zones() { ZONE_CHANGES } else { 0 };
    let access = if transport.is_shared() { ACCESS_CHANGES } else { 0 };
    let groups = if config.has_groups() { GROUP_EVENTS } else { 0 };
    NAMESPACE_NOTICES | FIRMWARE_ACTIVATIONS | zones | access | groups
}

/// The notices that a host can request of a controller on `transport`.
pub fn requestable(config: &Config, transport: Transport) -> u32 {
    notices(config, transport) | TELEMETRY
}
