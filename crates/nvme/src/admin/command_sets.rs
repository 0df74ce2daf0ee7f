//! Identify by command set (NVM Express Base Specification 2.0 section
//! 5.17.2, ZNS 1.1 section 4.1.5).

use crate::command::{location, SubmissionEntry};
use crate::config::Namespace;
use crate::controller::Controller;
use crate::io::ALL_NAMESPACES;
use crate::status::{Failure, StatusCode};
use crate::{zoned, PAGE_SIZE};

use super::format::LBA_FORMATS;
use super::identify::structure;

type Page = [u8; PAGE_SIZE];

/// Command Set Identifier of the NVM command set.
const NVM: u8 = 0;

impl Namespace {
    /// Its Command Set Identifier.
    pub(super) fn command_set(&self) -> u8 {
        if self.zoned.is_some() {
            zoned::CSI
        } else {
            NVM
        }
    }
}

impl Controller {
    /// The structures that are a command set's own, or tell of all.
    pub(super) fn identify_by_command_set(
        &self,
        command: &SubmissionEntry,
        page: &mut Page,
    ) -> Result<(), Failure> {
        let set = (command.cdw11 >> 24) as u8;
        let known = set == NVM || set == zoned::CSI && self.config.has_zones();
        let wrong_set = StatusCode::InvalidField.at(location::CDW11 + 3);
        let nsid = command.nsid;
        let namespace = || {
            let unknown = StatusCode::InvalidNamespace.at(location::NSID);
            self.config.namespace(nsid).ok_or(unknown)
        };
        match command.cdw10 as u8 {
            structure::SET_NAMESPACE => {
                let namespace = namespace()?;
                match &namespace.zoned {
                    Some(zones) if set == zoned::CSI => {
                        zoned::fill_zoned_namespace(page, namespace, zones, &LBA_FORMATS);
                    }
                    // Of the NVM command set's own there is nothing.
                    _ if set == NVM => {}
                    _ if known => return Err(StatusCode::InvalidCommandSet.at(location::CDW11 + 3)),
                    _ => return Err(wrong_set),
                }
            }
            structure::SET_CONTROLLER if set == zoned::CSI && known => {
                zoned::fill_zoned_controller(page, &self.config);
            }
            structure::SET_CONTROLLER if known => {}
            structure::SET_ACTIVE_NAMESPACES if known => {
                if nsid >= ALL_NAMESPACES - 1 {
                    return Err(StatusCode::InvalidNamespace.at(location::NSID));
                }
                let following = (1..).zip(&self.config.namespaces).filter(|&(other, of)| {
                    let other: u32 = other;
                    other > nsid && of.command_set() == set
                });
                for (entry, (nsid, _)) in page.chunks_exact_mut(4).zip(following) {
                    entry.copy_from_slice(&nsid.to_le_bytes());
                }
            }
            structure::INDEPENDENT_NAMESPACE => {
                // Namespace Status: ready.
                const READY: u8 = 1;
                // Namespace Attributes: write protected.
                const WRITE_PROTECTED: u8 = 1;
                page[8] = if namespace()?.read_only { WRITE_PROTECTED } else { 0 };
                page[14] = READY;
            }
            structure::COMMAND_SETS => {
                let zones = if self.config.has_zones() { 1 << zoned::CSI } else { 0 };
                page[0] = 1 << NVM | zones;
            }
            _ if known => return Err(StatusCode::InvalidField.at(location::CDW10)),
            _ => return Err(wrong_set),
        }
        Ok(())
    }
}
