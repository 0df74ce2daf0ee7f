//! The admin command set (NVMe 1.4 section 5).
//!
//! A new command is a file here with an [`AdminCommand`], and a line in [`BASE`], or in the list of
//! its transport.

mod abort;
mod attachment;
mod command_sets;
mod discovery;
mod doorbell_buffers;
mod events;
mod features;
mod firmware;
mod format;
mod identify;
mod identify_fields;
mod keep_alive;
mod lba_status;
mod log;
mod management;
mod queues;
mod sanitize;
mod self_test;

use crate::context::{AdminCommand, AdminExecute};
use crate::registered::{joined, Table};
use crate::{computing, ocssd, placement};

/// Every admin command on PCIe but those that go to the drive (NVMe 1.4 section 5).
pub static ADMIN: Table<AdminExecute> = Table::new(&ON_PCIE);

/// Every admin command of a controller on a fabric: its queues are made by Connect (NVMe over
/// Fabrics 1.1 section 3), and it has no doorbells.
pub static FABRICS_ADMIN: Table<AdminExecute> = Table::new(&ON_FABRICS);

/// Every admin command of a discovery controller (NVMe over Fabrics 1.1 section 4.2).
pub static DISCOVERY_ADMIN: Table<AdminExecute> = Table::new(&[
    discovery::DISCOVERY_LOG,
    discovery::IDENTIFY_DISCOVERY,
    features::SET_FEATURES,
    features::GET_FEATURES,
    events::ASYNCHRONOUS_EVENT_REQUEST,
    keep_alive::KEEP_ALIVE,
]);

/// Commands of every transport.
const BASE: [AdminCommand; 16] = [
    log::GET_LOG_PAGE,
    identify::IDENTIFY,
    abort::ABORT,
    features::SET_FEATURES,
    features::GET_FEATURES,
    events::ASYNCHRONOUS_EVENT_REQUEST,
    placement::DIRECTIVE_SEND,
    placement::DIRECTIVE_RECEIVE,
    firmware::FIRMWARE_COMMIT,
    firmware::FIRMWARE_IMAGE_DOWNLOAD,
    self_test::DEVICE_SELF_TEST,
    management::NAMESPACE_MANAGEMENT,
    attachment::NAMESPACE_ATTACHMENT,
    format::FORMAT_NVM,
    sanitize::SANITIZE,
    lba_status::GET_LBA_STATUS,
];

const WITH_CHUNKS: [AdminCommand; BASE.len() + ocssd::ADMIN_COMMANDS.len()] =
    joined(BASE, ocssd::ADMIN_COMMANDS);

const EVERYWHERE: [AdminCommand; WITH_CHUNKS.len() + computing::ADMIN_COMMANDS.len()] =
    joined(WITH_CHUNKS, computing::ADMIN_COMMANDS);

const ON_PCIE: [AdminCommand; EVERYWHERE.len() + 5] = joined(
    EVERYWHERE,
    [
        queues::DELETE_SUBMISSION_QUEUE,
        queues::CREATE_SUBMISSION_QUEUE,
        queues::DELETE_COMPLETION_QUEUE,
        queues::CREATE_COMPLETION_QUEUE,
        doorbell_buffers::DOORBELL_BUFFER_CONFIG,
    ],
);

const ON_FABRICS: [AdminCommand; EVERYWHERE.len() + 1] =
    joined(EVERYWHERE, [keep_alive::KEEP_ALIVE]);
