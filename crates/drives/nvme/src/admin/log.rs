//! Get Log Page (NVMe 1.4 section 5.14).

use crate::command::{location, SubmissionEntry, ALL_NAMESPACES};
use crate::condition::SPARE_THRESHOLD;
use crate::context::ControllerMut;
use crate::events::EventType;
use crate::log_page as page;
use crate::ocssd::chunk_information;
use crate::placement::{endurance_group_warnings, placement_page};
use crate::registered::{Registered, OF_CONTROLLER, OF_NAMESPACE, SUPPORTED};
use crate::statistics::{Statistics, POWER_CYCLES, UNSAFE_SHUTDOWNS};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{capsules, zoned, Memory};

use super::features::offered_features;

use crate::context::{AdminCommand, Commands};

/// Retain Asynchronous Event, in Dword 10.
const RETAIN_EVENT: u32 = 1 << 15;
/// Return Groups Only of the Asymmetric Namespace Access log, in Dword 10.
const RETURN_GROUPS_ONLY: u32 = 1 << 8;

pub const GET_LOG_PAGE: AdminCommand = AdminCommand::plain(0x02, get_log_page);

/// The part of a log that a command asks for, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    offset: u64,
    length: u64,
}

impl Part {
    /// That of a Get Log Page.
    pub(super) fn of(
        controller: &ControllerMut,
        command: &SubmissionEntry,
    ) -> Result<Self, Failure> {
        let dwords = u64::from(command.cdw10 >> 16) | u64::from(command.cdw11 & 0xffff) << 16;
        let length = (dwords + 1) * 4;
        let offset = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
        if length > u64::from(controller.io.config.max_transfer) {
            return Err(StatusCode::InvalidField.at(location::CDW10 + 2));
        }
        if offset % 4 != 0 {
            return Err(StatusCode::InvalidField.at(location::CDW12));
        }
        Ok(Self { offset, length })
    }

    /// Sends this part of `log`.
    pub(super) fn send(
        self,
        controller: &mut ControllerMut,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        log: &[u8],
    ) -> Result<(), Failure> {
        let rest = usize::try_from(self.offset).ok().and_then(|offset| log.get(offset..));
        let rest = rest.ok_or(StatusCode::InvalidField.at(location::CDW12))?;
        // Data beyond the log's end is undefined, and left alone.
        controller.io.send_of(memory, command, rest, self.length)
    }
}

fn get_log_page(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let part = Part::of(controller, command)?;
    let Part { offset, length } = part;
    let unknown_namespace = StatusCode::InvalidNamespace.at(location::NSID);
    if !matches!(command.nsid, 0 | ALL_NAMESPACES) {
        controller.io.namespaces.existing(command.nsid)?;
    }
    let identifier = command.cdw10 as u8;
    let transport = controller.host.transport;
    if !page::offered(&controller.io.config, transport).any(|offered| offered == identifier) {
        return Err(StatusCode::InvalidLogPage.at(location::CDW10));
    }
    let log = match identifier {
        page::SUPPORTED_PAGES => supported_page(controller),
        page::FEATURES_AND_EFFECTS => features_page(controller),
        // No command of NVMe-MI is there.
        page::MANAGEMENT_COMMANDS => vec![0; 4096],
        page::ERROR_INFORMATION => controller.host.errors.to_page(),
        // By LPA the log is of the controller only.
        page::HEALTH if matches!(command.nsid, 0 | ALL_NAMESPACES) => health_page(controller),
        page::HEALTH => return Err(StatusCode::InvalidField.at(location::NSID)),
        page::SELF_TEST => controller.io.self_test.to_page(),
        page::FIRMWARE_SLOTS => firmware_page(controller),
        page::CHANGED_NAMESPACES => controller.host.events.changed_namespaces_page(),
        page::ANA => {
            let groups_only = command.cdw10 & RETURN_GROUPS_ONLY != 0;
            let attached = controller.io.attachments.namespaces(controller.host.id);
            let listed: Vec<u32> = if groups_only { Vec::new() } else { attached.collect() };
            controller.io.ana.to_page(controller.host.path, &listed)
        }
        page::RESERVATIONS => controller.host.reservations.take_page(),
        page::SANITIZE => controller.io.sanitize.to_page(),
        page::COMMANDS_AND_EFFECTS => commands_page(controller, (command.cdw14 >> 24) as u8)?,
        page::CHANGED_ZONES => {
            let zoned = controller.io.namespaces.zones(command.nsid);
            zoned.ok_or(unknown_namespace)?.changed.to_page()
        }
        page::CHUNK_INFORMATION => {
            // Large, hence only the part that is asked for.
            let set = controller.io.namespaces.chunks(command.nsid).ok_or(unknown_namespace)?;
            let log = chunk_information(set, offset, length as usize)?;
            controller.io.send_of(memory, command, &log, length)?;
            return Ok(Outcome::Done(0));
        }
        page::CHUNK_NOTIFICATIONS => controller.chunk_notifications.to_page(),
        _ => placement_page(controller.io, controller.host.errors.count(), command)?,
    };
    part.send(controller, memory, command, &log)?;

    if command.cdw10 & RETAIN_EVENT == 0 {
        match identifier {
            page::ERROR_INFORMATION => controller.host.events.unmask(EventType::Error),
            page::HEALTH => {
                controller.host.events.unmask(EventType::Health);
                controller.check_warnings(memory);
            }
            page::CHANGED_NAMESPACES => {
                controller.host.events.unmask(EventType::Notice);
                controller.host.events.clear_changed_namespaces();
            }
            page::ANA => {
                controller.host.events.forget(identifier, 0);
                controller.host.events.unmask(EventType::Notice);
            }
            page::RESERVATIONS => controller.host.events.unmask(EventType::CommandSet),
            page::SANITIZE => controller.host.events.unmask(EventType::Sanitize),
            page::CHUNK_NOTIFICATIONS => {
                for nsid in 1..=controller.io.namespaces.count() {
                    controller.host.events.forget(identifier, nsid);
                }
                controller.host.events.unmask(EventType::Vendor);
            }
            page::CHANGED_ZONES => {
                if let Some(zoned) = controller.io.namespaces.zones_mut(command.nsid) {
                    zoned.changed.clear();
                }
                controller.host.events.forget(identifier, command.nsid);
                controller.host.events.unmask(EventType::Notice);
            }
            _ => {}
        }
        controller.host.post_events(memory);
    }
    Ok(Outcome::Done(0))
}

/// SMART / Health Information (section 5.14.1.2), by its byte offsets.
fn health_page(controller: &ControllerMut) -> Vec<u8> {
    const NANOS_PER_MINUTE: u64 = 60_000_000_000;
    // Data is counted in thousands of 512 bytes, rounded up.
    const DATA_UNIT: u128 = 1000 * 512;
    let Statistics { bytes_read, bytes_written, .. } = controller.io.statistics;
    let mut log = vec![0; 512];
    log[0] = controller.features().critical_warning(&controller.io.condition);
    log[1..3].copy_from_slice(&controller.io.condition.temperature().to_le_bytes());
    log[3] = controller.io.condition.health().available_spare;
    log[4] = SPARE_THRESHOLD;
    log[5] = controller.io.condition.health().percentage_used;
    log[6] = endurance_group_warnings(controller.io, controller.host.id);
    let minutes = u128::from(controller.io.statistics.busy / NANOS_PER_MINUTE);
    let hours = u128::from(controller.io.statistics.powered_on / (60 * NANOS_PER_MINUTE));
    let counts = [
        (32, bytes_read.div_ceil(DATA_UNIT)),
        (48, bytes_written.div_ceil(DATA_UNIT)),
        (64, controller.io.statistics.read_commands),
        (80, controller.io.statistics.write_commands),
        (96, minutes),
        (112, POWER_CYCLES),
        (128, hours),
        (144, UNSAFE_SHUTDOWNS),
        (160, controller.io.statistics.media_errors),
        (176, controller.host.errors.count().into()),
    ];
    for (at, count) in counts {
        log[at..at + 16].copy_from_slice(&count.to_le_bytes());
    }
    let minutes = |time: u64| u32::try_from(time / NANOS_PER_MINUTE).unwrap_or(u32::MAX);
    let Statistics { too_warm, too_hot, .. } = controller.io.statistics;
    log[192..196].copy_from_slice(&minutes(too_warm).to_le_bytes());
    log[196..200].copy_from_slice(&minutes(too_hot).to_le_bytes());
    log
}

/// Firmware Slot Information (section 5.14.1.3): slot 1 is active.
fn firmware_page(controller: &ControllerMut) -> Vec<u8> {
    let mut log = vec![0; 512];
    log[0] = 1;
    log[8..16].fill(b' ');
    log[8..8 + controller.io.config.firmware.len()]
        .copy_from_slice(controller.io.config.firmware.as_bytes());
    log
}

/// Supported Log Pages (NVMe 2.0 section 5.16.1.1): a dword for each identifier.
fn supported_page(controller: &ControllerMut) -> Vec<u8> {
    const LSUPP: u32 = 1;
    let offered = page::offered(&controller.io.config, controller.host.transport);
    to_dwords(256, offered.map(|identifier| (identifier, LSUPP)))
}

/// Feature Identifiers Supported and Effects (NVMe 2.0 section 5.16.1.17): a dword for each
/// identifier.
fn features_page(controller: &ControllerMut) -> Vec<u8> {
    let offered = offered_features(&controller.io.config, controller.host.transport);
    to_dwords(256, offered.map(|feature| (feature.identifier, feature.effects)))
}

/// `count` dwords, most of them 0.
fn to_dwords(count: usize, dwords: impl Iterator<Item = (u8, u32)>) -> Vec<u8> {
    let mut log = vec![0; count * 4];
    for (index, dword) in dwords {
        let at = usize::from(index) * 4;
        log[at..at + 4].copy_from_slice(&dword.to_le_bytes());
    }
    log
}

/// Commands Supported and Effects of a command set (section 5.14.1.5): a dword for
/// each admin opcode, then one for each I/O opcode.
fn commands_page(controller: &ControllerMut, set: u8) -> Result<Vec<u8>, Failure> {
    let known = set == 0 || set == zoned::CSI && controller.io.config.has_zones();
    if !known {
        return Err(StatusCode::InvalidField.at(location::CDW14 + 3));
    }
    let mut log = vec![0; 4096];
    let Commands { io, open_channel, admin: of_admin } = *controller.commands;
    let config = &controller.io.config;
    put_effects(&mut log[..1024], of_admin.announced(config, set), 0);
    if controller.host.transport.has_capsules() {
        let at = usize::from(capsules::OPCODE) * 4;
        log[at..at + 4].copy_from_slice(&(SUPPORTED | OF_CONTROLLER).to_le_bytes());
    }
    put_effects(&mut log[1024..], io.announced(config, set), OF_NAMESPACE);
    put_effects(&mut log[1024..], open_channel.announced(config, set), OF_NAMESPACE);
    Ok(log)
}

/// Puts commands' effects in their opcodes' dwords.
fn put_effects<Execute: 'static>(
    dwords: &mut [u8],
    commands: impl Iterator<Item = &'static Registered<Execute>>,
    scope: u32,
) {
    for command in commands {
        let at = usize::from(command.opcode) * 4;
        dwords[at..at + 4].copy_from_slice(&(command.effects | scope).to_le_bytes());
    }
}
