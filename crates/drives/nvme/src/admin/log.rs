//! Get Log Page (NVMe 1.4 section 5.14).

use stasis_nvme_layout::logs::{CommandEffects, SupportedAndEffects};
use stasis_nvme_layout::{IntoBytes, U32};

use crate::command::{location, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::context::ControllerMut;
use crate::event_log::Occurrence;
use crate::events::EventType;
use crate::io::Io;
use crate::log_page as page;
use crate::ocssd::chunk_information;
use crate::placement::{endurance_page, placement_page};
use crate::registered::{Registered, SUPPORTED};
use crate::smart::health_page;
use crate::state::Reports;
use crate::statistics::POWER_CYCLES;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{capsules, computing, key_value, telemetry, Memory};

use super::features::offered_features;
use super::identify::{put_name, put_text};
use super::lba_status;

use crate::context::{AdminCommand, Commands};

const NANOS_PER_HOUR: u64 = 3_600_000_000_000;
/// Retain Asynchronous Event, in Dword 10.
const RETAIN_EVENT: u32 = 1 << 15;
/// Return Groups Only of the Asymmetric Namespace Access log, in Dword 10.
const RETURN_GROUPS_ONLY: u32 = 1 << 8;

pub const GET_LOG_PAGE: AdminCommand = AdminCommand::plain(0x02, get_log_page);

/// The part of a log that a command asks for, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    offset: u64,
    length: u32,
}

impl Part {
    /// Request of a Get Log Page.
    pub(super) fn of(
        controller: &ControllerMut,
        command: &SubmissionEntry,
    ) -> Result<Self, Failure> {
        let dwords = command.cdw10 >> 16 | command.cdw11 << 16;
        let length = controller.io.length_of(dwords, location::CDW10 + 2)?;
        let offset = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
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
    let identifier = command.cdw10.byte(0);
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
        page::HEALTH if matches!(command.nsid, 0 | ALL_NAMESPACES) => {
            health_page(controller.io, controller.host).as_bytes().to_vec()
        }
        page::HEALTH => return Err(StatusCode::InvalidField.at(location::NSID)),
        page::SELF_TEST => controller.io.background.self_test.to_page().as_bytes().to_vec(),
        page::FIRMWARE_SLOTS => controller.io.background.firmware.to_page().as_bytes().to_vec(),
        page::TELEMETRY | page::TELEMETRY_OF_CONTROLLER => {
            telemetry_page(controller, command, part)?
        }
        page::PERSISTENT_EVENTS => persistent_events(controller, command)?,
        page::LBA_STATUS => lba_status::log_page(&controller.io.namespaces),
        page::CHANGED_NAMESPACES => {
            controller.host.events.changed_namespaces_page().as_bytes().to_vec()
        }
        page::ANA => {
            let groups_only = command.cdw10 & RETURN_GROUPS_ONLY != 0;
            let attached = controller.io.access.attachments.namespaces(controller.host.id);
            let listed: Vec<u32> = if groups_only { Vec::new() } else { attached.collect() };
            controller.io.access.ana.to_page(controller.host.path, &listed)
        }
        page::RESERVATIONS => controller.host.reservations.take_page().as_bytes().to_vec(),
        page::SANITIZE => controller.io.background.sanitize.to_page().as_bytes().to_vec(),
        page::COMMANDS_AND_EFFECTS => commands_page(controller, command.cdw14.byte(3))?,
        page::CHANGED_ZONES => {
            let zoned = controller.io.namespaces.zones(command.nsid);
            zoned.ok_or(unknown_namespace)?.changed.to_page().as_bytes().to_vec()
        }
        page::CHUNK_INFORMATION => {
            // Large, hence only the part that is asked for.
            let set = controller.io.namespaces.chunks(command.nsid).ok_or(unknown_namespace)?;
            let log = chunk_information(set, offset, length as usize)?;
            controller.io.send_of(memory, command, &log, length)?;
            return Ok(Outcome::Done(0));
        }
        page::CHUNK_NOTIFICATIONS => controller.chunk_notifications.to_page(),
        page::ENDURANCE_GROUP => endurance_page(controller.io, &controller.host.errors, command)?,
        page::GROUP_EVENTS => controller.host.events.groups_page(),
        _ => placement_page(controller.io, command)?,
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
            page::FIRMWARE_SLOTS => {
                controller.host.events.forget(identifier, 0);
                controller.host.events.unmask(EventType::Notice);
            }
            // The group's entry in the other log goes with its own.
            page::ENDURANCE_GROUP => {
                controller.host.events.clear_group(command.cdw11.high());
            }
            page::GROUP_EVENTS => {
                controller.host.events.forget(identifier, 0);
                controller.host.events.unmask(EventType::Notice);
            }
            page::TELEMETRY_OF_CONTROLLER => {
                controller.io.reports.telemetry.was_read();
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

/// Telemetry (NVMe 2.0 sections 5.16.1.8 and 5.16.1.9), in whole blocks. A host may ask that the
/// state be captured first.
fn telemetry_page(
    controller: &mut ControllerMut,
    command: &SubmissionEntry,
    Part { offset, length }: Part,
) -> Result<Vec<u8>, Failure> {
    /// Create Telemetry Host-Initiated Data, in Dword 10.
    const CREATE: u32 = 1 << 8;
    if offset % telemetry::BLOCK as u64 != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW12));
    }
    if !(length as usize).is_multiple_of(telemetry::BLOCK) {
        return Err(StatusCode::InvalidField.at(location::CDW10 + 2));
    }
    let identifier = command.cdw10.byte(0);
    let by_host = identifier == page::TELEMETRY;
    let ControllerMut { io, host, .. } = controller;
    if by_host && command.cdw10 & CREATE != 0 {
        let areas = io.telemetry_areas(host.errors.to_text());
        io.reports.telemetry.capture(areas);
        let log = io.reports.telemetry.to_page(identifier, true);
        io.log_event(host.id, &Occurrence::Telemetry(&log[..telemetry::BLOCK]));
        return Ok(log);
    }
    Ok(io.reports.telemetry.to_page(identifier, by_host))
}

/// Persistent Event Log (NVMe 2.0 section 5.16.1.14): the log as it was when the controller's host
/// established its context.
fn persistent_events(
    controller: &mut ControllerMut,
    command: &SubmissionEntry,
) -> Result<Vec<u8>, Failure> {
    /// Action, in Dword 10: what to do with the context.
    mod action {
        pub const READ: u32 = 0;
        pub const ESTABLISH: u32 = 1;
        pub const RELEASE: u32 = 2;
    }
    let ControllerMut { io, host, .. } = controller;
    match command.cdw10 >> 8 & 3 {
        action::READ => {}
        action::ESTABLISH if io.reports.event_log.context(host.id).is_some() => {
            return Err(StatusCode::CommandSequenceError.at(location::CDW10 + 1));
        }
        action::ESTABLISH => {
            let timestamp = io.features(host.id).timestamp_at(io.now);
            let Io { config, reports, .. } = &mut **io;
            let Reports { event_log, statistics, .. } = reports;
            let hours = u128::from(statistics.powered_on / NANOS_PER_HOUR);
            event_log.establish(host.id, |head| {
                head.timestamp.set(timestamp);
                head.power_on_hours.set(hours);
                head.power_cycles.set(POWER_CYCLES.into());
                head.vid.set(config.vendor_id);
                head.ssvid.set(config.subsystem_vendor_id);
                put_text(&mut head.sn, &config.serial);
                put_text(&mut head.mn, &config.model);
                put_name(&mut head.subnqn, &config.nqn());
            });
        }
        action::RELEASE => {
            io.reports.event_log.release(host.id);
            // There is nothing to read.
            return Ok(Vec::new());
        }
        _ => return Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
    }
    let context = io.reports.event_log.context(host.id).map(<[u8]>::to_vec);
    context.ok_or(StatusCode::CommandSequenceError.at(location::CDW10 + 1))
}

/// Supported Log Pages (NVMe 2.0 section 5.16.1.1): a dword for each identifier.
fn supported_page(controller: &ControllerMut) -> Vec<u8> {
    const LSUPP: u32 = 1;
    let offered = page::offered(&controller.io.config, controller.host.transport);
    to_dwords(offered.map(|identifier| (identifier, LSUPP)))
}

/// Feature Identifiers Supported and Effects (NVMe 2.0 section 5.16.1.17): a dword for each
/// identifier.
fn features_page(controller: &ControllerMut) -> Vec<u8> {
    let offered = offered_features(&controller.io.config, controller.host.transport);
    to_dwords(offered.map(|feature| (feature.identifier, feature.effects)))
}

/// A dword for each identifier, most of them 0.
fn to_dwords(dwords: impl Iterator<Item = (u8, u32)>) -> Vec<u8> {
    let mut log = SupportedAndEffects::default();
    for (identifier, dword) in dwords {
        log.dwords[usize::from(identifier)].set(dword);
    }
    log.as_bytes().to_vec()
}

/// Commands Supported and Effects of a command set (section 5.14.1.5): a dword for
/// each admin opcode, then one for each I/O opcode.
fn commands_page(controller: &ControllerMut, set: u8) -> Result<Vec<u8>, Failure> {
    if !controller.io.config.has_command_set(set) {
        return Err(StatusCode::InvalidField.at(location::CDW14 + 3));
    }
    let mut log = CommandEffects::default();
    let Commands { io, open_channel, key_value: of_pairs, memory, compute, admin: of_admin } =
        *controller.commands;
    let config = &controller.io.config;
    put_effects(&mut log.acs, of_admin.announced(config, set));
    if controller.host.transport.has_capsules() {
        log.acs[usize::from(capsules::OPCODE)].set(SUPPORTED);
    }
    let tables = match set {
        key_value::CSI => &[of_pairs][..],
        computing::MEMORY_CSI => &[memory],
        computing::COMPUTE_CSI => &[compute],
        _ => &[io, open_channel],
    };
    for table in tables {
        put_effects(&mut log.iocs, table.announced(config, set));
    }
    Ok(log.as_bytes().to_vec())
}

/// The bits of an entry in revision 1.4, which VS names: later ones have what a command concerns in
/// bits 31:20, which Linux takes for unusual effects.
const EFFECTS: u32 = (1 << 20) - 1;

/// Puts commands' effects in their opcodes' dwords.
fn put_effects<Execute: 'static>(
    dwords: &mut [U32; 256],
    commands: impl Iterator<Item = &'static Registered<Execute>>,
) {
    for command in commands {
        dwords[usize::from(command.opcode)].set(command.effects & EFFECTS);
    }
}
