//! Differences of a load from fio on a host.

use std::collections::BTreeSet;

use super::{table, Engine, Job};

/// The notes of all jobs, once each.
pub fn of(jobs: &[Job]) -> Vec<String> {
    let mut notes = Vec::new();
    let io = || jobs.iter().filter(|job| job.does_io());
    for job in io() {
        if job.engine == Engine::Synchronous && job.iodepth > 1 && !job.offload {
            notes.push(format!(
                "job `{}`: a synchronous ioengine has one I/O in flight, not {}; without \
                 `ioengine` it is {}",
                job.name,
                job.iodepth,
                table::ENGINE
            ));
        }
    }
    if io().any(|job| !job.direct) {
        notes.push(
            "without `direct=1` fio's I/Os go through the page cache; here each goes to the drive"
                .into(),
        );
    }
    for job in io().filter(|job| job.is_repeated()) {
        notes.push(format!(
            "job `{}`: its `filename` is named {} times (a further one adds to those before it): as \
             fio does, it goes over the drive in as many places in turn, each with its part of `size`",
            job.name,
            job.file.len()
        ));
    }
    let files: BTreeSet<_> =
        io().map(|job| (&job.file, job.file.is_empty().then_some(&job.name))).collect();
    let own = |job: &Job| job.file.is_empty() && job.numjobs > 1;
    if files.len() > 1 || io().any(own) {
        notes.push(
            "fio has several files here, sim has one drive: regions of the same offset are the \
             same; give `filename`, `offset` and `size`"
                .into(),
        );
    }
    for job in jobs.iter().filter(|job| !job.does_io()) {
        let why = match job.create_only {
            true => "create_only",
            false => "cpuio",
        };
        notes.push(format!("job `{}`: {why}, so it does no I/O", job.name));
    }
    notes
}

/// The note of a job that is to go on for a time that it does not have.
pub fn timeless(job: &str) -> String {
    format!("job `{job}`: time_based has no effect without a runtime, as in fio")
}
