//! The synthetic load of a fio job file (fio's HOWTO, "Job file parameters"),
//! as far as it is about I/Os; [`table`] lists fio's options.

mod blockmap;
mod blocks;
mod description;
mod file;
mod files;
mod history;
mod load;
mod notes;
mod offsets;
mod options;
mod pace;
mod place;
mod plan;
mod queue;
mod ranks;
pub mod table;
#[cfg(test)]
mod tests;
mod text;
mod thread;
mod values;

use crate::JobError;
pub use description::{Direction, Engine, ExitWhat, Job};
use files::Service;
pub use load::Load;
pub use place::Place;
pub use ranks::Distribution;
pub use text::{Include, Included, JobText};
pub use values::{Each, Size, Weighted};

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// In the file's order.
    pub jobs: Vec<Job>,
    /// Differences from fio on a host, once each.
    pub warnings: Vec<String>,
}

impl JobFile {
    /// Reads a job file that includes no other; `variable` gives the value of an environment
    /// variable.
    ///
    /// # Errors
    /// [`JobError`], which names the line and for an unknown option the nearest.
    pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, JobError> {
        Self::of(&JobText::alone(text)?, variable)
    }

    /// Reads a job file with those that it includes.
    ///
    /// # Errors
    /// As [`JobFile::parse`].
    pub fn of(text: &JobText, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, JobError> {
        let mut global = Job::default();
        let mut jobs: Vec<Job> = Vec::new();
        let mut timeless = None;
        for section in file::sections(text, variable)? {
            // As in fio, whatever follows.
            let is_global = section.name.starts_with("global");
            let mut job = global.clone();
            if !is_global {
                job.name.clone_from(&section.name);
            }
            for line in options::in_order(&section.lines) {
                options::apply(&mut job, line)?;
            }
            if is_global {
                global = job;
                continue;
            }
            if job.time_based && job.runtime.is_none() {
                job.time_based = false;
                timeless.get_or_insert_with(|| notes::timeless(&job.name));
            }
            job.check(&jobs)?;
            jobs.push(job);
        }
        if jobs.is_empty() {
            return Err(JobError::Empty);
        }
        let mut warnings = notes::of(&jobs);
        warnings.extend(timeless);
        Ok(Self { jobs, warnings })
    }

    /// The size of a drive that holds every region, if the jobs define one.
    pub fn least_capacity(&self) -> Option<u64> {
        self.jobs.iter().map(Job::least_capacity).try_fold(0, |most, end| Some(most.max(end?)))
    }

    /// Every block size of every job, with the job's name.
    pub fn block_sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.jobs.iter().flat_map(|job| job.granules().map(|bytes| (job.name.as_str(), bytes)))
    }
}

impl Job {
    /// Checks a job with all its options against the constraints, and the jobs before it.
    fn check(&self, before: &[Job]) -> Result<(), JobError> {
        let wrong = |problem: &str| {
            Err(JobError::Job { job: self.name.clone(), problem: problem.to_owned() })
        };
        let of_drives = self.of_drives || self.file.iter().any(|name| name.starts_with("/dev/"));
        if self.is_repeated() {
            let ranked = matches!(self.service, Service::Ranked(_));
            if ranked || self.verify || self.openfiles > 0 {
                return wrong(
                    "filename: a drive that is named more than once (a further `filename` adds to \
                     those before it, as in fio) has here no verify, no openfiles and no \
                     distribution of files: name it once",
                );
            }
        } else if self.file.iter().enumerate().any(|(at, name)| self.file[..at].contains(name)) {
            return wrong(
                "filename: one of several files is named more than once (a further `filename` adds \
                 to those before it, as in fio): name each once",
            );
        } else if self.file.len() > 1 && of_drives {
            return wrong(&format!(
                "filename: `{}` are several drives (a further `filename` adds to those before it, as \
                 in fio): fio goes from one to the next, sim has one drive: name one, or run fio in \
                 a guest with a drive for each",
                self.file.join(":")
            ));
        }
        if self.rate.iter().any(|rate| *rate > 0) && self.rate_iops.iter().any(|rate| *rate > 0) {
            return wrong("rate and rate_iops exclude each other");
        }
        if self.strided && self.zone_size == 0 {
            return wrong("zonemode=strided needs a zonesize");
        }
        if !self.strided && self.zone_size > 0 {
            return wrong("zonesize needs zonemode=strided, as in fio since 3.12");
        }
        let several = self.file_count() > 1;
        if self.direction == Direction::TrimWrite && self.random {
            let start = [self.offset, self.offset_increment].iter().any(|size| !size.is_nothing());
            if start || several || self.zones().is_some() {
                return wrong(
                    "rw=randtrimwrite with an offset, zones or several files: fio writes \
                     elsewhere than it trims; use rw=trimwrite, or leave them away",
                );
            }
        }
        if !self.file.is_empty() && self.nrfiles > 1 && self.nrfiles < self.file_count() {
            return wrong("nrfiles is less than the files of `filename`: name as many");
        }
        let batched = (self.batch, self.complete_min, self.complete_max, self.iodepth_low);
        if self.offload && batched != (1, 1, 0, 0) {
            return wrong(
                "fio has batches with io_submit_mode=offload, sim has not: leave one away",
            );
        }
        if self.bsrange.iter().any(Option::is_some) && self.bssplit.iter().any(Option::is_some) {
            return wrong("give one of bssplit and bsrange");
        }
        if self.lfsr && self.random && self.distribution == Distribution::Uniform {
            let mut bounds = self.blocks().into_iter().map(|blocks| blocks.bounds());
            let first = bounds.next();
            if bounds.any(|other| Some(other) != first)
                || first.is_some_and(|(least, most)| least != most)
            {
                return wrong("random_generator=lfsr needs one block size, as in fio");
            }
        }
        if self.engine == Engine::Processor && self.runtime.is_none() && !self.exit_on_io_done {
            return wrong("a cpuio job goes on for ever without a runtime or exit_on_io_done=1");
        }
        match &self.wait_for {
            None => Ok(()),
            Some(name) if *name == self.name => wrong("a job cannot wait for itself"),
            Some(name) => match before.iter().filter(|job| job.name == *name).count() {
                0 => wrong(&format!("wait_for: there is no job `{name}` before it")),
                1 => Ok(()),
                _ => wrong(&format!("wait_for: there are several jobs `{name}`")),
            },
        }
    }
}
