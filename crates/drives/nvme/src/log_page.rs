//! Log page identifiers (NVMe 1.4 section 5.14.1).

pub const ERROR_INFORMATION: u8 = 0x01;
pub const HEALTH: u8 = 0x02;
pub const FIRMWARE_SLOTS: u8 = 0x03;
pub const CHANGED_NAMESPACES: u8 = 0x04;
pub const COMMANDS_AND_EFFECTS: u8 = 0x05;
/// Endurance Group Information (section 5.14.1.9).
pub const ENDURANCE_GROUP: u8 = 0x09;
/// Asymmetric Namespace Access (section 5.14.1.12).
pub const ANA: u8 = 0x0c;
/// Of Flexible Data Placement (NVMe TP4146).
pub const FDP_CONFIGURATIONS: u8 = 0x20;
pub const FDP_HANDLE_USAGE: u8 = 0x21;
pub const FDP_STATISTICS: u8 = 0x22;
pub const FDP_EVENTS: u8 = 0x23;
/// NVMe over Fabrics 1.1 section 5.3.
pub const DISCOVERY: u8 = 0x70;
/// Reservation Notification (section 5.14.1.9.1).
pub const RESERVATIONS: u8 = 0x80;
/// ZNS 1.1 section 4.1.4.2.
pub const CHANGED_ZONES: u8 = 0xbf;
/// OCSSD 2.0 section 3.2.
pub const CHUNK_INFORMATION: u8 = 0xca;
/// OCSSD 2.0 section 3.3.
pub const CHUNK_NOTIFICATIONS: u8 = 0xd0;
