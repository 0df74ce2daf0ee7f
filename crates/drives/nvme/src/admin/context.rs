//! The parts of the controller that admin commands act on.

use crate::command::SubmissionEntry;
use crate::formatting::Formatting;
use crate::host::Host;
use crate::io::{Io, IoExecute};
use crate::ocssd::Notifications;
use crate::registered::{Registered, Table};
use crate::status::{Failure, Outcome};
use crate::vendor::Vendor;
use crate::Memory;

/// Carries out an admin command.
pub type AdminExecute = fn(&mut Admin, &dyn Memory, &SubmissionEntry) -> Result<Outcome, Failure>;
/// An admin command that the controller supports.
pub type AdminCommand = Registered<AdminExecute>;

/// The parts of a controller.
#[derive(Debug)]
pub struct Admin<'a> {
    /// The drive's side.
    pub io: &'a mut Io,
    /// The host's side.
    pub host: &'a mut Host,
    pub formatting: &'a mut Formatting,
    pub vendor: &'a mut Vendor,
    pub chunk_notifications: &'a mut Notifications,
    /// The commands that there are.
    pub commands: &'static Commands,
}

/// The commands that a controller supports.
#[derive(Debug)]
pub struct Commands {
    pub io: &'static Table<IoExecute>,
    /// Those of Open-Channel namespaces.
    pub open_channel: &'static Table<IoExecute>,
    pub admin: &'static Table<AdminExecute>,
}

impl Admin<'_> {
    /// Goes on with a format for which there may be room now.
    pub fn go_on_formatting(&mut self, memory: &dyn Memory) {
        self.formatting.go_on(self.io, self.host, memory);
    }

    /// Reports critical warnings to a guest that requested events of them.
    pub fn check_warnings(&mut self, memory: &dyn Memory) {
        let asked = self.io.features.asked_warnings(&self.io.condition);
        self.host.check_warnings(memory, asked);
    }
}
