//! The trigger of a fault.

use super::spec::ScheduledFault;
use crate::triggers::{self, FaultTrigger, ASKED};

impl ScheduledFault {
    /// Its trigger, if it has one; `number`: its place in the experiment.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub(super) fn trigger(&self, number: u16) -> Result<Option<FaultTrigger>, String> {
        let once = [
            ("at", self.at.is_some()),
            ("at-io", self.at_io.is_some()),
            ("at-packet", self.at_packet.is_some()),
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
        if !self.is_of_drive() && self.times.is_some() && self.at_output.is_none() {
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
        } else if let Some(text) = &self.at_packet {
            (triggers::packet(text)?, 1)
        } else if let Some(pattern) = &self.at_output {
            let times = self.times.filter(|_| !self.is_of_drive()).unwrap_or(1);
            (triggers::output(pattern, self.output_of.clone())?, times)
        } else if let Some(when) = &self.when {
            if when != ASKED {
                return Err(format!("when is `{when}`, but must be `{ASKED}`"));
            }
            let target = Some(self.named_target()).filter(|target| !target.is_empty());
            let asked = triggers::asked(self.name.as_deref(), &self.kind, target.as_deref())?;
            (asked, u64::MAX)
        } else {
            return Ok(None);
        };
        Ok(Some(FaultTrigger { number, trigger, times }))
    }
}
