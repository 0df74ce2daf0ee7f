//! Identify by command set (NVM Express Base Specification 2.0 section
//! 5.17.2, ZNS 1.1 section 4.1.5).

use stasis_nvme_layout::command_sets::{
    KeyValueNamespace, NvmController, NvmNamespace, ZonedController,
};
use stasis_nvme_layout::identify::{CommandSets, IndependentNamespace};
use stasis_nvme_layout::transmute_mut;

use crate::command::{location, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::config::{Config, Namespace, MAX_NSID, NVM_COMMAND_SET as NVM};
use crate::context::ControllerMut;
use crate::status::{Failure, StatusCode};
use crate::{computing, key_value, zoned, PAGE_SIZE};

use super::identify_fields::{fill_nsids, most_pages, Common};

/// Controller or Namespace Structure, in Dword 10 (section 5.17.1): of one command set.
mod structure {
    pub const SET_NAMESPACE: u8 = 0x05;
    pub const SET_CONTROLLER: u8 = 0x06;
    pub const SET_ACTIVE_NAMESPACES: u8 = 0x07;
    pub const INDEPENDENT_NAMESPACE: u8 = 0x08;
    /// These two come with namespace management.
    pub const SET_ALLOCATED_NAMESPACES: u8 = 0x1a;
    pub const SET_ALLOCATED_NAMESPACE: u8 = 0x1b;
    pub const COMMAND_SETS: u8 = 0x1c;
}

type Page = [u8; PAGE_SIZE];

/// The Identify structures of one command set, or of all.
pub fn identify_by_command_set(
    controller: &ControllerMut,
    command: &SubmissionEntry,
    page: &mut Page,
) -> Result<(), Failure> {
    let set = command.cdw11.byte(3);
    let known = controller.io.config.has_command_set(set);
    let wrong_set = StatusCode::InvalidField.at(location::CDW11 + 3);
    let nsid = command.nsid;
    let namespace = || {
        let unknown = StatusCode::InvalidNamespace.at(location::NSID);
        controller.io.check_attached(controller.host.id, nsid).map_err(|_| unknown)?;
        controller.io.namespaces.get(nsid).ok_or(unknown)
    };
    match command.cdw10.byte(0) {
        structure::SET_NAMESPACE if nsid == ALL_NAMESPACES && set == NVM => {
            fill_formats(transmute_mut!(page), &controller.io.config);
        }
        structure::SET_NAMESPACE => {
            fill_namespace(page, controller, (nsid, namespace()?), (set, known))?;
        }
        structure::SET_ALLOCATED_NAMESPACE => {
            if !(1..=MAX_NSID).contains(&nsid) {
                return Err(StatusCode::InvalidNamespace.at(location::NSID));
            }
            match controller.io.namespaces.get(nsid) {
                Some(namespace) => {
                    fill_namespace(page, controller, (nsid, namespace), (set, known))?
                }
                // An absent set has zeroes.
                None if known => {}
                None => return Err(wrong_set),
            }
        }
        structure::SET_CONTROLLER if set == zoned::CSI && known => {
            let page: &mut ZonedController = transmute_mut!(page);
            page.zasl = most_pages(&controller.io.config);
        }
        structure::SET_CONTROLLER if known => {
            fill_controller(transmute_mut!(page), &controller.io.config);
        }
        list @ (structure::SET_ACTIVE_NAMESPACES | structure::SET_ALLOCATED_NAMESPACES)
            if known =>
        {
            if nsid >= ALL_NAMESPACES - 1 {
                return Err(StatusCode::InvalidNamespace.at(location::NSID));
            }
            let namespaces = controller.io.namespaces.iter();
            let all = list == structure::SET_ALLOCATED_NAMESPACES;
            let shown =
                |other| all || controller.io.access.attachments.has(controller.host.id, other);
            let following = namespaces.filter(|&(other, namespace)| {
                other > nsid && namespace.command_set() == set && shown(other)
            });
            fill_nsids(transmute_mut!(page), following.map(|(nsid, _)| nsid));
        }
        structure::INDEPENDENT_NAMESPACE => {
            // Namespace Status: ready.
            const READY: u8 = 1;
            let Common { nmic, rescap, anagrpid, nsattr, endgid, nvmsetid } =
                Common::of(controller, nsid, namespace()?);
            let page: &mut IndependentNamespace = transmute_mut!(page);
            (page.nmic, page.rescap, page.nsattr) = (nmic, rescap, nsattr);
            page.anagrpid.set(anagrpid);
            page.nvmsetid.set(nvmsetid);
            page.endgid.set(endgid);
            page.nstat = READY;
        }
        structure::COMMAND_SETS => {
            let config = &controller.io.config;
            let sets =
                [NVM, key_value::CSI, zoned::CSI, computing::MEMORY_CSI, computing::COMPUTE_CSI];
            let there = sets.into_iter();
            let there = there.filter(|&set| config.has_command_set(set));
            let page: &mut CommandSets = transmute_mut!(page);
            page.combinations[0].set(there.fold(0, |sets, set| sets | 1 << set));
        }
        _ if known => return Err(StatusCode::InvalidField.at(location::CDW10)),
        _ => return Err(wrong_set),
    }
    Ok(())
}

/// The structure that a command set has of a namespace. `known`: whether the drive has that set.
fn fill_namespace(
    page: &mut Page,
    controller: &ControllerMut,
    (nsid, namespace): (u32, &Namespace),
    (set, known): (u8, bool),
) -> Result<(), Failure> {
    let at = location::CDW11 + 3;
    let config = &controller.io.config;
    let namespaces = &controller.io.namespaces;
    let pairs = namespaces.key_value(nsid).zip(namespaces.identity(nsid));
    if let Some((pairs, identity)) = pairs.filter(|_| set == key_value::CSI) {
        let page: &mut KeyValueNamespace = transmute_mut!(page);
        key_value::fill_key_value_namespace(page, pairs, identity);
        let Common { nmic, rescap, anagrpid, nsattr, endgid, nvmsetid } =
            Common::of(controller, nsid, namespace);
        (page.nmic, page.rescap, page.nsattr) = (nmic, rescap, nsattr);
        page.anagrpid.set(anagrpid);
        page.nvmsetid.set(nvmsetid);
        page.endgid.set(endgid);
        return Ok(());
    }
    if set == computing::COMPUTE_CSI && namespace.command_set() == set {
        computing::fill_compute_namespace(transmute_mut!(page));
        return Ok(());
    }
    match &namespace.zoned {
        Some(zones) if set == zoned::CSI => {
            let page = transmute_mut!(page);
            zoned::fill_zoned_namespace(page, namespace, zones, config.formats());
        }
        _ if set == NVM && namespace.has_blocks() => {
            fill_formats(transmute_mut!(page), config);
        }
        _ if known => return Err(StatusCode::InvalidCommandSet.at(at)),
        _ => return Err(StatusCode::InvalidField.at(at)),
    }
    Ok(())
}

/// Extended LBA formats (NVM Command Set 1.0 figure 100). Storage tags are not checked: of their mask
/// (LBSTM) no bit is set.
fn fill_formats(page: &mut NvmNamespace, config: &Config) {
    for (entry, format) in page.elbaf.iter_mut().zip(config.formats()) {
        entry.set(format.guard.extended_format());
    }
}

/// Identify Controller data structure of the NVM command set (NVM Command Set 1.0 section 4.1.5.2): the
/// limits of Verify and Write Zeroes, which hold where those move or make data, are that of transfers.
fn fill_controller(page: &mut NvmController, config: &Config) {
    if config.offers_metadata() {
        (page.vsl, page.wzsl) = (most_pages(config), most_pages(config));
    }
}
