//! The commands that the controller supports.
//!
//! A new one is a file here with an [`IoCommand`](crate::io::IoCommand) or an
//! [`AdminCommand`](crate::admin::AdminCommand), and a line in [`IO`] or [`ADMIN`]:
//! execution, the log of commands and effects, Identify and the records of refused
//! I/Os follow from it.

mod compare;
mod copy;
mod dataset;
mod flush;
mod read;
mod verify;
mod write;
mod write_uncorrectable;
mod write_zeroes;

pub use copy::{most_blocks, most_blocks_of_source, MAX_SOURCES};
pub use dataset::{parse_range, receive_ranges, DEALLOCATE, MAX_RANGES, RANGE};

use crate::admin::{self, AdminExecute, Commands};
use crate::io::IoExecute;
use crate::registered::Table;
use crate::{ocssd, placement, zoned};

/// All of them.
pub static COMMANDS: Commands = Commands { io: &IO, open_channel: &OPEN_CHANNEL, admin: &ADMIN };

/// Every I/O command but those of Open-Channel namespaces (NVMe 1.4 section 6).
static IO: Table<IoExecute> = Table::new(&[
    flush::COMMAND,
    write::COMMAND,
    read::COMMAND,
    write_uncorrectable::COMMAND,
    compare::COMMAND,
    write_zeroes::COMMAND,
    dataset::COMMAND,
    verify::COMMAND,
    copy::COMMAND,
    placement::IO_MANAGEMENT_RECEIVE,
    placement::IO_MANAGEMENT_SEND,
    zoned::ZONE_MANAGEMENT_SEND,
    zoned::ZONE_MANAGEMENT_RECEIVE,
    zoned::ZONE_APPEND,
]);

/// Every I/O command of Open-Channel namespaces (OCSSD 2.0 section 4).
static OPEN_CHANNEL: Table<IoExecute> = Table::new(&[
    flush::COMMAND,
    ocssd::WRITE,
    ocssd::READ,
    ocssd::DATASET_MANAGEMENT,
    ocssd::VECTOR_RESET,
    ocssd::VECTOR_WRITE,
    ocssd::VECTOR_READ,
    ocssd::VECTOR_COPY,
]);

/// Every admin command but those that go to the drive (NVMe 1.4 section 5).
static ADMIN: Table<AdminExecute> = Table::new(&[
    admin::DELETE_SUBMISSION_QUEUE,
    admin::CREATE_SUBMISSION_QUEUE,
    admin::GET_LOG_PAGE,
    admin::DELETE_COMPLETION_QUEUE,
    admin::CREATE_COMPLETION_QUEUE,
    admin::IDENTIFY,
    admin::ABORT,
    admin::SET_FEATURES,
    admin::GET_FEATURES,
    admin::ASYNCHRONOUS_EVENT_REQUEST,
    placement::DIRECTIVE_SEND,
    placement::DIRECTIVE_RECEIVE,
    admin::DOORBELL_BUFFER_CONFIG,
    admin::FORMAT_NVM,
    ocssd::GEOMETRY,
]);
