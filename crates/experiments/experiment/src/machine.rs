//! A machine of an experiment.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;

use crate::{ContainerSpec, CpuSpeed, DiskSpec, DriveSpec};

/// Linux's I/O schedulers (Documentation/block).
pub(crate) const GUEST_SCHEDULERS: [&str; 4] = ["bfq", "mq-deadline", "kyber", "none"];

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(transform = older_names)]
pub struct MachineSpec {
    /// Name, where there are several machines; by default `machine0`, ...
    pub name: Option<String>,
    /// Number of machines like this one, 1 to 32; their names are numbered from 1 on.
    #[schemars(range(min = 1, max = 32))]
    pub count: Option<u32>,
    /// Command that runs in the machine; by default the experiment's command.
    pub command: Vec<String>,
    /// Variables of the machine, for its command's environment, and for commands and `templates` as
    /// `{{machine.VARIABLE}}`.
    pub variables: BTreeMap<String, String>,
    /// The container that the command runs as, where the guest's root is a container image.
    pub container: ContainerSpec,
    /// True if the run waits for the end of this machine's command.
    pub wait: bool,
    /// I/O scheduler of the guest's kernel for each of the machine's drives.
    #[schemars(extend("enum" = GUEST_SCHEDULERS))]
    pub guest_scheduler: Option<String>,
    /// True if the guest's bfq notifies the host's scheduler when it raises weights.
    pub coordinate: bool,
    /// Drives of this machine alone, where there are several machines.
    #[serde(rename = "drive")]
    pub drives: Vec<DriveSpec>,
    /// Virtual disks of the machine on shared drives.
    #[serde(rename = "disk")]
    pub disks: Vec<DiskSpec>,
    /// Processors, 1 to 64.
    #[schemars(range(min = 1, max = 64))]
    pub vcpus: u32,
    /// Memory in bytes.
    #[serde(with = "units::size")]
    pub memory: u64,
    /// Speed of the processors; by default the engine's.
    pub cpu_speed: Option<CpuSpeed>,
    /// Added to the kernel's command line.
    pub kernel_command_line: String,
    /// Level below which the kernel's messages reach its console from the command's start on, 1 to 8, as
    /// Linux numbers them; by default 1: only the most urgent.
    #[schemars(range(min = 1, max = 8))]
    pub log_level: Option<u8>,
    /// Limit on how far one busy processor may be ahead of another (ns of virtual time).
    #[serde(with = "units::duration", alias = "slice")]
    pub quantum: Nanos,
    /// Schedule of the processors: the one that is furthest behind goes on, or under `exact` a random
    /// one, by the seed, so that races of the guest's come up.
    pub schedule: Schedule,
    /// Number of the host's threads that run the guest's processors at once. By default one, in
    /// turn, as always under `exact`. With several, a run is quicker, and the guest's clock stands
    /// still for up to a quantum on a processor that is behind.
    pub threads: Option<u32>,
    /// True if time may be set back for a drive faster than the guest.
    pub rewind: bool,
    /// True if RDRAND and RDSEED are visible; a run does not repeat then.
    pub random: bool,
    /// True if the guest's kernel lays out each program's address space at random, under `exact`
    /// too.
    pub randomize: bool,
    /// True if the guest boots anew when the machine comes back from a failure. By default a machine of one
    /// processor goes on from its first boot under `exact`, with the same results.
    pub boots_again: bool,
}

/// The order in which a machine's processors go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// The one that is furthest behind goes on.
    #[default]
    InTurn,
    /// One is drawn, for a time that is drawn.
    Random,
}

fn older_names(schema: &mut Schema) {
    stasis_config::older_name(schema, "quantum", "slice");
}

impl Default for MachineSpec {
    fn default() -> Self {
        Self {
            name: None,
            count: None,
            command: Vec::new(),
            variables: BTreeMap::new(),
            container: ContainerSpec::default(),
            wait: true,
            guest_scheduler: None,
            coordinate: false,
            drives: Vec::new(),
            disks: Vec::new(),
            vcpus: 1,
            memory: 1 << 30,
            cpu_speed: None,
            kernel_command_line: String::new(),
            log_level: None,
            quantum: 20_000,
            schedule: Schedule::InTurn,
            threads: None,
            rewind: false,
            random: false,
            randomize: false,
            boots_again: false,
        }
    }
}
