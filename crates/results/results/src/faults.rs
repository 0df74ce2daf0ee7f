//! `faults.parquet`: the faults that have happened, one row each; their figures, and when they began
//! and ended.
//!
//! Rows are in the order in which the parts of the run reported them: those of one drive or machine
//! in the order of time.

use std::path::PathBuf;

use parquet::data_type::ByteArray;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_run_events::{FaultRecord, Outcome};

use crate::columnar::{Cell, Column, ColumnFile, Kind};
use crate::history::Witnessed;
use crate::sink::{Entry, Footer, Records, Sink};
use crate::ResultsError;

const COLUMNS: &[Column] = &[
    Column::new("fault", Kind::Short, ""),
    Column::new("kind", Kind::Word, ""),
    Column::new("target", Kind::Word, ""),
    Column::new("at_ns", Kind::Long, "ns").differences(),
    Column::optional("order", Kind::Long, ""),
    Column::new("offset", Kind::Long, "B"),
    Column::new("bytes", Kind::Long, "B"),
];

/// Limit on the intervals of a fault that are kept.
const MAX_INTERVALS: usize = 200;

/// Beginning and end of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultCourse {
    /// Once, in virtual time since the commands' start (ns); without an end it lasts.
    Window {
        /// Its beginning.
        begin: Nanos,
        /// Its end.
        end: Option<Nanos>,
    },
    /// From each of its happenings on, for so long (ns), 0 for a moment; without a length it lasts.
    Each {
        /// Its length.
        length: Option<Nanos>,
    },
    /// A machine's failure: from each of its happenings on, until the machine is switched on after so
    /// long (ns); then it boots. Without a time it stays off.
    Failure {
        /// Its time without power, or without life.
        restart: Option<Nanos>,
    },
    /// The fault has no time of its own: it lasts from the first request or frame that it befalls
    /// to the last.
    Befalls,
}

/// A fault that can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// Its kind.
    pub kind: String,
    /// The drive, the machine or the machines that it befalls.
    pub target: String,
    /// Its times.
    pub course: FaultCourse,
}

/// A time in which there was a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultInterval {
    /// Beginning, in virtual time since the machines' start (ns).
    pub begin_ns: Nanos,
    /// End (ns); the run's end if it lasts. Of a failure of a machine when that was switched on.
    pub end_ns: Nanos,
    /// Time at which the command of a machine that was switched on began again, after its boot (ns); the
    /// run's end if it did not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_ns: Option<Nanos>,
    /// The operations of clients that met it, until [`Self::over_ns`], before any other fault, where they
    /// write a history.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operations: Option<Witnessed>,
}

impl FaultInterval {
    /// End for those whom the fault befell (ns): after a failure of a machine its boot belongs to it.
    pub fn over_ns(&self) -> Nanos {
        self.back_ns.unwrap_or(self.end_ns)
    }
}

/// Returns of machines from failures.
#[derive(Debug, Clone, Default)]
pub struct Returns(Vec<(String, Vec<Nanos>)>);

impl Returns {
    /// Lists the returns of a run's machines.
    pub fn of(outcome: &Outcome) -> Self {
        let named = outcome.machines.iter().map(|machine| machine.name.clone());
        // The one machine has no name.
        let names = named.chain(outcome.machines.is_empty().then(String::new));
        Self(names.zip(outcome.returns.iter().cloned()).collect())
    }

    /// Times at which the command of a machine began again (ns), rising; none where nobody knows.
    fn of_machine(&self, name: &str) -> Option<&[Nanos]> {
        let is_its = |(each, _): &&(String, Vec<Nanos>)| each == name || each.is_empty();
        self.0.iter().find(is_its).map(|(_, times)| &times[..])
    }
}

/// A fault of an experiment, and how often it has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// Its kind.
    pub kind: String,
    /// The drive or machine that it befalls.
    pub target: String,
    /// Number of times that it has happened.
    pub happened: u64,
    /// Time at which it happened first, in virtual time since the machines' start (ns).
    pub first_ns: Option<u64>,
    /// Time at which it happened last (ns).
    pub last_ns: Option<u64>,
    /// Beginnings and ends, the first ones if there are many.
    #[serde(default)]
    pub intervals: Vec<FaultInterval>,
}

impl FaultSummary {
    /// The intervals of a run whose commands began at `begin` and that ended at `end` (ns); `each`:
    /// the first times at which it happened.
    fn settle(
        &mut self,
        course: FaultCourse,
        each: &[Nanos],
        (begin, end): (Nanos, Nanos),
        returns: &Returns,
    ) {
        let interval = |from: Nanos, to: Option<Nanos>| FaultInterval {
            begin_ns: from,
            end_ns: to.unwrap_or(end).min(end).max(from),
            back_ns: None,
            operations: None,
        };
        let since = |at: Nanos| begin.saturating_add(at);
        self.intervals = match course {
            FaultCourse::Window { begin: from, end: to } if since(from) < end => {
                vec![interval(since(from), to.map(since))]
            }
            FaultCourse::Window { .. } => Vec::new(),
            FaultCourse::Each { length } => {
                let to = |at: Nanos| length.map(|length| at.saturating_add(length));
                each.iter().map(|&at| interval(at, to(at))).collect()
            }
            FaultCourse::Failure { restart } => {
                let returns = returns.of_machine(&self.target);
                let failure = |&at: &Nanos| {
                    let one = interval(at, restart.map(|restart| at.saturating_add(restart)));
                    // A machine that stays off, or is off at the end, does not boot.
                    let boots = restart.is_some() && one.end_ns < end;
                    let back = returns.filter(|_| boots).map(|returns| {
                        let back = returns.iter().find(|back| **back >= one.end_ns);
                        back.map_or(end, |back| (*back).min(end))
                    });
                    FaultInterval { back_ns: back, ..one }
                };
                each.iter().map(failure).collect()
            }
            FaultCourse::Befalls => {
                let ends = self.first_ns.zip(self.last_ns);
                ends.map(|(first, last)| interval(first, Some(last))).into_iter().collect()
            }
        };
    }
}

/// The file, with the figures of each fault.
pub struct FaultFile {
    file: ColumnFile,
    faults: Vec<Fault>,
}

struct Fault {
    summary: FaultSummary,
    course: FaultCourse,
    /// The first times at which it happened (ns).
    each: Vec<Nanos>,
    kind: ByteArray,
    target: ByteArray,
}

impl Fault {
    /// A fault that has not happened yet.
    fn new(PlannedFault { kind, target, course }: PlannedFault) -> Self {
        Self {
            kind: ByteArray::from(kind.as_str()),
            target: ByteArray::from(target.as_str()),
            summary: FaultSummary {
                kind,
                target,
                happened: 0,
                first_ns: None,
                last_ns: None,
                intervals: Vec::new(),
            },
            course,
            each: Vec::new(),
        }
    }
}

impl FaultFile {
    /// A file of no rows yet.
    pub fn create(path: PathBuf, faults: Vec<PlannedFault>) -> Result<Self, ResultsError> {
        let faults = faults.into_iter().map(Fault::new).collect();
        Ok(Self { file: ColumnFile::create(path, "faults", COLUMNS)?, faults })
    }

    /// One more fault can happen: its number is that of those before.
    pub fn add(&mut self, fault: PlannedFault) {
        self.faults.push(Fault::new(fault));
    }

    /// Appends a row; one of a fault that the experiment does not have is passed over.
    fn row(&mut self, record: &FaultRecord) -> Result<(), ResultsError> {
        let Some(fault) = self.faults.get_mut(usize::from(record.fault)) else {
            return Ok(());
        };
        let summary = &mut fault.summary;
        summary.happened += 1;
        summary.first_ns = Some(summary.first_ns.map_or(record.at, |at| at.min(record.at)));
        summary.last_ns = summary.last_ns.max(Some(record.at));
        if fault.each.len() < MAX_INTERVALS {
            fault.each.push(record.at);
        }
        self.file.push(&[
            Cell::Short(record.fault),
            Cell::Word(&fault.kind),
            Cell::Word(&fault.target),
            Cell::Long(record.at),
            record.order.map_or(Cell::Missing, Cell::Long),
            Cell::Long(record.offset),
            Cell::Long(record.length),
        ])
    }

    /// Number of times that faults have happened so far.
    pub fn happened(&self) -> u64 {
        self.faults.iter().map(|fault| fault.summary.happened).sum()
    }

    /// The figures of each fault so far, of a run whose commands began and that ended at these times
    /// (ns), and whose machines came back.
    pub fn summaries(&self, ends: (Nanos, Nanos), returns: &Returns) -> Vec<FaultSummary> {
        let settled = |fault: &Fault| {
            let mut summary = fault.summary.clone();
            summary.settle(fault.course, &fault.each, ends, returns);
            summary
        };
        self.faults.iter().map(settled).collect()
    }
}

impl Sink for FaultFile {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        let Records::Faults(faults) = records else { return Ok(()) };
        faults.iter().try_for_each(|fault| self.row(fault))
    }

    /// Its entry is settled with what clients saw ([`Self::summaries`]).
    fn end(&mut self, footer: &Footer, _: Option<&Outcome>) -> Result<Entry, ResultsError> {
        self.file.finish(footer).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_the_intervals_of_their_course() {
        let intervals = |course, each: &[Nanos]| {
            let mut fault = FaultSummary {
                kind: String::new(),
                target: String::new(),
                happened: each.len() as u64,
                first_ns: each.first().copied(),
                last_ns: each.last().copied(),
                intervals: Vec::new(),
            };
            // Commands from 100 to 1100.
            fault.settle(course, each, (100, 1100), &Returns::default());
            fault.intervals.iter().map(|one| (one.begin_ns, one.end_ns)).collect::<Vec<_>>()
        };
        let window = |begin, end| FaultCourse::Window { begin, end };
        let each = |length| FaultCourse::Each { length };
        // One interval, whatever it has befallen in it.
        assert_eq!(intervals(window(200, Some(600)), &[310, 320, 330, 340]), [(300, 700)]);
        assert_eq!(intervals(window(200, Some(600)), &[]), [(300, 700)]);
        assert_eq!(intervals(window(0, None), &[]), [(100, 1100)]);
        assert_eq!(intervals(window(900, Some(5000)), &[]), [(1000, 1100)]);
        assert_eq!(intervals(window(1000, Some(5000)), &[]), []);
        assert_eq!(intervals(each(Some(50)), &[300, 400]), [(300, 350), (400, 450)]);
        assert_eq!(intervals(each(Some(0)), &[300]), [(300, 300)]);
        assert_eq!(intervals(each(None), &[300]), [(300, 1100)]);
        assert_eq!(intervals(each(Some(50)), &[]), []);
        assert_eq!(intervals(FaultCourse::Befalls, &[300, 350, 400]), [(300, 400)]);
        assert_eq!(intervals(FaultCourse::Befalls, &[]), []);
        // Nobody knows when the machine came back.
        let failure = |restart| FaultCourse::Failure { restart };
        assert_eq!(intervals(failure(Some(50)), &[300, 400]), [(300, 350), (400, 450)]);
        assert_eq!(intervals(failure(None), &[300]), [(300, 1100)]);
        // A time beyond all.
        assert_eq!(intervals(window(1, Some(u64::MAX)), &[]), [(101, 1100)]);
        assert_eq!(intervals(each(Some(u64::MAX)), &[2000]), [(2000, 2000)]);
    }

    #[test]
    fn the_boot_after_a_failure_belongs_to_it() {
        let outages = |restart, each: &[Nanos], returns: Returns| {
            let mut fault = FaultSummary {
                kind: "power-cut".into(),
                target: "db".into(),
                happened: each.len() as u64,
                first_ns: each.first().copied(),
                last_ns: each.last().copied(),
                intervals: Vec::new(),
            };
            fault.settle(FaultCourse::Failure { restart }, each, (100, 1100), &returns);
            let times = |one: &FaultInterval| (one.end_ns, one.back_ns, one.over_ns());
            fault.intervals.iter().map(times).collect::<Vec<_>>()
        };
        let returns = |name: &str, times: &[Nanos]| {
            Returns(vec![("other".into(), vec![1]), (name.into(), times.to_vec())])
        };
        // Twice, each with a boot; the one machine of a run has no name.
        for name in ["db", ""] {
            let found = outages(Some(50), &[300, 700], returns(name, &[480, 900]));
            assert_eq!(found, [(350, Some(480), 480), (750, Some(900), 900)], "{name:?}");
        }
        // It fails again while it boots, and is not back before the end.
        let twice = outages(Some(50), &[300, 400], returns("db", &[600]));
        assert_eq!(twice, [(350, Some(600), 600), (450, Some(600), 600)]);
        assert_eq!(outages(Some(50), &[900], returns("db", &[600])), [(950, Some(1100), 1100)]);
        // It stays off, is off at the end, or nobody knows.
        assert_eq!(outages(None, &[300], returns("db", &[600])), [(1100, None, 1100)]);
        assert_eq!(outages(Some(900), &[300], returns("db", &[])), [(1100, None, 1100)]);
        assert_eq!(outages(Some(50), &[300], Returns::default()), [(350, None, 350)]);
        assert_eq!(outages(Some(50), &[300], returns("db2", &[600])), [(350, None, 350)]);
    }
}
