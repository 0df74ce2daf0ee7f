//! The experiment file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stasis_block::units;
use stasis_clock::Nanos;

use crate::error::with_nearest;
use crate::{CpuSpeed, DriveSpec, Engine, ExperimentError, ServeSpec};

/// An experiment. Its form in TOML:
///
/// ```toml
/// engine        = "auto"          # auto, kvm, softkvm, exact
/// seed          = 1
/// command       = ["fio", "--version"]
/// check         = "fsck.ext4 -fn /dev/vda"  # after a power cut; see docs/power-cuts.md
/// results       = "results"
/// virtual-limit = "10s"           # most virtual time of the command
/// wall-limit    = "10min"         # most wall-clock time of everything
///
/// [machine]
/// vcpus     = 1
/// memory    = "1GiB"
/// cpu-speed = "5GHz"
///
/// [guest]
/// packages = ["stress-ng"]        # beside the usual ones
/// files    = ["job.fio"]          # copied into the guest's /root
///
/// [serve]                         # for `stasis serve` only
/// sockets = "/run/stasis"         # each drive's is NAME.sock in there
/// poll    = "adaptive"            # always, adaptive, never
/// threads = 1
///
/// [[drive]]
/// name   = "fast"
/// model  = "dcpmm"
/// medium = { ram = "1GiB" }
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Experiment {
    /// Where the machine runs.
    pub engine: Engine,
    /// Seed of everything random: the guest's and the models'.
    pub seed: u64,
    /// What runs in the guest.
    pub command: Vec<String>,
    /// What looks at the drives after a power cut: a shell's command.
    pub check: Option<String>,
    /// Folder for the results.
    pub results: Option<PathBuf>,
    /// Most virtual time of the command (ns).
    #[serde(with = "units::duration_option")]
    pub virtual_limit: Option<Nanos>,
    /// Most wall-clock time of everything (ns).
    #[serde(with = "units::duration_option")]
    pub wall_limit: Option<Nanos>,
    /// The machine.
    pub machine: MachineSpec,
    /// The guest's system.
    pub guest: GuestSpec,
    /// How `stasis serve` serves the drives.
    pub serve: ServeSpec,
    /// The drives, in order.
    #[serde(rename = "drive")]
    pub drives: Vec<DriveSpec>,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MachineSpec {
    /// Processors, 1 to 64.
    pub vcpus: u32,
    /// Memory in bytes.
    #[serde(with = "units::size")]
    pub memory: u64,
    /// Speed of the processors; by default the engine's.
    pub cpu_speed: Option<CpuSpeed>,
    /// Added to the kernel's command line.
    pub kernel_command_line: String,
    /// How long one processor runs while others could too (ns of virtual time).
    #[serde(with = "units::duration")]
    pub slice: Nanos,
    /// Whether time may be set back for a drive faster than the guest.
    pub rewind: bool,
    /// Whether RDRAND and RDSEED are visible; a run does not repeat then.
    pub random: bool,
}

impl Default for MachineSpec {
    fn default() -> Self {
        Self {
            vcpus: 1,
            memory: 1 << 30,
            cpu_speed: None,
            kernel_command_line: String::new(),
            slice: 20_000,
            rewind: false,
            random: false,
        }
    }
}

/// The guest's system.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GuestSpec {
    /// Debian packages beside the usual ones.
    pub packages: Vec<String>,
    /// Package of the kernel.
    pub kernel: Option<String>,
    /// Debian release.
    pub suite: Option<String>,
    /// Files and folders to copy into the guest's /root, or to DESTINATION
    /// where one is given: "SOURCE" or "SOURCE:DESTINATION".
    pub files: Vec<String>,
}

/// Least memory of a guest: its kernel and userland with room to work.
const LEAST_MEMORY: u64 = 192 << 20;

impl Experiment {
    /// Reads an experiment file.
    ///
    /// # Errors
    /// Names the place, the word and the nearest right one.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ExperimentError::Read { path: path.to_owned(), source })?;
        let wrong = |message: String| ExperimentError::File { path: path.to_owned(), message };
        let experiment: Self =
            toml::from_str(&text).map_err(|error| wrong(with_nearest(&error.to_string())))?;
        for (index, drive) in experiment.drives.iter().enumerate() {
            drive.check().map_err(|message| wrong(format!("drive {index}: {message}")))?;
        }
        Ok(experiment)
    }

    /// Checks what only the whole can tell, and gives every drive a name.
    ///
    /// # Errors
    /// Names the value and what it must be.
    pub fn finish(&mut self) -> Result<(), ExperimentError> {
        let wrong = |message: String| Err(ExperimentError::Value(message));
        if !(1..=64).contains(&self.machine.vcpus) {
            return wrong(format!("vcpus is {}, but must be 1 to 64", self.machine.vcpus));
        }
        if self.machine.memory < LEAST_MEMORY {
            return wrong(format!(
                "memory is {}, but a guest needs at least {}",
                units::format_size(self.machine.memory),
                units::format_size(LEAST_MEMORY)
            ));
        }
        if self.machine.slice == 0 {
            return wrong("slice is 0, but must be some time, for example 20us".into());
        }
        if self.command.is_empty() {
            return wrong(
                "no command: say what to run in the guest after `--`, for example \
                 `stasis run -- uname -a`"
                    .into(),
            );
        }
        self.name_drives()
    }

    /// Gives every drive a name.
    ///
    /// # Errors
    /// If two have the same.
    pub fn name_drives(&mut self) -> Result<(), ExperimentError> {
        for index in 0..self.drives.len() {
            let name = self.drives[index].name.clone().unwrap_or_else(|| format!("drive{index}"));
            if self.drives[..index].iter().any(|other| other.name.as_ref() == Some(&name)) {
                let message = format!("two drives have the name `{name}`");
                return Err(ExperimentError::Value(message));
            }
            self.drives[index].name = Some(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Experiment, ExperimentError> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("experiment-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let result = Experiment::read(&path);
        std::fs::remove_file(&path).unwrap();
        result
    }

    #[test]
    fn the_documented_form_is_read() {
        let experiment = read(
            "engine = 'exact'\nseed = 7\ncommand = ['true']\nwall-limit = '10s'\n\
             [machine]\nvcpus = 4\nmemory = '512MiB'\ncpu-speed = '3GHz'\n\
             [[drive]]\nname = 'fast'\nmodel = 'dcpmm'\nmedium = { ram = '1GiB' }\n\
             [[drive]]\nmodel = { kind = 'fixed', read = '80us', write = '20us' }\nmedium = 'ram:1GiB'\n",
        )
        .unwrap();
        assert_eq!(experiment.machine.vcpus, 4);
        assert_eq!(experiment.drives.len(), 2);
        let mut experiment = experiment;
        experiment.finish().unwrap();
        assert_eq!(experiment.drives[1].name.as_deref(), Some("drive1"));
    }

    #[test]
    fn wrong_keys_name_their_place_and_the_right_word() {
        let message = read("[machine]\nvcpu = 4\n").unwrap_err().to_string();
        assert!(message.contains("vcpus") && message.contains("line 2"), "{message}");
        let message = read("[[drive]]\nmodle = 'null'\n").unwrap_err().to_string();
        assert!(message.contains("did you mean `model`?"), "{message}");
        let message = read("engine = 'exat'\n").unwrap_err().to_string();
        assert!(message.contains("did you mean `exact`?"), "{message}");
    }

    #[test]
    fn impossible_values_are_refused() {
        for change in [
            |e: &mut Experiment| e.machine.vcpus = 65,
            |e: &mut Experiment| e.machine.memory = 1 << 20,
            |e: &mut Experiment| e.command.clear(),
        ] {
            let mut experiment = Experiment { command: vec!["true".into()], ..Default::default() };
            assert!(experiment.clone().finish().is_ok());
            change(&mut experiment);
            assert!(experiment.finish().is_err());
        }
    }
}
