//! Faults of machines: pauses and failures.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{splitmix, Random};
use stasis_config::listed;
use stasis_media::MediumSpec;

use super::{FaultKind, ScheduledFault, PAUSE};
use crate::file::missing;
use crate::{Experiment, MachineSpec};

/// Machines' failures draw other numbers than drives.
const FAILURES: u64 = 0x6661_696c;

/// How a machine fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineFailureKind {
    /// Its power is cut, and that of its drives.
    PowerCut,
    /// It is reset; its drives keep their power.
    Reset,
    /// Its processors stop, while its devices go on until it is reset.
    Hang,
    /// Its kernel panics.
    Panic,
}

impl MachineFailureKind {
    /// Every kind.
    pub(super) const ALL: [Self; 4] = [Self::PowerCut, Self::Reset, Self::Hang, Self::Panic];

    /// Name of the kind in experiments and results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PowerCut => "power-cut",
            Self::Reset => "reset",
            Self::Hang => "hang",
            Self::Panic => "panic",
        }
    }
}

/// A failure of a machine, resolved. Times count from the start of the guests' commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFailure {
    /// Number among the experiment's faults.
    pub number: u16,
    /// How it fails.
    pub kind: MachineFailureKind,
    /// When (ns), or how long after its trigger.
    pub at: Nanos,
    /// After what time it boots again (ns), if it does.
    pub restart: Option<Nanos>,
    /// Chooses what a power cut leaves of its drives.
    pub seed: u64,
    /// Whether something else than time brings it about.
    #[serde(default)]
    pub triggered: bool,
}

/// A fault of a machine, resolved: its processors stand still. Times count from the start of the
/// guests' commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinePause {
    /// Number among the experiment's faults.
    pub number: u16,
    /// When it begins (ns).
    pub begin: Nanos,
    /// When it ends (ns), if it does.
    pub end: Option<Nanos>,
    /// Whether something else than time brings it about: its times count from that.
    #[serde(default)]
    pub triggered: bool,
}

impl ScheduledFault {
    /// The pause of a machine that it describes; `number`: its place in the experiment.
    fn pause(&self, number: u16) -> MachinePause {
        let triggered = self.is_triggered();
        MachinePause { number, begin: self.begin.unwrap_or(0), end: self.end, triggered }
    }

    /// The failure of a machine that it describes; `number`: its place in the experiment.
    fn failure(&self, kind: MachineFailureKind, number: u16, seed: u64) -> MachineFailure {
        let seed = splitmix::nth(seed ^ FAILURES, u64::from(number) + 1);
        let later = self.within.map_or(0, |within| Random::new(seed).up_to(within));
        let at_once = (kind == MachineFailureKind::Reset).then_some(0);
        MachineFailure {
            number,
            kind,
            at: self.at.unwrap_or(0).saturating_add(later),
            restart: self.restart.or(at_once),
            seed: splitmix::nth(seed, 1),
            triggered: self.is_triggered(),
        }
    }
}

impl Experiment {
    /// The pauses of a machine.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn pauses_of(&self, machine: &MachineSpec) -> Result<Vec<MachinePause>, String> {
        let mut pauses: Vec<MachinePause> = Vec::new();
        for (number, fault) in self.faults.iter().enumerate() {
            if fault.kind != PAUSE || fault.machine != machine.name {
                continue;
            }
            let pause = fault.pause(u16::try_from(number).unwrap_or(u16::MAX));
            let meets = |other: &&MachinePause| {
                !pause.triggered
                    && !other.triggered
                    && pause.begin < other.end.unwrap_or(Nanos::MAX)
                    && other.begin < pause.end.unwrap_or(Nanos::MAX)
            };
            if let Some(other) = pauses.iter().find(meets) {
                return Err(format!("it is during fault {}", other.number));
            }
            pauses.push(pause);
        }
        Ok(pauses)
    }

    /// The failures of a machine.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn failures_of(&self, machine: &MachineSpec) -> Result<Vec<MachineFailure>, String> {
        let mut failures = Vec::new();
        for (number, fault) in self.faults.iter().enumerate() {
            if let (true, FaultKind::Failure(kind)) =
                (fault.machine == machine.name && fault.is_of_machine(), fault.known()?)
            {
                let number = u16::try_from(number).unwrap_or(u16::MAX);
                failures.push(fault.failure(kind, number, self.seed));
            }
        }
        Ok(failures)
    }

    pub(super) fn check_machine_fault(&self, fault: &ScheduledFault) -> Result<(), String> {
        let machines = self.machine.all();
        let names = || machines.iter().filter_map(|machine| machine.name.as_deref());
        let Some(machine) = machines.iter().find(|machine| machine.name == fault.machine) else {
            return Err(match &fault.machine {
                None => format!("give it a machine: there are {}", listed(names())),
                Some(name) if names().next().is_none() => {
                    format!("there is no machine `{name}`: there is one, without a name: leave machine out")
                }
                Some(name) => missing("machine", name, names()),
            });
        };
        let kind = fault.known()?;
        if machine.rewind {
            return Err("a machine with rewind cannot have faults".into());
        }
        let FaultKind::Failure(failure) = kind else {
            if let FaultKind::Guest(kind) = kind {
                return self.check_guest_fault(machine, fault, kind);
            }
            if fault.end.is_none() && machine.wait {
                return Err("without an end its command never ends: give the pause an end, or \
                            the machine `wait = false`"
                    .into());
            }
            return self.pauses_of(machine).map(drop);
        };
        if fault.at.is_none() && !fault.is_triggered() {
            return Err("say when it happens: give it `at`, `at-io`, `at-output` or `when`".into());
        }
        if fault.failure(failure, 0, 0).restart.is_none() && machine.wait {
            return Err(
                "without a restart its command never ends: give the fault a `restart`, or \
                        the machine `wait = false`"
                    .into(),
            );
        }
        self.check_drives_of_failure(machine, failure)
    }

    /// Refuses drives that cannot fail with their machine.
    fn check_drives_of_failure(
        &self,
        machine: &MachineSpec,
        kind: MachineFailureKind,
    ) -> Result<(), String> {
        let alone = self.machine.several().is_empty();
        let drives = if alone { &self.drives } else { &machine.drives };
        let cut = kind == MachineFailureKind::PowerCut;
        for drive in drives {
            let name = drive.name.as_deref().unwrap_or_default();
            let shared = alone
                && (drive.scheduler.is_some()
                    || !drive.limits.is_none()
                    || !self.workloads.is_empty());
            let image = matches!(drive.medium, MediumSpec::Qcow2 { .. });
            let why = match () {
                () if drive.zones.is_some() => "it has zones",
                () if drive.ocssd.is_some() => "it is an Open-Channel drive",
                () if cut && shared => "others share it, or its scheduler is the host's",
                () if cut && image => "it is an image: take a medium `ram` or `file`",
                () => continue,
            };
            return Err(format!("drive {name} cannot fail with its machine: {why}"));
        }
        if let (true, Some(disk)) = (cut, machine.disks.first()) {
            let name = disk.name.as_deref().unwrap_or_default();
            return Err(format!(
                "disk {name} cannot lose its power with its machine: it lies on a shared drive"
            ));
        }
        Ok(())
    }
}
