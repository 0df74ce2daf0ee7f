//! Get Features and Set Features (NVMe 1.4 sections 5.13 and 5.21).

use stasis_block::clock::MILLISECOND;
use stasis_nvme_layout::features::HostBehavior;
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::config::{Config, MAX_NAMESPACES, MAX_NSID};
use crate::context::ControllerMut;
use crate::endurance::GROUP_WARNINGS;
use crate::event_log::Occurrence;
use crate::features::{requestable, Features};
use crate::io::Io;
use crate::keep_alive::KeepAlive;
use crate::log_page::{
    everywhere, of_command_sets, of_groups, of_pairs, of_placement, on_fabrics, on_pcie,
    where_shared, with_power_states, Offered,
};
use crate::placement::{feature as placement, get_placement_feature, set_placement_feature};
use crate::registered::{OF_CONTROLLER, OF_ENDURANCE_GROUP, OF_NAMESPACE, SUPPORTED};
use crate::reservations::HostId;
use crate::slots::Owner;
use crate::status::{Failure, Outcome, StatusCode};
use crate::transport::Transport;
use crate::{power, Memory};

use crate::context::AdminCommand;

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
    pub const AUTONOMOUS_TRANSITIONS: u8 = 0x0c;
    pub const TIMESTAMP: u8 = 0x0e;
    pub const KEEP_ALIVE_TIMER: u8 = 0x0f;
    pub const HOST_BEHAVIOUR: u8 = 0x16;
    pub const HOST_IDENTIFIER: u8 = 0x81;
    pub const RESERVATION_MASK: u8 = 0x82;
    pub const RESERVATION_PERSISTENCE: u8 = 0x83;
    /// Endurance Group Event Configuration (NVMe 2.0 section 5.27.1.19).
    pub const GROUP_EVENTS: u8 = 0x18;
    /// I/O Command Set Profile.
    pub const COMMAND_SET_PROFILE: u8 = 0x19;
    /// Key Value Configuration (KV 1.0 section 4.1.3).
    pub const KEY_VALUE: u8 = 0x20;
}

/// A supported feature.
#[derive(Debug)]
pub struct Feature {
    pub identifier: u8,
    offered: Offered,
    /// The entry in the Feature Identifiers Supported and Effects log (NVMe 2.0 section 5.16.1.17).
    pub effects: u32,
}

/// One of every controller.
const fn of_all(identifier: u8) -> Feature {
    some(identifier, everywhere, OF_CONTROLLER)
}

/// One of some controllers, and what it concerns.
const fn some(identifier: u8, offered: Offered, scope: u32) -> Feature {
    Feature { identifier, offered, effects: SUPPORTED | scope }
}

/// Every feature.
static FEATURES: [Feature; 22] = [
    of_all(feature::ARBITRATION),
    of_all(feature::POWER_MANAGEMENT),
    of_all(feature::TEMPERATURE_THRESHOLD),
    some(feature::ERROR_RECOVERY, everywhere, OF_NAMESPACE),
    some(feature::VOLATILE_WRITE_CACHE, |config, _| config.volatile_write_cache, OF_CONTROLLER),
    of_all(feature::NUMBER_OF_QUEUES),
    // Interrupts are PCIe's.
    some(feature::INTERRUPT_COALESCING, on_pcie, OF_CONTROLLER),
    some(feature::INTERRUPT_VECTOR_CONFIGURATION, on_pcie, OF_CONTROLLER),
    of_all(feature::WRITE_ATOMICITY),
    of_all(feature::ASYNCHRONOUS_EVENTS),
    some(feature::AUTONOMOUS_TRANSITIONS, with_power_states, OF_CONTROLLER),
    of_all(feature::TIMESTAMP),
    some(feature::KEEP_ALIVE_TIMER, on_fabrics, OF_CONTROLLER),
    some(feature::GROUP_EVENTS, of_groups, OF_ENDURANCE_GROUP),
    some(feature::COMMAND_SET_PROFILE, of_command_sets, OF_CONTROLLER),
    some(feature::KEY_VALUE, of_pairs, OF_NAMESPACE),
    some(placement::PLACEMENT, of_placement, OF_ENDURANCE_GROUP),
    some(placement::EVENTS, of_placement, OF_NAMESPACE),
    of_all(feature::HOST_BEHAVIOUR),
    some(feature::HOST_IDENTIFIER, where_shared, OF_CONTROLLER),
    some(feature::RESERVATION_MASK, where_shared, OF_NAMESPACE),
    some(feature::RESERVATION_PERSISTENCE, where_shared, OF_NAMESPACE),
];

/// The features that a controller has.
pub fn offered_features(
    config: &Config,
    transport: Transport,
) -> impl Iterator<Item = &'static Feature> + '_ {
    FEATURES.iter().filter(move |feature| (feature.offered)(config, transport))
}

/// The feature of an identifier.
///
/// # Errors
/// The controller has none.
fn find(controller: &ControllerMut, identifier: u8) -> Result<&'static Feature, Failure> {
    let ControllerMut { host, io, .. } = controller;
    let mut offered = offered_features(&io.config, host.transport);
    let found = offered.find(|feature| feature.identifier == identifier);
    found.ok_or(StatusCode::InvalidField.at(location::CDW10))
}

/// Select, in Dword 10 of Get Features.
mod select {
    pub const CURRENT: u32 = 0;
    pub const DEFAULT: u32 = 1;
    pub const SAVED: u32 = 2;
    pub const CAPABILITIES: u32 = 3;
}

/// Save, in Dword 10 of Set Features: only Flexible Data Placement is saved, which always is.
const SAVE: u32 = 1 << 31;
/// Size of the Timestamp feature's data in bytes (section 5.21.1.14).
const TIMESTAMP: usize = 8;

pub const SET_FEATURES: AdminCommand = AdminCommand::plain(0x09, set_features);

pub const GET_FEATURES: AdminCommand = AdminCommand::plain(0x0a, get_features);

fn get_features(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let identifier = command.cdw10.byte(0);
    let known = find(controller, identifier)?;
    if is_of_placement(identifier) {
        return match command.cdw10 >> 8 & 7 {
            select::CURRENT => get_placement_feature(controller.io, memory, command, false),
            select::DEFAULT | select::SAVED => {
                get_placement_feature(controller.io, memory, command, true)
            }
            select::CAPABILITIES => Ok(Outcome::Done(known.capabilities().into())),
            _ => Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
        };
    }
    if matches!(identifier, feature::POWER_MANAGEMENT | feature::AUTONOMOUS_TRANSITIONS) {
        return get_power(controller.io, memory, command, known);
    }
    let defaults = Features::new();
    let features = match command.cdw10 >> 8 & 7 {
        select::CURRENT => controller.features(),
        // No feature is saveable, so the saved values are the defaults.
        select::DEFAULT | select::SAVED => &defaults,
        select::CAPABILITIES => {
            feature(controller, controller.features(), identifier, command)?;
            return Ok(Outcome::Done(known.capabilities().into()));
        }
        _ => return Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
    };
    let value = feature(controller, features, identifier, command)?;
    let (retries, extended_formats) = (features.retries, features.extended_formats);
    if identifier == feature::TIMESTAMP {
        let data = features.timestamp_at(controller.io.now).to_le_bytes();
        controller.io.send(memory, command, &data)?;
    }
    if identifier == feature::HOST_IDENTIFIER {
        check_identifier_format(command)?;
        let ControllerMut { host, io, .. } = controller;
        let named = || io.access.reservations.host_of(host.id).map_or([0; 16], HostId::identifier);
        let id = host.connected.as_ref().map_or_else(named, |host| host.id);
        controller.io.send(memory, command, &id)?;
    }
    if identifier == feature::HOST_BEHAVIOUR {
        let (acre, lbafee) = (retries.into(), extended_formats.into());
        let data = HostBehavior { acre, lbafee, ..Default::default() };
        controller.io.send(memory, command, data.as_bytes())?;
    }
    Ok(Outcome::Done(value.into()))
}

/// Power Management, and Autonomous Power State Transition (NVMe 2.0 sections 5.27.1.2 and
/// 5.27.1.8).
fn get_power(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    known: &Feature,
) -> Result<Outcome, Failure> {
    let busy = !io.commands.slots.requests.is_empty();
    let (value, (table, autonomous)) = match command.cdw10 >> 8 & 7 {
        select::CURRENT => (io.power.value(io.now, busy), io.power.transitions()),
        select::DEFAULT | select::SAVED => (0, ([0; power::TABLE], false)),
        select::CAPABILITIES => return Ok(Outcome::Done(known.capabilities().into())),
        _ => return Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
    };
    if known.identifier == feature::POWER_MANAGEMENT {
        return Ok(Outcome::Done(value.into()));
    }
    io.send(memory, command, &table)?;
    Ok(Outcome::Done(autonomous.into()))
}

/// The value of a feature in Dword 0 of the completion.
fn feature(
    controller: &ControllerMut,
    features: &Features,
    identifier: u8,
    command: &SubmissionEntry,
) -> Result<u32, Failure> {
    let queues = u32::from(controller.io.config.queue_pairs - 1);
    Ok(match identifier {
        feature::ARBITRATION => features.arbitration,
        // Their values are of no interest to a command that sets them.
        feature::POWER_MANAGEMENT | feature::AUTONOMOUS_TRANSITIONS => 0,
        feature::TEMPERATURE_THRESHOLD => match threshold(command.cdw11)? {
            Threshold::Over => features.over_temperature.into(),
            Threshold::Under => features.under_temperature.into(),
        },
        feature::ERROR_RECOVERY => {
            let index = namespace_index(controller, command)?;
            features.error_recovery(index).into()
        }
        // It can only be set for all namespaces.
        feature::KEY_VALUE if command.nsid == ALL_NAMESPACES => 0,
        feature::KEY_VALUE => {
            check_pairs(controller, command)?;
            features.reports_missing_keys(command.nsid).into()
        }
        feature::VOLATILE_WRITE_CACHE => features.write_cache.into(),
        feature::NUMBER_OF_QUEUES => queues << 16 | queues,
        feature::INTERRUPT_COALESCING => features.coalescing,
        feature::INTERRUPT_VECTOR_CONFIGURATION => {
            let vector = command.cdw11.low();
            let disabled = controller.host.interrupts.coalescing_disabled(vector);
            let disabled = disabled.ok_or(StatusCode::InvalidField.at(location::CDW11))?;
            u32::from(vector) | u32::from(disabled) << 16
        }
        feature::WRITE_ATOMICITY => features.write_atomicity,
        feature::ASYNCHRONOUS_EVENTS => features.events,
        feature::TIMESTAMP | feature::HOST_BEHAVIOUR | feature::HOST_IDENTIFIER => 0,
        feature::RESERVATION_MASK => {
            let nsid = reserved_namespace(controller, command)?;
            controller.host.reservations.mask(nsid)
        }
        // Reservations end with the power.
        feature::RESERVATION_PERSISTENCE => {
            reserved_namespace(controller, command)?;
            0
        }
        feature::KEEP_ALIVE_TIMER => controller.host.keep_alive.timeout(),
        feature::GROUP_EVENTS => {
            let group = event_group(controller, command)?;
            u32::from(features.group_events(group)) << 16 | u32::from(group)
        }
        // There is one combination.
        feature::COMMAND_SET_PROFILE => 0,
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    })
}

fn set_features(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let identifier = command.cdw10.byte(0);
    // The first question is that the feature exists.
    let known = find(controller, identifier)?;
    if is_of_placement(identifier) {
        if command.cdw10 & SAVE != 0 && !known.is_saved() {
            return Err(StatusCode::FeatureNotSaveable.at(location::CDW10));
        }
        return set_placement_feature(controller.io, memory, command);
    }
    let current = feature(controller, controller.features(), identifier, command)?;
    if command.cdw10 & SAVE != 0 {
        return Err(StatusCode::FeatureNotSaveable.at(location::CDW10));
    }
    if !known.is_of_namespace() && !matches!(command.nsid, 0 | ALL_NAMESPACES) {
        return Err(StatusCode::FeatureNotNamespaceSpecific.at(location::NSID));
    }
    set_feature(controller, memory, command, identifier)?;
    if identifier == feature::VOLATILE_WRITE_CACHE
        && !controller.io.has_write_cache(command.controller)
    {
        // The cache is now disabled, and may hold no data: flush it.
        if !controller.io.flushes_nothing(command.controller)
            && controller.io.commands.slots.requests.has_room(1)
        {
            let io = &mut *controller.io;
            if io.endurance.parts().is_empty() {
                io.request_flush(0, 1, Owner::Command(command.id()));
                return Ok(Outcome::Pending);
            }
            // The flash of each namespace.
            let nsids: Vec<u32> = io.namespaces.nsids_on_drive().collect();
            if nsids.is_empty() || !io.commands.slots.requests.has_room(nsids.len()) {
                return Ok(Outcome::Done(0));
            }
            let group = io.commands.slots.insert_group(command.id(), nsids.len(), false);
            for (part, nsid) in (0..).zip(nsids) {
                io.request_flush(0, nsid, Owner::Part { group, part });
            }
            return Ok(Outcome::Pending);
        }
    }
    // All queues are given, whatever was asked for.
    let granted = if identifier == feature::NUMBER_OF_QUEUES { current } else { 0 };
    Ok(Outcome::Done(granted.into()))
}

/// Sets a supported feature, for the controller or the namespaces that it concerns.
fn set_feature(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    identifier: u8,
) -> Result<(), Failure> {
    let value = command.cdw11;
    let invalid = StatusCode::InvalidField.at(location::CDW11);
    match identifier {
        feature::ARBITRATION => controller.features_mut().arbitration = value & 0xffff_ff07,
        feature::POWER_MANAGEMENT => {
            let Io { power, commands, now, .. } = &mut *controller.io;
            if !power.set(*now, !commands.slots.requests.is_empty(), value) {
                return Err(invalid);
            }
        }
        feature::AUTONOMOUS_TRANSITIONS => {
            let mut table = [0; power::TABLE];
            controller.io.receive(memory, command, &mut table)?;
            let Io { power, now, .. } = &mut *controller.io;
            if !power.set_transitions(*now, &table, value & 1 != 0) {
                return Err(StatusCode::InvalidField.into());
            }
        }
        feature::TEMPERATURE_THRESHOLD => {
            match threshold(value)? {
                Threshold::Over => controller.features_mut().over_temperature = value.low(),
                Threshold::Under => controller.features_mut().under_temperature = value.low(),
            }
            controller.check_warnings(memory);
        }
        feature::ERROR_RECOVERY => set_error_recovery(controller, command)?,
        feature::KEY_VALUE => set_missing_keys(controller, command)?,
        feature::VOLATILE_WRITE_CACHE => controller.features_mut().write_cache = value & 1 != 0,
        feature::NUMBER_OF_QUEUES => {
            // Section 5.21.1.7: once, before there are I/O queues.
            if value & 0xffff == 0xffff || value >> 16 == 0xffff {
                return Err(invalid);
            }
            if controller.host.queues.has_io() {
                return Err(StatusCode::CommandSequenceError.into());
            }
        }
        feature::INTERRUPT_COALESCING => {
            controller.features_mut().coalescing = value & 0xffff;
            controller.host.interrupts.set_coalescing(value & 0xffff);
        }
        feature::INTERRUPT_VECTOR_CONFIGURATION => {
            controller.host.interrupts.disable_coalescing(value.low(), value & 1 << 16 != 0);
        }
        feature::WRITE_ATOMICITY => controller.features_mut().write_atomicity = value & 1,
        feature::ASYNCHRONOUS_EVENTS => {
            // Warnings, and the notices that OAES offers.
            let notices = requestable(&controller.io.config, controller.host.transport);
            controller.features_mut().events = value & (0xff | notices);
            controller.check_warnings(memory);
        }
        feature::RESERVATION_MASK if command.nsid == ALL_NAMESPACES => {
            for nsid in 1..=controller.io.namespaces.count() {
                controller.host.reservations.set_mask(nsid, value);
            }
        }
        feature::RESERVATION_MASK => {
            controller.host.reservations.set_mask(command.nsid, value);
        }
        feature::KEEP_ALIVE_TIMER => {
            controller.host.keep_alive = KeepAlive::new(value, controller.host.now);
        }
        feature::TIMESTAMP => {
            let mut data = [0; TIMESTAMP];
            controller.io.receive(memory, command, &mut data)?;
            let now = controller.io.now;
            let before = controller.features().timestamp_at(now);
            controller.features_mut().set_timestamp(u64::from_le_bytes(data), now);
            let ControllerMut { io, host, .. } = controller;
            let since_reset = now.saturating_sub(host.enabled_at) / MILLISECOND;
            io.log_event(host.id, &Occurrence::Timestamp { before, since_reset });
        }
        feature::HOST_IDENTIFIER => set_host_identifier(controller, memory, command)?,
        feature::RESERVATION_PERSISTENCE if value & 1 != 0 => return Err(invalid),
        feature::RESERVATION_PERSISTENCE => {}
        feature::HOST_BEHAVIOUR => {
            let mut data = HostBehavior::default();
            controller.io.receive(memory, command, data.as_mut_bytes())?;
            // Retries, and extended formats where those are; the rest is reserved.
            let lbafee = controller.io.config.offers_metadata().into();
            let most = HostBehavior { acre: 1, lbafee, ..Default::default() };
            if data.as_bytes().iter().zip(most.as_bytes()).any(|(byte, most)| byte > most) {
                return Err(StatusCode::InvalidField.into());
            }
            let features = controller.features_mut();
            (features.retries, features.extended_formats) = (data.acre == 1, data.lbafee == 1);
        }
        feature::GROUP_EVENTS => set_group_events(controller, memory, command)?,
        feature::COMMAND_SET_PROFILE if value & 0x1ff != 0 => {
            return Err(StatusCode::CommandSetCombinationRejected.at(location::CDW11));
        }
        feature::COMMAND_SET_PROFILE => {}
        _ => return Err(StatusCode::FeatureNotChangeable.at(location::CDW10)),
    }
    Ok(())
}

/// Which namespaces an NSID stands for: the first of them.
fn namespace_index(
    controller: &ControllerMut,
    command: &SubmissionEntry,
) -> Result<usize, Failure> {
    match command.nsid {
        // Hosts before revision 1.4 took this feature for the controller's.
        0 | ALL_NAMESPACES => Ok(0),
        nsid => controller.io.namespaces.existing(nsid).map(|_| nsid as usize - 1),
    }
}

/// Returns the existing endurance group whose events are meant.
fn event_group(controller: &ControllerMut, command: &SubmissionEntry) -> Result<u16, Failure> {
    let group = controller.io.endurance.group(command.cdw11.low());
    group.map(|group| group.id).ok_or(StatusCode::InvalidField.at(location::CDW11))
}

/// Which critical warnings of an endurance group are events: those that hold already are at once.
fn set_group_events(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<(), Failure> {
    let group = event_group(controller, command)?;
    let warnings = command.cdw11.byte(2);
    if warnings & !GROUP_WARNINGS != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW11 + 2));
    }
    let before = controller.features().group_events(group);
    controller.features_mut().set_group_events(group, warnings);
    let ControllerMut { host, io, .. } = controller;
    if io.endurance.warnings(group) & warnings & !before != 0 {
        host.group_event(memory, group, io.features.of(host.id));
    }
    Ok(())
}

/// The namespace of a mask of notices; of all namespaces the first.
fn reserved_namespace(
    controller: &ControllerMut,
    command: &SubmissionEntry,
) -> Result<u32, Failure> {
    match command.nsid {
        ALL_NAMESPACES => Ok(1),
        nsid => controller.io.namespaces.existing(nsid).map(|_| nsid),
    }
}

/// Host Identifiers are of 128 bits, hence with Enable Extended Host Identifier only (section
/// 5.21.1.25).
fn check_identifier_format(command: &SubmissionEntry) -> Result<(), Failure> {
    match command.cdw11 & 1 {
        0 => Err(StatusCode::HostIdentifierFormat.at(location::CDW11)),
        _ => Ok(()),
    }
}

/// The host names itself: once, and before it registers for reservations. On a fabric it has done so
/// by Connect.
fn set_host_identifier(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<(), Failure> {
    let ControllerMut { host, io, .. } = controller;
    if host.connected.is_some() {
        return Err(StatusCode::CommandSequenceError.into());
    }
    check_identifier_format(command)?;
    let mut wanted = [0; 16];
    io.receive(memory, command, &mut wanted)?;
    let unnamed = HostId::Unnamed(host.id);
    let now = io.access.reservations.host_of(host.id).unwrap_or(unnamed);
    if wanted == now.identifier() {
        return Ok(());
    }
    if now != unnamed || io.access.reservations.is_registered(unnamed) {
        return Err(StatusCode::CommandSequenceError.into());
    }
    io.access.reservations.set_host(host.id, Some(HostId::Named(wanted)));
    Ok(())
}

fn set_error_recovery(
    controller: &mut ControllerMut,
    command: &SubmissionEntry,
) -> Result<(), Failure> {
    // Deallocated or Unwritten Logical Block Error Enable: not offered.
    if command.cdw11 & 1 << 16 != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW11 + 2));
    }
    let index = namespace_index(controller, command)?;
    let limit = command.cdw11.low();
    let namespaces = match command.nsid {
        0 | ALL_NAMESPACES => 0..MAX_NAMESPACES,
        _ => index..index + 1,
    };
    controller.features_mut().set_error_recovery(namespaces, limit);
    Ok(())
}

/// Checks that a namespace has pairs.
fn check_pairs(controller: &ControllerMut, command: &SubmissionEntry) -> Result<(), Failure> {
    match controller.io.namespaces.existing(command.nsid)?.key_value {
        Some(_) => Ok(()),
        None => Err(StatusCode::InvalidCommandSet.at(location::NSID)),
    }
}

/// Error on Delete of Non-Existent KV Key, of a namespace or of all.
fn set_missing_keys(
    controller: &mut ControllerMut,
    command: &SubmissionEntry,
) -> Result<(), Failure> {
    let nsids = match command.nsid {
        ALL_NAMESPACES => 1..=MAX_NSID,
        nsid => {
            check_pairs(controller, command)?;
            nsid..=nsid
        }
    };
    let reports = command.cdw11 & 1 != 0;
    nsids.for_each(|nsid| controller.features_mut().set_missing_keys(nsid, reports));
    Ok(())
}

impl Feature {
    fn is_of_namespace(&self) -> bool {
        self.effects & OF_NAMESPACE != 0
    }

    /// Returns whether its value outlasts the power, whether or not a host asks for that.
    fn is_saved(&self) -> bool {
        self.identifier == placement::PLACEMENT
    }

    /// Supported capabilities, returned for Select = 3: bit 0 saveable, bit 1 namespace specific, bit 2
    /// changeable.
    fn capabilities(&self) -> u32 {
        const SAVEABLE: u32 = 1;
        const NAMESPACE_SPECIFIC: u32 = 1 << 1;
        const CHANGEABLE: u32 = 1 << 2;
        let saveable = if self.is_saved() { SAVEABLE } else { 0 };
        CHANGEABLE | saveable | if self.is_of_namespace() { NAMESPACE_SPECIFIC } else { 0 }
    }
}

fn is_of_placement(identifier: u8) -> bool {
    matches!(identifier, placement::PLACEMENT | placement::EVENTS)
}

enum Threshold {
    Over,
    Under,
}

/// Returns the threshold that Dword 11 of the Temperature Threshold feature names (section
/// 5.21.1.4): there is the composite temperature only (sensor 0, or 15 for all).
fn threshold(cdw11: u32) -> Result<Threshold, Failure> {
    let sensor = cdw11 >> 16 & 0xf;
    match (sensor, cdw11 >> 20 & 3) {
        (0 | 0xf, 0) => Ok(Threshold::Over),
        (0 | 0xf, 1) => Ok(Threshold::Under),
        _ => Err(StatusCode::InvalidField.at(location::CDW11 + 2)),
    }
}
