//! Get Log Page (NVMe 1.4 section 5.14).

use crate::command::{location, SubmissionEntry};
use crate::commands::{self, Registered};
use crate::controller::Controller;
use crate::io::ALL_NAMESPACES;
use crate::slots::CommandId;
use crate::statistics::Statistics;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{zoned, Memory};

use super::events::EventType;

/// Log page identifiers (section 5.14.1).
pub mod page {
    pub const ERROR_INFORMATION: u8 = 0x01;
    pub const HEALTH: u8 = 0x02;
    pub const FIRMWARE_SLOTS: u8 = 0x03;
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    pub const COMMANDS_AND_EFFECTS: u8 = 0x05;
    /// ZNS 1.1 section 4.1.4.2.
    pub const CHANGED_ZONES: u8 = 0xbf;
    /// OCSSD 2.0 section 3.2.
    pub const CHUNK_INFORMATION: u8 = 0xca;
    /// OCSSD 2.0 section 3.3.
    pub const CHUNK_NOTIFICATIONS: u8 = 0xd0;
}

/// Entries of the error log: Error Log Page Entries, plus one.
pub const ERROR_LOG_ENTRIES: usize = 64;
/// Size of an entry of the error log in bytes.
const ERROR_ENTRY: usize = 64;
/// Available Spare Threshold, in percent: what data sheets give.
pub const SPARE_THRESHOLD: u8 = 10;
/// Retain Asynchronous Event, in Dword 10.
const RETAIN_EVENT: u32 = 1 << 15;

/// The last failures, oldest first in a ring.
#[derive(Debug)]
pub struct ErrorLog {
    entries: Box<[[u8; ERROR_ENTRY]; ERROR_LOG_ENTRIES]>,
    next: usize,
}

impl Default for ErrorLog {
    fn default() -> Self {
        Self { entries: Box::new([[0; ERROR_ENTRY]; ERROR_LOG_ENTRIES]), next: 0 }
    }
}

impl ErrorLog {
    /// Adds the failure number `count`, over the oldest entry if need be.
    pub fn add(
        &mut self,
        count: u64,
        id: CommandId,
        status: u16,
        parameter: u16,
        nsid: u32,
        lba: u64,
    ) {
        let entry = &mut self.entries[self.next];
        entry[0..8].copy_from_slice(&count.to_le_bytes());
        entry[8..10].copy_from_slice(&id.sq.to_le_bytes());
        entry[10..12].copy_from_slice(&id.cid.to_le_bytes());
        entry[12..14].copy_from_slice(&(status << 1).to_le_bytes());
        entry[14..16].copy_from_slice(&parameter.to_le_bytes());
        entry[16..24].copy_from_slice(&lba.to_le_bytes());
        entry[24..28].copy_from_slice(&nsid.to_le_bytes());
        self.next = (self.next + 1) % ERROR_LOG_ENTRIES;
    }

    /// The log page: the latest failure first.
    fn to_page(&self) -> Vec<u8> {
        let (after, before) = self.entries.split_at(self.next);
        after.iter().rev().chain(before.iter().rev()).flatten().copied().collect()
    }
}

pub const GET_LOG_PAGE: Registered = Registered::plain(0x02, |controller, memory, _, command| {
    controller.get_log_page(memory, command)
});

impl Controller {
    pub(super) fn get_log_page(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let dwords = u64::from(command.cdw10 >> 16) | u64::from(command.cdw11 & 0xffff) << 16;
        let length = (dwords + 1) * 4;
        let offset = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
        if length > u64::from(self.config.max_transfer) {
            return Err(StatusCode::InvalidField.at(location::CDW10 + 2));
        }
        if offset % 4 != 0 {
            return Err(StatusCode::InvalidField.at(location::CDW12));
        }
        if !matches!(command.nsid, 0 | ALL_NAMESPACES)
            && self.config.namespace(command.nsid).is_none()
        {
            return Err(StatusCode::InvalidNamespace.at(location::NSID));
        }
        let identifier = command.cdw10 as u8;
        let log = match identifier {
            page::ERROR_INFORMATION => self.errors.to_page(),
            page::HEALTH => self.health_page(),
            page::FIRMWARE_SLOTS => self.firmware_page(),
            page::CHANGED_NAMESPACES => self.changed_page(),
            page::COMMANDS_AND_EFFECTS => self.commands_page((command.cdw14 >> 24) as u8)?,
            page::CHANGED_ZONES => self
                .changed_zones_page(command.nsid)
                .ok_or(StatusCode::InvalidNamespace.at(location::NSID))?,
            page::CHUNK_INFORMATION if self.config.has_chunks() => {
                // Large, hence only the part that is asked for.
                let log = self.chunk_information(command, offset, length as usize)?;
                self.send(memory, command, &log[..log.len().min(length as usize)])?;
                return Ok(Outcome::Done(0));
            }
            page::CHUNK_NOTIFICATIONS if self.config.has_chunks() => {
                self.chunk_notifications.to_page()
            }
            _ => self.placement_page(command)?,
        };
        let rest = usize::try_from(offset).ok().and_then(|offset| log.get(offset..));
        let rest = rest.ok_or(StatusCode::InvalidField.at(location::CDW12))?;
        // What lies beyond the log's end is undefined, and left alone.
        self.send(memory, command, &rest[..rest.len().min(length as usize)])?;

        if command.cdw10 & RETAIN_EVENT == 0 {
            match identifier {
                page::ERROR_INFORMATION => self.events.unmask(EventType::Error),
                page::HEALTH => {
                    self.events.unmask(EventType::Health);
                    self.check_warnings(memory);
                }
                page::CHANGED_NAMESPACES => {
                    self.events.unmask(EventType::Notice);
                    self.events.changed.clear();
                }
                page::CHUNK_NOTIFICATIONS => {
                    for nsid in 1..=self.config.namespaces.len() as u32 {
                        self.events.forget(identifier, nsid);
                    }
                    self.events.unmask(EventType::Vendor);
                }
                page::CHANGED_ZONES => {
                    self.clear_changed_zones(command.nsid);
                    self.events.forget(identifier, command.nsid);
                    self.events.unmask(EventType::Notice);
                }
                _ => {}
            }
            self.post_events(memory);
        }
        Ok(Outcome::Done(0))
    }

    /// SMART / Health Information (section 5.14.1.2), by its byte offsets.
    fn health_page(&self) -> Vec<u8> {
        const NANOS_PER_MINUTE: u64 = 60_000_000_000;
        // Data is counted in thousands of 512 bytes, rounded up.
        const DATA_UNIT: u128 = 1000 * 512;
        let Statistics { bytes_read, bytes_written, .. } = self.statistics;
        let mut log = vec![0; 512];
        log[0] = self.critical_warning();
        log[1..3].copy_from_slice(&self.condition.temperature().to_le_bytes());
        log[3] = self.condition.health().available_spare;
        log[4] = SPARE_THRESHOLD;
        log[5] = self.condition.health().percentage_used;
        let minutes = u128::from(self.statistics.busy / NANOS_PER_MINUTE);
        let hours = u128::from(self.statistics.powered_on / (60 * NANOS_PER_MINUTE));
        let counts = [
            (32, bytes_read.div_ceil(DATA_UNIT)),
            (48, bytes_written.div_ceil(DATA_UNIT)),
            (64, self.statistics.read_commands),
            (80, self.statistics.write_commands),
            (96, minutes),
            (112, self.statistics.power_cycles.into()),
            (128, hours),
            (144, self.statistics.unsafe_shutdowns.into()),
            (160, self.statistics.media_errors),
            (176, self.statistics.error_log_entries.into()),
        ];
        for (at, count) in counts {
            log[at..at + 16].copy_from_slice(&count.to_le_bytes());
        }
        let warm = u32::try_from(self.statistics.too_warm / NANOS_PER_MINUTE);
        log[192..196].copy_from_slice(&warm.unwrap_or(u32::MAX).to_le_bytes());
        log
    }

    /// Changed Namespace List (section 5.14.1.4): there are fewer than it has
    /// room for.
    fn changed_page(&self) -> Vec<u8> {
        let mut log = vec![0; 4096];
        for (entry, nsid) in log.chunks_exact_mut(4).zip(&self.events.changed) {
            entry.copy_from_slice(&nsid.to_le_bytes());
        }
        log
    }

    /// Firmware Slot Information (section 5.14.1.3): slot 1 is active.
    fn firmware_page(&self) -> Vec<u8> {
        let mut log = vec![0; 512];
        log[0] = 1;
        log[8..16].fill(b' ');
        log[8..8 + self.config.firmware.len()].copy_from_slice(self.config.firmware.as_bytes());
        log
    }
}

impl Controller {
    /// Commands Supported and Effects of a command set (section 5.14.1.5): a dword for
    /// each admin opcode, then one for each I/O opcode.
    fn commands_page(&self, set: u8) -> Result<Vec<u8>, Failure> {
        let known = set == 0 || set == zoned::CSI && self.config.has_zones();
        if !known {
            return Err(StatusCode::InvalidField.at(location::CDW14 + 3));
        }
        let mut log = vec![0; 4096];
        let tables =
            [(0, &commands::ADMIN), (1024, &commands::IO), (1024, &commands::OPEN_CHANNEL)];
        for (start, table) in tables {
            for command in table.announced(&self.config, set) {
                let at = start + usize::from(command.opcode) * 4;
                log[at..at + 4].copy_from_slice(&command.effects.to_le_bytes());
            }
        }
        Ok(log)
    }
}
