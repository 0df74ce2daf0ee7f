//! When faults begin and end, as results tell of it.

use stasis_block::clock::Nanos;
use stasis_results::{FaultCourse, PlannedFault};

use super::kinds::{FaultKind, GuestFaultKind};
use super::spec::ScheduledFault;
use crate::Experiment;

impl Experiment {
    /// Every fault, in the order of their numbers.
    pub fn planned_faults(&self) -> Vec<PlannedFault> {
        let planned = |(number, fault): (u16, &ScheduledFault)| PlannedFault {
            kind: fault.kind.clone(),
            target: fault.target(),
            course: self.course(fault, number).unwrap_or(FaultCourse::Befalls),
        };
        (0u16..).zip(&self.faults).map(planned).collect()
    }

    fn course(&self, fault: &ScheduledFault, number: u16) -> Option<FaultCourse> {
        let kind = fault.known().ok()?;
        let length = |begin: Option<Nanos>, end: Option<Nanos>| {
            end.map(|end| end.saturating_sub(begin.unwrap_or(0)))
        };
        Some(match kind {
            // Each of its happenings is its beginning.
            FaultKind::Failure(kind) => {
                FaultCourse::Failure { restart: fault.failure(kind, number, self.seed).restart }
            }
            FaultKind::Guest(GuestFaultKind::Kill | GuestFaultKind::ClockJump) => {
                FaultCourse::Each { length: Some(0) }
            }
            FaultKind::Pause | FaultKind::Guest(_) => {
                FaultCourse::Each { length: length(fault.begin, fault.end) }
            }
            // Happenings are commands and frames that it befalls.
            FaultKind::Drive(_) | FaultKind::Network(_) if fault.is_triggered() => return None,
            FaultKind::Drive(_) => {
                let begin = fault.begin.or(fault.end.map(|_| 0))?;
                FaultCourse::Window { begin, end: fault.end }
            }
            FaultKind::Network(kind) => {
                let on =
                    |network| fault.on_network(kind, network, number, self.seed).ok().flatten();
                // It is drawn by its number, on each network at the same time.
                let drawn = self.networks.iter().find_map(on)?;
                FaultCourse::Window { begin: drawn.begin, end: drawn.end }
            }
        })
    }
}
