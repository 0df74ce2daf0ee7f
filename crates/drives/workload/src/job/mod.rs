//! The synthetic load of a fio job file (fio's HOWTO, "Job file parameters"),
//! as far as it is about I/Os; `docs/reference/sim.md` lists the keys.

mod file;
mod keys;
mod load;
mod offsets;
mod options;
mod thread;
mod values;

use stasis_clock::Nanos;

use crate::JobError;
pub use load::Load;
pub use offsets::Distribution;
pub use values::{Each, Size, Weighted};

/// What a job's I/Os do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Discards.
    Trim,
    /// Reads and writes.
    Mixed,
}

/// A job: the keys of its section, with those of `[global]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The section's name.
    pub name: String,
    /// Threads that do the same.
    pub numjobs: u32,
    /// I/Os in flight for each thread.
    pub iodepth: u32,
    /// What they do.
    pub direction: Direction,
    /// Whether offsets are random.
    pub random: bool,
    /// Percent of reads in a mix.
    pub rwmixread: u8,
    /// Block sizes of reads, writes and trims.
    pub blocks: Each<Weighted<u64>>,
    /// Where the region begins.
    pub offset: Size,
    /// How much further on it begins for each further thread.
    pub offset_increment: Size,
    /// Length of the region; without it, to the drive's end.
    pub size: Option<Size>,
    /// How much a thread does; without it, as much as the region is long.
    pub io_size: Option<Size>,
    /// How often it does it.
    pub loops: u64,
    /// The most I/Os of a thread.
    pub number_ios: Option<u64>,
    /// The longest a thread goes on after its ramp time (ns).
    pub runtime: Option<Nanos>,
    /// Whether it goes on as long even if it has done everything.
    pub time_based: bool,
    /// How long it goes on before it is measured (ns).
    pub ramp_time: Nanos,
    /// How long it waits before it begins (ns).
    pub startdelay: Nanos,
    /// Pause after each `thinktime_blocks` I/Os (ns).
    pub thinktime: Nanos,
    /// See [`Job::thinktime`].
    pub thinktime_blocks: u64,
    /// The most I/Os a second of a thread, by direction; 0 for any number.
    pub rate_iops: Each<u64>,
    /// The most bytes a second of a thread, by direction; 0 for any number.
    pub rate: Each<u64>,
    /// Whether a rate's intervals are drawn as those of a Poisson process.
    pub poisson: bool,
    /// A flush after so many writes.
    pub fsync: Option<u64>,
    /// A flush at the end.
    pub end_fsync: bool,
    /// How random offsets are distributed.
    pub distribution: Distribution,
    /// Whether random offsets may meet a block again before all were met.
    pub norandommap: bool,
    /// Added to the seed.
    pub randseed: u64,
    /// Whether all jobs before it end first.
    pub stonewall: bool,
    /// Whether its engine waits for each I/O.
    synchronous: bool,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: String::new(),
            numjobs: 1,
            iodepth: 1,
            direction: Direction::Read,
            random: false,
            rwmixread: 50,
            blocks: std::array::from_fn(|_| Weighted::always(4096)),
            offset: Size::Bytes(0),
            offset_increment: Size::Bytes(0),
            size: None,
            io_size: None,
            loops: 1,
            number_ios: None,
            runtime: None,
            time_based: false,
            ramp_time: 0,
            startdelay: 0,
            thinktime: 0,
            thinktime_blocks: 1,
            rate_iops: [0; 3],
            rate: [0; 3],
            poisson: false,
            fsync: None,
            end_fsync: false,
            distribution: Distribution::Uniform,
            norandommap: false,
            randseed: 0,
            stonewall: false,
            synchronous: false,
        }
    }
}

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// In the file's order.
    pub jobs: Vec<Job>,
    /// What the file asks for that makes no difference here, once each.
    pub warnings: Vec<String>,
}

impl JobFile {
    /// Reads a job file; `variable` gives the value of an environment variable.
    ///
    /// # Errors
    /// [`JobError`], which names the line and for an unknown key the nearest.
    pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, JobError> {
        let mut global = Job::default();
        let mut jobs = Vec::new();
        let mut warnings = Vec::new();
        for section in file::sections(text, variable)? {
            let is_global = section.name == "global";
            let mut job = global.clone();
            if !is_global {
                job.name.clone_from(&section.name);
            }
            for line in &section.lines {
                options::apply(&mut job, line, &mut warnings)?;
            }
            if is_global {
                global = job;
                continue;
            }
            if job.synchronous && job.iodepth > 1 {
                let name = &job.name;
                warn(
                    &mut warnings,
                    format!("job `{name}`: a synchronous ioengine has an iodepth of 1"),
                );
                job.iodepth = 1;
            }
            jobs.push(job);
        }
        if jobs.is_empty() {
            return Err(JobError::Empty);
        }
        Ok(Self { jobs, warnings })
    }

    /// The size of a drive that holds every region, if the jobs say one.
    pub fn least_capacity(&self) -> Option<u64> {
        let end = |job: &Job| {
            let bytes = |size: Size| match size {
                Size::Bytes(bytes) => Some(bytes),
                Size::Percent(0) => Some(0),
                Size::Percent(_) => None,
            };
            let clones = u64::from(job.numjobs.saturating_sub(1));
            bytes(job.offset_increment)?
                .checked_mul(clones)?
                .checked_add(bytes(job.offset)?)?
                .checked_add(bytes(job.size?)?)
        };
        self.jobs.iter().map(end).try_fold(0, |largest, end| Some(largest.max(end?)))
    }
}

fn warn(warnings: &mut Vec<String>, warning: String) {
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
}

#[cfg(test)]
mod tests;
