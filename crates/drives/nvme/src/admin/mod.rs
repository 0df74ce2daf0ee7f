//! The admin command set (NVMe 1.4 section 5).
//!
//! A new command is a file here with an [`AdminCommand`](crate::context::AdminCommand), and a line in [`ADMIN`].

mod abort;
mod command_sets;
mod discovery;
mod doorbell_buffers;
mod events;
mod features;
mod format;
mod identify;
mod keep_alive;
mod log;
mod queues;

use crate::context::AdminExecute;
use crate::registered::Table;
use crate::{ocssd, placement};

/// Every admin command but those that go to the drive (NVMe 1.4 section 5).
pub static ADMIN: Table<AdminExecute> = Table::new(&[
    queues::DELETE_SUBMISSION_QUEUE,
    queues::CREATE_SUBMISSION_QUEUE,
    log::GET_LOG_PAGE,
    queues::DELETE_COMPLETION_QUEUE,
    queues::CREATE_COMPLETION_QUEUE,
    identify::IDENTIFY,
    abort::ABORT,
    features::SET_FEATURES,
    features::GET_FEATURES,
    events::ASYNCHRONOUS_EVENT_REQUEST,
    placement::DIRECTIVE_SEND,
    placement::DIRECTIVE_RECEIVE,
    doorbell_buffers::DOORBELL_BUFFER_CONFIG,
    format::FORMAT_NVM,
    ocssd::GEOMETRY,
]);

/// Every admin command of a discovery controller (NVMe over Fabrics 1.1 section 4.2).
pub static DISCOVERY_ADMIN: Table<AdminExecute> = Table::new(&[
    discovery::DISCOVERY_LOG,
    discovery::IDENTIFY_DISCOVERY,
    features::SET_FEATURES,
    features::GET_FEATURES,
    events::ASYNCHRONOUS_EVENT_REQUEST,
    keep_alive::KEEP_ALIVE,
]);

/// Every admin command of a controller on a fabric: its queues are made by Connect (NVMe over
/// Fabrics 1.1 section 3), and it has no doorbells.
pub static FABRICS_ADMIN: Table<AdminExecute> = Table::new(&[
    log::GET_LOG_PAGE,
    identify::IDENTIFY,
    abort::ABORT,
    features::SET_FEATURES,
    features::GET_FEATURES,
    events::ASYNCHRONOUS_EVENT_REQUEST,
    placement::DIRECTIVE_SEND,
    placement::DIRECTIVE_RECEIVE,
    format::FORMAT_NVM,
    ocssd::GEOMETRY,
    keep_alive::KEEP_ALIVE,
]);
