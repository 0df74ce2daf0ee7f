//! The faults that can befall an experiment, and their lengths.

use stasis_block::clock::Nanos;
use stasis_config::Mistake;
use stasis_experiment::{Experiment, FaultSpace, ScheduledFault};

/// The kind of a fault that takes a machine's power, and that of its drives.
pub const POWER_CUT: &str = "power-cut";

/// Limit on the faults of a run where the experiment has no `[fault-space]` with its `draws`.
pub const USUAL_FAULTS: usize = 4;
/// Lengths of faults where the experiment has no `[fault-space]` with its own (ns): from a pause that a
/// client hardly notices to one that most timeouts of servers notice.
const USUAL_LENGTHS: (Nanos, Nanos) = (1_000_000, 3_000_000_000);
/// Factor of `slow` where the experiment has no `[fault-space]`: a drive about to fail (Gunawi et al.,
/// FAST 2018, table 3: fail-slow drives are slower by factors of 10 to 100).
const SLOW: f64 = 50.0;

/// The faults that can befall an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// Faults without their times, each on one machine, drive or side of a network.
    pub candidates: Vec<ScheduledFault>,
    /// Power cuts of machines that may lose their power at once; empty where there are not several.
    pub together: Vec<ScheduledFault>,
    /// Limit on the faults of a run.
    pub most: usize,
    /// The earliest time of a fault after the commands' start (ns).
    pub begin: Nanos,
    /// True if faults may begin before the first acknowledgement, while servers are set up.
    pub from_start: bool,
    /// Limit on how much later than that a fault begins (ns); by default as long as the run without
    /// faults.
    pub within: Option<Nanos>,
    /// The shortest and the longest time that a fault lasts (ns).
    pub lengths: (Nanos, Nanos),
}

impl Space {
    /// The space of a finished experiment: the one of its file, or the usual one.
    ///
    /// # Errors
    /// Returns the invalid value of the space.
    pub fn new(experiment: &Experiment, declared: Option<&FaultSpace>) -> Result<Self, Mistake> {
        let usual = usual(experiment);
        let (space, lengths) = match declared {
            Some(space) => {
                let shortest = space.shortest.unwrap_or(USUAL_LENGTHS.0);
                (space, (shortest, space.longest.unwrap_or(USUAL_LENGTHS.1).max(shortest)))
            }
            None => (&usual, USUAL_LENGTHS),
        };
        let candidates = match declared {
            Some(space) => experiment.candidates(space)?,
            // Those of the usual faults that can be.
            None => usual
                .faults
                .iter()
                .map(|fault| FaultSpace { faults: vec![fault.clone()], ..usual.clone() })
                .filter_map(|one| experiment.candidates(&one).ok())
                .flatten()
                .collect(),
        };
        let cuts = candidates.iter().filter(|fault| fault.kind == POWER_CUT);
        let together: Vec<_> = cuts.cloned().collect();
        Ok(Self {
            together: if together.len() > 1 { together } else { Vec::new() },
            candidates,
            most: declared.map_or(USUAL_FAULTS, |space| space.draws as usize),
            begin: space.begin.unwrap_or(0),
            // A power cut while a disk is formatted is seldom meant.
            from_start: declared.is_some(),
            within: space.within,
            lengths,
        })
    }
}

/// The usual space: what befalls machines and drives that keep their promises. Machines that the run
/// does not wait for are servers; where there are any, the others are clients, and spared.
fn usual(experiment: &Experiment) -> FaultSpace {
    let servers: Vec<_> =
        experiment.machine.several().iter().filter(|machine| !machine.wait).collect();
    let fault = |kind: &str| ScheduledFault { kind: kind.to_owned(), ..ScheduledFault::default() };
    let mut faults: Vec<_> = [POWER_CUT, "reset", "pause", "stall"].map(fault).to_vec();
    faults.push(ScheduledFault { factor: Some(SLOW), ..fault("slow") });
    if !experiment.networks.is_empty() {
        faults.push(fault("partition"));
    }
    FaultSpace {
        draws: USUAL_FAULTS as u32,
        longest: Some(USUAL_LENGTHS.1),
        machines: servers.iter().filter_map(|machine| machine.name.clone()).collect(),
        drives: servers
            .iter()
            .flat_map(|machine| &machine.drives)
            .filter_map(|drive| drive.name.clone())
            .collect(),
        faults,
        ..FaultSpace::default()
    }
}
