//! Scenarios, and their names.

use serde::{Deserialize, Serialize};

use stasis_program::pattern::Pattern;

/// Memory of the guest (bytes).
pub const MEMORY: u64 = 512 << 20;

/// A drive, and who has which part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name: the model.
    pub name: String,
    /// Size (bytes).
    pub capacity: u64,
    /// Size of the virtual disk, at its beginning (bytes).
    pub disk: u64,
    /// Offset of the host's files (bytes).
    pub host: u64,
}

/// The publication's devices (table 1).
const DEVICES: [(&str, u64, u64, u64); 3] = [
    ("mk6006gah", 60_000_000_000, 8 << 30, 16 << 30),
    ("sdhc-class-6", 8_000_000_000, 4 << 30, 4 << 30),
    ("sem16g", 16_000_000_000, 4 << 30, 8 << 30),
];

impl Device {
    /// A device of the publication, or any model, as if it had 16 GB.
    pub fn named(name: &str) -> Self {
        let known = DEVICES.iter().find(|device| device.0 == name);
        let (_, capacity, disk, host) = *known.unwrap_or(&("", 16_000_000_000, 4 << 30, 8 << 30));
        Self { name: name.to_owned(), capacity, disk, host }
    }

    /// The devices of the publication, in its order.
    pub fn published() -> Vec<Self> {
        DEVICES.iter().map(|device| Self::named(device.0)).collect()
    }
}

/// Settings that are constant from the boot on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The drive.
    pub device: Device,
    /// Scheduler on the host, which selects the drive's next request.
    pub host_scheduler: String,
    /// Workload of the host on the drive.
    pub host_workload: Pattern,
    /// Scheduler in the guest.
    pub guest_scheduler: String,
    /// True if the guest's scheduler notifies the host's when it raises weights.
    pub coordinated: bool,
}

impl Setup {
    /// Name of the setup, and of its folder.
    pub fn name(&self) -> String {
        let host = match self.host_workload {
            Pattern::NONE => "no-host-workload".to_owned(),
            pattern => format!("{pattern}-on-host"),
        };
        let coordinated = if self.coordinated { "-coordinated" } else { "" };
        // Models can be written with characters that no file's name should have.
        let device: String = self.device.name.chars().map(plain).collect();
        let (above, below) = (&self.guest_scheduler, &self.host_scheduler);
        format!("{device}.host-{below}.{host}.guest-{above}{coordinated}")
    }
}

fn plain(character: char) -> char {
    if character.is_ascii_alphanumeric() {
        character
    } else {
        '-'
    }
}

/// A figure of merit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// Bytes a second that the guest moves.
    Throughput,
    /// Seconds until an application has started.
    Startup(String),
}

/// One scenario: a setup, a guest workload and a benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// The setup.
    pub setup: Setup,
    /// Workload of the guest during the measurement.
    pub guest_workload: Pattern,
    /// The measured quantity.
    pub benchmark: Benchmark,
}

impl Scenario {
    /// Name of the scenario: the setup's name, the guest's workload and the benchmark.
    pub fn name(&self) -> String {
        let guest = match self.guest_workload {
            Pattern::NONE => "idle".to_owned(),
            pattern => pattern.to_string(),
        };
        let benchmark = match &self.benchmark {
            Benchmark::Throughput => "throughput".to_owned(),
            Benchmark::Startup(name) => format!("startup-{name}"),
        };
        format!("{}.{guest}.{benchmark}", self.setup.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            device: Device::named("sem16g"),
            host_scheduler: "bfq".into(),
            host_workload: Pattern::readers(5, false),
            guest_scheduler: "bfq".into(),
            coordinated: true,
        }
    }

    #[test]
    fn names_say_the_scenario() {
        let scenario = Scenario {
            setup: setup(),
            guest_workload: Pattern::readers(1, true),
            benchmark: Benchmark::Startup("xterm".into()),
        };
        let name = "sem16g.host-bfq.5r-seq-on-host.guest-bfq-coordinated.1r-rand.startup-xterm";
        assert_eq!(scenario.name(), name);
        let other = Scenario {
            setup: Setup {
                host_workload: Pattern::NONE,
                guest_scheduler: "none".into(),
                coordinated: false,
                ..setup()
            },
            guest_workload: Pattern::NONE,
            benchmark: Benchmark::Throughput,
        };
        assert_eq!(other.name(), "sem16g.host-bfq.no-host-workload.guest-none.idle.throughput");
    }

    #[test]
    fn a_model_in_words_is_a_plain_folder() {
        let device = Device::named("fixed:100us/../x");
        let name = Setup { device, ..setup() }.name();
        assert!(name.starts_with("fixed-100us----x.host-bfq."), "{name}");
    }

    #[test]
    fn every_part_of_a_device_is_within_it() {
        for device in Device::published() {
            assert!(device.disk <= device.host && device.host < device.capacity, "{device:?}");
        }
    }
}
