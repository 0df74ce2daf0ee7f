//! Faults of drives and machines, as a user schedules them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{splitmix, units, Operation, Random};
use stasis_config::{guess, listed};
use stasis_drive::{DriveFault, DriveFaultKind};
use stasis_media::MediumSpec;

use crate::file::missing;
use crate::triggers::{self, FaultTrigger, Trigger, ASKED};
use crate::{DriveSpec, Experiment, MachineSpec};

/// Limit on the faults of an experiment.
const MAX_FAULTS: usize = 1024;

/// The kind of a machine's fault: its processors stand still.
const PAUSE: &str = "pause";

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
    const ALL: [Self; 4] = [Self::PowerCut, Self::Reset, Self::Hang, Self::Panic];

    /// Name of the kind in experiments and results.
    fn name(self) -> &'static str {
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

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Drive(DriveFaultKind),
    Pause,
    Failure(MachineFailureKind),
}

impl FaultKind {
    fn all() -> impl Iterator<Item = Self> + Clone {
        let drives = DriveFaultKind::ALL.into_iter().map(Self::Drive);
        let failures = MachineFailureKind::ALL.into_iter().map(Self::Failure);
        drives.chain([Self::Pause]).chain(failures)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Drive(kind) => kind.name(),
            Self::Pause => PAUSE,
            Self::Failure(kind) => kind.name(),
        }
    }

    /// Whether a key of a fault has an effect on this kind.
    fn takes(self, key: &str) -> bool {
        use DriveFaultKind::{BitRot, Slow, Stall};
        match (key, self) {
            ("machine", Self::Pause | Self::Failure(_)) => true,
            ("at" | "within" | "restart", Self::Failure(_)) => true,
            ("begin" | "end", Self::Pause) => true,
            ("name" | "at-io" | "at-output" | "output-of" | "when", _) => true,
            ("times", Self::Pause | Self::Failure(_)) => true,
            ("machine" | "at" | "within" | "restart", _) => false,
            (_, Self::Pause | Self::Failure(_)) => false,
            ("end" | "first", Self::Drive(kind)) => kind != BitRot,
            ("rate", Self::Drive(kind)) => !matches!(kind, Stall | BitRot),
            ("times", Self::Drive(kind)) => kind != Stall,
            ("factor" | "delay", Self::Drive(kind)) => kind == Slow,
            ("operations", Self::Drive(kind)) => matches!(kind, Slow | Stall),
            (_, Self::Drive(_)) => true,
        }
    }
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

/// A fault of a drive or a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ScheduledFault {
    /// Kind of the fault.
    #[schemars(extend("enum" = kinds().collect::<Vec<_>>()))]
    pub kind: String,
    /// Name by which a guest asks for it.
    pub name: Option<String>,
    /// Drive that it befalls; by default the only one.
    pub drive: Option<String>,
    /// Machine that pauses or fails; by default the only one.
    pub machine: Option<String>,
    /// When the machine fails, in virtual time after the commands' start.
    #[serde(with = "units::duration_option")]
    pub at: Option<Nanos>,
    /// `DRIVE:NUMBER`: it begins as this drive of a machine is given its command of this number,
    /// its `order` in the results' I/Os.
    pub at_io: Option<String>,
    /// Regular expression: it begins as a command has written a line that matches.
    pub at_output: Option<String>,
    /// Machine whose output `at-output` looks at; by default all.
    pub output_of: Option<String>,
    /// `asked`: it begins whenever a guest asks for it by `stasis-fault`.
    #[schemars(extend("enum" = [ASKED]))]
    pub when: Option<String>,
    /// Limit on how much later than `at` or its trigger it fails: the time is drawn by the seed.
    #[serde(with = "units::duration_option")]
    pub within: Option<Nanos>,
    /// After what time the machine boots again, on its drives as they are left; by default a
    /// machine that is reset does at once, and any other never.
    #[serde(with = "units::duration_option")]
    pub restart: Option<Nanos>,
    /// When it begins, in virtual time after the commands' start or its trigger; by default at
    /// once.
    #[serde(with = "units::duration_option")]
    pub begin: Option<Nanos>,
    /// When it ends, in virtual time after the commands' start or its trigger; by default never.
    #[serde(with = "units::duration_option")]
    pub end: Option<Nanos>,
    /// Share of the commands that it befalls, 0 to 1; by default all that it concerns.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rate: Option<f64>,
    /// The first command that it can befall, by its `order` in the results' I/Os.
    pub first: Option<u64>,
    /// Limit on how often it happens; of `bit-rot` the number of sectors, by default 1; of a
    /// machine's fault at how many lines of output, by default 1.
    pub times: Option<u64>,
    /// First byte of the region that it befalls; by default the drive's first.
    #[serde(with = "units::size_option")]
    pub offset: Option<u64>,
    /// Length of that region; by default to the drive's end.
    #[serde(with = "units::size_option")]
    pub length: Option<u64>,
    /// Operations that `slow` and `stall` befall; by default all.
    pub operations: Vec<Operation>,
    /// Factor of `slow` on a command's time, at least 1.
    #[schemars(range(min = 1.0))]
    pub factor: Option<f64>,
    /// Time that `slow` adds to a command's.
    #[serde(with = "units::duration_option")]
    pub delay: Option<Nanos>,
}

/// Every kind's name.
fn kinds() -> impl Iterator<Item = &'static str> + Clone {
    FaultKind::all().map(FaultKind::name)
}

impl ScheduledFault {
    /// Whether a machine is befallen, and not a drive.
    pub(crate) fn is_of_machine(&self) -> bool {
        FaultKind::all()
            .any(|kind| kind.name() == self.kind && !matches!(kind, FaultKind::Drive(_)))
    }

    /// The drive or machine that is befallen.
    pub fn target(&self) -> &str {
        let name = if self.is_of_machine() { &self.machine } else { &self.drive };
        name.as_deref().unwrap_or("machine")
    }

    /// Its kind, with keys that all have an effect.
    fn known(&self) -> Result<FaultKind, String> {
        let kind = FaultKind::all().find(|kind| kind.name() == self.kind).ok_or_else(|| {
            let (guess, all) = (guess(&self.kind, kinds()), listed(kinds()));
            match self.kind.is_empty() {
                true => format!("it has no kind; there are {all}"),
                false => format!("unknown kind `{}`; {guess}there are {all}", self.kind),
            }
        })?;
        for (key, given) in [
            ("name", self.name.is_some()),
            ("at-io", self.at_io.is_some()),
            ("at-output", self.at_output.is_some()),
            ("output-of", self.output_of.is_some()),
            ("when", self.when.is_some()),
            ("drive", self.drive.is_some()),
            ("machine", self.machine.is_some()),
            ("at", self.at.is_some()),
            ("within", self.within.is_some()),
            ("restart", self.restart.is_some()),
            ("begin", self.begin.is_some()),
            ("end", self.end.is_some()),
            ("rate", self.rate.is_some()),
            ("first", self.first.is_some()),
            ("times", self.times.is_some()),
            ("offset", self.offset.is_some()),
            ("length", self.length.is_some()),
            ("operations", !self.operations.is_empty()),
            ("factor", self.factor.is_some()),
            ("delay", self.delay.is_some()),
        ] {
            if given && !kind.takes(key) {
                return Err(refusal(key, kind));
            }
        }
        units::check_span(self.begin, self.end)?;
        Ok(kind)
    }

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

    /// The fault of a drive that it describes; `number`: its place in the experiment.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn of_drive(&self, number: u16) -> Result<DriveFault, String> {
        let FaultKind::Drive(kind) = self.known()? else {
            return Err(format!("the kind `{}` is of a machine", self.kind));
        };
        self.check(kind)?;
        Ok(DriveFault {
            number,
            kind,
            begin: self.begin.unwrap_or(0),
            end: self.end,
            rate: self.rate.unwrap_or(1.0),
            first: self.first.unwrap_or(0),
            times: self.times,
            offset: self.offset.unwrap_or(0),
            length: self.length,
            operations: self.operations.clone(),
            factor: self.factor.unwrap_or(1.0),
            delay: self.delay.unwrap_or(0),
            triggered: self.is_triggered(),
        })
    }

    fn check(&self, kind: DriveFaultKind) -> Result<(), String> {
        use DriveFaultKind::{BitRot, Slow};
        if kind == Slow && self.factor.is_none() && self.delay.is_none() {
            return Err("slow needs factor or delay".into());
        }
        if let Some(rate) = self.rate.filter(|rate| !(0.0..=1.0).contains(rate)) {
            return Err(format!("rate is {rate}, but must be 0 to 1"));
        }
        if let Some(factor) = self.factor.filter(|factor| !(1.0..=1e9).contains(factor)) {
            return Err(format!("factor is {factor}, but must be 1 to 1000000000"));
        }
        if let Some(times) = self.times.filter(|times| kind == BitRot && *times > MAX_SECTORS) {
            return Err(format!("times is {times}, but of bit-rot at most {MAX_SECTORS}"));
        }
        if self.length == Some(0) {
            return Err("length is 0, but must be at least one byte".into());
        }
        Ok(())
    }
}

/// The message about a key without an effect, which is a mistake.
fn refusal(key: &str, kind: FaultKind) -> String {
    let name = kind.name();
    let all = FaultKind::all().filter(|kind| kind.takes(key));
    match all.clone().count() {
        0..=4 => {
            let kinds = listed(all.map(FaultKind::name));
            format!("{key} is for the kind {kinds}, and not for `{name}`")
        }
        _ => format!("{key} means nothing for the kind `{name}`"),
    }
}

/// Limit on the sectors of a `bit-rot`.
const MAX_SECTORS: u64 = stasis_drive::faults::MAX_ROTTEN;

impl Experiment {
    /// The faults of the drive named `name`.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn faults_of(&self, name: &str) -> Result<Vec<DriveFault>, String> {
        let mut faults = Vec::new();
        for (number, fault) in self.faults.iter().enumerate() {
            if fault.drive.as_deref() == Some(name) && !fault.is_of_machine() {
                let number = u16::try_from(number).unwrap_or(u16::MAX);
                faults.push(fault.of_drive(number)?);
            }
        }
        Ok(faults)
    }

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

    fn check_machine_fault(&self, fault: &ScheduledFault) -> Result<(), String> {
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
            return Err("a machine with rewind cannot pause or fail".into());
        }
        let FaultKind::Failure(failure) = kind else {
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

    /// Names of the drives with a model of their own, which faults can befall.
    fn faulty_drives(&self) -> impl Iterator<Item = &str> + Clone {
        let own = self.machine.several().iter().flat_map(|machine| &machine.drives);
        self.drives.iter().chain(own).filter_map(|drive| drive.name.as_deref())
    }

    /// Gives a fault without a drive the only one.
    pub(crate) fn settle_faults(&mut self) {
        let names: Vec<String> = self.faulty_drives().map(str::to_owned).collect();
        if let [only] = &names[..] {
            for fault in self.faults.iter_mut().filter(|fault| !fault.is_of_machine()) {
                fault.drive.get_or_insert_with(|| only.clone());
            }
        }
    }

    pub(crate) fn check_faults(&self) -> Result<(), String> {
        if self.faults.len() > MAX_FAULTS {
            let count = self.faults.len();
            return Err(format!("{count} faults, but there can be {MAX_FAULTS} at most"));
        }
        for (number, fault) in self.faults.iter().enumerate() {
            let of = |message: String| format!("fault {number}: {message}");
            self.check_trigger(fault).map_err(of)?;
            if fault.is_of_machine() {
                self.check_machine_fault(fault).map_err(of)?;
                continue;
            }
            fault.of_drive(0).map_err(of)?;
            match &fault.drive {
                None if self.faulty_drives().next().is_none() => {
                    return Err(of("there is no drive that it can befall".into()));
                }
                None => {
                    let all = listed(self.faulty_drives());
                    return Err(of(format!("give it a drive: there are {all}")));
                }
                Some(name) if !self.faulty_drives().any(|other| other == name) => {
                    return Err(of(missing("drive", name, self.faulty_drives())));
                }
                Some(name) if fault.is_triggered() => self.check_own_drive(name).map_err(of)?,
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl ScheduledFault {
    /// Whether something else than time brings it about.
    fn is_triggered(&self) -> bool {
        self.at_io.is_some() || self.at_output.is_some() || self.when.is_some()
    }

    /// Its trigger, if it has one; `number`: its place in the experiment.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    fn trigger(&self, number: u16) -> Result<Option<FaultTrigger>, String> {
        let once = [
            ("at", self.at.is_some()),
            ("at-io", self.at_io.is_some()),
            ("at-output", self.at_output.is_some()),
            ("when", self.when.is_some()),
        ];
        let mut given = once.iter().filter(|(_, given)| *given).map(|(key, _)| key);
        if let (Some(first), Some(second)) = (given.next(), given.next()) {
            return Err(format!(
                "{first} and {second} are given, but a fault begins by one of them"
            ));
        }
        if self.output_of.is_some() && self.at_output.is_none() {
            return Err("output-of says whose output at-output looks at, which is not given".into());
        }
        if self.name.is_some() && self.when.is_none() {
            return Err("name is for a fault with `when = \"asked\"`".into());
        }
        if self.is_of_machine() && self.times.is_some() && self.at_output.is_none() {
            return Err(
                "times of a machine's fault counts the lines of at-output, which is not given"
                    .into(),
            );
        }
        if self.times == Some(0) {
            return Err("times is 0, but must be at least 1".into());
        }
        let (trigger, times) = if let Some(text) = &self.at_io {
            (triggers::io(text)?, 1)
        } else if let Some(pattern) = &self.at_output {
            let times = self.times.filter(|_| self.is_of_machine()).unwrap_or(1);
            (triggers::output(pattern, self.output_of.clone())?, times)
        } else if let Some(when) = &self.when {
            if when != ASKED {
                return Err(format!("when is `{when}`, but must be `{ASKED}`"));
            }
            {
                let target = if self.is_of_machine() { &self.machine } else { &self.drive };
                let asked = triggers::asked(self.name.as_deref(), &self.kind, target.as_deref())?;
                (asked, u64::MAX)
            }
        } else {
            return Ok(None);
        };
        Ok(Some(FaultTrigger { number, trigger, times }))
    }
}

impl Experiment {
    /// The triggers of faults.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn triggers(&self) -> Result<Vec<FaultTrigger>, String> {
        let numbered = (0u16..).zip(&self.faults);
        numbered.filter_map(|(number, fault)| fault.trigger(number).transpose()).collect()
    }

    fn check_trigger(&self, fault: &ScheduledFault) -> Result<(), String> {
        let trigger = fault.trigger(0)?.map(|trigger| trigger.trigger);
        let machines = self.machine.all();
        let names = || machines.iter().filter_map(|machine| machine.name.as_deref());
        match trigger {
            Some(Trigger::Io { drive, .. }) => self.check_own_drive(&drive),
            Some(Trigger::Output { machine: Some(name), .. })
                if !names().any(|other| other == name) =>
            {
                Err(match names().next() {
                    None => "there is one machine, without a name: leave output-of out".into(),
                    Some(_) => missing("machine", &name, names()),
                })
            }
            Some(Trigger::Asked { .. }) if fault.name.is_some() => {
                let same = |other: &&ScheduledFault| other.name == fault.name;
                match self.faults.iter().filter(same).count() {
                    0 | 1 => Ok(()),
                    _ => Err(format!(
                        "another fault has the name `{}`, too",
                        fault.name.as_deref().unwrap_or_default()
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    /// Refuses a drive that does not belong to a machine alone.
    fn check_own_drive(&self, name: &str) -> Result<(), String> {
        let several = self.machine.several();
        let own = |drive: &DriveSpec| drive.name.as_deref() == Some(name);
        if several.iter().flat_map(|machine| &machine.drives).any(own) {
            return Ok(());
        }
        if let Some(drive) = self.drives.iter().find(|drive| own(drive)) {
            let shared = !several.is_empty()
                || drive.scheduler.is_some()
                || !drive.limits.is_none()
                || !self.workloads.is_empty();
            return match shared {
                false => Ok(()),
                true => Err(format!(
                    "drive {name} is shared, or its scheduler is the host's: triggers are for a \
                     drive that is a machine's own"
                )),
            };
        }
        let own = several.iter().flat_map(|machine| &machine.drives);
        let names = self.drives.iter().chain(own).filter_map(|drive| drive.name.as_deref());
        match names.clone().next() {
            None => Err(format!("there is no drive `{name}`: no machine has one")),
            Some(_) => Err(missing("drive", name, names)),
        }
    }

    /// Whether any of the faults waits for a guest that asks.
    pub fn is_asked_for_faults(&self) -> bool {
        self.faults.iter().any(|fault| fault.when.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::tests::finish;

    const GOOD: &str = "command = ['true']\n[[drive]]\nname = 'disk'\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[drive]]\nname = 'log'\nmodel = 'null'\nmedium = 'ram:1MiB'\n\
         [[fault]]\nkind = 'lost-write'\ndrive = 'log'\nrate = 0.5\nbegin = '1s'\nend = '2s'\n";

    #[test]
    fn a_fault_is_that_of_its_drive() {
        let experiment = finish(GOOD).unwrap();
        assert_eq!(experiment.faults_of("disk"), Ok(vec![]));
        let [fault] = &experiment.faults_of("log").unwrap()[..] else { panic!("one fault") };
        assert_eq!(fault.kind, DriveFaultKind::LostWrite);
        assert_eq!((fault.begin, fault.end, fault.rate), (1_000_000_000, Some(2_000_000_000), 0.5));
        let only =
            "command = ['true']\n[[drive]]\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[fault]]\nkind = 'read-error'\n";
        assert_eq!(finish(only).unwrap().faults_of("drive0").unwrap().len(), 1);
    }

    #[test]
    fn the_time_of_a_failure_is_drawn_by_the_seed() {
        let cut = "command = ['true']\n[[fault]]\nkind = 'power-cut'\nat = '1s'\n\
             within = '1s'\nrestart = '2s'\n";
        let at = |seed: u64| {
            let experiment = finish(&format!("seed = {seed}\n{cut}")).unwrap();
            let [failure] = &experiment.failures_of(&experiment.machine.all()[0]).unwrap()[..]
            else {
                panic!("one failure")
            };
            assert_eq!(failure.restart, Some(2_000_000_000));
            failure.at
        };
        let times: Vec<_> = (0..20).map(at).collect();
        assert!(times.iter().all(|at| (1_000_000_000..=2_000_000_000).contains(at)));
        assert!(times.iter().max().unwrap() - times.iter().min().unwrap() > 500_000_000);
        assert_eq!(at(3), times[3]);
    }

    #[test]
    fn wrong_faults_are_refused_by_name() {
        for (from, to, expected) in [
            ("'lost-write'", "'lost-writes'", "did you mean `lost-write`?"),
            ("kind = 'lost-write'\n", "", "it has no kind"),
            ("drive = 'log'", "drive = 'lob'", "there is no drive `lob`; did you mean `log`?"),
            ("drive = 'log'\n", "", "give it a drive: there are `disk`, `log`"),
            ("rate = 0.5", "rate = 1.5", "1"),
            ("rate = 0.5", "factor = 2", "factor is for the kind `slow`, and not for `lost-write`"),
            ("'lost-write'", "'slow'", "slow needs factor or delay"),
            ("'lost-write'", "'stall'", "rate means nothing for the kind `stall`"),
            ("end = '2s'", "end = '1s'", "it ends at 1s, but begins at 1s"),
            ("rate = 0.5", "length = 0", "at least one byte"),
            ("rate = 0.5", "operations = ['read']", "operations is for the kind `slow`"),
            ("rate = 0.5", "rats = 0.5", "did you mean `rate`?"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let message = finish(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(expected), "{from} -> {to}: {message}");
        }
        let machines = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n\
             [[fault]]\nkind = 'pause'\nmachine = 'a'\nbegin = '1s'\nend = '2s'\n";
        assert_eq!(finish(machines).unwrap().faults[0].target(), "a");
        for (from, to, expected) in [
            ("machine = 'a'\n", "", "give it a machine: there are `a`, `b`"),
            ("machine = 'a'\n", "machine = 'c'\n", "there is no machine `c`"),
            ("end = '2s'\n", "", "give the pause an end"),
            ("end = '2s'", "end = '1s'", "it ends at 1s, but begins at 1s"),
            ("end = '2s'", "end = '2s'\nrate = 0.5", "rate means nothing for the kind `pause`"),
            ("end = '2s'", "end = '2s'\nat = '1s'", "at is for the kind `power-cut`, `reset`"),
            (
                "end = '2s'\n",
                "end = '2s'\n[[fault]]\nkind = 'pause'\nmachine = 'a'\nend = '1500ms'\n",
                "it is during fault 0",
            ),
        ] {
            assert!(machines.contains(from), "{from}");
            let message = finish(&machines.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(expected), "{from} -> {to}: {message}");
        }
        let cut = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine]]\nname = 'b'\n\
             [[machine.drive]]\nname = 'disk'\nmodel = 'null'\nmedium = 'ram:1MiB'\n\
             [[fault]]\nkind = 'power-cut'\nmachine = 'b'\nat = '1s'\nrestart = '2s'\n";
        assert!(finish(cut).is_ok());
        for (from, to, expected) in [
            ("at = '1s'\n", "", "say when it happens"),
            ("restart = '2s'\n", "", "give the fault a `restart`"),
            ("'ram:1MiB'", "'qcow2:x'", "drive disk cannot fail with its machine: it is an image"),
            ("name = 'b'\n", "name = 'b'\nrewind = true\n", "rewind"),
            ("at = '1s'", "at = '1s'\nend = '2s'", "end means nothing for the kind `power-cut`"),
            ("at = '1s'", "at = '1s'\ndrive = 'disk'", "drive means nothing"),
        ] {
            assert!(cut.contains(from), "{from}");
            let message = finish(&cut.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(expected), "{from} -> {to}: {message}");
        }
        let reset = cut.replace("power-cut", "reset").replace("restart = '2s'\n", "");
        assert!(finish(&reset.replace("ram:1MiB", "qcow2:x")).is_ok());
        let none = "command = ['true']\n[[fault]]\nkind = 'stall'\n";
        assert!(finish(none).unwrap_err().contains("no drive that it can befall"));
    }
}

#[cfg(test)]
mod trigger_tests {
    use super::*;
    use crate::networks::tests::finish;

    const GOOD: &str = "command = ['true']\n[[machine]]\nname = 'a'\n[[machine.drive]]\n\
         name = 'disk'\nmodel = 'null'\nmedium = 'ram:1MiB'\n[[machine]]\nname = 'b'\n\
         [[fault]]\nkind = 'power-cut'\nmachine = 'b'\nat-io = 'disk:7'\nrestart = '1s'\n";

    #[test]
    fn a_trigger_is_what_the_fault_says() {
        let trigger = |text: &str| finish(text).unwrap().triggers().unwrap();
        let io = Trigger::Io { drive: "disk".into(), order: 7 };
        assert_eq!(trigger(GOOD), [FaultTrigger { number: 0, trigger: io, times: 1 }]);
        let failures = |text: &str| {
            let experiment = finish(text).unwrap();
            experiment.failures_of(&experiment.machine.all()[1]).unwrap()
        };
        assert!(failures(GOOD)[0].triggered && failures(GOOD)[0].at == 0);
        let line =
            GOOD.replace("at-io = 'disk:7'", "at-output = '^up$'\noutput-of = 'a'\ntimes = 2");
        let output = Trigger::Output { machine: Some("a".into()), pattern: "^up$".into() };
        assert_eq!(trigger(&line), [FaultTrigger { number: 0, trigger: output, times: 2 }]);
        let asked = GOOD.replace("at-io = 'disk:7'", "when = 'asked'\nname = 'cut'");
        let words = vec!["cut".into(), "power-cut b".into()];
        let [FaultTrigger { trigger, .. }] = &trigger(&asked)[..] else { panic!("one trigger") };
        assert_eq!(*trigger, Trigger::Asked { words });
    }

    #[test]
    fn wrong_triggers_are_refused_by_name() {
        for (from, to, expected) in [
            ("'disk:7'", "'disk'", "must be a drive's name and a command's number"),
            ("'disk:7'", "'disk:x'", "must be a drive's name and a command's number"),
            ("'disk:7'", "'dusk:7'", "there is no drive `dusk`; did you mean `disk`?"),
            ("'disk:7'", "'disk:7'\nat = '1s'", "at and at-io are given"),
            ("'disk:7'", "'disk:7'\nname = 'cut'", "name is for a fault with `when"),
            ("'disk:7'", "'disk:7'\ntimes = 2", "times of a machine's fault counts the lines"),
            ("'disk:7'", "'disk:7'\noutput-of = 'a'", "output-of says whose output"),
            ("at-io = 'disk:7'", "at-output = '('", "at-output is no regular expression"),
            ("at-io = 'disk:7'", "at-output = 'x'\noutput-of = 'c'", "there is no machine `c`"),
            ("at-io = 'disk:7'", "at-output = 'x'\ntimes = 0", "must be at least 1"),
            ("at-io = 'disk:7'", "when = 'ask'", "it is one of `asked`"),
            ("at-io = 'disk:7'", "when = 'asked'\nname = 'a b'", "its name is `a b`"),
        ] {
            let message = finish(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(expected), "{from} -> {to}: {message}");
        }
        let shared = "command = ['true']\n[[drive]]\nname = 'disk'\nmodel = 'null'\n\
             medium = 'ram:1MiB'\nscheduler = 'bfq'\n[[fault]]\nkind = 'stall'\nwhen = 'asked'\n";
        assert!(finish(shared).unwrap_err().contains("drive disk is shared"));
    }
}
