//! Triggers of faults: a drive's command, a line of a command's output, a guest that asks. Owns those
//! that wait, the lines that have begun, and the faults that are to begin.

use std::collections::HashMap;

use regex_lite::Regex;
use stasis_block::clock::Nanos;
use stasis_channel::Stream;
use stasis_run_events::IoRecord;

use crate::error::Error;

/// Limit on the bytes of a line that an expression sees; more of it is not looked at.
pub(super) const MAX_LINE: usize = 64 << 10;

/// The number of the trigger that brings a debugger's moment about: there are fewer faults.
pub(super) const MOMENT: u16 = u16::MAX;

/// A fault's trigger, other than a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// A machine's drive is given its command of this number, from 0 on.
    Io {
        /// Number of the machine.
        machine: u16,
        /// Number of the drive in the machine.
        drive: usize,
        /// Number of the command.
        order: u64,
    },
    /// A network is given its frame of this number, counted from 0 since the commands' start.
    Packet {
        /// Number of the network.
        network: usize,
        /// Number of the frame.
        number: u64,
    },
    /// A command has written a line that matches.
    Output {
        /// Number of the machine whose command it is; any, if none is given.
        machine: Option<u16>,
        /// Regular expression.
        pattern: String,
    },
    /// A drive has delivered its I/O of this number.
    Delivered {
        /// Number of the drive among all.
        drive: u16,
        /// Number of the I/O among the submissions to the drive.
        order: u64,
    },
    /// A guest asks for it by any of these words.
    Asked {
        /// The words.
        words: Vec<String>,
    },
}

/// The trigger of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerConfig {
    /// Number of the fault.
    pub number: u16,
    /// Event that brings it about.
    pub on: Trigger,
    /// Largest number of times that it does.
    pub times: u64,
}

impl TriggerConfig {
    /// Returns whether the output of a machine's command is looked at.
    pub(super) fn listens_to(&self, number: u16) -> bool {
        match self.on {
            Trigger::Output { machine, .. } => machine.is_none_or(|machine| machine == number),
            _ => false,
        }
    }
}

struct Waiting {
    config: TriggerConfig,
    pattern: Option<Regex>,
    remaining: u64,
}

/// The triggers of a run. Nothing triggers before the commands' start.
#[derive(Default)]
pub(super) struct Triggers {
    waiting: Vec<Waiting>,
    /// True if any of them counts commands of drives.
    counts: bool,
    begun: bool,
    /// The beginning of a line of each machine's streams.
    lines: HashMap<(u16, u32), Vec<u8>>,
    /// Faults that are to begin, with when (ns).
    pulled: Vec<(u16, Nanos)>,
    /// The line at which a debugger's moment has come.
    moment: Option<Vec<u8>>,
}

impl Triggers {
    pub(super) fn new(triggers: Vec<TriggerConfig>) -> Result<Self, Error> {
        let mut all = Self::default();
        triggers.into_iter().try_for_each(|config| all.add(config))?;
        Ok(all)
    }

    /// Adds a trigger.
    ///
    /// # Errors
    /// If its expression is none.
    pub(super) fn add(&mut self, config: TriggerConfig) -> Result<(), Error> {
        let pattern = match &config.on {
            Trigger::Output { pattern, .. } => Some(
                Regex::new(pattern)
                    .map_err(|error| Error::Limit(format!("expression {pattern}: {error}")))?,
            ),
            _ => None,
        };
        self.counts |= matches!(config.on, Trigger::Io { .. });
        self.waiting.push(Waiting { remaining: config.times, pattern, config });
        Ok(())
    }

    /// The faults of the experiment have these triggers from now on. One that stays goes on counting;
    /// those of numbers from `others` on are none of the experiment's.
    ///
    /// # Errors
    /// If an expression is none.
    pub(super) fn change(
        &mut self,
        triggers: Vec<TriggerConfig>,
        others: u16,
    ) -> Result<(), Error> {
        let before = std::mem::take(&mut self.waiting);
        let (kept, mut before): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|one| one.config.number >= others);
        self.waiting = kept;
        for config in triggers {
            match before.iter().position(|one| one.config == config) {
                Some(place) => self.waiting.push(before.swap_remove(place)),
                None => self.add(config)?,
            }
        }
        let counts = |one: &Waiting| matches!(one.config.on, Trigger::Io { .. });
        self.counts = self.waiting.iter().any(counts);
        Ok(())
    }

    /// The commands begin.
    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    /// Pulls each that `fits`, at `now` (ns); whether any does.
    fn pull(&mut self, now: Nanos, fits: impl Fn(&Waiting) -> bool) {
        for one in self.waiting.iter_mut().filter(|one| one.remaining > 0) {
            if fits(one) {
                one.remaining -= 1;
                self.pulled.push((one.config.number, now));
            }
        }
    }

    /// A machine's drives have been given so many commands each by `now` (ns).
    pub(super) fn count(&mut self, number: u16, submitted: impl Iterator<Item = u64>, now: Nanos) {
        if !self.counts || !self.begun {
            return;
        }
        for (place, submitted) in submitted.enumerate() {
            self.pull(now, |one| match one.config.on {
                Trigger::Io { machine, drive, order } => {
                    machine == number && drive == place && submitted > order
                }
                _ => false,
            });
        }
    }

    /// Networks have been given so many frames each by `now` (ns).
    pub(super) fn packets(&mut self, sent: impl Iterator<Item = u64>, now: Nanos) {
        if self.waiting.is_empty() {
            return;
        }
        for (place, sent) in sent.enumerate() {
            self.pull(now, |one| match one.config.on {
                Trigger::Packet { network, number } => network == place && sent > number,
                _ => false,
            });
        }
    }

    /// Drives have delivered these I/Os by `now` (ns).
    pub(super) fn delivered(&mut self, ios: &[IoRecord], now: Nanos) {
        if self.waiting.is_empty() || ios.is_empty() {
            return;
        }
        self.pull(now, |one| match one.config.on {
            Trigger::Delivered { drive, order } => {
                ios.iter().any(|io| io.drive == drive && io.order == order)
            }
            _ => false,
        });
    }

    /// The faults that are to begin, each with when (ns).
    pub(super) fn take_pulled(&mut self) -> Vec<(u16, Nanos)> {
        std::mem::take(&mut self.pulled)
    }

    /// A machine's command has written `bytes`.
    pub(super) fn output(&mut self, number: u16, stream: Stream, bytes: &[u8], now: Nanos) {
        if !self.begun {
            return;
        }
        let key = (number, stream as u32);
        let mut line = self.lines.remove(&key).unwrap_or_default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            line.extend_from_slice(&text[..text.len().min(MAX_LINE - line.len())]);
            if ended {
                let text = String::from_utf8_lossy(&line);
                let text = text.strip_suffix('\r').unwrap_or(&text);
                let before = self.pulled.len();
                self.pull(now, |one| {
                    let matches = |pattern: &Regex| pattern.is_match(text);
                    one.config.listens_to(number) && one.pattern.as_ref().is_some_and(matches)
                });
                if self.pulled[before..].iter().any(|(number, _)| *number == MOMENT) {
                    self.moment = Some(line.strip_suffix(b"\r").unwrap_or(&line).to_vec());
                }
                line.clear();
            }
        }
        self.lines.insert(key, line);
    }

    /// The line at which a debugger's moment has come, without its end.
    pub(super) fn take_moment(&mut self) -> Option<Vec<u8>> {
        self.moment.take()
    }

    /// A machine boots again: what its command had begun to write is no line.
    pub(super) fn forget_lines(&mut self, number: u16) {
        self.lines.retain(|(machine, _), _| *machine != number);
    }

    /// A guest asks for a fault.
    ///
    /// # Errors
    /// Returns why it does not come, for a user.
    pub(super) fn asked(&mut self, text: &str, now: Nanos) -> Result<(), String> {
        let asked = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let its = |one: &Waiting| match &one.config.on {
            Trigger::Asked { words } => words.contains(&asked),
            _ => false,
        };
        match self.waiting.iter().filter(|one| its(one)).count() {
            1 => {
                self.pull(now, its);
                Ok(())
            }
            0 => {
                let all = self.waiting.iter().filter_map(|one| match &one.config.on {
                    Trigger::Asked { words } => words.first().map(String::as_str),
                    _ => None,
                });
                let all = all.collect::<Vec<_>>().join(", ");
                Err(format!("there is no fault `{asked}` to ask for; there are: {all}"))
            }
            _ => Err(format!("`{asked}` is more than one fault: ask for it by its name")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triggers(on: Trigger, times: u64) -> Triggers {
        let mut triggers = Triggers::new(vec![TriggerConfig { number: 7, on, times }]).unwrap();
        triggers.begin();
        triggers
    }

    fn pulled(triggers: &mut Triggers) -> Vec<Nanos> {
        std::mem::take(&mut triggers.pulled).into_iter().map(|(_, at)| at).collect()
    }

    #[test]
    fn a_line_is_seen_when_it_is_complete() {
        let on = Trigger::Output { machine: Some(1), pattern: "^ready [0-9]+$".into() };
        let mut triggers = triggers(on, 2);
        triggers.output(1, Stream::Output, b"not ready\nrea", 1);
        triggers.output(1, Stream::Error, b"dy 5\n", 2);
        triggers.output(0, Stream::Output, b"dy 5\n", 3);
        assert!(pulled(&mut triggers).is_empty());
        triggers.output(1, Stream::Output, b"dy 5\r\nready 6", 4);
        assert_eq!(pulled(&mut triggers), [4]);
        triggers.forget_lines(1);
        triggers.output(1, Stream::Output, b"\nready 7\nready 8\n", 5);
        assert_eq!(pulled(&mut triggers), [5], "twice in all");
    }

    #[test]
    fn a_line_without_an_end_needs_no_more_memory() {
        let mut triggers = triggers(Trigger::Output { machine: None, pattern: "end$".into() }, 1);
        for _ in 0..5 {
            triggers.output(0, Stream::Output, &[b'x'; 50_000], 1);
        }
        assert!(triggers.lines.values().all(|line| line.len() <= MAX_LINE));
        triggers.output(0, Stream::Output, b"end\nthe end\n", 2);
        assert_eq!(pulled(&mut triggers), [2]);
    }

    #[test]
    fn a_command_is_counted_once() {
        let mut triggers = triggers(Trigger::Io { machine: 0, drive: 1, order: 9 }, 1);
        for submitted in [[0, 9], [10, 9], [10, 12], [10, 13]] {
            triggers.count(0, submitted.into_iter(), submitted[1]);
            triggers.count(1, [99, 99].into_iter(), 1);
        }
        assert_eq!(pulled(&mut triggers), [12]);
    }

    #[test]
    fn other_triggers_come_and_one_that_stays_goes_on_counting() {
        let packet = |fault, number| TriggerConfig {
            number: fault,
            on: Trigger::Packet { network: 0, number },
            times: 2,
        };
        let mut triggers = Triggers::new(vec![packet(0, 5), packet(1, 5)]).unwrap();
        triggers.begin();
        triggers
            .add(TriggerConfig {
                number: u16::MAX,
                on: Trigger::Packet { network: 0, number: 7 },
                times: 1,
            })
            .unwrap();
        let pulled = |triggers: &mut Triggers, sent| {
            triggers.packets([sent].into_iter(), 3);
            triggers.take_pulled().into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(pulled(&mut triggers, 6), [0, 1]);
        triggers.change(vec![packet(1, 5), packet(2, 5)], 60_000).unwrap();
        assert_eq!(pulled(&mut triggers, 6), [1, 2], "0 is left out, 1 has come once before");
        assert_eq!(pulled(&mut triggers, 8), [u16::MAX, 2], "a debugger's own stays");
    }

    #[test]
    fn a_packet_is_counted_once() {
        let mut triggers = triggers(Trigger::Packet { network: 1, number: 9 }, 1);
        for (at, sent) in [[0, 9], [10, 9], [10, 10], [99, 99]].into_iter().enumerate() {
            triggers.packets(sent.into_iter(), at as Nanos);
        }
        assert_eq!(pulled(&mut triggers), [2]);
    }

    #[test]
    fn a_fault_is_asked_for_by_name_as_often_as_wanted() {
        let words = vec!["cut".into(), "power-cut b".into()];
        let mut triggers = triggers(Trigger::Asked { words }, u64::MAX);
        for words in ["cut", "power-cut b", " cut\n"] {
            assert_eq!(triggers.asked(words, 3), Ok(()));
        }
        assert_eq!(pulled(&mut triggers), [3, 3, 3]);
        let why = triggers.asked("power-cut a", 4).unwrap_err();
        assert_eq!(why, "there is no fault `power-cut a` to ask for; there are: cut");
        assert!(pulled(&mut triggers).is_empty());
    }
}
