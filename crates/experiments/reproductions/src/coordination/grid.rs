//! Scenarios to measure, by the size of a reproduction.

use crate::suite::applications::Applications;
use crate::suite::plan::{Boot, Grid, Size};
use crate::suite::scenario::Device;
use stasis_program::pattern::Pattern;

/// Scenarios to measure.
pub struct Extent {
    pub devices: Vec<Device>,
    pub host_schedulers: Vec<String>,
    pub guest_schedulers: Vec<String>,
    pub guest_workloads: Vec<Pattern>,
    pub applications: Vec<&'static str>,
    pub size: Size,
    /// True if writers are measured, on the fastest device (figure 11).
    pub writers: bool,
}

/// Readers in the guest, in the publication's order.
pub const READERS: [Pattern; 4] = [
    Pattern::readers(1, false),
    Pattern::readers(5, false),
    Pattern::readers(1, true),
    Pattern::readers(5, true),
];
/// Figure 11's.
pub const WRITERS: Pattern = Pattern { readers: 2, writers: 2, random: false };
/// Workloads of the host.
pub const HOST: [Pattern; 3] =
    [Pattern::NONE, Pattern::readers(1, false), Pattern::readers(5, false)];
/// The device of figure 11.
pub const WRITERS_DEVICE: &str = "sem16g";

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Extent {
    /// The scenarios on `devices`; by default on those of the reproduction's size.
    pub fn new(devices: &[String], quick: bool, full: bool) -> Self {
        let named = |names: &[String]| names.iter().map(|name| Device::named(name)).collect();
        let all = if devices.is_empty() { Device::published() } else { named(devices) };
        let today = ["bfq", "mq-deadline", "kyber", "none"];
        let usual = Self {
            devices: all,
            host_schedulers: words(&["bfq"]),
            guest_schedulers: words(&today),
            guest_workloads: READERS.to_vec(),
            applications: vec!["xterm"],
            size: Size { repetitions: 1, samples: 10, starts: 5 },
            writers: true,
        };
        match (quick, full) {
            (true, _) => Self {
                devices: match devices {
                    [] => vec![Device::named("mk6006gah")],
                    devices => named(devices),
                },
                guest_schedulers: words(&["bfq", "mq-deadline"]),
                guest_workloads: vec![READERS[0], READERS[3]],
                size: Size { repetitions: 1, samples: 10, starts: 5 },
                writers: false,
                ..usual
            },
            (_, true) => Self {
                host_schedulers: words(&["bfq", "cfq"]),
                applications: vec!["bash", "xterm", "konsole"],
                // Chapter 8.
                size: Size { repetitions: 10, samples: 30, starts: 5 },
                ..usual
            },
            _ => usual,
        }
    }

    /// Boots for these scenarios.
    pub fn boots(&self, applications: &Applications) -> Vec<Boot> {
        let mut guest_workloads = vec![Pattern::NONE];
        guest_workloads.extend(&self.guest_workloads);
        let grid = Grid {
            devices: self.devices.clone(),
            host_schedulers: self.host_schedulers.clone(),
            host_workloads: HOST.to_vec(),
            guest_schedulers: self.guest_schedulers.clone(),
            coordinated: vec![false, true],
            guest_workloads,
            applications: applications.list.clone(),
            size: self.size,
        };
        let mut boots = grid.boots();
        for boot in &mut boots {
            let setup = &boot.setup;
            if setup.host_workload != Pattern::NONE {
                // Idle is idle everywhere.
                boot.phases.retain(|phase| phase.workload != Pattern::NONE);
            }
            if self.writers && setup.device.name == WRITERS_DEVICE && !setup.coordinated {
                let writers = boot.phases.last().cloned().map(|mut phase| {
                    phase.workload = WRITERS;
                    phase
                });
                boot.phases.extend(writers);
            }
        }
        boots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(quick: bool, full: bool) -> Vec<Boot> {
        let extent = Extent::new(&[], quick, full);
        let names = words(&extent.applications);
        extent.boots(&Applications::new(&names, &[], &[]).unwrap())
    }

    #[test]
    fn every_boot_has_a_folder_of_its_own_and_idle_is_measured_without_a_host_workload() {
        for (quick, full, count) in [(true, false, 9), (false, false, 45), (false, true, 81)] {
            let boots = boots(quick, full);
            assert_eq!(boots.len(), count);
            let names: std::collections::BTreeSet<_> =
                boots.iter().map(|boot| boot.setup.name()).collect();
            assert_eq!(names.len(), count);
            for boot in &boots {
                let idle = boot.phases.iter().filter(|p| p.workload == Pattern::NONE).count();
                assert_eq!(idle, usize::from(boot.setup.host_workload == Pattern::NONE));
            }
        }
    }

    #[test]
    fn only_bfq_on_both_sides_is_coordinated() {
        for boot in boots(false, true) {
            let both = boot.setup.guest_scheduler == "bfq" && boot.setup.host_scheduler == "bfq";
            assert!(both || !boot.setup.coordinated, "{}", boot.setup.name());
        }
    }

    #[test]
    fn the_publications_size_is_its_own() {
        let full = Extent::new(&[], false, true).size;
        assert_eq!((full.repetitions, full.samples, full.starts), (10, 30, 5));
        let writers = boots(false, false).into_iter().flat_map(|boot| boot.phases);
        assert_eq!(writers.filter(|phase| phase.workload == WRITERS).count(), 12);
    }
}
