//! Identify (NVMe 1.4 section 5.15): the properties of the controller and its namespaces.

use stasis_nvme_layout::identify::{
    IdList, IdentifyController, IdentifyNamespace, NamespaceIdHead, NvmSetList,
};
use stasis_nvme_layout::{transmute_mut, IntoBytes};

use crate::atomicity::Atomicity;
use crate::command::{location, of_any_namespace, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::commands::{most_blocks, most_blocks_of_source, MAX_SOURCES};
use crate::condition::{CRITICAL_TEMPERATURE, WARNING_TEMPERATURE};
use crate::config::{Config, Namespace, MAX_NSID};
use crate::context::ControllerMut;
use crate::error_log::ERROR_LOG_ENTRIES;
use crate::events::MAX_EVENT_REQUESTS;
use crate::features::notices;
use crate::host::Host;
use crate::identity::{subsystem_name, NamespaceIdentity};
use crate::log_page::with_power_states;
use crate::metadata::Metadata;
use crate::narrow::{bits, configured16, constant8, count8};
use crate::registers::{CQES, SQES, VERSION};
use crate::sgl;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{ana, capsules, event_log, keep_alive, power, Memory, PAGE_SIZE};

use super::command_sets::identify_by_command_set;
use super::identify_fields::{fill_nsids, most_pages, Common};
use super::{firmware, format, sanitize};
use crate::context::AdminCommand;

/// Controller or Namespace Structure, in Dword 10 (section 5.15.1).
mod structure {
    pub const NAMESPACE: u8 = 0x00;
    pub const CONTROLLER: u8 = 0x01;
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    pub const NAMESPACE_DESCRIPTORS: u8 = 0x03;
    /// These four come with namespace management (NVMe 2.0 section 5.17.2).
    pub const ALLOCATED_NAMESPACES: u8 = 0x10;
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
    pub const CONTROLLERS_OF_NAMESPACE: u8 = 0x12;
    pub const CONTROLLERS: u8 = 0x13;
    pub const ENDURANCE_GROUPS: u8 = 0x19;
    /// Endurance groups (section 5.15.2.4).
    pub const NVM_SETS: u8 = 0x04;
}

type Page = [u8; PAGE_SIZE];

pub const IDENTIFY: AdminCommand = AdminCommand::plain(of_any_namespace::IDENTIFY, identify);

fn identify(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let nsid = command.nsid;
    let unknown = StatusCode::InvalidNamespace.at(location::NSID);
    let mut page = [0; PAGE_SIZE];
    match command.cdw10.byte(0) {
        structure::NAMESPACE if nsid == ALL_NAMESPACES => {
            let apart = !controller.host.transport.has_capsules();
            let config = &controller.io.config;
            fill_common_namespace(transmute_mut!(&mut page), config, apart);
        }
        which @ (structure::NAMESPACE | structure::ALLOCATED_NAMESPACE) => {
            if !(1..=MAX_NSID).contains(&nsid) {
                return Err(unknown);
            }
            let namespaces = &controller.io.namespaces;
            let attached = controller.io.access.attachments.has(controller.host.id, nsid);
            let shown = namespaces.get(nsid).zip(namespaces.identity(nsid));
            let shown = shown.filter(|_| attached || which == structure::ALLOCATED_NAMESPACE);
            let Some((namespace, identity)) = shown else {
                // An inactive one, or one that is not there, has zeroes (section 5.17.2.1).
                controller.io.send(memory, command, &page)?;
                return Ok(Outcome::Done(0));
            };
            if !namespace.has_blocks() {
                // The structure is of blocks (NVMe 2.0 section 5.17.2.1).
                return Err(StatusCode::InvalidCommandSet.at(location::NSID));
            }
            let apart = !controller.host.transport.has_capsules();
            let page = transmute_mut!(&mut page);
            fill_namespace(page, (namespace, &controller.io.config), identity, apart);
            let Common { nmic, rescap, anagrpid, nsattr, endgid, nvmsetid } =
                Common::of(controller, nsid, namespace);
            page.nvmcap.set(namespaces.capacity(nsid).into());
            if let Some(atomicity) = Atomicity::of(namespace, controller.io.config.atomic_unit) {
                put_atomicity(page, atomicity);
            }
            (page.nmic, page.rescap, page.nsattr) = (nmic, rescap, nsattr);
            page.anagrpid.set(anagrpid);
            page.nvmsetid.set(nvmsetid);
            page.endgid.set(endgid);
        }
        structure::CONTROLLER => fill_controller(transmute_mut!(&mut page), controller),
        list @ (structure::ACTIVE_NAMESPACES | structure::ALLOCATED_NAMESPACES) => {
            if nsid >= ALL_NAMESPACES - 1 {
                return Err(unknown);
            }
            let all = list == structure::ALLOCATED_NAMESPACES;
            let attachments = &controller.io.access.attachments;
            let there = controller.io.namespaces.nsids();
            let following = there.filter(|other| {
                *other > nsid && (all || attachments.has(controller.host.id, *other))
            });
            fill_nsids(transmute_mut!(&mut page), following);
        }
        list @ (structure::CONTROLLERS_OF_NAMESPACE | structure::CONTROLLERS) => {
            let of_one = list == structure::CONTROLLERS_OF_NAMESPACE;
            if of_one && controller.io.namespaces.get(nsid).is_none() {
                return Err(unknown);
            }
            let attachments = &controller.io.access.attachments;
            let first = command.cdw10.high();
            let listed = attachments
                .controllers()
                .filter(|id| id.0 >= first && (!of_one || attachments.has(*id, nsid)));
            let mut listed: Vec<u16> = listed.map(|id| id.0).collect();
            listed.sort_unstable();
            fill_ids(transmute_mut!(&mut page), listed.into_iter());
        }
        structure::NAMESPACE_DESCRIPTORS => {
            controller.io.check_attached(controller.host.id, nsid).map_err(|_| unknown)?;
            let namespace = controller.io.namespaces.get(nsid).ok_or(unknown)?;
            let several = controller.io.config.has_command_sets();
            let set = several.then(|| namespace.command_set());
            let identity = controller.io.namespaces.identity(nsid).ok_or(unknown)?;
            fill_descriptors(&mut page, identity, set);
        }
        structure::ENDURANCE_GROUPS if controller.io.config.has_groups() => {
            // Those of an identifier not less than the one asked from.
            let asked = command.cdw11.low();
            let listed = controller.io.endurance.ids().filter(|&id| id >= asked);
            fill_ids(transmute_mut!(&mut page), listed);
        }
        structure::NVM_SETS if controller.io.config.has_sets() => {
            fill_sets(transmute_mut!(&mut page), controller, command.cdw11.low());
        }
        _ if controller.io.config.has_set_structures() => {
            identify_by_command_set(controller, command, &mut page)?
        }
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    }
    controller.io.send(memory, command, &page)?;
    Ok(Outcome::Done(0))
}

/// Text padded with spaces (section 1.8, "ASCII string").
pub(super) fn put_text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    field[..text.len()].copy_from_slice(text.as_bytes());
}

/// Text with zeroes behind it, cut off so that one is left.
pub(super) fn put_name(field: &mut [u8; 256], name: &str) {
    let length = name.len().min(field.len() - 1);
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
}

/// The fields of Identify Controller that every controller has, a discovery controller as well.
pub(super) fn fill_any_controller(page: &mut IdentifyController, controller: &ControllerMut) {
    let ControllerMut { host, io, .. } = controller;
    let config = &io.config;
    put_text(&mut page.sn, &config.serial);
    put_text(&mut page.mn, &config.model);
    page.fr = io.background.firmware.active();
    page.mdts = most_pages(config);
    page.ver.set(VERSION);
    page.aerl = const { constant8(MAX_EVENT_REQUESTS as u64) - 1 };
    page.sgls.set(match host.transport.has_capsules() {
        true => sgl::FABRICS_SUPPORT,
        false if config.offers_metadata() => sgl::WITH_METADATA,
        false => sgl::SUPPORT,
    });
    if host.transport.is_shared() {
        page.cntlid.set(host.id.0);
    }
    if host.transport.has_capsules() {
        page.kas.set(keep_alive::GRANULARITY);
        page.maxcmd.set(config.queue_entries);
        page.ioccsz.set(capsules::IOCCSZ);
        page.iorcsz.set(capsules::IORCSZ);
    }
}

/// Identify Controller data structure (section 5.15.2.2).
fn fill_controller(page: &mut IdentifyController, controller: &ControllerMut) {
    // Log Page Attributes: Commands Supported and Effects; Get Log Page with offsets; telemetry;
    // persistent events. Bit 5 would promise scopes of commands, of NVMe 2.0.
    const LPA: u8 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
    // In ONCS beside I/O commands: Select in Get Features, Timestamp.
    const ONCS_FEATURES: u16 = 1 << 4 | 1 << 6;
    // Copy takes descriptors of format 0 (NVMe 2.0, OCFS).
    const COPY_FORMATS: u16 = 1;
    // Flush takes all namespaces at once (bits 2:1); bit 0: a cache is there.
    const VWC_FLUSH_ALL: u8 = 3 << 1;
    const CNTRLTYPE_IO: u8 = 1;
    // FUSES: Compare and Write.
    const COMPARE_AND_WRITE: u16 = 1;

    let ControllerMut { commands, host, io, .. } = controller;
    let config = &io.config;
    fill_any_controller(page, controller);
    page.vid.set(config.vendor_id);
    page.ssvid.set(config.subsystem_vendor_id);
    page.cntrltype = CNTRLTYPE_IO;
    page.ctratt.set(attributes(config, host));
    page.oaes.set(notices(config, host.transport));
    page.oacs.set(commands.admin.identify(config));
    // Vendor specific admin commands have their length in Dword 10.
    page.avscc = 1;
    page.fna = format::FNA;
    // 0's based: four; each is done at once.
    page.acl = 3;
    page.frmw = firmware::UPDATES;
    page.fwug = firmware::GRANULARITY;
    page.lpa = LPA;
    page.elpe = const { constant8(ERROR_LOG_ENTRIES as u64) - 1 };
    page.pels.set(event_log::SIZE);
    page.wctemp.set(WARNING_TEMPERATURE);
    page.cctemp.set(CRITICAL_TEMPERATURE);
    // As if a second verified a GiB.
    let minutes = (io.namespaces.total_capacity() >> 30).div_ceil(60).clamp(1, 0xffff) as u16;
    page.edstt.set(minutes);
    // One test of the subsystem at a time.
    page.dsto = 1;
    page.sanicap.set(sanitize::capabilities(config));
    page.tnvmcap.set(io.namespaces.total_capacity().into());
    page.unvmcap.set(io.namespaces.unallocated().into());
    page.sqes = SQES << 4 | SQES;
    page.cqes = CQES << 4 | CQES;
    page.nn.set(MAX_NSID);
    page.oncs.set(commands.io.identify(config) | ONCS_FEATURES);
    page.fuses.set(if config.has_chunks() { 0 } else { COMPARE_AND_WRITE });
    page.vwc = VWC_FLUSH_ALL | u8::from(config.volatile_write_cache);
    page.ocfs.set(COPY_FORMATS);
    put_name(&mut page.subnqn, &subsystem_name(&config.serial));
    let states = config.power_states.states();
    page.npss = count8(states.len()) - 1;
    page.apsta = with_power_states(config, host.transport).into();
    page.psd = power::descriptors(states);
    fill_shared(page, controller);
}

/// CTRATT (section 5.15.2.2; FDP: NVMe TP4146; extended formats: NVMe 2.0).
fn attributes(config: &Config, host: &Host) -> u32 {
    const LONG_HOST_ID: u32 = 1;
    const NVM_SETS: u32 = 1 << 2;
    const ENDURANCE_GROUPS: u32 = 1 << 4;
    // Guards of 32 and 64 bits.
    const EXTENDED_FORMATS: u32 = 1 << 15;
    const FDP: u32 = 1 << 19;
    [
        (host.transport.is_shared(), LONG_HOST_ID),
        (config.has_sets(), NVM_SETS),
        (config.has_groups(), ENDURANCE_GROUPS),
        (config.offers_metadata(), EXTENDED_FORMATS),
        (config.has_fdp(), FDP),
    ]
    .into_iter()
    .filter_map(|(has, bit)| has.then_some(bit))
    .sum()
}

/// The fields about the parts of a subsystem that controllers share: paths, groups and sets.
fn fill_shared(page: &mut IdentifyController, controller: &ControllerMut) {
    // Each host has a controller of its own.
    const SEVERAL_CONTROLLERS: u8 = 1 << 1;
    const ANA: u8 = 1 << 3;
    let ControllerMut { host, io, .. } = controller;
    if host.transport.is_shared() {
        page.cmic = SEVERAL_CONTROLLERS | ANA;
        page.anatt = ana::TRANSITION_TIME;
        page.anacap = ana::CAPABILITIES;
        page.anagrpmax.set(ana::GROUP);
        // Groups.
        page.nanagrpid.set(1);
        page.mnan.set(MAX_NSID);
    }
    if host.transport.has_capsules() {
        page.msdbd = 1;
    }
    if io.config.has_groups() {
        page.endgidmax.set(io.endurance.ids().max().unwrap_or(0));
    }
    if io.config.has_sets() {
        page.nsetidmax.set(io.endurance.parts().iter().map(|part| part.set).max().unwrap_or(0));
    }
}

/// The capabilities that all namespaces have, as Namespace Management creates them (section 5.15.2.1,
/// NSID FFFFFFFFh): the formats, and what a deallocated block reads as. `apart`: whether a host can
/// have metadata in a buffer of its own.
fn fill_common_namespace(page: &mut IdentifyNamespace, config: &Config, apart: bool) {
    // MC: behind the data, and apart. DPC: all types, in the first bytes and in the last.
    const BEHIND: u8 = 1;
    const APART: u8 = 1 << 1;
    const ALL_PROTECTION: u8 = 0x1f;
    let formats = config.formats();
    page.nlbaf = count8(formats.len()) - 1;
    for (entry, format) in page.lbaf.iter_mut().zip(formats) {
        entry.ms.set(format.metadata);
        entry.lbads = bits(format.size.trailing_zeros());
    }
    if config.offers_metadata() {
        page.mc = BEHIND | if apart { APART } else { 0 };
        page.dpc = ALL_PROTECTION;
    }
    page.dlfeat = deallocation(config);
}

/// Identify Namespace data structure (section 5.15.2.1), but for the fields of [`Common`]. `apart`:
/// whether a host can have metadata in a buffer of its own.
fn fill_namespace(
    page: &mut IdentifyNamespace,
    (namespace, config): (&Namespace, &Config),
    identity: &NamespaceIdentity,
    apart: bool,
) {
    // FLBAS: metadata behind the data. DPS: protection information in the first bytes.
    const FORMATTED_BEHIND: u8 = 1 << 4;
    const FIRST: u8 = 1 << 3;
    // Addresses of an Open-Channel drive have holes.
    let addresses = namespace.ocssd.as_ref().map(|ocssd| ocssd.bits().span());
    page.nsze.set(addresses.unwrap_or(namespace.blocks));
    // Nothing is thin.
    page.ncap.set(namespace.blocks);
    page.nuse.set(namespace.blocks);
    // Limits of Copy (NVM Command Set Specification 1.0).
    page.mssrl.set(most_blocks_of_source(namespace));
    page.mcl.set(most_blocks(namespace));
    page.msrc = const { constant8(MAX_SOURCES as u64) - 1 };
    page.nguid = identity.nguid;
    page.eui64 = identity.eui64;
    fill_common_namespace(page, config, apart);
    page.flbas = namespace.format().number().unwrap_or_default();
    if let Some(Metadata { extended, protection, first, .. }) = namespace.metadata {
        page.flbas |= if extended { FORMATTED_BEHIND } else { 0 };
        page.dps = protection as u8 | if first { FIRST } else { 0 };
    }
}

/// NSFEAT and the fields for atomic writes, which are 0's based: the same while the power is on, for
/// fused commands, and when it fails.
fn put_atomicity(page: &mut IdentifyNamespace, Atomicity { unit, offset }: Atomicity) {
    const NSABP: u8 = 1 << 1;
    page.nsfeat |= NSABP;
    let size = configured16(unit - 1);
    let sizes =
        [&mut page.nawun, &mut page.nawupf, &mut page.nacwu, &mut page.nabsn, &mut page.nabspf];
    sizes.into_iter().for_each(|field| field.set(size));
    page.nabo.set(configured16(offset));
}

/// NVM Set List (section 5.15.2.4): those of an identifier not less than `first`.
fn fill_sets(page: &mut NvmSetList, controller: &ControllerMut, first: u16) {
    let io = &*controller.io;
    let listed = io.endurance.sets().into_iter().filter(|set| set.set >= first);
    for (entry, part) in page.entries.iter_mut().zip(listed) {
        entry.nvmsetid.set(part.set);
        entry.endgid.set(part.group);
        // Typical times of reads and an optimal size of writes are not reported (0).
        let free = io.namespaces.unallocated_of(|other| other.set == part.set);
        entry.total_capacity.set(part.bytes().into());
        entry.unallocated_capacity.set(free.into());
        page.count += 1;
    }
}

/// DLFEAT (section 5.15.2.1): the values that deallocated blocks read as.
fn deallocation(config: &Config) -> u8 {
    const NOT_REPORTED: u8 = 0;
    const ZEROES: u8 = 1;
    if config.discard_zeroes {
        ZEROES
    } else {
        NOT_REPORTED
    }
}

/// Namespace Identification Descriptor list (section 5.15.2.3);
/// the command set only where there are several.
fn fill_descriptors(page: &mut Page, identity: &NamespaceIdentity, set: Option<u8>) {
    let descriptors: [(u8, &[u8]); 3] =
        [(1, &identity.eui64), (2, &identity.nguid), (3, &identity.uuid)];
    let set = set.map(|set| [set]);
    let set = set.iter().map(|set| (4, set.as_slice()));
    let mut rest = &mut page[..];
    for (nidt, value) in descriptors.into_iter().chain(set) {
        let head = NamespaceIdHead { nidt, nidl: count8(value.len()), ..Default::default() };
        let (descriptor, behind) = rest.split_at_mut(size_of_val(&head) + value.len());
        let (place, identifier) = descriptor.split_at_mut(size_of_val(&head));
        place.copy_from_slice(head.as_bytes());
        identifier.copy_from_slice(value);
        rest = behind;
    }
}

/// Fills a list of identifiers that ascend, and the number of them.
fn fill_ids(page: &mut IdList, ids: impl Iterator<Item = u16>) {
    let mut count = 0;
    for (entry, id) in page.ids.iter_mut().zip(ids) {
        entry.set(id);
        count += 1;
    }
    page.count.set(count);
}
