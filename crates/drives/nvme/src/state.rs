//! State of the drive's side of a subsystem ([`crate::io::Io`]), in parts that change together.

use crate::ana::Ana;
use crate::attachments::Attachments;
use crate::buffers::Buffers;
use crate::changes::Changes;
use crate::command::CommandId;
use crate::event_log::EventLog;
use crate::firmware::Firmware;
use crate::fused::Fused;
use crate::lba_status::Scans;
use crate::outgoing::Outgoing;
use crate::reservations::Reservations;
use crate::sanitize::Sanitize;
use crate::self_test::SelfTest;
use crate::slots::Slots;
use crate::statistics::Statistics;
use crate::status::StatusCode;
use crate::telemetry::Telemetry;

/// Commands under way, and the requests that they become.
#[derive(Debug, Default)]
pub struct Commands {
    pub slots: Slots,
    pub outgoing: Outgoing,
    pub buffers: Buffers,
    /// The fused commands under way.
    pub fused: Fused,
    /// Commands that end without the drive, as another host has them aborted or as there is no room,
    /// for their controllers to end.
    pub ended: Vec<(CommandId, StatusCode)>,
}

/// Access of hosts and their controllers to namespaces.
#[derive(Debug)]
pub struct Access {
    pub reservations: Reservations,
    /// The access to the namespaces on each path.
    pub ana: Ana,
    /// The namespaces that controllers have.
    pub attachments: Attachments,
}

impl Access {
    /// The access to `namespaces` namespaces at a drive's start.
    pub fn new(namespaces: u32) -> Self {
        Self {
            reservations: Reservations::default(),
            ana: Ana::default(),
            attachments: Attachments::new(namespaces),
        }
    }
}

/// Operations that go on beside I/O.
#[derive(Debug)]
pub struct Background {
    pub self_test: SelfTest,
    pub sanitize: Sanitize,
    pub firmware: Firmware,
    pub lba_scans: Scans,
}

impl Background {
    /// No operation under way, with the firmware revision `own`.
    pub fn new(own: &str) -> Self {
        Self {
            self_test: SelfTest::default(),
            sanitize: Sanitize::default(),
            firmware: Firmware::new(own),
            lba_scans: Scans::default(),
        }
    }
}

/// The drive's reports about itself.
#[derive(Debug, Default)]
pub struct Reports {
    pub telemetry: Telemetry,
    pub event_log: EventLog,
    pub statistics: Statistics,
    /// Changes that controllers are to report.
    pub changes: Changes,
}
