//! The supported log pages (NVMe 1.4 section 5.14.1).
//!
//! A new page is an identifier, a line in [`PAGES`], and its content in
//! [`get_log_page`](crate::admin). The log of supported pages follows from it.

use crate::config::Config;
use crate::transport::Transport;

/// Supported Log Pages (NVMe 2.0 section 5.16.1.1).
pub const SUPPORTED_PAGES: u8 = 0x00;
pub const ERROR_INFORMATION: u8 = 0x01;
pub const HEALTH: u8 = 0x02;
pub const FIRMWARE_SLOTS: u8 = 0x03;
pub const CHANGED_NAMESPACES: u8 = 0x04;
pub const COMMANDS_AND_EFFECTS: u8 = 0x05;
pub const SELF_TEST: u8 = 0x06;
/// Telemetry Host-Initiated, and Controller-Initiated (NVMe 2.0 sections 5.16.1.8 and 5.16.1.9).
pub const TELEMETRY: u8 = 0x07;
pub const TELEMETRY_OF_CONTROLLER: u8 = 0x08;
/// Endurance Group Information (section 5.14.1.9).
pub const ENDURANCE_GROUP: u8 = 0x09;
/// Asymmetric Namespace Access (section 5.14.1.12).
pub const ANA: u8 = 0x0c;
/// Persistent Event Log (NVMe 2.0 section 5.16.1.14).
pub const PERSISTENT_EVENTS: u8 = 0x0d;
/// Endurance Group Event Aggregate (NVMe 2.0 section 5.16.1.16).
pub const GROUP_EVENTS: u8 = 0x0f;
/// LBA Status Information (NVM Command Set 1.0 section 4.1.4.1).
pub const LBA_STATUS: u8 = 0x0e;
/// Feature Identifiers Supported and Effects (NVMe 2.0 section 5.16.1.17).
pub const FEATURES_AND_EFFECTS: u8 = 0x12;
/// NVMe-MI Commands Supported and Effects (NVMe 2.0 section 5.16.1.18).
pub const MANAGEMENT_COMMANDS: u8 = 0x13;
/// Flexible Data Placement (NVMe TP4146).
pub const FDP_CONFIGURATIONS: u8 = 0x20;
pub const FDP_HANDLE_USAGE: u8 = 0x21;
pub const FDP_STATISTICS: u8 = 0x22;
pub const FDP_EVENTS: u8 = 0x23;
/// NVMe over Fabrics 1.1 section 5.3.
pub const DISCOVERY: u8 = 0x70;
/// Reservation Notification (section 5.14.1.16.1).
pub const RESERVATIONS: u8 = 0x80;
/// Sanitize Status (NVMe 2.0 section 5.16.1.25).
pub const SANITIZE: u8 = 0x81;
/// ZNS 1.1 section 4.1.4.2.
pub const CHANGED_ZONES: u8 = 0xbf;
/// OCSSD 2.0 section 3.2.
pub const CHUNK_INFORMATION: u8 = 0xca;
/// OCSSD 2.0 section 3.3.
pub const CHUNK_NOTIFICATIONS: u8 = 0xd0;

/// Which drives have something, on which transports.
pub type Offered = fn(&Config, Transport) -> bool;

/// Offered by every I/O controller.
pub fn everywhere(_config: &Config, _transport: Transport) -> bool {
    true
}

/// Only those on a fabric.
pub fn on_fabrics(_config: &Config, transport: Transport) -> bool {
    transport.has_capsules()
}

/// Only those of drives that can have several hosts.
pub fn where_shared(_config: &Config, transport: Transport) -> bool {
    transport.is_shared()
}

/// Only those on PCIe.
pub fn on_pcie(_config: &Config, transport: Transport) -> bool {
    !transport.has_capsules()
}

/// Only drives with zones.
fn of_zones(config: &Config, _transport: Transport) -> bool {
    config.has_zones()
}

/// Only drives with key-value namespaces.
pub fn of_pairs(config: &Config, _transport: Transport) -> bool {
    config.has_pairs()
}

/// Only drives with several command sets.
pub fn of_command_sets(config: &Config, _transport: Transport) -> bool {
    config.has_command_sets()
}

/// Only drives with Flexible Data Placement.
pub fn of_placement(config: &Config, _transport: Transport) -> bool {
    config.has_fdp()
}

/// Only drives with endurance groups.
pub fn of_groups(config: &Config, _transport: Transport) -> bool {
    config.has_groups()
}

/// Only drives that are not Open-Channel ones.
fn without_chunks(config: &Config, _transport: Transport) -> bool {
    !config.has_chunks()
}

/// Only drives with several power states, which have one controller.
pub fn with_power_states(config: &Config, transport: Transport) -> bool {
    config.power_states.is_choice() && !transport.is_shared()
}

/// Only Open-Channel drives.
fn of_chunks(config: &Config, _transport: Transport) -> bool {
    config.has_chunks()
}

/// Every page of a controller for I/O, and which controllers have it.
const PAGES: [(u8, Offered); 25] = [
    (SUPPORTED_PAGES, everywhere),
    (ERROR_INFORMATION, everywhere),
    (HEALTH, everywhere),
    (FIRMWARE_SLOTS, everywhere),
    (CHANGED_NAMESPACES, everywhere),
    (COMMANDS_AND_EFFECTS, everywhere),
    (SELF_TEST, everywhere),
    (TELEMETRY, everywhere),
    (TELEMETRY_OF_CONTROLLER, everywhere),
    (ENDURANCE_GROUP, of_groups),
    (GROUP_EVENTS, of_groups),
    (ANA, where_shared),
    (PERSISTENT_EVENTS, everywhere),
    (LBA_STATUS, without_chunks),
    (FEATURES_AND_EFFECTS, everywhere),
    (MANAGEMENT_COMMANDS, everywhere),
    (FDP_CONFIGURATIONS, of_placement),
    (FDP_HANDLE_USAGE, of_placement),
    (FDP_STATISTICS, of_placement),
    (FDP_EVENTS, of_placement),
    (RESERVATIONS, where_shared),
    (SANITIZE, without_chunks),
    (CHANGED_ZONES, of_zones),
    (CHUNK_INFORMATION, of_chunks),
    (CHUNK_NOTIFICATIONS, of_chunks),
];

/// The pages that a controller has.
pub fn offered(config: &Config, transport: Transport) -> impl Iterator<Item = u8> + '_ {
    let has = move |(_, offered): &&(u8, Offered)| offered(config, transport);
    PAGES.iter().filter(has).map(|(identifier, _)| *identifier)
}
