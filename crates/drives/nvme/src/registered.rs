//! The registration of a command, and tables of commands.

use stasis_block::Operation;

use crate::config::Config;
use crate::narrow::constant8;

/// A command that the controller supports; `Execute` is the type of the function that carries it
/// out.
#[derive(Debug, Clone, Copy)]
pub struct Registered<Execute> {
    /// Its opcode.
    pub opcode: u8,
    /// The entry in the Commands Supported and Effects log (NVMe 1.4 section 5.14.1.5):
    /// [`SUPPORTED`], its effects, and of an admin command what it concerns; an I/O command concerns
    /// its namespace.
    pub effects: u32,
    /// Decides if it is announced: to a configuration, in the command set of this identifier.
    pub announced: fn(&Config, u8) -> bool,
    /// The bit of Identify that announces it: in ONCS of an I/O command, in OACS of an
    /// admin command (NVMe 1.4 section 5.15.2.2); 0 if none does.
    pub identify: u16,
    /// The operation as which records of I/Os count a refused command; `None`: it is no I/O.
    pub counts_as: Option<Operation>,
    /// True if it is carried out while a sanitize operation is under way or has failed (NVMe 2.0
    /// figure 142); Sanitize then refuses by itself.
    pub during_sanitize: bool,
    /// Carries it out. Every field is checked before it is used.
    pub execute: Execute,
}

impl<Execute: Copy> Registered<Execute> {
    /// An admin command that every controller has, that changes nothing of a namespace, that no bit
    /// of Identify announces, and that goes on during a sanitize operation.
    pub const fn plain(opcode: u8, execute: Execute) -> Self {
        Self {
            opcode,
            effects: SUPPORTED | OF_CONTROLLER,
            announced: always,
            identify: 0,
            counts_as: None,
            during_sanitize: true,
            execute,
        }
    }
}

/// [`Registered::effects`]: the command is supported.
pub const SUPPORTED: u32 = 1;
/// [`Registered::effects`]: it may change the contents of blocks.
pub const CHANGES_CONTENTS: u32 = 1 << 1;
/// [`Registered::effects`]: the command may change the capabilities of a namespace.
pub const CHANGES_CAPABILITIES: u32 = 1 << 2;
/// [`Registered::effects`]: it may change which namespaces there are.
pub const CHANGES_INVENTORY: u32 = 1 << 3;
/// [`Registered::effects`], and those of features: what it concerns (NVMe 2.0 section 5.16.1.6,
/// Command Scope): a namespace.
pub const OF_NAMESPACE: u32 = 1 << 20;
/// Scope: the controller.
pub const OF_CONTROLLER: u32 = 1 << 21;
/// Scope: an endurance group.
pub const OF_ENDURANCE_GROUP: u32 = 1 << 23;
/// Scope: the subsystem.
pub const OF_SUBSYSTEM: u32 = 1 << 25;
/// [`Registered::effects`]: while no other command is under way for the namespace.
pub const ALONE: u32 = 1 << 16;

/// [`Registered::announced`] of a command that every controller has.
pub fn always(_config: &Config, _set: u8) -> bool {
    true
}

/// The commands of two lists, of which `ALL` is the count.
pub const fn joined<Execute: Copy, const ONE: usize, const OTHER: usize, const ALL: usize>(
    one: [Registered<Execute>; ONE],
    other: [Registered<Execute>; OTHER],
) -> [Registered<Execute>; ALL] {
    assert!(ONE + OTHER == ALL);
    let mut all = [one[0]; ALL];
    let mut index = 0;
    while index < ALL {
        all[index] = if index < ONE { one[index] } else { other[index - ONE] };
        index += 1;
    }
    all
}

/// Commands, and where each opcode's is.
#[derive(Debug)]
pub struct Table<Execute: 'static> {
    commands: &'static [Registered<Execute>],
    // One more than the index of the command; 0 without one.
    by_opcode: [u8; 256],
}

impl<Execute> Table<Execute> {
    /// Makes the table of these commands, whose opcodes differ.
    pub const fn new(commands: &'static [Registered<Execute>]) -> Self {
        let mut by_opcode = [0; 256];
        let mut index = 0;
        while index < commands.len() {
            let opcode = commands[index].opcode as usize;
            assert!(by_opcode[opcode] == 0, "two commands have one opcode");
            index += 1;
            by_opcode[opcode] = constant8(index as u64);
        }
        Self { commands, by_opcode }
    }

    /// The command of an opcode.
    pub fn find(&self, opcode: u8) -> Option<&'static Registered<Execute>> {
        self.commands.get(usize::from(self.by_opcode[usize::from(opcode)]).wrapping_sub(1))
    }

    /// Returns the commands that a configuration announces in a command set.
    pub fn announced<'a>(
        &self,
        config: &'a Config,
        set: u8,
    ) -> impl Iterator<Item = &'static Registered<Execute>> + 'a {
        self.commands.iter().filter(move |command| (command.announced)(config, set))
    }

    /// The bits of Identify that announce its commands.
    pub fn identify(&self, config: &Config) -> u16 {
        self.announced(config, 0).fold(0, |bits, command| bits | command.identify)
    }
}
