//! Faults of drives and machines, as a user schedules them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Operation};
use stasis_config::{guess, listed};
use stasis_drive::{DriveFault, DriveFaultKind};

use crate::file::missing;
use crate::{Experiment, MachineSpec};

/// Limit on the faults of an experiment.
const MAX_FAULTS: usize = 1024;

/// The kind of a machine's fault: its processors stand still.
const PAUSE: &str = "pause";

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
}

/// A fault of a drive or a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ScheduledFault {
    /// Kind of the fault.
    #[schemars(extend("enum" = kinds().collect::<Vec<_>>()))]
    pub kind: String,
    /// Drive that it befalls; by default the only one.
    pub drive: Option<String>,
    /// Machine that `pause` befalls; by default the only one.
    pub machine: Option<String>,
    /// When it begins, in virtual time after the commands' start; by default at once.
    #[serde(with = "units::duration_option")]
    pub begin: Option<Nanos>,
    /// When it ends, in virtual time after the commands' start; by default never.
    #[serde(with = "units::duration_option")]
    pub end: Option<Nanos>,
    /// Share of the commands that it befalls, 0 to 1; by default all that it concerns.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rate: Option<f64>,
    /// The first command that it can befall, by its `order` in the results' I/Os.
    pub first: Option<u64>,
    /// Limit on how often it happens; of `bit-rot` the number of sectors, by default 1.
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

/// Every kind.
fn kinds() -> impl Iterator<Item = &'static str> {
    DriveFaultKind::ALL.into_iter().map(DriveFaultKind::name).chain([PAUSE])
}

impl ScheduledFault {
    /// Whether a machine is befallen, and not a drive.
    fn is_of_machine(&self) -> bool {
        self.kind == PAUSE
    }

    /// The drive or machine that is befallen.
    pub fn target(&self) -> &str {
        let name = if self.is_of_machine() { &self.machine } else { &self.drive };
        name.as_deref().unwrap_or("machine")
    }

    /// The pause of a machine that it describes; `number`: its place in the experiment.
    fn pause(&self, number: u16) -> Result<MachinePause, String> {
        for (key, given) in [
            ("drive", self.drive.is_some()),
            ("rate", self.rate.is_some()),
            ("first", self.first.is_some()),
            ("times", self.times.is_some()),
            ("offset", self.offset.is_some()),
            ("length", self.length.is_some()),
            ("operations", !self.operations.is_empty()),
            ("factor", self.factor.is_some()),
            ("delay", self.delay.is_some()),
        ] {
            if given {
                return Err(format!("{key} means nothing for the kind `{PAUSE}`"));
            }
        }
        self.check_times()?;
        Ok(MachinePause { number, begin: self.begin.unwrap_or(0), end: self.end })
    }

    fn check_times(&self) -> Result<(), String> {
        match (self.begin.unwrap_or(0), self.end) {
            (begin, Some(end)) if end <= begin => {
                let [begin, end] = [begin, end].map(units::format_duration);
                Err(format!("it ends at {end}, but begins at {begin}"))
            }
            _ => Ok(()),
        }
    }

    /// The fault of a drive that it describes; `number`: its place in the experiment.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn of_drive(&self, number: u16) -> Result<DriveFault, String> {
        let all = DriveFaultKind::ALL;
        let kind = all.into_iter().find(|kind| kind.name() == self.kind).ok_or_else(|| {
            let (guess, all) = (guess(&self.kind, kinds()), listed(kinds()));
            match self.kind.is_empty() {
                true => format!("it has no kind; there are {all}"),
                false => format!("unknown kind `{}`; {guess}there are {all}", self.kind),
            }
        })?;
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
        })
    }

    fn check(&self, kind: DriveFaultKind) -> Result<(), String> {
        use DriveFaultKind::{BitRot, Slow, Stall};
        let name = kind.name();
        // A key without an effect is a mistake.
        for (key, given, kinds) in [
            ("factor", self.factor.is_some(), &[Slow][..]),
            ("delay", self.delay.is_some(), &[Slow]),
            ("operations", !self.operations.is_empty(), &[Slow, Stall]),
        ] {
            if given && !kinds.contains(&kind) {
                let kinds = listed(kinds.iter().map(|kind| kind.name()));
                return Err(format!("{key} is for the kind {kinds}, and not for `{name}`"));
            }
        }
        for (key, given, kinds) in [
            ("rate", self.rate.is_some(), &[Stall, BitRot][..]),
            ("times", self.times.is_some(), &[Stall]),
            ("first", self.first.is_some(), &[BitRot]),
            ("end", self.end.is_some(), &[BitRot]),
        ] {
            if given && kinds.contains(&kind) {
                return Err(format!("{key} means nothing for the kind `{name}`"));
            }
        }
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
        self.check_times()?;
        if self.machine.is_some() {
            return Err(format!("machine means nothing for the kind `{name}`"));
        }
        if self.length == Some(0) {
            return Err("length is 0, but must be at least one byte".into());
        }
        Ok(())
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
            if !fault.is_of_machine() || fault.machine != machine.name {
                continue;
            }
            let pause = fault.pause(u16::try_from(number).unwrap_or(u16::MAX))?;
            let meets = |other: &&MachinePause| {
                pause.begin < other.end.unwrap_or(Nanos::MAX)
                    && other.begin < pause.end.unwrap_or(Nanos::MAX)
            };
            if let Some(other) = pauses.iter().find(meets) {
                return Err(format!("it is during fault {}", other.number));
            }
            pauses.push(pause);
        }
        Ok(pauses)
    }

    fn check_pause(&self, fault: &ScheduledFault) -> Result<(), String> {
        let machines = self.machine.all();
        let names = || machines.iter().filter_map(|machine| machine.name.as_deref());
        let Some(machine) = machines.iter().find(|machine| machine.name == fault.machine) else {
            return Err(match &fault.machine {
                None => format!("give it a machine: there are {}", listed(names())),
                Some(name) if names().next().is_none() => {
                    format!("there is no machine `{name}`: there is one, without a name")
                }
                Some(name) => missing("machine", name, names()),
            });
        };
        fault.pause(0)?;
        if machine.rewind {
            return Err("a machine with rewind cannot pause".into());
        }
        if fault.end.is_none() && machine.wait {
            return Err("without an end its command never ends: give the pause an end, or the \
                        machine `wait = false`"
                .into());
        }
        self.pauses_of(machine).map(drop)
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
            if fault.is_of_machine() {
                self.check_pause(fault).map_err(of)?;
                continue;
            }
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
                Some(_) => {}
            }
            fault.of_drive(0).map_err(of)?;
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
        let none = "command = ['true']\n[[fault]]\nkind = 'stall'\n";
        assert!(finish(none).unwrap_err().contains("no drive that it can befall"));
    }
}
