//! The I/Os of a job file's jobs, each on its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stasis_block::Operation;
use stasis_run_events::IoRecord;

use crate::drive_summary::OperationSummary;
use crate::statistics::{ActiveTime, OperationStatistics};

/// Figures of a job of a job file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name there.
    pub name: String,
    /// From its first I/O that counts to its last completion (s).
    #[serde(default)]
    pub virtual_seconds: f64,
    /// The operations that it used, by name.
    pub operations: BTreeMap<String, OperationSummary>,
}

/// The jobs of a run.
pub struct Jobs {
    names: Vec<String>,
    /// The place of its job by a thread's number.
    of_thread: Vec<usize>,
    active: Vec<ActiveTime>,
    /// By job, in the order of [`Operation::ALL`].
    statistics: Vec<[OperationStatistics; Operation::ALL.len()]>,
}

impl Jobs {
    /// Jobs by name, each with so many threads, which are numbered through. Of each
    /// operation `bound` latencies are kept one by one.
    pub fn new(jobs: Vec<(String, usize)>, bound: usize) -> Self {
        let of_thread = jobs
            .iter()
            .enumerate()
            .flat_map(|(place, (_, threads))| std::iter::repeat_n(place, *threads))
            .collect();
        let fresh = |_: &_| std::array::from_fn(|_| OperationStatistics::new(bound));
        let statistics = jobs.iter().map(fresh).collect();
        let active = vec![ActiveTime::default(); jobs.len()];
        Self {
            active,
            names: jobs.into_iter().map(|(name, _)| name).collect(),
            of_thread,
            statistics,
        }
    }

    /// Takes an I/O; its queue is its thread's number.
    pub fn record(&mut self, record: &IoRecord) {
        if record.boot || record.refused() {
            return;
        }
        if let Some(place) = self.of_thread.get(usize::from(record.queue)) {
            self.active[*place].record(record);
            self.statistics[*place][record.operation as usize].record(record);
        }
    }

    /// The jobs' figures.
    pub fn summaries(&mut self) -> Vec<JobSummary> {
        let summary = |(place, operations): (usize, &mut [OperationStatistics; 8])| {
            let used = Operation::ALL.into_iter().zip(operations);
            let used = used.filter(|(_, statistics)| statistics.count > 0);
            let operations = used.map(|(operation, statistics)| {
                statistics.sort();
                (operation.name().to_owned(), statistics.summary(self.active[place]))
            });
            JobSummary {
                name: self.names[place].clone(),
                virtual_seconds: self.active[place].seconds(),
                operations: operations.collect(),
            }
        };
        self.statistics.iter_mut().enumerate().map(summary).collect()
    }
}
