//! The registration of admin commands, and the tables of all commands.

use crate::command::SubmissionEntry;
use crate::controller::ControllerMut;
use crate::io::IoExecute;
use crate::registered::{Registered, Table};
use crate::status::{Failure, Outcome};
use crate::Memory;

/// Carries out an admin command.
pub type AdminExecute =
    fn(&mut ControllerMut, &dyn Memory, &SubmissionEntry) -> Result<Outcome, Failure>;
/// An admin command that the controller supports.
pub type AdminCommand = Registered<AdminExecute>;

/// The commands that a controller supports.
#[derive(Debug)]
pub struct Commands {
    pub io: &'static Table<IoExecute>,
    /// Those of Open-Channel namespaces.
    pub open_channel: &'static Table<IoExecute>,
    pub admin: &'static Table<AdminExecute>,
}
