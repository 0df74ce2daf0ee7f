//! The commands that the controller knows.
//!
//! A new one is a file here with a [`Registered`], and a line in [`IO`] or
//! [`ADMIN`]: execution, the log of commands and effects, Identify and the records
//! of refused I/Os follow from it.

mod compare;
mod copy;
mod dataset;
mod flush;
mod read;
mod verify;
mod write;
mod write_uncorrectable;
mod write_zeroes;

use stasis_block::Operation;

pub use copy::{most_blocks, most_blocks_of_source, MOST_SOURCES};
pub use dataset::{parse_range, DEALLOCATE, MOST_RANGES, RANGE};

use crate::command::SubmissionEntry;
use crate::config::Config;
use crate::controller::Controller;
use crate::status::{Failure, Outcome};
use crate::{admin, ocssd, placement, zoned, Memory};

/// Every I/O command but those of Open-Channel namespaces (NVMe 1.4 section 6).
pub static IO: Table = Table::new(&[
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
pub static OPEN_CHANNEL: Table = Table::new(&[
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
pub static ADMIN: Table = Table::new(&[
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

/// A command that the controller knows.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// Its opcode.
    pub opcode: u8,
    /// What the log of commands and effects says of it (NVMe 1.4 section 5.14.1.5):
    /// [`SUPPORTED`], and what it changes.
    pub effects: u32,
    /// Whether it is announced: to a configuration, in the command set of this
    /// identifier.
    pub announced: fn(&Config, u8) -> bool,
    /// The bit of Identify that announces it: in ONCS of an I/O command, in OACS of an
    /// admin command (NVMe 1.4 section 5.15.2.2); 0 if none does.
    pub identify: u16,
    /// What records of I/Os count a refused one as; `None`: it is no I/O.
    pub counts_as: Option<Operation>,
    /// Carries it out. Every field is checked before it is used.
    pub execute: Execute,
}

impl Registered {
    /// An admin command that every controller has, that changes nothing of a namespace and
    /// that no bit of Identify announces.
    pub const fn plain(opcode: u8, execute: Execute) -> Self {
        Self {
            opcode,
            effects: SUPPORTED,
            announced: always,
            identify: 0,
            counts_as: None,
            execute,
        }
    }
}

/// Carries a command of a submission queue out.
pub type Execute =
    fn(&mut Controller, &dyn Memory, queue: u16, &SubmissionEntry) -> Result<Outcome, Failure>;

/// [`Registered::effects`]: the command is supported.
pub const SUPPORTED: u32 = 1;
/// [`Registered::effects`]: it may change the contents of blocks.
pub const CHANGES_CONTENTS: u32 = 1 << 1;
/// [`Registered::effects`]: it may change what a namespace is capable of.
pub const CHANGES_CAPABILITIES: u32 = 1 << 2;
/// [`Registered::effects`]: while no other command is under way for the namespace.
pub const ALONE: u32 = 1 << 16;

/// [`Registered::announced`] of what every controller has.
pub fn always(_config: &Config, _set: u8) -> bool {
    true
}

/// Commands, and where each opcode's is.
#[derive(Debug)]
pub struct Table {
    commands: &'static [Registered],
    // One more than the index of the command; 0 without one.
    by_opcode: [u8; 256],
}

impl Table {
    /// Of these commands, whose opcodes differ.
    const fn new(commands: &'static [Registered]) -> Self {
        let mut by_opcode = [0; 256];
        let mut index = 0;
        while index < commands.len() {
            let opcode = commands[index].opcode as usize;
            assert!(by_opcode[opcode] == 0, "two commands have one opcode");
            index += 1;
            by_opcode[opcode] = index as u8;
        }
        Self { commands, by_opcode }
    }

    /// The command of an opcode.
    pub fn find(&self, opcode: u8) -> Option<&'static Registered> {
        self.commands.get(usize::from(self.by_opcode[usize::from(opcode)]).wrapping_sub(1))
    }

    /// Those that a configuration announces in a command set.
    pub fn announced<'a>(
        &self,
        config: &'a Config,
        set: u8,
    ) -> impl Iterator<Item = &'static Registered> + 'a {
        self.commands.iter().filter(move |command| (command.announced)(config, set))
    }

    /// The bits of Identify that announce its commands.
    pub fn identify(&self, config: &Config) -> u16 {
        self.announced(config, 0).fold(0, |bits, command| bits | command.identify)
    }
}
