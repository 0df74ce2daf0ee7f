//! The Persistent Event Log (NVMe 2.0 section 5.16.1.14): what has happened to the drive, the newest
//! event first. It has a bounded size: the oldest events give way.
//!
//! It is kept without power from the first event on that is more than a power-on, a reset, a new
//! timestamp, a snapshot of counters, an error or the telemetry of one: a medium that fails, as one on
//! a full disk, may have no room for it.

use std::collections::{BTreeMap, VecDeque};
use std::mem::offset_of;

use stasis_nvme_layout::events::{
    CriticalWarningInfo, EventHead, EventLogHead, FirmwareCommitEvent, FormatCompletionEvent,
    FormatStartEvent, HardwareErrorEvent, MediaErrorInfo, NamespaceEvent, PowerOnEvent,
    SanitizeCompletionEvent, SanitizeStartEvent, ThermalEvent, TimestampEvent,
};
use stasis_nvme_layout::{FromBytes, IntoBytes, U32};

use crate::controller_id::ControllerId;
use crate::firmware::Revision;
use crate::narrow::{constant16, constant8, count16, count32};

/// PELS: the maximum size of the log, in units of 64 KiB.
pub const SIZE: u32 = 1;
/// Maximum of all events in bytes.
const MAX_BYTES: usize = (SIZE as usize * (64 << 10)) - HEADER;
/// Size of the log's header, and of an event's, in bytes.
const HEADER: usize = size_of::<EventLogHead>();
const EVENT_HEADER: usize = size_of::<EventHead>();
/// Event Header Length: bytes behind that field.
const HEADER_REST: u8 = constant8((EVENT_HEADER - offset_of!(EventHead, ehl) - 1) as u64);
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
    /// Format NVM has ended, with the status of its completion.
    FormatCompletion { nsid: u32, status: u16 },
    /// Sanitize begins: SANICAP, and Dwords 10 and 11.
    SanitizeStart { capabilities: u32, dwords: [u32; 2] },
    /// Sanitize has ended: progress and status of the log.
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

    /// Appends the data of the event (section 5.16.1.14.1) to `out`. `controller` and `timestamp`:
    /// of the event.
    fn put(&self, out: &mut Vec<u8>, controller: ControllerId, timestamp: u64) {
        match *self {
            Self::Smart(bytes) | Self::Telemetry(bytes) => out.extend(bytes),
            Self::FirmwareCommit { before, after, action, slot, status } => {
                let [status_code, kind] = status.to_le_bytes();
                let status_code_type = kind & 7;
                let (old, new, vendor_code) = (before, after, 0.into());
                out.extend(
                    FirmwareCommitEvent {
                        old,
                        new,
                        action,
                        slot,
                        status_code_type,
                        status_code,
                        vendor_code,
                    }
                    .as_bytes(),
                );
            }
            Self::Timestamp { before, since_reset } => {
                let (previous, since_reset) = (before.into(), since_reset.into());
                out.extend(TimestampEvent { previous, since_reset }.as_bytes());
            }
            Self::PowerOnOrReset { firmware, activated, under_way, power_cycles, powered_on } => {
                let event = PowerOnEvent {
                    fr: firmware,
                    cntlid: controller.0.into(),
                    activated: activated.into(),
                    under_way,
                    power_cycle: power_cycles.into(),
                    powered_on: powered_on.into(),
                    timestamp: timestamp.into(),
                    ..Default::default()
                };
                out.extend(event.as_bytes());
            }
            Self::Hardware(error) => error.put(out),
            Self::Namespace { action, nsid, blocks, capacity, format, shared } => {
                let event = NamespaceEvent {
                    cdw10: action.into(),
                    nsze: blocks.into(),
                    ncap: capacity.into(),
                    flbas: format,
                    nmic: shared.into(),
                    nsid: nsid.into(),
                    ..Default::default()
                };
                out.extend(event.as_bytes());
            }
            Self::FormatStart { nsid, abilities, dword10 } => {
                let (nsid, cdw10) = (nsid.into(), dword10.into());
                let event = FormatStartEvent { nsid, fna: abilities, cdw10, ..Default::default() };
                out.extend(event.as_bytes());
            }
            Self::FormatCompletion { nsid, status } => {
                let event = FormatCompletionEvent {
                    nsid: nsid.into(),
                    status: u8::from(status != 0),
                    status_field: u32::from(status << 1).into(),
                    ..Default::default()
                };
                out.extend(event.as_bytes());
            }
            Self::SanitizeStart { capabilities, dwords } => {
                let [cdw10, cdw11] = dwords.map(U32::new);
                let sanicap = capabilities.into();
                out.extend(SanitizeStartEvent { sanicap, cdw10, cdw11 }.as_bytes());
            }
            Self::SanitizeCompletion { progress, status } => {
                let (sprog, sstat) = (progress.into(), status.into());
                let event = SanitizeCompletionEvent { sprog, sstat, ..Default::default() };
                out.extend(event.as_bytes());
            }
            Self::Thermal { degrees, threshold } => {
                out.extend(ThermalEvent { degrees, threshold }.as_bytes());
            }
        }
    }
}

impl HardwareError {
    /// The data of its event.
    fn put(self, out: &mut Vec<u8>) {
        let code: u16 = match self {
            Self::CriticalWarning(_) => 0x06,
            Self::ControllerFatal => 0x09,
            Self::Media { .. } => 0x0a,
        };
        let head = HardwareErrorEvent { code: code.into(), ..Default::default() };
        out.extend(head.as_bytes());
        match self {
            Self::CriticalWarning(warning) => {
                out.extend(CriticalWarningInfo { warning, ..Default::default() }.as_bytes());
            }
            Self::ControllerFatal => {}
            Self::Media { status, nsid, lba } => {
                let (status, nsid, lba) = (status.into(), nsid.into(), lba.into());
                out.extend(MediaErrorInfo { status, nsid, lba, ..Default::default() }.as_bytes());
            }
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
        let mut data = Vec::new();
        occurrence.put(&mut data, controller, timestamp);
        let head = EventHead {
            etype: kind,
            revision: 1,
            ehl: HEADER_REST,
            cntlid: controller.0.into(),
            timestamp: timestamp.into(),
            el: count16(data.len()).into(),
            ..Default::default()
        };
        self.push([head.as_bytes(), &data].concat());
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
                EventHead::ref_from_prefix(event).is_ok_and(|(head, data)| {
                    data.len() == usize::from(head.el)
                        && head.ehl == HEADER_REST
                        && kind::ALL.contains(&head.etype)
                })
            };
            self.push(event.filter(whole).ok_or("an event of its log is none")?);
        }
        self.is_kept |= !kept.is_empty();
        Ok(())
    }

    /// A controller gets the log as it is now, to read it until it releases it or is reset. `fill`
    /// fills the header's fields that are the drive's own.
    pub fn establish(&mut self, controller: ControllerId, fill: impl FnOnce(&mut EventLogHead)) {
        const IDENTIFIER: u8 = crate::log_page::PERSISTENT_EVENTS;
        const REVISION: u8 = 2;
        const REST: u16 = constant16((HEADER - offset_of!(EventLogHead, timestamp)) as u64);
        self.generation = self.generation.wrapping_add(1);
        let mut head = EventLogHead {
            lid: IDENTIFIER,
            tnev: count32(self.events.len()).into(),
            tll: ((HEADER + self.bytes) as u64).into(),
            revision: REVISION,
            lhl: REST.into(),
            generation: self.generation.into(),
            ..Default::default()
        };
        fill(&mut head);
        for kind in kind::ALL {
            head.supported[usize::from(kind / 8)] |= 1 << (kind % 8);
        }
        let mut log = head.as_bytes().to_vec();
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
