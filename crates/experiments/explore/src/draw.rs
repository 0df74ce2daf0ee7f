//! The scenario of each run, by its number: first each fault alone in each phase, then several at
//! random.

use stasis_block::clock::Nanos;
use stasis_block::{splitmix, Random};
use stasis_drive::CutChoice;
use stasis_experiment::{Experiment, MachineSpec, Scenario, ScheduledFault};

use crate::moments::{Moments, Phase};
use crate::space::{Space, POWER_CUT};

/// Runs draw other numbers than all else.
const RUNS: u64 = 0x6578_706c;

/// Number of times that a scenario is drawn again whose faults cannot be together, before it is one
/// fault.
const TRIES: u64 = 64;

/// Limit on how long after a moment a fault begins that does not begin at it (ns): a mistake's window is
/// mostly shorter.
const NEAR: Nanos = 10_000_000;

/// States that a power cut leaves which is alone in its run, those that show the most first.
const SINGLE: [CutChoice; 4] =
    [CutChoice::Least, CutChoice::Newest, CutChoice::AllButOne, CutChoice::Some];

/// A restart's shortest delay (ns).
const MIN_RESTART: Nanos = 10_000_000;

/// Draws scenarios.
#[derive(Debug)]
pub struct Drawer<'a> {
    /// The experiment, finished, without faults.
    pub experiment: &'a Experiment,
    /// The faults that can befall it.
    pub space: &'a Space,
    /// Moments of its run without faults.
    pub moments: &'a Moments,
    /// Seed of the exploration.
    pub seed: u64,
    /// The part that every scenario has: the faults that a guest asks for, among others.
    pub common: &'a Scenario,
}

/// The beginning of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment {
    /// Time after the commands' start (ns), in the run without faults.
    at: Nanos,
    /// The drive and the number of the command that it begins with, if one.
    command: Option<(String, u64)>,
}

impl Drawer<'_> {
    /// Number of the runs with one fault each: every fault of the space, and the loss of all power at
    /// once, in each phase; a power cut once for each of the states in [`SINGLE`].
    pub fn singles(&self) -> u64 {
        (self.phases().count() * self.single_kinds().len()) as u64
    }

    fn phases(&self) -> impl Iterator<Item = Phase> + '_ {
        Phase::ALL.into_iter().filter(|phase| self.span(*phase).is_some())
    }

    /// Faults that can be drawn, with the loss of all power.
    fn kinds(&self) -> usize {
        self.space.candidates.len() + usize::from(!self.space.together.is_empty())
    }

    /// The faults of a kind: one, or the loss of all power.
    fn faults_of(&self, kind: usize) -> &[ScheduledFault] {
        let one = self.space.candidates.get(kind).map(std::slice::from_ref);
        one.unwrap_or(&self.space.together)
    }

    fn is_cut(&self, kind: usize) -> bool {
        self.faults_of(kind).first().is_some_and(|fault| fault.kind == POWER_CUT)
    }

    /// Faults that are alone in a run: power cuts first, in the order of the states that they leave.
    fn single_kinds(&self) -> Vec<(usize, Option<CutChoice>)> {
        let cuts: Vec<usize> = (0..self.kinds()).filter(|kind| self.is_cut(*kind)).collect();
        let each = |leaves: CutChoice| cuts.iter().map(move |kind| (*kind, Some(leaves)));
        let others = (0..self.kinds()).filter(|kind| !self.is_cut(*kind)).map(|kind| (kind, None));
        SINGLE.into_iter().flat_map(each).chain(others).collect()
    }

    /// The scenario of a run.
    pub fn scenario(&self, number: u64) -> Scenario {
        let seed = splitmix::nth(self.seed ^ RUNS, number);
        // The first fault of a run with the experiment's own seed meets what the run without faults
        // has met up to there.
        let own = number < self.singles() || number.is_multiple_of(2);
        // 52 bits: TOML and JSON keep such a number everywhere.
        let run_seed = if own { self.experiment.seed } else { splitmix::nth(seed, 1) >> 12 };
        for attempt in 0..TRIES {
            let mut random = Random::new(splitmix::nth(seed, 2 + attempt));
            let single = number < self.singles() || attempt + 1 == TRIES;
            let faults = match single {
                true => self.single(number % self.singles().max(1), &mut random),
                false => self.several(&mut random),
            };
            let faults = [self.common.faults.clone(), faults].concat();
            let scenario = Scenario { seed: run_seed, faults, ..self.common.clone() };
            if scenario.of(self.experiment).is_ok() {
                return scenario;
            }
        }
        Scenario { seed: run_seed, ..self.common.clone() }
    }

    fn single(&self, number: u64, random: &mut Random) -> Vec<ScheduledFault> {
        let kinds = self.single_kinds();
        let (phase, place) =
            (number as usize / kinds.len().max(1), number as usize % kinds.len().max(1));
        let (Some(phase), Some(&(kind, leaves))) = (self.phases().nth(phase), kinds.get(place))
        else {
            return Vec::new();
        };
        let (faults, _) = self.fault(kind, leaves, phase, None, random);
        faults
    }

    /// Some faults of a random part of the kinds (swarm testing: Groce et al., ISSTA 2012).
    fn several(&self, random: &mut Random) -> Vec<ScheduledFault> {
        // Storage loses most by power cuts.
        let mut kinds: Vec<usize> = (0..self.kinds())
            .filter(|kind| random.below(4) < if self.is_cut(*kind) { 3 } else { 2 })
            .collect();
        if kinds.is_empty() {
            kinds.push(random.below(self.kinds().max(1) as u64) as usize);
        }
        let phases: Vec<Phase> = self.phases().collect();
        let most = self.space.most.max(1) as u64;
        let (mut faults, mut back) = (Vec::new(), None);
        for _ in 0..=random.below(most) {
            if phases.is_empty() || faults.len() >= self.space.most {
                break;
            }
            let kind = kinds[random.below(kinds.len() as u64) as usize];
            // The first phase is the most telling one.
            let phase = match random.below(2) {
                0 => phases[0],
                _ => phases[random.below(phases.len() as u64) as usize],
            };
            // A machine that is back recovers, which programs are seldom tested in.
            let recovery = back.filter(|_| random.below(2) == 0);
            let (drawn, returns) = self.fault(kind, None, phase, recovery, random);
            back = returns.or(back);
            faults.extend(drawn);
        }
        faults
    }

    /// A fault of a kind in a phase, or in the time after `recovery`; with it the time at which what it
    /// befell is back, of one that comes back.
    fn fault(
        &self,
        kind: usize,
        leaves: Option<CutChoice>,
        phase: Phase,
        recovery: Option<Nanos>,
        random: &mut Random,
    ) -> (Vec<ScheduledFault>, Option<Nanos>) {
        let faults = self.faults_of(kind);
        let Some(first) = faults.first() else { return (Vec::new(), None) };
        let leaves = leaves.unwrap_or_else(|| self.leaves(random));
        // No part of durable data can be missing; and a drive's fault befalls commands.
        let is_part = self.is_cut(kind) && leaves != CutChoice::Least;
        let before_flush = is_part || first.drive.is_some();
        let moment = match recovery {
            Some(back) => Moment { at: back + random.up_to(self.recovery()), command: None },
            None => self.moment(faults, phase, before_flush, random),
        };
        let lasts = self.length(random);
        let restarts = first.restarts();
        let lasts = if restarts { lasts.max(MIN_RESTART) } else { lasts };
        let sides = self.sides(first, random);
        let begin = |fault: &ScheduledFault| match &moment.command {
            Some((drive, order)) => fault.at_command(drive, *order, lasts),
            None => fault.at(moment.at, lasts),
        };
        let mut begun: Vec<ScheduledFault> = faults.iter().map(begin).collect();
        // Machines that lose their power at once leave the same sort of state.
        for cut in begun.iter_mut().filter(|fault| fault.kind == POWER_CUT) {
            if cut.loses.is_empty() {
                cut.leaves = cut.leaves.or(Some(leaves));
            }
        }
        if let (Some(sides), [fault]) = (sides, &mut begun[..]) {
            fault.machines = sides;
        }
        (begun, restarts.then(|| moment.at.saturating_add(lasts)))
    }

    /// Draws the state that a power cut leaves: often only what was promised, where most mistakes show; only a
    /// random part can be torn.
    fn leaves(&self, random: &mut Random) -> CutChoice {
        match random.below(16) {
            0..=5 => CutChoice::Least,
            6 | 7 => CutChoice::AllButOne,
            8 | 9 => CutChoice::Newest,
            10 => CutChoice::Oldest,
            _ => CutChoice::Some,
        }
    }

    /// One side of a network: some of the machines that a fault of this kind can befall alone, not all
    /// of them.
    fn sides(&self, fault: &ScheduledFault, random: &mut Random) -> Option<Vec<String>> {
        if fault.machines.is_empty() {
            return None;
        }
        let same = self.space.candidates.iter().filter(|other| {
            other.kind == fault.kind && other.network == fault.network && other.machines.len() == 1
        });
        let mut names: Vec<&String> = same.flat_map(|other| &other.machines).collect();
        names.retain(|name| !fault.machines.contains(name));
        let mut side = fault.machines.clone();
        // Mostly one machine is cut off.
        if names.len() > 1 && random.below(4) == 0 {
            side.push(names[random.below(names.len() as u64) as usize].clone());
            side.sort();
        }
        Some(side)
    }

    /// A length, each order of magnitude as likely.
    fn length(&self, random: &mut Random) -> Nanos {
        let (shortest, longest) = self.space.lengths;
        let [low, high] = [shortest.max(1), longest.max(1)].map(|length| (length as f64).ln());
        ((low + random.unit() * (high - low)).exp() as Nanos).clamp(shortest, longest)
    }

    /// The time that a machine is likely to recover when it is back (ns): as long as its start took at first.
    fn recovery(&self) -> Nanos {
        self.moments.span(Phase::Start).map_or(self.moments.end, |(_, end)| end).max(NEAR)
    }

    /// Beginning and end of the part of a phase in which faults may begin (ns).
    fn span(&self, phase: Phase) -> Option<(Nanos, Nanos)> {
        if phase == Phase::Start && !self.space.from_start {
            return None;
        }
        let (from, to) = self.moments.span(phase)?;
        let begin = self.space.begin;
        let end = self.space.within.map_or(Nanos::MAX, |within| begin.saturating_add(within));
        let (from, to) = (from.max(begin), to.min(end));
        (from < to).then_some((from, to))
    }

    /// A moment in a phase; with `before_flush` one at which a drive is given a flush, if there is one.
    fn moment(
        &self,
        faults: &[ScheduledFault],
        phase: Phase,
        before_flush: bool,
        random: &mut Random,
    ) -> Moment {
        let Some((from, to)) = self.span(phase) else { return Moment { at: 0, command: None } };
        let within = |at: &Nanos| (from..=to).contains(at);
        let own = self.drives_of(faults);
        let flushes: Vec<_> = self
            .moments
            .flushes
            .iter()
            .filter(|flush| within(&flush.begin) && own.contains(&flush.drive.as_str()))
            .collect();
        let acknowledged: Vec<Nanos> =
            self.moments.acknowledged.iter().copied().filter(within).collect();
        // Just before, at, just after, and a while after.
        let near = match random.below(3) {
            0 => 0,
            1 => random.up_to(NEAR / 100),
            _ => random.up_to(NEAR),
        };
        let place = |count: usize, random: &mut Random| random.below(count as u64) as usize;
        let sort = if before_flush { 0 } else { random.below(8) };
        match sort {
            0..=2 if !flushes.is_empty() => {
                let flush = flushes[place(flushes.len(), random)];
                Moment { at: flush.begin, command: Some((flush.drive.clone(), flush.order)) }
            }
            3 | 4 if !flushes.is_empty() => {
                let flush = flushes[place(flushes.len(), random)];
                Moment { at: flush.end.saturating_add(1 + near), command: None }
            }
            5 | 6 if !acknowledged.is_empty() => {
                let at = acknowledged[place(acknowledged.len(), random)];
                Moment { at: at.saturating_add(1 + near), command: None }
            }
            _ => Moment { at: from + random.up_to(to - from), command: None },
        }
    }

    /// Drives whose commands a fault can begin with: its own, and those of the machines that it befalls.
    fn drives_of<'f>(&'f self, faults: &'f [ScheduledFault]) -> Vec<&'f str> {
        let several = self.experiment.machine.several();
        let mut own: Vec<&str> = faults.iter().filter_map(|fault| fault.drive.as_deref()).collect();
        let is_befallen = |machine: &&MachineSpec| {
            let name = machine.name.as_ref();
            name.is_some_and(|name| {
                let is_its = |fault: &ScheduledFault| {
                    fault.machine.as_ref() == Some(name) || fault.machines.contains(name)
                };
                faults.iter().any(is_its)
            })
        };
        let befallen = several.iter().filter(is_befallen).flat_map(|machine| &machine.drives);
        own.extend(befallen.filter_map(|drive| drive.name.as_deref()));
        if several.is_empty() {
            own.extend(self.experiment.drives.iter().filter_map(|drive| drive.name.as_deref()));
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moments::Flush;
    use std::collections::HashSet;

    fn experiment() -> Experiment {
        let text = "command = ['true']\nhistory = true\nnetwork = [{}]\n\
            machine = [{ name = 'client' }, { name = 'a', wait = false, drive = [{ name = 'da', \
            model = 'fixed:100us', medium = 'ram:16MiB' }] }, { name = 'b', wait = false, drive = [{ \
            name = 'db', model = 'fixed:100us', medium = 'ram:16MiB' }] }]\n";
        let mut experiment: Experiment = stasis_config::read_text(text).unwrap();
        experiment.finish().unwrap();
        experiment
    }

    fn moments() -> Moments {
        let flush = |drive: &str, order: u64| Flush {
            drive: drive.into(),
            order,
            begin: order * 1_000_000,
            end: order * 1_000_000 + 500_000,
        };
        Moments {
            flushes: (1..400).map(|order| flush(["da", "db"][order as usize % 2], order)).collect(),
            acknowledged: (100..300).map(|number| number * 1_000_000).collect(),
            end: 400_000_000,
        }
    }

    #[test]
    fn each_fault_comes_alone_in_each_phase_and_then_several() {
        let (experiment, moments) = (experiment(), moments());
        let space = Space::new(&experiment, None).unwrap();
        let common = Scenario { seed: experiment.seed, ..Scenario::default() };
        let drawer = Drawer {
            experiment: &experiment,
            space: &space,
            moments: &moments,
            seed: 7,
            common: &common,
        };
        // Per machine a power cut with four states, a reset, a pause and a partition, two faults of its drive;
        // and the loss of all power: in two phases.
        assert_eq!(drawer.singles(), 2 * (4 * 3 + 2 * 5));
        let scenario = |number| drawer.scenario(number);
        let singles: Vec<Scenario> = (0..drawer.singles()).map(scenario).collect();
        assert_eq!(singles[0].faults[0].kind, POWER_CUT);
        assert_eq!(singles[0].faults[0].leaves, Some(CutChoice::Least));
        // Both lose their power at once.
        assert_eq!(singles[2].faults.len(), 2);
        assert_eq!(singles[2].faults[0].at, singles[2].faults[1].at);
        assert_eq!(singles[2].faults[0].at_io, singles[2].faults[1].at_io);
        let distinct: HashSet<String> = singles.iter().map(|one| one.to_toml("")).collect();
        assert_eq!(distinct.len(), singles.len());
        let others: Vec<Scenario> =
            (0..500).map(|number| scenario(drawer.singles() + number)).collect();
        assert!(others.iter().all(|one| one.of(&experiment).is_ok()));
        assert!(others.iter().any(|one| one.faults.len() >= 4));
        let kinds: HashSet<&str> =
            others.iter().flat_map(|one| &one.faults).map(|fault| fault.kind.as_str()).collect();
        assert_eq!(kinds.len(), 6, "{kinds:?}");
        // The client is spared, and so is the time before the first acknowledgement.
        for fault in others.iter().chain(&singles).flat_map(|one| &one.faults) {
            assert_ne!(fault.target(), "client");
            assert!(
                fault.at.or(fault.begin).is_none_or(|at| at >= 100_000_000 || at == 0),
                "{fault:?}"
            );
        }
        // A run's scenario depends on its number and the seed alone.
        assert_eq!(scenario(777), scenario(777));
    }

    #[test]
    fn a_cut_that_leaves_a_part_comes_at_a_flush() {
        let (experiment, moments) = (experiment(), moments());
        let space = Space::new(&experiment, None).unwrap();
        let common = Scenario::default();
        let drawer = Drawer {
            experiment: &experiment,
            space: &space,
            moments: &moments,
            seed: 1,
            common: &common,
        };
        for number in 0..drawer.singles() {
            let scenario = drawer.scenario(number);
            let fault = &scenario.faults[0];
            if fault.leaves.is_some_and(|leaves| leaves != CutChoice::Least) {
                assert!(fault.at_io.is_some(), "{fault:?}");
            }
        }
    }
}
