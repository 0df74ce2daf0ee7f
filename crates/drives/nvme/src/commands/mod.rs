//! The commands that the controller supports.
//!
//! A new I/O command is a file here with an [`IoCommand`](crate::io::IoCommand), and a line in
//! [`IO`]; an admin command is a file of [`admin`], and a line in its table. Execution, the log of
//! commands and effects, Identify and the records of refused I/Os follow from it.

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
pub use dataset::{receive_ranges, DEALLOCATE, MAX_RANGES};

use crate::admin;
use crate::context::Commands;
use crate::io::{IoCommand, IoExecute};
use crate::registered::{joined, Table};
use crate::transport::Transport;
use crate::{computing, key_value, ocssd, placement, reservations, zoned};

/// The commands that a controller of a transport has.
pub fn of(transport: Transport) -> &'static Commands {
    match transport {
        Transport::Pcie => &COMMANDS,
        Transport::SharedPcie => &SHARED_COMMANDS,
        Transport::Fabrics => &FABRICS_COMMANDS,
        Transport::Discovery => &DISCOVERY_COMMANDS,
    }
}

/// All of a controller on PCIe.
static COMMANDS: Commands = Commands {
    io: &IO,
    open_channel: &OPEN_CHANNEL,
    key_value: &KEY_VALUE,
    memory: &MEMORY,
    compute: &COMPUTE,
    admin: &admin::ADMIN,
};

/// Commands of a controller on PCIe, where other hosts have controllers.
static SHARED_COMMANDS: Commands = Commands {
    io: &SHARED_IO,
    open_channel: &OPEN_CHANNEL,
    key_value: &SHARED_KEY_VALUE,
    memory: &MEMORY,
    compute: &COMPUTE,
    admin: &admin::ADMIN,
};

/// Commands of a controller on a fabric.
static FABRICS_COMMANDS: Commands = Commands {
    io: &SHARED_IO,
    open_channel: &OPEN_CHANNEL,
    key_value: &SHARED_KEY_VALUE,
    memory: &MEMORY,
    compute: &COMPUTE,
    admin: &admin::FABRICS_ADMIN,
};

/// Commands of a discovery controller, which has no I/O queues.
static DISCOVERY_COMMANDS: Commands = Commands {
    io: &NONE,
    open_channel: &NONE,
    key_value: &NONE,
    memory: &NONE,
    compute: &NONE,
    admin: &admin::DISCOVERY_ADMIN,
};

static NONE: Table<IoExecute> = Table::new(&[]);

/// Every I/O command on PCIe but those of Open-Channel and key-value namespaces (NVMe 1.4 section 6).
static IO: Table<IoExecute> = Table::new(&BASE);

/// [`IO`] and reservations: for a drive that can have several hosts.
static SHARED_IO: Table<IoExecute> = Table::new(&WITH_RESERVATIONS);

const BASE: [IoCommand; 14] = [
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
];

const WITH_RESERVATIONS: [IoCommand; BASE.len() + RESERVATIONS.len()] = joined(BASE, RESERVATIONS);

const RESERVATIONS: [IoCommand; 4] =
    [reservations::REGISTER, reservations::REPORT, reservations::ACQUIRE, reservations::RELEASE];

/// Every I/O command of key-value namespaces (KV 1.0 section 3).
static KEY_VALUE: Table<IoExecute> = Table::new(&OF_PAIRS);

/// [`KEY_VALUE`] and reservations: for a drive that can have several hosts.
static SHARED_KEY_VALUE: Table<IoExecute> = Table::new(&OF_PAIRS_WITH_RESERVATIONS);

const OF_PAIRS: [IoCommand; 1 + key_value::IO_COMMANDS.len()] =
    joined([flush::COMMAND], key_value::IO_COMMANDS);

const OF_PAIRS_WITH_RESERVATIONS: [IoCommand; OF_PAIRS.len() + RESERVATIONS.len()] =
    joined(OF_PAIRS, RESERVATIONS);

/// Every I/O command of memory namespaces, and of compute namespaces.
static MEMORY: Table<IoExecute> = Table::new(&computing::MEMORY_COMMANDS);
static COMPUTE: Table<IoExecute> = Table::new(&computing::COMPUTE_COMMANDS);

/// Every I/O command of Open-Channel namespaces.
static OPEN_CHANNEL: Table<IoExecute> = Table::new(&OF_CHUNKS);

const OF_CHUNKS: [IoCommand; 1 + ocssd::IO_COMMANDS.len()] =
    joined([flush::COMMAND], ocssd::IO_COMMANDS);
