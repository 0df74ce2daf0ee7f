//! Faults of the paths to drives: one is pulled out of its slot, and may be put back later; its
//! controller reaches the namespaces worse, or not; or a namespace is no longer there, or has another
//! size. Owns the times of each.
//!
//! A guest sees what the hardware shows at the surprise removal of an NVMe drive from a slot of PCI
//! Express: the link is down, every register and its configuration space read all ones, commands in
//! flight never complete, and the slot's root port interrupts (PCI Express Base Specification 6.0,
//! 6.7.3). Put back, the drive is as after power-on, with what it was given before it went.

use stasis_block::clock::Nanos;
use stasis_nvme::AnaState;
use stasis_run_events::FaultRecord;

use super::pauses::{Pause, Pauses};
use super::slots::Slots;
use crate::freeze::Scale;
use crate::pci::Bus;

/// The kernel's option to serve slots though no firmware hands them over (Linux,
/// Documentation/admin-guide/kernel-parameters.txt).
pub(super) const NATIVE_HOT_PLUG: &str = " pcie_ports=native";

/// A fault of a path to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathFault {
    /// The path's function is not on its bus.
    Gone,
    /// The path has this access to the namespaces.
    Access(AnaState),
    /// The namespace of this NSID is not attached to it.
    Detached(u32),
    /// A namespace has another size, in bytes: a fault of the first path, which befalls all.
    Resized {
        /// Its NSID.
        nsid: u32,
        /// Its size.
        bytes: u64,
    },
}

/// A path to a drive: the drive's number and its own.
pub(super) type Path = (usize, usize);

/// A fault of a path that begins or ends.
pub(super) struct DuePathFault {
    pub(super) path: Path,
    pub(super) fault: PathFault,
    /// True if it begins.
    pub(super) begins: bool,
    /// The record of its beginning: one for all paths of a drive.
    pub(super) record: Option<FaultRecord>,
}

/// The faults of the paths to a machine's drives.
#[derive(Debug, Default)]
pub(super) struct PathFaults(Vec<(Path, PathFault, Pauses)>);

impl PathFaults {
    /// Adds those of a path.
    pub(super) fn add(&mut self, path: Path, faults: Vec<(PathFault, Pause)>) {
        let mut kinds: Vec<(PathFault, Vec<Pause>)> = Vec::new();
        for (fault, pause) in faults {
            match kinds.iter_mut().find(|(kind, _)| *kind == fault) {
                Some((_, pauses)) => pauses.push(pause),
                None => kinds.push((fault, vec![pause])),
            }
        }
        self.0.extend(kinds.into_iter().map(|(kind, pauses)| (path, kind, Pauses::new(pauses))));
    }

    /// Replaces the faults of a path that come from `now` (ns) on, where the commands began at
    /// `begun`; see [`Pauses::change`].
    pub(super) fn change(
        &mut self,
        path: Path,
        faults: &[(PathFault, Pause)],
        known: &[u16],
        (begun, now): (Nanos, Nanos),
    ) -> Option<Pause> {
        for (fault, _) in faults {
            if !self.0.iter().any(|(owner, kind, _)| *owner == path && kind == fault) {
                let mut pauses = Pauses::default();
                pauses.begin(begun);
                self.0.push((path, *fault, pauses));
            }
        }
        let mut early = None;
        for (_, kind, pauses) in self.0.iter_mut().filter(|(owner, ..)| *owner == path) {
            let own = faults.iter().filter(|(fault, _)| fault == kind).map(|(_, pause)| *pause);
            early = early.or(pauses.change(own.collect(), known, now));
        }
        early
    }

    /// Returns whether a path can leave its bus.
    pub(super) fn can_leave(&self) -> bool {
        self.0.iter().any(|(_, fault, _)| *fault == PathFault::Gone)
    }

    /// Returns whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Brings a bus after power-on into the present state.
    pub(super) fn settle(&self, bus: &mut Bus, slots: &Slots) {
        for ((drive, path), fault, pauses) in &self.0 {
            if *fault == PathFault::Gone {
                let slot = slots.of_path(*drive, *path);
                bus.make_hot_plug(slot);
                if pauses.is_paused() {
                    // Nobody listens to the port yet.
                    bus.change_slot(slot, false);
                }
            }
        }
    }

    /// The faults of controllers and their namespaces that hold now.
    pub(super) fn of_controllers(&self) -> Vec<(Path, PathFault)> {
        let holds = |(_, fault, pauses): &&(Path, PathFault, Pauses)| {
            *fault != PathFault::Gone && pauses.is_paused()
        };
        self.0.iter().filter(holds).map(|(path, fault, _)| (*path, *fault)).collect()
    }

    /// Starts fault `number` at `now` (ns) if it is one of these.
    pub(super) fn trigger(&mut self, number: u16, now: Nanos) {
        self.0.iter_mut().for_each(|(.., pauses)| pauses.trigger(number, now));
    }

    /// The commands begin.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.0.iter_mut().for_each(|(.., pauses)| pauses.begin(now));
    }

    /// The faults that end or begin at `now` (ns).
    pub(super) fn take_due(&mut self, now: Nanos) -> Vec<DuePathFault> {
        let mut due: Vec<DuePathFault> = Vec::new();
        for (path, fault, pauses) in &mut self.0 {
            let row = |begins, record| DuePathFault { path: *path, fault: *fault, begins, record };
            if pauses.end(now) {
                due.push(row(false, None));
            }
            if let Some(record) = pauses.start(now) {
                let is_told = due.iter().any(|other| other.record == Some(record));
                due.push(row(true, (!is_told).then_some(record)));
            }
        }
        due
    }

    /// Returns the time at which a fault next begins or ends (ticks).
    pub(super) fn next_event(&self, scale: Scale) -> Option<u64> {
        self.0.iter().filter_map(|(.., pauses)| pauses.next_event(scale)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_come_from_a_moment_on() {
        let pause = |number, begin| Pause { number, begin, end: Some(begin + 5), triggered: false };
        let mut faults = PathFaults::default();
        faults.add((0, 0), vec![(PathFault::Gone, pause(0, 10))]);
        faults.begin(100);
        let access = PathFault::Access(AnaState::NonOptimized);
        let others = [(PathFault::Gone, pause(1, 30)), (access, pause(2, 40))];
        assert_eq!(faults.change((0, 0), &others, &[0], (100, 105)), None);
        assert!(faults.take_due(110).is_empty(), "the first one was left out");
        assert_eq!(faults.take_due(130).len(), 1);
        assert_eq!(faults.take_due(141).len(), 2);
        let early = faults.change((0, 0), &[(access, pause(3, 1))], &[0], (100, 150));
        assert_eq!(early.map(|pause| pause.number), Some(3));
    }

    #[test]
    fn a_fault_of_all_paths_is_one_row() {
        let pause = |number, begin| Pause { number, begin, end: Some(begin + 5), triggered: false };
        let mut faults = PathFaults::default();
        faults.add((3, 0), vec![(PathFault::Gone, pause(0, 10))]);
        let access = PathFault::Access(AnaState::Inaccessible);
        faults.add((3, 1), vec![(PathFault::Gone, pause(0, 10)), (access, pause(1, 20))]);
        assert!(faults.can_leave());
        faults.begin(100);
        let due = faults.take_due(110);
        let rows = |due: &[DuePathFault]| -> Vec<_> {
            let row = |due: &DuePathFault| due.record.map(|record| record.fault);
            due.iter().map(|due| (due.path, due.fault, due.begins, row(due))).collect()
        };
        let gone = PathFault::Gone;
        assert_eq!(rows(&due), [((3, 0), gone, true, Some(0)), ((3, 1), gone, true, None)]);
        assert_eq!(
            rows(&faults.take_due(115)),
            [((3, 0), gone, false, None), ((3, 1), gone, false, None)]
        );
        assert_eq!(faults.of_controllers(), []);
        assert_eq!(rows(&faults.take_due(120)), [((3, 1), access, true, Some(1))]);
        assert_eq!(faults.of_controllers(), [((3, 1), access)]);
    }
}
