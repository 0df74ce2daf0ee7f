//! Identify (NVMe 1.4 section 5.15): the properties of the controller and its namespaces.

use crate::atomicity::Atomicity;
use crate::command::{location, of_any_namespace, SubmissionEntry, ALL_NAMESPACES};
use crate::commands::{most_blocks, most_blocks_of_source, MAX_SOURCES};
use crate::condition::{CRITICAL_TEMPERATURE, WARNING_TEMPERATURE};
use crate::config::{Config, Namespace, MAX_NAMESPACES};
use crate::context::ControllerMut;
use crate::error_log::ERROR_LOG_ENTRIES;
use crate::events::MAX_EVENT_REQUESTS;
use crate::features::notices;
use crate::identity::{subsystem_name, NamespaceIdentity};
use crate::log_page::with_power_states;
use crate::metadata::Metadata;
use crate::registers::{CQES, SQES, VERSION};
use crate::sgl;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{ana, capsules, event_log, keep_alive, power, reservations, Memory, PAGE_SIZE};

use super::command_sets::identify_by_command_set;
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
    match command.cdw10 as u8 {
        which @ (structure::NAMESPACE | structure::ALLOCATED_NAMESPACE) => {
            if !(1..=MAX_NAMESPACES as u32).contains(&nsid) {
                return Err(unknown);
            }
            let namespaces = &controller.io.namespaces;
            let attached = controller.io.attachments.has(controller.host.id, nsid);
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
            fill_namespace(&mut page, (namespace, &controller.io.config), identity, apart);
            let Common { nmic, rescap, anagrpid, nsattr, endgid, nvmsetid } =
                Common::of(controller, nsid, namespace);
            put(&mut page, 48, &u128::from(namespaces.capacity(nsid)).to_le_bytes()); // NVMCAP
            if let Some(atomicity) = Atomicity::of(namespace, controller.io.config.atomic_unit) {
                put_atomicity(&mut page, atomicity);
            }
            (page[30], page[31], page[99]) = (nmic, rescap, nsattr);
            put(&mut page, 92, &anagrpid.to_le_bytes());
            put(&mut page, 100, &nvmsetid.to_le_bytes());
            put(&mut page, 102, &endgid.to_le_bytes());
            page[33] = deallocation(&controller.io.config);
        }
        structure::CONTROLLER => fill_controller(&mut page, controller),
        list @ (structure::ACTIVE_NAMESPACES | structure::ALLOCATED_NAMESPACES) => {
            if nsid >= ALL_NAMESPACES - 1 {
                return Err(unknown);
            }
            let all = list == structure::ALLOCATED_NAMESPACES;
            let attachments = &controller.io.attachments;
            let there = controller.io.namespaces.nsids();
            let following = there.filter(|other| {
                *other > nsid && (all || attachments.has(controller.host.id, *other))
            });
            for (entry, nsid) in page.chunks_exact_mut(4).zip(following) {
                entry.copy_from_slice(&nsid.to_le_bytes());
            }
        }
        list @ (structure::CONTROLLERS_OF_NAMESPACE | structure::CONTROLLERS) => {
            let of_one = list == structure::CONTROLLERS_OF_NAMESPACE;
            if of_one && controller.io.namespaces.get(nsid).is_none() {
                return Err(unknown);
            }
            let attachments = &controller.io.attachments;
            let first = (command.cdw10 >> 16) as u16;
            let listed = attachments
                .controllers()
                .filter(|id| id.0 >= first && (!of_one || attachments.has(*id, nsid)));
            let mut count = 0u16;
            for (entry, id) in page[2..].chunks_exact_mut(2).zip(listed) {
                entry.copy_from_slice(&id.0.to_le_bytes());
                count += 1;
            }
            put(&mut page, 0, &count.to_le_bytes());
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
            let asked = command.cdw11 as u16;
            let listed = controller.io.endurance.ids().filter(|&id| id >= asked);
            let mut count = 0u16;
            for (entry, id) in page[2..].chunks_exact_mut(2).zip(listed) {
                entry.copy_from_slice(&id.to_le_bytes());
                count += 1;
            }
            put(&mut page, 0, &count.to_le_bytes());
        }
        structure::NVM_SETS if controller.io.config.has_sets() => {
            fill_sets(&mut page, controller, command.cdw11 as u16);
        }
        _ if controller.io.config.has_set_structures() => {
            identify_by_command_set(controller, command, &mut page)?
        }
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    }
    controller.io.send(memory, command, &page)?;
    Ok(Outcome::Done(0))
}

/// The fields of a namespace that it has in each structure, in different places.
pub(super) struct Common {
    /// Other controllers may have it too.
    pub nmic: u8,
    pub rescap: u8,
    pub anagrpid: u32,
    /// Bit 0: it cannot be written now, for whatever reason.
    pub nsattr: u8,
    pub endgid: u16,
    pub nvmsetid: u16,
}

impl Common {
    pub fn of(controller: &ControllerMut, nsid: u32, namespace: &Namespace) -> Self {
        let ControllerMut { host, io, .. } = controller;
        let is_shared = host.transport.is_shared();
        let reserves = is_shared && namespace.ocssd.is_none();
        Self {
            nmic: io.namespaces.creation(nsid).map_or(is_shared, |creation| creation.shared).into(),
            rescap: if reserves { reservations::CAPABILITIES } else { 0 },
            anagrpid: if is_shared { ana::GROUP } else { 0 },
            nsattr: (namespace.read_only || io.condition.health().read_only).into(),
            endgid: io.namespaces.endurance_group(nsid),
            nvmsetid: namespace.nvm_set,
        }
    }
}

/// Text padded with spaces (section 1.8, "ASCII string").
pub(super) fn put_text(field: &mut [u8], text: &str) {
    field.fill(b' ');
    field[..text.len()].copy_from_slice(text.as_bytes());
}

pub(super) fn put(page: &mut [u8], at: usize, value: &[u8]) {
    page[at..at + value.len()].copy_from_slice(value);
}

/// The fields of Identify Controller that every controller has, a discovery controller as well.
pub(super) fn fill_any_controller(page: &mut Page, controller: &ControllerMut) {
    let ControllerMut { host, io, .. } = controller;
    let config = &io.config;
    put_text(&mut page[4..24], &config.serial);
    put_text(&mut page[24..64], &config.model);
    page[64..72].copy_from_slice(&io.firmware.active());
    // MDTS: 2^MDTS pages at most.
    page[77] = (config.max_transfer / PAGE_SIZE as u32).trailing_zeros() as u8;
    put(page, 80, &VERSION.to_le_bytes());
    page[259] = MAX_EVENT_REQUESTS as u8 - 1;
    let sgls = match host.transport.has_capsules() {
        true => sgl::FABRICS_SUPPORT,
        false if config.offers_metadata() => sgl::WITH_METADATA,
        false => sgl::SUPPORT,
    };
    put(page, 536, &sgls.to_le_bytes());
    if host.transport.is_shared() {
        put(page, 78, &host.id.0.to_le_bytes());
    }
    if host.transport.has_capsules() {
        put(page, 320, &keep_alive::GRANULARITY.to_le_bytes());
        put(page, 514, &config.queue_entries.to_le_bytes()); // MAXCMD
        put(page, 1792, &capsules::IOCCSZ.to_le_bytes());
        put(page, 1796, &capsules::IORCSZ.to_le_bytes());
    }
}

/// Identify Controller data structure (section 5.15.2.2), by its byte offsets.
fn fill_controller(page: &mut Page, controller: &ControllerMut) {
    // Controller Attributes.
    const CTRATT_ENDURANCE_GROUPS: u32 = 1 << 4;
    const CTRATT_NVM_SETS: u32 = 1 << 2;
    const CTRATT_FDP: u32 = 1 << 19;
    const CTRATT_LONG_HOST_ID: u32 = 1;
    // Guards of 32 and 64 bits.
    const CTRATT_EXTENDED_FORMATS: u32 = 1 << 15;
    // Each host has a controller of its own.
    const CMIC_SEVERAL_CONTROLLERS: u8 = 1 << 1;
    const CMIC_ANA: u8 = 1 << 3;
    // Maximum SGL Data Block Descriptors of a capsule.
    const MSDBD: u8 = 1;
    // Vendor specific admin commands have their length in Dword 10.
    const AVSCC: u8 = 1;
    // Commands Supported and Effects log; Get Log Page with offsets; telemetry; persistent events;
    // supported log pages, features and scopes of commands are told (NVMe 2.0).
    const LPA: u8 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;
    // In ONCS beside I/O commands: Select in Get Features, Timestamp.
    const ONCS_FEATURES: u16 = 1 << 4 | 1 << 6;
    // Copy takes descriptors of format 0 (NVMe 2.0, OCFS).
    const COPY_FORMATS: u16 = 1;
    // Flush takes all namespaces at once (bits 2:1); bit 0: a cache is there.
    const VWC_FLUSH_ALL: u8 = 3 << 1;
    // A controller for I/O.
    const CNTRLTYPE_IO: u8 = 1;

    let ControllerMut { commands, host, io, .. } = controller;
    let config = &io.config;
    fill_any_controller(page, controller);
    put(page, 0, &config.vendor_id.to_le_bytes());
    put(page, 2, &config.subsystem_vendor_id.to_le_bytes());
    page[111] = CNTRLTYPE_IO;
    let mut attributes = 0;
    if host.transport.is_shared() {
        page[76] |= CMIC_SEVERAL_CONTROLLERS | CMIC_ANA;
        attributes |= CTRATT_LONG_HOST_ID;
        page[342] = ana::TRANSITION_TIME;
        page[343] = ana::CAPABILITIES;
        put(page, 344, &ana::GROUP.to_le_bytes()); // ANAGRPMAX
        put(page, 348, &1u32.to_le_bytes()); // NANAGRPID: groups
        put(page, 540, &(MAX_NAMESPACES as u32).to_le_bytes()); // MNAN
    }
    if host.transport.has_capsules() {
        page[1803] = MSDBD;
    }
    put(page, 256, &commands.admin.identify(config).to_le_bytes()); // OACS
    if config.has_groups() {
        attributes |= CTRATT_ENDURANCE_GROUPS;
        let highest = io.endurance.ids().max().unwrap_or(0);
        put(page, 340, &highest.to_le_bytes()); // ENDGIDMAX
    }
    if config.has_sets() {
        attributes |= CTRATT_NVM_SETS;
        let highest = io.endurance.parts().iter().map(|part| part.set).max().unwrap_or(0);
        put(page, 338, &highest.to_le_bytes()); // NSETIDMAX
    }
    if config.has_fdp() {
        attributes |= CTRATT_FDP;
    }
    if config.offers_metadata() {
        attributes |= CTRATT_EXTENDED_FORMATS;
    }
    put(page, 96, &attributes.to_le_bytes());
    put(page, 92, &notices(config, host.transport).to_le_bytes());
    page[264] = AVSCC;
    page[524] = format::FNA;
    page[258] = 3; // Abort Command Limit, 0's based; each is done at once.
    page[260] = firmware::UPDATES; // FRMW
    page[319] = firmware::GRANULARITY; // FWUG
    page[261] = LPA;
    page[262] = ERROR_LOG_ENTRIES as u8 - 1;
    put(page, 266, &WARNING_TEMPERATURE.to_le_bytes());
    put(page, 268, &CRITICAL_TEMPERATURE.to_le_bytes());
    // EDSTT: minutes of an extended self-test, as if a second verified a GiB.
    let minutes = (io.namespaces.total_capacity() >> 30).div_ceil(60).clamp(1, 0xffff) as u16;
    put(page, 316, &minutes.to_le_bytes());
    page[318] = 1; // DSTO: one test of the subsystem at a time
    put(page, 328, &sanitize::capabilities(config).to_le_bytes());
    page[512] = SQES << 4 | SQES;
    page[513] = CQES << 4 | CQES;
    put(page, 280, &u128::from(io.namespaces.total_capacity()).to_le_bytes()); // TNVMCAP
    put(page, 296, &u128::from(io.namespaces.unallocated()).to_le_bytes()); // UNVMCAP
    put(page, 516, &(MAX_NAMESPACES as u32).to_le_bytes()); // NN
    put(page, 520, &(commands.io.identify(config) | ONCS_FEATURES).to_le_bytes());
    // Compare and Write.
    page[522] = u8::from(!config.has_chunks()); // FUSES
    page[525] = VWC_FLUSH_ALL | u8::from(config.volatile_write_cache);
    put(page, 534, &COPY_FORMATS.to_le_bytes());
    put(page, 768, subsystem_name(&config.serial).as_bytes());
    put(page, 352, &event_log::SIZE.to_le_bytes()); // PELS
    page[263] = config.power_states.states().len() as u8 - 1; // NPSS
    page[265] = with_power_states(config, host.transport).into(); // APSTA
    put(page, 2048, &power::descriptors(config.power_states.states()));
}

/// Identify Namespace data structure (section 5.15.2.1), by its byte offsets. `apart`: whether a
/// host can have metadata in a buffer of its own.
fn fill_namespace(
    page: &mut Page,
    (namespace, config): (&Namespace, &Config),
    identity: &NamespaceIdentity,
    apart: bool,
) {
    // MC: behind the data, and apart. DPC: all types, in the first bytes and in the last.
    const BEHIND: u8 = 1;
    const APART: u8 = 1 << 1;
    const ALL_PROTECTION: u8 = 0x1f;
    // FLBAS: metadata behind the data. DPS: protection information in the first bytes.
    const FORMATTED_BEHIND: u8 = 1 << 4;
    const FIRST: u8 = 1 << 3;
    let blocks = namespace.blocks.to_le_bytes();
    // Size, capacity and use: nothing is thin.
    for at in [0, 8, 16] {
        put(page, at, &blocks);
    }
    if let Some(ocssd) = &namespace.ocssd {
        // Addresses have holes.
        put(page, 0, &ocssd.bits().span().to_le_bytes());
    }
    // Limits of Copy (NVM Command Set Specification 1.0): MSSRL, MCL, MSRC.
    put(page, 74, &most_blocks_of_source(namespace).to_le_bytes());
    put(page, 76, &most_blocks(namespace).to_le_bytes());
    page[80] = (MAX_SOURCES - 1) as u8;
    put(page, 104, &identity.nguid);
    put(page, 120, &identity.eui64);
    // LBA formats: bytes of metadata, and log2 of the data's in bits 23:16.
    let formats = config.formats();
    page[25] = formats.len() as u8 - 1;
    for (index, format) in formats.iter().enumerate() {
        put(page, 128 + 4 * index, &(format.metadata as u16).to_le_bytes());
        page[128 + 4 * index + 2] = format.size.trailing_zeros() as u8;
    }
    page[26] = namespace.format().number().unwrap_or_default();
    if config.offers_metadata() {
        page[27] = BEHIND | if apart { APART } else { 0 };
        page[28] = ALL_PROTECTION;
    }
    if let Some(Metadata { extended, protection, first, .. }) = namespace.metadata {
        page[26] |= if extended { FORMATTED_BEHIND } else { 0 };
        page[29] = protection as u8 | if first { FIRST } else { 0 };
    }
}

/// NSFEAT and the fields for atomic writes, which are 0's based: the same while the power is on, for
/// fused commands, and when it fails.
fn put_atomicity(page: &mut Page, Atomicity { unit, offset }: Atomicity) {
    const NSABP: u8 = 1 << 1;
    page[24] |= NSABP;
    let size = (unit - 1) as u16;
    // NAWUN, NAWUPF, NACWU, NABSN, NABO and NABSPF.
    let fields = [(34, size), (36, size), (38, size), (40, size), (42, offset as u16), (44, size)];
    for (at, value) in fields {
        put(page, at, &value.to_le_bytes());
    }
}

/// NVM Set List (section 5.15.2.4): those of an identifier not less than `first`.
fn fill_sets(page: &mut Page, controller: &ControllerMut, first: u16) {
    const ENTRY: usize = 128;
    let io = &*controller.io;
    let listed = io.endurance.sets().into_iter().filter(|set| set.set >= first);
    let mut count = 0u8;
    for (entry, part) in page[ENTRY..].chunks_exact_mut(ENTRY).zip(listed) {
        entry[0..2].copy_from_slice(&part.set.to_le_bytes());
        entry[2..4].copy_from_slice(&part.group.to_le_bytes());
        // Typical times of reads and an optimal size of writes are not reported (0).
        let free = io.namespaces.unallocated_of(|other| other.set == part.set);
        entry[16..32].copy_from_slice(&u128::from(part.bytes()).to_le_bytes());
        entry[32..48].copy_from_slice(&u128::from(free).to_le_bytes());
        count += 1;
    }
    page[0] = count;
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
    let mut at = 0;
    let set = set.map(|set| [set]);
    let set = set.iter().map(|set| (4, set.as_slice()));
    for (kind, value) in descriptors.into_iter().chain(set) {
        page[at] = kind;
        page[at + 1] = value.len() as u8;
        put(page, at + 4, value);
        at += 4 + value.len();
    }
}
