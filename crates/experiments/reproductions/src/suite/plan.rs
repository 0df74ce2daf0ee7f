//! Boots for a grid of scenarios, and the experiment of a boot.

use anyhow::{Context, Result};
use serde_json::{json, Value};
use stasis_experiment::Engine;

use super::disk::Layout;
use super::guest::{self, Application, Phase};
use super::scenario::{Device, Setup, MEMORY};
use stasis_program::pattern::Pattern;

/// The machine's name.
pub const MACHINE: &str = "guest";
/// The publication's samples, and its limit of a start (chapters 7 and 8).
pub const SAMPLE_MS: u64 = 2_000;
pub const MAX_START_MS: u64 = 60_000;
/// Longer than Linux's BFQ raises a new reader's weight, 25 s at most: measurements run beside
/// readers that are not new.
const SETTLE_MS: u64 = 30_000;
/// Pause after a start (ms): the help that was requested for the start ends, and a process that
/// works for every application, such as the graphical server, has been idle for longer than the 2 s
/// after which BFQ can take a process for interactive again (`bfq_wr_min_idle_time`).
const GAP_MS: u64 = 5_000;
/// Time for work that is not measured: file systems, the graphical server (ms).
const BESIDE_MS: u64 = 900_000;

/// Numbers of measurements of each scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Executions of each benchmark.
    pub repetitions: u32,
    /// Samples of throughput in each, of 2 s.
    pub samples: u32,
    /// Starts of each application in each.
    pub starts: u32,
}

/// One boot: a setup, and the measurements in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Boot {
    /// The setup.
    pub setup: Setup,
    /// The phases, in order.
    pub phases: Vec<Phase>,
}

/// The scenarios to measure: the product of all fields, without impossible ones.
#[derive(Debug, Clone)]
pub struct Grid {
    pub devices: Vec<Device>,
    pub host_schedulers: Vec<String>,
    pub host_workloads: Vec<Pattern>,
    pub guest_schedulers: Vec<String>,
    /// Not coordinated, coordinated, or both.
    pub coordinated: Vec<bool>,
    pub guest_workloads: Vec<Pattern>,
    pub applications: Vec<Application>,
    pub size: Size,
}

impl Grid {
    /// The boots. Only BFQ can ask for help, and only a host's `bfq` gives it.
    pub fn boots(&self) -> Vec<Boot> {
        let mut boots = Vec::new();
        for device in &self.devices {
            for host_scheduler in &self.host_schedulers {
                for guest_scheduler in &self.guest_schedulers {
                    for &coordinated in &self.coordinated {
                        let able = [host_scheduler, guest_scheduler].iter().all(|s| *s == "bfq");
                        if coordinated && !able {
                            continue;
                        }
                        boots.extend(self.host_workloads.iter().map(|&host_workload| Boot {
                            setup: Setup {
                                device: device.clone(),
                                host_scheduler: host_scheduler.clone(),
                                host_workload,
                                guest_scheduler: guest_scheduler.clone(),
                                coordinated,
                            },
                            phases: self.phases(),
                        }));
                    }
                }
            }
        }
        boots
    }

    fn phases(&self) -> Vec<Phase> {
        let Size { repetitions, samples, starts } = self.size;
        let phase = |&workload: &Pattern| Phase {
            workload,
            repetitions,
            // An idle guest has no throughput.
            samples: if workload == Pattern::NONE { 0 } else { samples },
            starts,
            applications: self.applications.clone(),
        };
        self.guest_workloads.iter().map(phase).collect()
    }
}

/// Returns whether an application needs a graphical server.
pub fn graphical(boot: &Boot, has_server: bool) -> bool {
    has_server && boot.phases.iter().any(|phase| !phase.applications.is_empty())
}

impl Boot {
    /// The plan for the guest.
    pub fn plan(&self, layout: &Layout, graphical: bool) -> guest::MeasurementPlan {
        guest::MeasurementPlan {
            disk: "vda".into(),
            file: layout.file,
            graphical,
            settle_ms: SETTLE_MS,
            gap_ms: GAP_MS,
            limit_ms: MAX_START_MS,
            sample_ms: SAMPLE_MS,
            phases: self.phases.clone(),
        }
    }

    /// The experiment as a file for `stasis run`; `image` is the drive's.
    pub fn experiment(
        &self,
        engine: Engine,
        plan: &guest::MeasurementPlan,
        image: &str,
    ) -> Result<String> {
        let setup = &self.setup;
        let words = serde_json::to_string(plan).context("cannot write the plan")?;
        let mut value = json!({
            "engine": engine.name(),
            "seed": 1,
            "command": ["/proc/1/exe", "guest-suite", "run", words],
            "results": ".",
            "virtual-limit": format!("{}ms", self.longest()),
            "drive": [{
                "name": "drive",
                "model": setup.device.name,
                "medium": { "file": image, "size": setup.device.capacity.to_string() },
                "scheduler": setup.host_scheduler,
            }],
            "machine": [{
                "name": MACHINE,
                "memory": MEMORY.to_string(),
                "guest-scheduler": setup.guest_scheduler,
                "coordinate": setup.coordinated,
                "disk": [{ "on": "drive", "size": setup.device.disk.to_string() }],
            }],
        });
        if setup.host_workload != Pattern::NONE {
            value["workload"] = Value::Array(vec![json!({
                "name": "host",
                "pattern": setup.host_workload.to_string(),
                "offset": setup.device.host.to_string(),
            })]);
        }
        toml::to_string(&value).context("cannot write the experiment")
    }

    /// The virtual time that it can take, with every start up to its limit (ms).
    fn longest(&self) -> u64 {
        let phases = self.phases.iter().map(|phase| {
            let starts = u64::from(phase.starts) * phase.applications.len() as u64;
            let once =
                SETTLE_MS + u64::from(phase.samples) * SAMPLE_MS + starts * (MAX_START_MS + GAP_MS);
            // An application that is given up needs time to go.
            u64::from(phase.repetitions) * (once + MAX_START_MS)
        });
        BESIDE_MS + phases.sum::<u64>()
    }

    /// Relative duration of the boot, for an estimate of the time left: a constant for the boot
    /// itself, and a share for each start and each second beside readers.
    pub fn weight(&self) -> f64 {
        let phases = self.phases.iter().map(|phase| {
            let starts = f64::from(phase.starts) * phase.applications.len() as f64;
            let settle = if phase.workload == Pattern::NONE { 0.0 } else { 3.0 };
            f64::from(phase.repetitions) * (settle + f64::from(phase.samples) / 5.0 + 1.5 * starts)
        });
        10.0 + phases.sum::<f64>()
    }
}
