//! Faults of drives, machines and guests, as a user schedules them.

mod guests;
mod machines;
mod triggered;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Operation};
use stasis_config::{guess, listed};
use stasis_drive::{DriveFault, DriveFaultKind};

use crate::file::missing;
use crate::triggers::ASKED;
use crate::Experiment;

use guests::GuestFaultKind;
pub use machines::{MachineFailure, MachineFailureKind, MachinePause};

/// Limit on the faults of an experiment.
const MAX_FAULTS: usize = 1024;

/// The kind of a machine's fault: its processors stand still.
const PAUSE: &str = "pause";

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Drive(DriveFaultKind),
    Pause,
    Failure(MachineFailureKind),
    Guest(GuestFaultKind),
}

impl FaultKind {
    fn all() -> impl Iterator<Item = Self> + Clone {
        let drives = DriveFaultKind::ALL.into_iter().map(Self::Drive);
        let failures = MachineFailureKind::ALL.into_iter().map(Self::Failure);
        let guests = GuestFaultKind::ALL.into_iter().map(Self::Guest);
        drives.chain([Self::Pause]).chain(failures).chain(guests)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Drive(kind) => kind.name(),
            Self::Pause => PAUSE,
            Self::Failure(kind) => kind.name(),
            Self::Guest(kind) => kind.name(),
        }
    }

    /// Whether a key of a fault has an effect on this kind.
    fn takes(self, key: &str) -> bool {
        use DriveFaultKind::{BitRot, Slow, Stall};
        match (key, self) {
            ("machine", Self::Pause | Self::Failure(_) | Self::Guest(_)) => true,
            ("at" | "within" | "restart", Self::Failure(_)) => true,
            ("begin" | "end", Self::Pause) => true,
            ("name" | "at-io" | "at-output" | "output-of" | "when", _) => true,
            ("times", Self::Pause | Self::Failure(_) | Self::Guest(_)) => true,
            (_, Self::Guest(kind)) => kind.takes(key),
            ("machine" | "at" | "within" | "restart", _) => false,
            ("process" | "memory" | "by" | "ppm", _) => false,
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
    /// Machine that pauses or fails, or in whose guest it happens; by default the only one.
    pub machine: Option<String>,
    /// When it happens, in virtual time after the commands' start.
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
    /// Limit on how much later than `at` or its trigger it happens: the time is drawn by the seed.
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
    /// Name of the process that `kill` kills: its program's, or its own.
    pub process: Option<String>,
    /// How much memory `memory-shortage` takes from the guest.
    #[serde(with = "units::size_option")]
    pub memory: Option<u64>,
    /// How far `clock-jump` moves the guest's real-time clock, as `5s` or `-5s`.
    pub by: Option<String>,
    /// By how many parts per million `clock-drift` makes the guest's clocks faster, or slower.
    pub ppm: Option<i32>,
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
            ("process", self.process.is_some()),
            ("memory", self.memory.is_some()),
            ("by", self.by.is_some()),
            ("ppm", self.ppm.is_some()),
        ] {
            if given && !kind.takes(key) {
                return Err(refusal(key, kind));
            }
        }
        units::check_span(self.begin, self.end)?;
        Ok(kind)
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
        0..=6 => {
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
