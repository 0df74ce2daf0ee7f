//! Get Features and Set Features (NVMe 1.4 sections 5.13 and 5.21).

use stasis_clock::Nanos;

use crate::command::{location, SubmissionEntry};
use crate::commands::Registered;
use crate::config::Config;
use crate::controller::Controller;
use crate::io::ALL_NAMESPACES;
use crate::placement::feature as placement;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::events::{
    NAMESPACE_NOTICES, WARNING_READ_ONLY, WARNING_SPARE, WARNING_TEMPERATURE as TOO_WARM,
};
use super::log::SPARE_THRESHOLD;

/// The composite temperature until the carrier sets another, in kelvin: 40 °C.
pub const NORMAL_TEMPERATURE: u16 = 313;
/// Warning Composite Temperature Threshold, in kelvin: 70 °C, what many data
/// sheets give as the highest operating temperature.
pub const WARNING_TEMPERATURE: u16 = 343;
/// Critical Composite Temperature Threshold, in kelvin: 80 °C.
pub const CRITICAL_TEMPERATURE: u16 = 353;

/// Feature identifiers (section 5.21.1).
mod feature {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER_MANAGEMENT: u8 = 0x02;
    pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
    pub const ERROR_RECOVERY: u8 = 0x05;
    pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
    pub const NUMBER_OF_QUEUES: u8 = 0x07;
    pub const INTERRUPT_COALESCING: u8 = 0x08;
    pub const INTERRUPT_VECTOR_CONFIGURATION: u8 = 0x09;
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    pub const ASYNCHRONOUS_EVENTS: u8 = 0x0b;
    pub const TIMESTAMP: u8 = 0x0e;
    /// I/O Command Set Profile.
    pub const COMMAND_SET_PROFILE: u8 = 0x19;
}

/// Select, in Dword 10 of Get Features.
mod select {
    pub const CURRENT: u32 = 0;
    pub const DEFAULT: u32 = 1;
    pub const SAVED: u32 = 2;
    pub const CAPABILITIES: u32 = 3;
}

/// Save, in Dword 10 of Set Features: nothing is saveable here.
const SAVE: u32 = 1 << 31;
/// Size of the Timestamp feature's data in bytes (section 5.21.1.14).
const TIMESTAMP: usize = 8;
/// Zone Descriptor Changed Notices, in the Asynchronous Event Configuration
/// feature and in OAES (ZNS 1.1 section 4.1.1).
pub const ZONE_CHANGES: u32 = 1 << 27;

/// The features' values; `Features::new` has their defaults.
#[derive(Debug, Clone)]
pub struct Features {
    arbitration: u32,
    over_temperature: u16,
    under_temperature: u16,
    /// Time Limited Error Recovery, by namespace.
    error_recovery: Vec<u16>,
    /// Whether the volatile write cache is on.
    pub write_cache: bool,
    coalescing: u32,
    write_atomicity: u32,
    /// Asynchronous Event Configuration.
    pub events: u32,
    /// Milliseconds since 1970, and when it was set (ns).
    timestamp: (u64, Nanos),
    timestamp_was_set: bool,
}

impl Features {
    pub fn new(config: &Config) -> Self {
        Self {
            // Arbitration burst: no limit.
            arbitration: 7,
            over_temperature: WARNING_TEMPERATURE,
            under_temperature: 0,
            error_recovery: vec![0; config.namespaces.len()],
            write_cache: true,
            coalescing: 0,
            write_atomicity: 0,
            events: 0,
            timestamp: (0, 0),
            timestamp_was_set: false,
        }
    }

    /// Whether the host asked to be told of zones that changed.
    pub fn reports_zone_changes(&self) -> bool {
        self.events & ZONE_CHANGES != 0
    }

    /// The Timestamp feature's data at `now` (section 5.21.1.14).
    pub fn timestamp_at(&self, now: Nanos) -> u64 {
        // Origin: set by the host, or else cleared at reset.
        const SET_BY_HOST: u64 = 1 << 49;
        let (then, at) = self.timestamp;
        let passed = now.saturating_sub(at) / stasis_clock::MILLISECOND;
        let origin = if self.timestamp_was_set { SET_BY_HOST } else { 0 };
        (then + passed) & 0xffff_ffff_ffff | origin
    }
}

pub const SET_FEATURES: Registered = Registered::plain(0x09, |controller, memory, _, command| {
    controller.set_features(memory, command)
});

pub const GET_FEATURES: Registered = Registered::plain(0x0a, |controller, memory, _, command| {
    controller.get_features(memory, command)
});

impl Controller {
    pub(super) fn get_features(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let identifier = command.cdw10 as u8;
        if is_of_placement(identifier) {
            return match command.cdw10 >> 8 & 7 {
                select::CURRENT => self.get_placement_feature(memory, command, false),
                select::DEFAULT | select::SAVED => {
                    self.get_placement_feature(memory, command, true)
                }
                select::CAPABILITIES => Ok(Outcome::Done(capabilities(identifier))),
                _ => Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
            };
        }
        let defaults = Features::new(&self.config);
        let features = match command.cdw10 >> 8 & 7 {
            select::CURRENT => &self.features,
            // Nothing is saveable, so that what is saved are the defaults.
            select::DEFAULT | select::SAVED => &defaults,
            select::CAPABILITIES => {
                self.feature(&self.features, identifier, command)?;
                return Ok(Outcome::Done(capabilities(identifier)));
            }
            _ => return Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
        };
        let value = self.feature(features, identifier, command)?;
        if identifier == feature::TIMESTAMP {
            let data = features.timestamp_at(self.now).to_le_bytes();
            self.send(memory, command, &data)?;
        }
        Ok(Outcome::Done(value))
    }

    /// The value of a feature in Dword 0 of the completion.
    fn feature(
        &self,
        features: &Features,
        identifier: u8,
        command: &SubmissionEntry,
    ) -> Result<u32, Failure> {
        let queues = u32::from(self.config.queue_pairs - 1);
        Ok(match identifier {
            feature::ARBITRATION => features.arbitration,
            feature::POWER_MANAGEMENT => 0,
            feature::TEMPERATURE_THRESHOLD => match threshold(command.cdw11)? {
                Threshold::Over => features.over_temperature.into(),
                Threshold::Under => features.under_temperature.into(),
            },
            feature::ERROR_RECOVERY => {
                let index = self.namespace_index(command)?;
                features.error_recovery.get(index).copied().unwrap_or_default().into()
            }
            feature::VOLATILE_WRITE_CACHE if self.config.volatile_write_cache => {
                features.write_cache.into()
            }
            feature::NUMBER_OF_QUEUES => queues << 16 | queues,
            feature::INTERRUPT_COALESCING => features.coalescing,
            feature::INTERRUPT_VECTOR_CONFIGURATION => {
                let vector = command.cdw11 as u16;
                let disabled = self.interrupts.coalescing_disabled(vector);
                let disabled = disabled.ok_or(StatusCode::InvalidField.at(location::CDW11))?;
                u32::from(vector) | u32::from(disabled) << 16
            }
            feature::WRITE_ATOMICITY => features.write_atomicity,
            feature::ASYNCHRONOUS_EVENTS => features.events,
            feature::TIMESTAMP => 0,
            // There is one combination.
            feature::COMMAND_SET_PROFILE if self.config.has_zones() => 0,
            _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
        })
    }

    pub(super) fn set_features(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let identifier = command.cdw10 as u8;
        if is_of_placement(identifier) {
            if command.cdw10 & SAVE != 0 {
                return Err(StatusCode::FeatureNotSaveable.at(location::CDW10));
            }
            return self.set_placement_feature(memory, command);
        }
        // That the feature exists is the first question.
        let current = self.feature(&self.features, identifier, command)?;
        if command.cdw10 & SAVE != 0 {
            return Err(StatusCode::FeatureNotSaveable.at(location::CDW10));
        }
        let specific = identifier == feature::ERROR_RECOVERY;
        if !specific && !matches!(command.nsid, 0 | ALL_NAMESPACES) {
            return Err(StatusCode::FeatureNotNamespaceSpecific.at(location::NSID));
        }
        self.set_feature(memory, command, identifier)?;
        // All queues are given, whatever was asked for.
        let told = if identifier == feature::NUMBER_OF_QUEUES { current } else { 0 };
        Ok(Outcome::Done(told))
    }

    /// Sets a feature that there is, for the controller or the namespaces that it concerns.
    fn set_feature(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        identifier: u8,
    ) -> Result<(), Failure> {
        let value = command.cdw11;
        let invalid = StatusCode::InvalidField.at(location::CDW11);
        match identifier {
            feature::ARBITRATION => self.features.arbitration = value & 0xffff_ff07,
            // There is power state 0 only.
            feature::POWER_MANAGEMENT if value & 0x1f != 0 => return Err(invalid),
            feature::POWER_MANAGEMENT => {}
            feature::TEMPERATURE_THRESHOLD => {
                match threshold(value)? {
                    Threshold::Over => self.features.over_temperature = value as u16,
                    Threshold::Under => self.features.under_temperature = value as u16,
                }
                self.check_warnings(memory);
            }
            feature::ERROR_RECOVERY => self.set_error_recovery(command)?,
            feature::VOLATILE_WRITE_CACHE => self.features.write_cache = value & 1 != 0,
            feature::NUMBER_OF_QUEUES => {
                // Section 5.21.1.7: once, before there are I/O queues.
                if value & 0xffff == 0xffff || value >> 16 == 0xffff {
                    return Err(invalid);
                }
                if self.queues.has_io() {
                    return Err(StatusCode::CommandSequenceError.into());
                }
            }
            feature::INTERRUPT_COALESCING => {
                self.features.coalescing = value & 0xffff;
                self.interrupts.set_coalescing(value & 0xffff);
            }
            feature::INTERRUPT_VECTOR_CONFIGURATION => {
                self.interrupts.disable_coalescing(value as u16, value & 1 << 16 != 0);
            }
            feature::WRITE_ATOMICITY => self.features.write_atomicity = value & 1,
            feature::ASYNCHRONOUS_EVENTS => {
                // Warnings, and the notices that OAES offers.
                self.features.events = value & (0xff | notices(&self.config));
                self.check_warnings(memory);
            }
            feature::TIMESTAMP => {
                let mut data = [0; TIMESTAMP];
                self.receive(memory, command, &mut data)?;
                // 48 bits of milliseconds.
                let milliseconds = u64::from_le_bytes(data) & 0xffff_ffff_ffff;
                self.features.timestamp = (milliseconds, self.now);
                self.features.timestamp_was_set = true;
            }
            feature::COMMAND_SET_PROFILE if value & 0x1ff != 0 => {
                return Err(StatusCode::CommandSetCombinationRejected.at(location::CDW11));
            }
            feature::COMMAND_SET_PROFILE => {}
            _ => return Err(StatusCode::FeatureNotChangeable.at(location::CDW10)),
        }
        Ok(())
    }

    /// Which namespaces an NSID stands for: the first of them.
    fn namespace_index(&self, command: &SubmissionEntry) -> Result<usize, Failure> {
        match command.nsid {
            // Hosts before revision 1.4 took this feature for the controller's.
            0 | ALL_NAMESPACES => Ok(0),
            nsid if self.config.namespace(nsid).is_some() => Ok(nsid as usize - 1),
            _ => Err(StatusCode::InvalidNamespace.at(location::NSID)),
        }
    }

    fn set_error_recovery(&mut self, command: &SubmissionEntry) -> Result<(), Failure> {
        // Deallocated or Unwritten Logical Block Error Enable: not offered.
        if command.cdw11 & 1 << 16 != 0 {
            return Err(StatusCode::InvalidField.at(location::CDW11 + 2));
        }
        let index = self.namespace_index(command)?;
        let limit = command.cdw11 as u16;
        if matches!(command.nsid, 0 | ALL_NAMESPACES) {
            self.features.error_recovery.fill(limit);
        } else if let Some(value) = self.features.error_recovery.get_mut(index) {
            *value = limit;
        }
        Ok(())
    }

    /// Critical Warning of the SMART log (section 5.14.1.2).
    pub(crate) fn critical_warning(&self) -> u8 {
        let Features { over_temperature, under_temperature, .. } = self.features;
        let (temperature, health) = (self.condition.temperature(), self.condition.health());
        let beyond = temperature >= over_temperature || temperature <= under_temperature;
        let warning = |holds: bool, bit: u8| if holds { bit } else { 0 };
        warning(beyond, TOO_WARM)
            | warning(health.available_spare < SPARE_THRESHOLD, WARNING_SPARE)
            | warning(health.read_only, WARNING_READ_ONLY)
    }
}

/// What Select = 3 tells: bit 1 namespace specific, bit 2 changeable.
fn capabilities(identifier: u8) -> u32 {
    const NAMESPACE_SPECIFIC: u32 = 1 << 1;
    const CHANGEABLE: u32 = 1 << 2;
    match identifier {
        feature::ERROR_RECOVERY | placement::EVENTS => NAMESPACE_SPECIFIC | CHANGEABLE,
        _ => CHANGEABLE,
    }
}

/// Optional Asynchronous Events Supported.
pub fn notices(config: &Config) -> u32 {
    NAMESPACE_NOTICES | if config.has_zones() { ZONE_CHANGES } else { 0 }
}

fn is_of_placement(identifier: u8) -> bool {
    matches!(identifier, placement::PLACEMENT | placement::EVENTS)
}

enum Threshold {
    Over,
    Under,
}

/// Which threshold Dword 11 of the Temperature Threshold feature means
/// (section 5.21.1.4): there is the composite temperature only (sensor 0, or
/// 15 for all).
fn threshold(cdw11: u32) -> Result<Threshold, Failure> {
    let sensor = cdw11 >> 16 & 0xf;
    match (sensor, cdw11 >> 20 & 3) {
        (0 | 0xf, 0) => Ok(Threshold::Over),
        (0 | 0xf, 1) => Ok(Threshold::Under),
        _ => Err(StatusCode::InvalidField.at(location::CDW11 + 2)),
    }
}
