//! The trigger of a fault.

use stasis_config::Mistake;

use super::spec::ScheduledFault;
use crate::triggers::{self, FaultTrigger, ASKED};

impl ScheduledFault {
    /// Returns the fault's trigger, if it has one; `number`: its place in the experiment.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub(super) fn trigger(&self, number: u16) -> Result<Option<FaultTrigger>, Mistake> {
        let once = [
            ("at", self.at.is_some()),
            ("at-io", self.at_io.is_some()),
            ("at-packet", self.at_packet.is_some()),
            ("at-output", self.at_output.is_some()),
            ("when", self.when.is_some()),
        ];
        let mut given = once.iter().filter(|(_, given)| *given).map(|(key, _)| key);
        if let (Some(first), Some(second)) = (given.next(), given.next()) {
            let message =
                format!("{first} and {second} are given, but a fault begins by one of them");
            return Err(Mistake::at(*second, message));
        }
        if self.output_of.is_some() && self.at_output.is_none() {
            let message = "output-of says whose output at-output looks at, which is not given";
            return Err(Mistake::at("output-of", message));
        }
        if self.name.is_some() && self.when.is_none() {
            return Err(Mistake::at("name", "name is for a fault with `when = \"asked\"`"));
        }
        if !self.is_of_drive() && self.times.is_some() && self.at_output.is_none() {
            let message =
                "times of a machine's fault counts the lines of at-output, which is not given";
            return Err(Mistake::at("times", message));
        }
        if self.times == Some(0) {
            return Err(Mistake::at("times", "times is 0, but must be at least 1"));
        }
        let mistake_at = |key: &'static str| move |message: String| Mistake::at(key, message);
        let (trigger, times) = if let Some(text) = &self.at_io {
            (triggers::io(text).map_err(mistake_at("at-io"))?, 1)
        } else if let Some(text) = &self.at_packet {
            (triggers::packet(text).map_err(mistake_at("at-packet"))?, 1)
        } else if let Some(pattern) = &self.at_output {
            let times = self.times.filter(|_| !self.is_of_drive()).unwrap_or(1);
            let output = triggers::output(pattern, self.output_of.clone());
            (output.map_err(mistake_at("at-output"))?, times)
        } else if let Some(when) = &self.when {
            if when != ASKED {
                let message = format!("when is `{when}`, but must be `{ASKED}`");
                return Err(Mistake::at("when", message));
            }
            let target = Some(self.named_target()).filter(|target| !target.is_empty());
            let asked = triggers::asked(self.name.as_deref(), &self.kind, target.as_deref());
            (asked.map_err(mistake_at("name"))?, u64::MAX)
        } else {
            return Ok(None);
        };
        Ok(Some(FaultTrigger { number, trigger, times }))
    }
}
