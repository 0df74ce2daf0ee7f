//! Machines whose commands begin after those of others: what each waits for, and how far the others are.
//! A state counts from its time on, whichever machine is ahead.

use stasis_block::clock::Nanos;

/// The state of a machine's command that another waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyState {
    /// It has begun.
    Started,
    /// The check of its health has succeeded.
    Healthy,
    /// It has ended with status 0.
    Completed,
}

/// A machine that another waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Its index among the run's machines.
    pub machine: usize,
    /// Its name, for a message.
    pub name: String,
    /// Up to when.
    pub state: DependencyState,
}

/// The commands' states so far.
#[derive(Debug, Clone, Default)]
struct Command {
    started: Option<Nanos>,
    health: Option<(bool, Nanos)>,
    /// True if it has succeeded, and since when.
    ended: Option<(bool, Nanos)>,
}

/// The machines that each machine waits for.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    of_machines: Vec<Vec<Dependency>>,
    commands: Vec<Command>,
}

impl Dependencies {
    pub(super) fn new(of_machines: Vec<Vec<Dependency>>) -> Self {
        let commands = vec![Command::default(); of_machines.len()];
        Self { of_machines, commands }
    }

    /// The command of a machine has begun at `now` (ns).
    pub(super) fn started(&mut self, machine: usize, now: Nanos) {
        if let Some(command) = self.commands.get_mut(machine) {
            command.started.get_or_insert(now);
        }
    }

    /// The check of a command's health has its first result.
    pub(super) fn health(&mut self, machine: usize, healthy: bool, now: Nanos) {
        if let Some(command) = self.commands.get_mut(machine) {
            command.health.get_or_insert((healthy, now));
        }
    }

    /// The command of a machine has ended, or cannot begin.
    pub(super) fn ended(&mut self, machine: usize, succeeded: bool, now: Nanos) {
        if let Some(command) = self.commands.get_mut(machine) {
            command.ended.get_or_insert((succeeded, now));
        }
    }

    /// Returns whether a machine's command may begin at `now` (ns) for all that others do.
    ///
    /// # Errors
    /// Why it never will.
    pub(super) fn are_met(&self, machine: usize, now: Nanos) -> Result<bool, String> {
        let mut met = true;
        for dependency in self.of_machines.get(machine).into_iter().flatten() {
            let Some(command) = self.commands.get(dependency.machine) else { continue };
            met &= command
                .is(dependency.state, now)
                .map_err(|why| format!("it depends on {}, whose command {why}", dependency.name))?;
        }
        Ok(met)
    }
}

impl Command {
    /// Returns whether it is in a state at `now`; else why it never will be.
    fn is(&self, state: DependencyState, now: Nanos) -> Result<bool, &'static str> {
        let ended = self.ended.filter(|(_, since)| *since <= now).map(|(succeeded, _)| succeeded);
        match state {
            DependencyState::Started if self.started.is_some_and(|since| since <= now) => Ok(true),
            DependencyState::Started if ended.is_some() => Err("could not begin"),
            DependencyState::Completed => match ended {
                Some(false) => Err("has failed"),
                ended => Ok(ended.is_some()),
            },
            DependencyState::Healthy => match self.health.filter(|(_, since)| *since <= now) {
                Some((true, _)) => Ok(true),
                Some((false, _)) => Err("is not healthy"),
                None if ended.is_some() => Err("has ended before it was healthy"),
                None => Ok(false),
            },
            DependencyState::Started => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_counts_from_its_time_on() {
        use DependencyState::{Completed, Healthy, Started};
        let on = |state| Dependency { machine: 0, name: "db".into(), state };
        let of_all = [Started, Healthy, Completed].map(|state| vec![on(state)]);
        let with = |change: fn(&mut Dependencies)| {
            let mut all = Dependencies::new([vec![Vec::new()], of_all.to_vec()].concat());
            change(&mut all);
            all
        };
        let met = |all: &Dependencies, now| [1, 2, 3].map(|machine| all.are_met(machine, now));
        let none = with(|_| ());
        assert_eq!(met(&none, 9), [Ok(false), Ok(false), Ok(false)]);
        assert_eq!(none.are_met(0, 0), Ok(true), "it waits for nobody");
        let runs = with(|all| {
            all.started(0, 5);
            all.started(0, 50);
            all.health(0, true, 7);
        });
        assert_eq!(met(&runs, 4), [Ok(false), Ok(false), Ok(false)]);
        assert_eq!(met(&runs, 5), [Ok(true), Ok(false), Ok(false)]);
        assert_eq!(met(&runs, 7), [Ok(true), Ok(true), Ok(false)]);
        let ends = with(|all| {
            all.started(0, 5);
            all.ended(0, true, 9);
        });
        let early = "it depends on db, whose command has ended before it was healthy".to_owned();
        assert_eq!(met(&ends, 9), [Ok(true), Err(early), Ok(true)]);
        let fails = with(|all| {
            all.health(0, false, 1);
            all.ended(0, false, 2);
        });
        let why = |text: &str| Err(format!("it depends on db, whose command {text}"));
        assert_eq!(met(&fails, 1), [Ok(false), why("is not healthy"), Ok(false)]);
        assert_eq!(
            met(&fails, 2),
            [why("could not begin"), why("is not healthy"), why("has failed")]
        );
    }
}
