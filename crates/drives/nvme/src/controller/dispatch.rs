//! Commands are looked up and carried out; those that are refused are noted for who keeps a
//! record of every I/O.

use stasis_block::{Command, Operation, Refused};

use crate::command::{location, of_any_namespace, SubmissionEntry, DATA_SGL, FUSE, PSDT};
use crate::config::{Namespace, NVM_COMMAND_SET};
use crate::io::{IoCommand, IoExecute};
use crate::metadata::{BlockFormat, Guard};
use crate::registered::{Table, CHANGES_CONTENTS};
use crate::status::{Failure, Outcome, StatusCode};
use crate::{capsules, computing, key_value, vendor, Memory};

use crate::context::ControllerMut;

impl ControllerMut<'_> {
    pub(super) fn execute_io(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        match self.admit(command)? {
            Some(known) => (known.execute)(self.io, memory, command),
            None => capsules::refuse(command),
        }
    }

    /// Checks that a command of an I/O queue may be carried out; `None`: it is one of fabrics.
    pub(super) fn admit(
        &self,
        command: &SubmissionEntry,
    ) -> Result<Option<&'static IoCommand>, Failure> {
        let psdt = command.flags & PSDT;
        let wrong = match self.host.transport.has_capsules() {
            // The byte is reserved in commands of fabrics.
            true => psdt != DATA_SGL && command.opcode != capsules::OPCODE,
            false => psdt == PSDT,
        };
        if command.flags & FUSE != 0 || wrong {
            return Err(StatusCode::InvalidField.at(location::FLAGS));
        }
        self.check_ready(command)?;
        self.io.check_attached(command.controller, command.nsid)?;
        let namespaces = &self.io.namespaces;
        let registers = &self.host.registers;
        let set = namespaces.get(command.nsid).map_or(NVM_COMMAND_SET, Namespace::command_set);
        if set != NVM_COMMAND_SET && !registers.has_all_command_sets() {
            return Err(StatusCode::InvalidNamespace.at(location::NSID));
        }
        if let Some(metadata) =
            namespaces.get(command.nsid).and_then(|namespace| namespace.metadata)
        {
            // The host must enable such formats first (LBAFEE).
            let knows = self.io.features(command.controller).extended_formats;
            // A fabric has no place for separate metadata.
            let apart = self.host.transport.has_capsules() && !metadata.extended;
            if apart || metadata.guard != Guard::Crc16 && !knows {
                return Err(StatusCode::InvalidNamespace.at(location::NSID));
            }
        }
        let known = self.table(command.nsid).find(command.opcode);
        self.check_sanitize(known.is_some_and(|known| known.during_sanitize))?;
        match known {
            Some(known) => {
                self.check_access()?;
                self.check_reservation(known, command)?;
                Ok(Some(known))
            }
            None if self.host.transport.has_capsules() && command.opcode == capsules::OPCODE => {
                Ok(None)
            }
            None => Err(StatusCode::InvalidOpcode.at(location::OPCODE)),
        }
    }

    /// The commands that a namespace has.
    fn table(&self, nsid: u32) -> &'static Table<IoExecute> {
        let namespaces = &self.io.namespaces;
        match namespaces.get(nsid).map_or(NVM_COMMAND_SET, Namespace::command_set) {
            key_value::CSI => self.commands.key_value,
            computing::MEMORY_CSI => self.commands.memory,
            computing::COMPUTE_CSI => self.commands.compute,
            _ if namespaces.chunks(nsid).is_some() => self.commands.open_channel,
            _ => self.commands.io,
        }
    }

    /// The format of these choices ([`crate::config::Config::format_of`]), if the controller's host can
    /// have it: on a fabric no metadata is apart, and other guards are of hosts that know them.
    pub(crate) fn format_of(
        &self,
        number: u32,
        extended: bool,
        protection: u8,
        first: bool,
    ) -> Option<BlockFormat> {
        let format = self.io.config.format_of(number, extended, protection, first)?;
        let Some(metadata) = format.metadata else { return Some(format) };
        let knows = self.io.features(self.host.id).extended_formats;
        let apart = self.host.transport.has_capsules() && !metadata.extended;
        (!apart && (metadata.guard == Guard::Crc16 || knows)).then_some(format)
    }

    pub(super) fn execute_admin(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        // Section 4.2: over PCIe, admin commands take PRPs only; on a fabric all take SGLs, with
        // metadata in one piece, but those of fabrics, whose byte is reserved.
        let on_fabric = self.host.transport.has_capsules();
        let wanted = match command.opcode {
            capsules::OPCODE if on_fabric => command.flags & PSDT,
            _ if on_fabric => DATA_SGL,
            _ => 0,
        };
        if command.flags & (FUSE | PSDT) != wanted {
            return Err(StatusCode::InvalidField.at(location::FLAGS));
        }
        self.check_ready(command)?;
        if self.host.transport.has_capsules() && command.opcode == capsules::OPCODE {
            return self.execute_fabrics(memory, command);
        }
        // Those of namespaces that need not be attached check it themselves.
        use of_any_namespace::{IDENTIFY, NAMESPACE_ATTACHMENT, NAMESPACE_MANAGEMENT};
        let of_any = [IDENTIFY, NAMESPACE_ATTACHMENT, NAMESPACE_MANAGEMENT];
        if !of_any.contains(&command.opcode) {
            self.io.check_attached(command.controller, command.nsid)?;
        }
        let known = self.commands.admin.find(command.opcode);
        self.check_sanitize(known.is_some_and(|known| known.during_sanitize))?;
        match known {
            Some(known) => (known.execute)(self, memory, command),
            None if command.opcode >= vendor::FIRST_OPCODE => {
                self.vendor.execute(self.io, memory, command)
            }
            None => Err(StatusCode::InvalidOpcode.at(location::OPCODE)),
        }
    }

    /// Checks that no sanitize operation is in the way of a command. `goes_on`: whether it is carried
    /// out meanwhile.
    fn check_sanitize(&self, goes_on: bool) -> Result<(), Failure> {
        match self.io.background.sanitize.refusal().filter(|_| !goes_on) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(()),
        }
    }

    /// Checks that no other host's reservation forbids a command. Those without an operation read,
    /// or are the reservations' own; a change of zones is a write.
    fn check_reservation(
        &self,
        known: &IoCommand,
        command: &SubmissionEntry,
    ) -> Result<(), Failure> {
        let changes = known.effects & CHANGES_CONTENTS != 0;
        if known.counts_as.is_none() && !changes {
            return Ok(());
        }
        let reservations = &self.io.access.reservations;
        let checked = reservations.check(command.controller, command.nsid, known.counts_as);
        checked.map_err(|status| status.at(location::NSID))
    }

    /// Checks that a controller on a fabric is ready: before, it has the commands of fabrics only
    /// (NVMe over Fabrics 1.1 section 3.5).
    fn check_ready(&self, command: &SubmissionEntry) -> Result<(), Failure> {
        let early = command.opcode == capsules::OPCODE || self.host.is_running();
        if self.host.transport.has_capsules() && !early {
            return Err(StatusCode::CommandSequenceError.at(location::OPCODE));
        }
        Ok(())
    }

    /// Notes that a command of an I/O queue was refused. A command that is no I/O, such as a report
    /// of zones, is not noted.
    pub(super) fn log_refused(&mut self, entry: &SubmissionEntry, code: StatusCode) {
        let namespaces = &self.io.namespaces;
        let has_pairs = namespaces.key_value(entry.nsid).is_some();
        // Those of Open-Channel drives have opcodes of the others, or are none.
        let table = match namespaces.chunks(entry.nsid) {
            Some(_) => self.commands.io,
            None => self.table(entry.nsid),
        };
        let known = table.find(entry.opcode).filter(|_| entry.sq != 0);
        let Some(operation) = known.and_then(|known| known.counts_as) else { return };
        if !self.io.commands.outgoing.keeps_refused() {
            return;
        }
        let mut command = Command::new(operation, 0, 0);
        // A key is no range.
        let ranged = !has_pairs
            && matches!(
                operation,
                Operation::Read | Operation::Write | Operation::WriteZeroes | Operation::Verify
            );
        if let (Some(namespace), true) = (self.io.namespaces.get(entry.nsid), ranged) {
            // The range asked for, unchecked: it may lie beyond the drive.
            let size = u64::from(namespace.block_size);
            let offset = entry.starting_lba().saturating_mul(size);
            command.offset = offset.saturating_add(namespace.start);
            command.length = (u64::from(entry.cdw12 & 0xffff) + 1) * size;
            command.fua = self.io.is_forced(entry, operation);
        }
        self.io.commands.outgoing.refuse(Refused { queue: entry.sq, command, code: code as u16 });
    }
}
