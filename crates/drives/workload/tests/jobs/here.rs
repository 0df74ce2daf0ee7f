//! The I/Os of a job file here.

use stasis_workload::{JobFile, Load};

use crate::common::{each_io, Access};

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
    /// True if it ended within the limit.
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
    let ended = each_io(&mut load, LATENCY, limit, |thread, access| threads[thread].push(access))?;
    Ok(Run { threads, job_of, ended })
}
