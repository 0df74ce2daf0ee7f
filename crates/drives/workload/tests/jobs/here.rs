//! The I/Os of a job file here.

use std::collections::VecDeque;

use stasis_block::Operation;
use stasis_workload::{JobFile, Load, Workload};

use crate::common::Access;

/// I/Os at most of all threads.
pub const IOS: usize = 400_000;

/// Time of an I/O (ns).
const LATENCY: u64 = 1_000_000;

/// I/Os of a run.
pub struct Run {
    /// By thread.
    pub threads: Vec<Vec<Access>>,
    /// The job of each thread.
    pub job_of: Vec<usize>,
    /// Whether it ended within the limit.
    pub ended: bool,
}

/// Runs a file on a drive, up to a number of I/Os.
pub fn run(text: &str, capacity: u64, limit: usize) -> Result<Run, String> {
    let file = JobFile::parse(text, &|_| None).map_err(|error| error.to_string())?;
    let mut load = Load::new(&file, capacity, 1, 0).map_err(|error| error.to_string())?;
    let jobs = load.jobs().iter().enumerate();
    let job_of: Vec<usize> =
        jobs.flat_map(|(job, (_, count))| std::iter::repeat_n(job, *count)).collect();
    let mut threads: Vec<Vec<Access>> = vec![Vec::new(); job_of.len()];
    let mut flying = VecDeque::new();
    let mut count = 0;
    while count < limit {
        match (load.next_at(), flying.front().copied()) {
            (None, None) => return Ok(Run { threads, job_of, ended: true }),
            (next, Some((end, io))) if next.is_none_or(|next| end <= next) => {
                flying.pop_front();
                load.complete(end, &io);
            }
            (next, _) => {
                let Some(io) = load.take().map_err(|error| error.to_string())? else { continue };
                let what = match io.command.operation {
                    Operation::Read => 'r',
                    Operation::Write => 'w',
                    Operation::Discard => 't',
                    _ => 'f',
                };
                threads[usize::from(io.thread)].push((what, io.command.offset, io.command.length));
                flying.push_back((next.unwrap() + LATENCY, io));
                count += 1;
            }
        }
    }
    Ok(Run { threads, job_of, ended: false })
}
