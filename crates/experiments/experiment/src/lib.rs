//! Experiments: a machine, its drives, the command that runs in it, and the limits. Read from a
//! TOML file, from command-line words, or both.
//!
//! Promise: everything that can be wrong in the words of an experiment is
//! found here, before anything is started, and named with its place and the
//! nearest right word.

pub mod compose;
mod container;
mod containers;
mod drive;
mod drive_option;
mod engine;
mod error;
mod expectation;
mod experiment;
mod explore;
mod faults;
mod file;
mod guest;
mod guest_drive;
mod machine;
mod machines;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod mistakes;
mod names;
mod namespace;
mod networks;
mod scenario;
mod serve;
mod source;
mod speed;
mod tenant;
mod tenants;
mod triggers;
mod variables;

pub use container::{Condition, ContainerSpec, HealthSpec};
pub use drive::{DriveSpec, Interface, StateSpec};
pub use engine::Engine;
pub use error::ExperimentError;
pub use expectation::Expectation;
pub use experiment::Experiment;
pub use explore::ExploreSpec;
pub use faults::{FaultSpace, MachineFailure, MachineFailureKind, MachinePause, ScheduledFault};
pub use guest::GuestSpec;
pub use machine::{MachineSpec, Schedule};
pub use machines::Machines;
pub use names::distinct_serials;
pub use namespace::{endurance_groups, places, NamespaceSpec};
pub use networks::host_name;
pub use scenario::Scenario;
pub use serve::{Polling, ServeSpec};
pub use source::Source;
pub use speed::CpuSpeed;
pub use tenants::{jobs_of_pattern, DiskSpec, TenantSpec, WorkloadSpec};
pub use triggers::{check_pattern, drive_and_number, FaultTrigger, Trigger};
pub use variables::{UnknownVariable, Variables};

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_network::{LinkSpec, NetworkSpec, OutsideSpec};
    use stasis_nvme::{Ocssd, Zones, Zrwa};

    /// A key is read if and only if it is in the schema, from which help, editors and suggestions
    /// have it.
    #[test]
    fn what_is_read_is_what_the_schema_has() {
        macro_rules! same {
            ($($table:ty)*) => { $(assert_eq!(stasis_config::keys_agree::<$table>(), Ok(()));)* };
        }
        same! {
            Experiment MachineSpec GuestSpec ServeSpec DriveSpec DiskSpec WorkloadSpec Expectation
            Zones Zrwa Ocssd NetworkSpec LinkSpec OutsideSpec ScheduledFault FaultSpace
            ExploreSpec Scenario ContainerSpec HealthSpec
        }
    }
}
