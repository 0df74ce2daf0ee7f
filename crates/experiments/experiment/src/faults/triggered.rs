//! Faults that something else than a time brings about.

use super::ScheduledFault;
use crate::file::missing;
use crate::triggers::{self, FaultTrigger, Trigger, ASKED};
use crate::{DriveSpec, Experiment};

impl ScheduledFault {
    /// Whether something else than time brings it about.
    pub(super) fn is_triggered(&self) -> bool {
        self.at_io.is_some() || self.at_output.is_some() || self.when.is_some()
    }

    /// Its trigger, if it has one; `number`: its place in the experiment.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub(super) fn trigger(&self, number: u16) -> Result<Option<FaultTrigger>, String> {
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

    pub(super) fn check_trigger(&self, fault: &ScheduledFault) -> Result<(), String> {
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
    pub(super) fn check_own_drive(&self, name: &str) -> Result<(), String> {
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
