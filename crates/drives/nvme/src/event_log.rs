//! The Persistent Event Log (NVMe 2.0 section 5.16.1.14): what has happened to the drive, the newest
//! event first. It has a bounded size: the oldest events give way.
//!
//! It is kept without power from the first event on that is more than a power-on, a reset, a new
//! timestamp, a snapshot of counters, an error or the telemetry of one: a medium that fails, as one on
//! a full disk, may have no room for it.

use std::collections::{BTreeMap, VecDeque};

use crate::controller_id::ControllerId;
use crate::firmware::Revision;

/// PELS: the maximum size of the log, in units of 64 KiB.
pub const SIZE: u32 = 1;
/// Maximum of all events in bytes.
const MAX_BYTES: usize = (SIZE as usize * (64 << 10)) - HEADER;
/// Size of the log's header, and of an event's (figures 222 and 224), in bytes.
pub const HEADER: usize = 512;
const EVENT_HEADER: usize = 24;
/// Errors of the media and the controller that are logged in one power cycle; later ones are left
/// to the counters, so that they do not drive out everything else.
const MAX_ERRORS: u32 = 64;

/// Event types (figure 223).
mod kind {
    pub const SMART: u8 = 0x01;
    pub const FIRMWARE_COMMIT: u8 = 0x02;
    pub const TIMESTAMP: u8 = 0x03;
    pub const POWER_ON_OR_RESET: u8 = 0x04;
    pub const HARDWARE_ERROR: u8 = 0x05;
    pub const CHANGE_NAMESPACE: u8 = 0x06;
    pub const FORMAT_START: u8 = 0x07;
    pub const FORMAT_COMPLETION: u8 = 0x08;
    pub const SANITIZE_START: u8 = 0x09;
    pub const SANITIZE_COMPLETION: u8 = 0x0a;
    pub const TELEMETRY: u8 = 0x0c;
    pub const THERMAL: u8 = 0x0d;

    /// All kinds of logged events.
    pub const ALL: [u8; 12] = [
        SMART,
        FIRMWARE_COMMIT,
        TIMESTAMP,
        POWER_ON_OR_RESET,
        HARDWARE_ERROR,
        CHANGE_NAMESPACE,
        FORMAT_START,
        FORMAT_COMPLETION,
        SANITIZE_START,
        SANITIZE_COMPLETION,
        TELEMETRY,
        THERMAL,
    ];
}

/// Codes of hardware errors (figure 230).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HardwareError {
    /// Critical Warning of the SMART log has new bits.
    CriticalWarning(u8),
    /// The controller has failed (`CSTS.CFS`).
    ControllerFatal,
    /// A request failed: its status, and the first block that is known to be concerned.
    Media { status: u16, nsid: u32, lba: u64 },
}

/// A thing that has happened to the drive.
#[derive(Debug, Clone, Copy)]
pub enum Occurrence<'a> {
    /// The SMART log as it is now.
    Smart(&'a [u8]),
    /// A Firmware Commit, with the status of its completion.
    FirmwareCommit { before: Revision, after: Revision, action: u8, slot: u8, status: u16 },
    /// The host has set the time: the one before, and milliseconds since the last reset.
    Timestamp { before: u64, since_reset: u64 },
    /// A controller was enabled, after the power came or it was reset.
    PowerOnOrReset {
        firmware: Revision,
        activated: bool,
        /// Bit 0: a format was under way; bit 1: a sanitize operation.
        under_way: u8,
        power_cycles: u32,
        /// Milliseconds.
        powered_on: u64,
    },
    /// An error of the drive.
    Hardware(HardwareError),
    /// Namespace Management, with the namespace's Identify data of section 5.23.
    Namespace { action: u32, nsid: u32, blocks: u64, capacity: u64, format: u8, shared: bool },
    /// Format NVM begins: Dword 10, and FNA of Identify.
    FormatStart { nsid: u32, abilities: u8, dword10: u32 },
    /// It has ended, with the status of its completion.
    FormatCompletion { nsid: u32, status: u16 },
    /// Sanitize begins: SANICAP, and Dwords 10 and 11.
    SanitizeStart { capabilities: u32, dwords: [u32; 2] },
    /// It has ended: progress and status of the log.
    SanitizeCompletion { progress: u16, status: u16 },
    /// Telemetry was captured: the first 512 bytes of its log.
    Telemetry(&'a [u8]),
    /// The temperature is above a threshold by so many degrees: 1: that of warnings, 2: the critical
    /// one.
    Thermal { degrees: u8, threshold: u8 },
}

impl Occurrence<'_> {
    fn kind(&self) -> u8 {
        match self {
            Self::Smart(_) => kind::SMART,
            Self::FirmwareCommit { .. } => kind::FIRMWARE_COMMIT,
            Self::Timestamp { .. } => kind::TIMESTAMP,
            Self::PowerOnOrReset { .. } => kind::POWER_ON_OR_RESET,
            Self::Hardware(_) => kind::HARDWARE_ERROR,
            Self::Namespace { .. } => kind::CHANGE_NAMESPACE,
            Self::FormatStart { .. } => kind::FORMAT_START,
            Self::FormatCompletion { .. } => kind::FORMAT_COMPLETION,
            Self::SanitizeStart { .. } => kind::SANITIZE_START,
            Self::SanitizeCompletion { .. } => kind::SANITIZE_COMPLETION,
            Self::Telemetry(_) => kind::TELEMETRY,
            Self::Thermal { .. } => kind::THERMAL,
        }
    }

    /// Its data, as the figures of section 5.16.1.14.1 lay it out. `controller` and `timestamp`:
    /// of the event.
    fn put(&self, out: &mut Vec<u8>, controller: ControllerId, timestamp: u64) {
        match *self {
            Self::Smart(bytes) | Self::Telemetry(bytes) => out.extend(bytes),
            Self::FirmwareCommit { before, after, action, slot, status } => {
                let [code, kind] = status.to_le_bytes();
                out.extend(before);
                out.extend(after);
                out.extend([action, slot, kind & 7, code, 0, 0]);
            }
            Self::Timestamp { before, since_reset } => {
                out.extend([before, since_reset].map(u64::to_le_bytes).concat());
            }
            Self::PowerOnOrReset { firmware, activated, under_way, power_cycles, powered_on } => {
                out.extend(firmware);
                out.extend(controller.0.to_le_bytes());
                out.extend([u8::from(activated), under_way]);
                out.extend([0; 12]);
                out.extend(power_cycles.to_le_bytes());
                out.extend([powered_on, timestamp].map(u64::to_le_bytes).concat());
            }
            Self::Hardware(error) => {
                let code: u16 = match error {
                    HardwareError::CriticalWarning(_) => 0x06,
                    HardwareError::ControllerFatal => 0x09,
                    HardwareError::Media { .. } => 0x0a,
                };
                out.extend(code.to_le_bytes());
                out.extend([0; 2]);
                match error {
                    HardwareError::CriticalWarning(bits) => out.extend([bits, 0, 0, 0]),
                    HardwareError::ControllerFatal => {}
                    HardwareError::Media { status, nsid, lba } => {
                        out.extend(status.to_le_bytes());
                        out.extend([0; 2]);
                        out.extend(nsid.to_le_bytes());
                        out.extend(lba.to_le_bytes());
                    }
                }
            }
            Self::Namespace { action, nsid, blocks, capacity, format, shared } => {
                out.extend(action.to_le_bytes());
                out.extend([0; 4]);
                out.extend(blocks.to_le_bytes());
                out.extend([0; 8]);
                out.extend(capacity.to_le_bytes());
                out.extend([format, 0, u8::from(shared)]);
                out.extend([0; 9]);
                out.extend(nsid.to_le_bytes());
            }
            Self::FormatStart { nsid, abilities, dword10 } => {
                out.extend(nsid.to_le_bytes());
                out.extend([abilities, 0, 0, 0]);
                out.extend(dword10.to_le_bytes());
            }
            Self::FormatCompletion { nsid, status } => {
                out.extend(nsid.to_le_bytes());
                // No progress; the failure, if any; no more information.
                out.extend([0, u8::from(status != 0), 0, 0]);
                out.extend(u32::from(status << 1).to_le_bytes());
            }
            Self::SanitizeStart { capabilities, dwords: [dword10, dword11] } => {
                out.extend([capabilities, dword10, dword11].map(u32::to_le_bytes).concat());
            }
            Self::SanitizeCompletion { progress, status } => {
                out.extend([progress, status, 0, 0].map(u16::to_le_bytes).concat());
            }
            Self::Thermal { degrees, threshold } => out.extend([degrees, threshold]),
        }
    }
}

/// The events, and the reports that hosts read.
#[derive(Debug, Default)]
pub struct EventLog {
    // Each with its header, the newest last.
    events: VecDeque<Vec<u8>>,
    bytes: usize,
    // True if any of them is to be kept without power.
    is_kept: bool,
    // Number of changes of what is kept.
    changes: u64,
    // Errors of this power cycle.
    errors: u32,
    has_counters: bool,
    // By the controllers that have established one: as the log was then.
    contexts: BTreeMap<ControllerId, Vec<u8>>,
    // Contexts ever established.
    generation: u16,
}

impl EventLog {
    /// Something has happened.
    pub fn add(&mut self, controller: ControllerId, timestamp: u64, occurrence: &Occurrence) {
        if matches!(occurrence, Occurrence::Hardware(_)) {
            if self.errors == MAX_ERRORS {
                return;
            }
            self.errors += 1;
        }
        let kind = occurrence.kind();
        let mut event = vec![0; EVENT_HEADER];
        // The event's revision; the length of the header behind this field.
        (event[0], event[1], event[2]) = (kind, 1, EVENT_HEADER as u8 - 3);
        event[4..6].copy_from_slice(&controller.0.to_le_bytes());
        event[6..14].copy_from_slice(&timestamp.to_le_bytes());
        occurrence.put(&mut event, controller, timestamp);
        let length = (event.len() - EVENT_HEADER) as u16;
        event[22..24].copy_from_slice(&length.to_le_bytes());
        self.push(event);
        use kind::{HARDWARE_ERROR, POWER_ON_OR_RESET, SMART, TELEMETRY, TIMESTAMP};
        let ordinary = [SMART, TIMESTAMP, POWER_ON_OR_RESET, HARDWARE_ERROR, TELEMETRY];
        self.is_kept |= !ordinary.contains(&kind);
        self.changes += u64::from(self.is_kept);
    }

    fn push(&mut self, event: Vec<u8>) {
        self.bytes += event.len();
        self.events.push_back(event);
        while self.bytes > MAX_BYTES {
            self.bytes -= self.events.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Returns whether a snapshot of the counters is due: the first of this power cycle.
    pub fn wants_counters(&mut self) -> bool {
        !std::mem::replace(&mut self.has_counters, true)
    }

    /// Returns the number of changes of what is kept without power.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The events that are kept without power, the newest last.
    pub fn kept(&self) -> Vec<String> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
        let in_hex = |event: &Vec<u8>| {
            let mut text = String::with_capacity(event.len() * 2);
            event.iter().for_each(|byte| text.extend([digit(byte >> 4), digit(byte & 0xf)]));
            text
        };
        self.events.iter().filter(|_| self.is_kept).map(in_hex).collect()
    }

    /// Resumes the events that were kept.
    ///
    /// # Errors
    /// One of them is none.
    pub fn restore(&mut self, kept: &[String]) -> Result<(), &'static str> {
        for text in kept {
            let digit = |at: usize| text.get(at..at + 2);
            let bytes = (0..text.len()).step_by(2);
            let event: Option<Vec<u8>> =
                bytes.map(|at| u8::from_str_radix(digit(at)?, 16).ok()).collect();
            let whole = |event: &Vec<u8>| {
                let length = event.get(22..24).map(|raw| u16::from_le_bytes([raw[0], raw[1]]));
                length.is_some_and(|length| event.len() == EVENT_HEADER + usize::from(length))
                    && event[2] == EVENT_HEADER as u8 - 3
                    && kind::ALL.contains(&event[0])
            };
            self.push(event.filter(whole).ok_or("an event of its log is none")?);
        }
        self.is_kept |= !kept.is_empty();
        Ok(())
    }

    /// A controller gets the log as it is now, to read it until it releases it or is reset. `head`:
    /// the header's fields from byte 18 on that are the drive's own.
    pub fn establish(&mut self, controller: ControllerId, head: impl FnOnce(&mut [u8])) {
        const IDENTIFIER: u8 = crate::log_page::PERSISTENT_EVENTS;
        const REVISION: u8 = 2;
        self.generation = self.generation.wrapping_add(1);
        let mut log = vec![0; HEADER];
        head(&mut log);
        (log[0], log[16]) = (IDENTIFIER, REVISION);
        log[4..8].copy_from_slice(&(self.events.len() as u32).to_le_bytes());
        let length = (HEADER + self.bytes) as u64;
        log[8..16].copy_from_slice(&length.to_le_bytes());
        // The length of the header behind this field.
        log[18..20].copy_from_slice(&(HEADER as u16 - 20).to_le_bytes());
        log[372..374].copy_from_slice(&self.generation.to_le_bytes());
        for kind in kind::ALL {
            log[480 + usize::from(kind / 8)] |= 1 << (kind % 8);
        }
        log.extend(self.events.iter().rev().flatten());
        self.contexts.insert(controller, log);
    }

    /// The log that a controller reads, if it has one.
    pub fn context(&self, controller: ControllerId) -> Option<&[u8]> {
        self.contexts.get(&controller).map(Vec::as_slice)
    }

    /// A controller needs its log no more.
    pub fn release(&mut self, controller: ControllerId) {
        self.contexts.remove(&controller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_kept_once_there_is_more_to_keep() {
        let mut log = EventLog::default();
        let error = HardwareError::Media { status: 0x80, nsid: 1, lba: 7 };
        log.add(ControllerId::PCIE, 5, &Occurrence::Hardware(error));
        log.add(ControllerId::PCIE, 5, &Occurrence::Telemetry(&[0; 512]));
        assert_eq!((log.changes(), log.kept().len()), (0, 0));
        log.add(
            ControllerId::PCIE,
            6,
            &Occurrence::SanitizeStart { capabilities: 7, dwords: [2, 0] },
        );
        assert_eq!((log.changes(), log.kept().len()), (1, 3));
        log.add(ControllerId::PCIE, 7, &Occurrence::Hardware(error));
        assert_eq!((log.changes(), log.kept().len()), (2, 4));
    }
}
