//! A space of faults, of which the seed draws some.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{splitmix, units, Random};
use stasis_config::{listed, Mistake};

use super::kinds::FaultKind;
use super::spec::{ScheduledFault, MAX_FAULTS};
use crate::names::missing;

/// Faults that are drawn take other numbers than all else.
const SPACE: u64 = 0x7370_6163;

/// Number of times that a fault is drawn again that meets another, before the space counts as full.
const TRIES: usize = 1000;

/// Keys of a fault that a space draws.
const DRAWN: [&str; 8] =
    ["at", "at-io", "at-packet", "at-output", "when", "within", "begin", "end"];

/// Faults that can happen, of which the seed draws some.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct FaultSpace {
    /// Number of faults that are drawn, 1 to 1024.
    #[schemars(range(min = 1, max = 1024))]
    pub draws: u32,
    /// The earliest time of a fault, in virtual time after the commands' start.
    #[serde(with = "units::duration_option")]
    pub begin: Option<Nanos>,
    /// Limit on how much later than `begin` a fault happens or begins.
    #[serde(with = "units::duration_option")]
    pub within: Option<Nanos>,
    /// The shortest time that a fault lasts, or that a machine is off; by default none.
    #[serde(with = "units::duration_option")]
    pub shortest: Option<Nanos>,
    /// The longest time that a fault lasts, or that a machine is off.
    #[serde(with = "units::duration_option")]
    pub longest: Option<Nanos>,
    /// Machines that can be befallen; by default all.
    pub machines: Vec<String>,
    /// Drives that can be befallen; by default all.
    pub drives: Vec<String>,
    /// Faults of which each draw takes one. The time of each, and what it befalls if it does not
    /// say so, is drawn.
    #[serde(rename = "fault")]
    pub faults: Vec<ScheduledFault>,
}

/// The parts of an experiment that can be befallen.
pub(super) struct Parts {
    /// Names of the machines; none, if there is one without a name.
    pub(super) machines: Vec<Option<String>>,
    /// Names of the drives.
    pub(super) drives: Vec<String>,
}

impl FaultSpace {
    /// Draws faults of `parts`, and offers each: `take` keeps it where it is told to, if it can
    /// happen beside those that it has kept.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub(super) fn draw(
        &self,
        seed: u64,
        parts: &Parts,
        take: &mut dyn FnMut(ScheduledFault, Keep) -> Result<(), Mistake>,
    ) -> Result<(), Mistake> {
        let draws = usize::try_from(self.draws).unwrap_or(usize::MAX);
        if !(1..=MAX_FAULTS).contains(&draws) {
            let message = format!("draws is {draws}, but must be 1 to {MAX_FAULTS}");
            return Err(Mistake::at("draws", message));
        }
        let within = self
            .within
            .ok_or_else(|| Mistake::at("within", "say when faults happen: give it `within`"))?;
        let candidates = self.candidates(parts, within, take)?;
        let mut random = Random::new(splitmix::nth(seed ^ SPACE, 1));
        for _ in 0..draws {
            self.draw_one(&candidates, within, &mut random, take)?;
        }
        Ok(())
    }

    /// The faults of the space, each once for each machine or drive that it can befall.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub(super) fn candidates(
        &self,
        parts: &Parts,
        within: Nanos,
        take: &mut dyn FnMut(ScheduledFault, Keep) -> Result<(), Mistake>,
    ) -> Result<Vec<Vec<ScheduledFault>>, Mistake> {
        let machines = parts.machines.iter().flatten().map(String::as_str);
        check_names(("machines", "machine"), &self.machines, machines)?;
        check_names(("drives", "drive"), &self.drives, parts.drives.iter().map(String::as_str))?;
        if self.faults.is_empty() {
            let message = "it has no fault: give it `fault = [{ kind = \"power-cut\" }]`";
            return Err(Mistake::at("fault", message));
        }
        let mut candidates = Vec::new();
        for (number, fault) in self.faults.iter().enumerate() {
            let with_number = |mistake: Mistake| mistake.said_of(format_args!("fault {number}"));
            self.check_lengths(fault).map_err(with_number)?;
            let targets = self.targets(parts, fault, within, take);
            let inside = |mistake| with_number(mistake).inside(number).inside("fault");
            candidates.push(targets.map_err(inside)?);
        }
        Ok(candidates)
    }

    /// Checks the lengths of the space for a fault; what is wrong with the fault itself comes later.
    fn check_lengths(&self, fault: &ScheduledFault) -> Result<(), Mistake> {
        let Ok(kind) = fault.known() else { return Ok(()) };
        if fault.drawn().is_some() {
            return Ok(());
        }
        let lasts = kind.takes("end") || kind.takes("restart") && fault.restart.is_none();
        match (lasts, self.shortest.unwrap_or(0), self.longest) {
            (true, _, None) => {
                let message = "say how long it can last: give the space `longest`";
                Err(Mistake::at("longest", message))
            }
            (_, shortest, Some(longest)) if shortest > longest => {
                let [shortest, longest] = [shortest, longest].map(units::format_duration);
                let message = format!("shortest is {shortest}, but longest is {longest}");
                Err(Mistake::at("shortest", message))
            }
            _ => Ok(()),
        }
    }

    /// The fault, once for each machine or drive that it can befall. A fault of a network is there
    /// once for each machine as well: its side of the network is drawn.
    fn targets(
        &self,
        parts: &Parts,
        fault: &ScheduledFault,
        within: Nanos,
        take: &mut dyn FnMut(ScheduledFault, Keep) -> Result<(), Mistake>,
    ) -> Result<Vec<ScheduledFault>, Mistake> {
        let kind = fault.known()?;
        if let Some(key) = fault.drawn() {
            let message = format!("{key} is given, but a space draws its faults' times");
            return Err(Mistake::at(key, message));
        }
        let mut targets = Vec::new();
        let mut why = None;
        for name in self.names_for(parts, fault, kind) {
            let target = fault.on(kind, name);
            // Its latest time is as good as any other to be checked with.
            let latest = self.begin.unwrap_or(0).saturating_add(within);
            match take(target.during(kind, latest, self.longest.unwrap_or(0)), Keep::No) {
                Ok(()) => targets.push(target),
                Err(mistake) => why = Some(mistake),
            }
        }
        match (targets.is_empty(), why) {
            (false, _) => Ok(targets),
            (true, Some(why)) => Err(why),
            (true, None) if fault.is_of_drive() => {
                Err("there is no drive that it can befall".into())
            }
            (true, None) => Err("there is no machine that it can befall".into()),
        }
    }

    /// Names of what it can befall; None: what it names itself, or the only machine.
    fn names_for(
        &self,
        parts: &Parts,
        fault: &ScheduledFault,
        kind: FaultKind,
    ) -> Vec<Option<String>> {
        let own = match kind {
            _ if !fault.named_target().is_empty() => return vec![None],
            FaultKind::Drive(_) => &self.drives,
            _ => &self.machines,
        };
        match (own.is_empty(), kind) {
            (false, _) => own.iter().cloned().map(Some).collect(),
            (true, FaultKind::Drive(_)) => parts.drives.iter().cloned().map(Some).collect(),
            (true, _) => parts.machines.clone(),
        }
    }

    fn draw_one(
        &self,
        candidates: &[Vec<ScheduledFault>],
        within: Nanos,
        random: &mut Random,
        take: &mut dyn FnMut(ScheduledFault, Keep) -> Result<(), Mistake>,
    ) -> Result<(), Mistake> {
        for _ in 0..TRIES {
            let targets = &candidates[random.below(candidates.len() as u64) as usize];
            let mut fault = targets[random.below(targets.len() as u64) as usize].clone();
            let kind = fault.known()?;
            if matches!(kind, FaultKind::Network(_)) && targets.len() > 1 {
                fault.machines = draw_side(targets, random);
            }
            let at = self.begin.unwrap_or(0).saturating_add(random.up_to(within));
            let shortest = self.shortest.unwrap_or(0);
            let longest = self.longest.unwrap_or(shortest);
            let lasts = shortest + random.up_to(longest.saturating_sub(shortest));
            // Two pauses of a machine that meet are refused, for example.
            if take(fault.during(kind, at, lasts), Keep::Yes).is_ok() {
                return Ok(());
            }
        }
        let kinds = self.faults.iter().map(|fault| fault.kind.as_str());
        let message = format!(
            "its {} faults ({}) do not fit into {}: faults of one kind and one machine or drive \
             must not meet; take fewer, shorter ones, or a longer time",
            self.draws,
            listed(kinds),
            units::format_duration(within)
        );
        Err(Mistake::at("draws", message))
    }
}

/// Decision on a fault that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Yes,
    /// The fault is only to be checked.
    No,
}

/// Checks the names of the list `key`.
fn check_names<'a>(
    (key, noun): (&str, &str),
    names: &[String],
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Mistake> {
    let is_known = |name: &String| known.clone().any(|other| other == name.as_str());
    match names.iter().position(|name| !is_known(name)) {
        Some(at) => Err(Mistake::at(at, missing(noun, &names[at], known)).inside(key)),
        None => Ok(()),
    }
}

/// Some of the machines, and not all of them.
fn draw_side(targets: &[ScheduledFault], random: &mut Random) -> Vec<String> {
    let mut names: Vec<String> =
        targets.iter().flat_map(|target| target.machines.clone()).collect();
    let count = 1 + random.below(names.len() as u64 - 1) as usize;
    // The beginning of a shuffle (Fisher and Yates).
    for place in 0..count {
        let other = place + random.below((names.len() - place) as u64) as usize;
        names.swap(place, other);
    }
    names.truncate(count);
    names.sort();
    names
}

impl ScheduledFault {
    /// A key of it that a space draws.
    fn drawn(&self) -> Option<&'static str> {
        self.given().find(|key| DRAWN.contains(key))
    }

    /// The fault on the machine or drive of this name, if one is given.
    fn on(&self, kind: FaultKind, name: Option<String>) -> Self {
        let mut fault = self.clone();
        if let Some(name) = name {
            match kind {
                FaultKind::Drive(_) => fault.drive = Some(name),
                FaultKind::Network(_) => fault.machines = vec![name],
                _ => fault.machine = Some(name),
            }
        }
        fault
    }

    /// Returns whether the fault has a length: until its end, or until its machine is back.
    pub fn lasts(&self) -> bool {
        self.kind().is_some_and(|kind| kind.takes("end") || kind.takes("restart"))
    }

    /// Returns whether the machine that it befalls fails, and may be back later.
    pub fn restarts(&self) -> bool {
        self.kind().is_some_and(|kind| kind.takes("restart"))
    }

    /// The fault from a time on, counted from the commands' start, or of a fault with a trigger from
    /// that; as long as `lasts`, where it has a length (ns).
    #[must_use]
    pub fn at(&self, at: Nanos, lasts: Nanos) -> Self {
        self.kind().map_or_else(|| self.clone(), |kind| self.during(kind, at, lasts))
    }

    /// The fault from when a drive is given its command of this number, as long as `lasts`, where it has
    /// a length (ns).
    #[must_use]
    pub fn at_command(&self, drive: &str, order: u64, lasts: Nanos) -> Self {
        let mut fault = self.at(0, lasts);
        // Times count from the trigger.
        (fault.at, fault.begin) = (None, None);
        fault.at_io = Some(format!("{drive}:{order}"));
        fault
    }

    /// The fault at a time.
    fn during(&self, kind: FaultKind, at: Nanos, lasts: Nanos) -> Self {
        let mut fault = self.clone();
        if kind.takes("begin") {
            fault.begin = Some(at);
            fault.end = kind.takes("end").then(|| at.saturating_add(lasts.max(1)));
        } else {
            fault.at = Some(at);
        }
        if kind.takes("restart") {
            fault.restart = fault.restart.or(Some(lasts));
        }
        fault
    }
}
