//! The synthetic load of a fio job file (fio's HOWTO, "Job file parameters"),
//! as far as it is about I/Os; [`table`] lists fio's options.

mod blockmap;
mod file;
mod files;
mod history;
mod load;
mod notes;
mod offsets;
mod options;
mod pace;
mod plan;
mod queue;
mod ranks;
pub mod table;
#[cfg(test)]
mod tests;
mod text;
mod thread;
mod values;

use stasis_block::clock::Nanos;

use crate::JobError;
use files::Service;
pub use load::Load;
use offsets::Strided;
pub use ranks::Distribution;
pub use text::{Include, Included, JobText, Place};
pub use values::{Each, Size, Weighted};

/// Operations of a job's I/Os.
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
    /// Each block is discarded, then written.
    TrimWrite,
}

/// Way in which an `ioengine` does I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// One at a time.
    Synchronous,
    /// As many as `iodepth`.
    Asynchronous {
        /// True if the thread waits for a flush, as with libaio.
        waits_for_flush: bool,
        /// True if the thread waits for a discard, as with libaio.
        waits_for_trim: bool,
    },
    /// No I/O; the thread needs a processor (`cpuio`).
    Processor,
}

/// The threads that end with one (`exit_what`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitWhat {
    /// The threads of its group of jobs.
    Group,
    /// The threads that have begun.
    Begun,
    /// All.
    All,
}

/// A job: the options of its section, with those of `[global]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The section's name, or the value of `name`.
    pub name: String,
    /// Threads that do the same.
    pub numjobs: u32,
    /// I/Os in flight for each thread, as written.
    pub iodepth: u32,
    /// Operations of the I/Os.
    pub direction: Direction,
    /// True if offsets are random.
    pub random: bool,
    /// True if it continues for its runtime even if it has done everything.
    pub time_based: bool,
    engine: Engine,
    /// True if its files are drives, whatever their names.
    of_drives: bool,
    /// I/Os that are submitted at once, 0 for `iodepth`.
    batch: u32,
    /// Completions that are taken at once, and at most; the latter 0 for as many.
    complete_min: u32,
    complete_max: u32,
    /// I/Os in flight down to which completions are taken, 0 for `iodepth`.
    iodepth_low: u32,
    /// True if a thread hands its I/Os to others.
    offload: bool,
    /// Names of its files.
    file: Vec<String>,
    nrfiles: u32,
    openfiles: u32,
    service: Service,
    direct: bool,
    /// A random offset only every so often (`rw=randread:8`), otherwise 1.
    every: u64,
    /// True if the I/Os between are at the same place.
    identical: bool,
    /// Added to the place of each sequential I/O (`rw=read:4k`).
    hole: i64,
    rwmixread: u8,
    bs: Each<u64>,
    ba: Each<u64>,
    bsrange: Each<Option<(u64, u64)>>,
    bssplit: [Option<Weighted<u64>>; 3],
    bs_is_seq_rand: bool,
    offset: Size,
    offset_align: Option<u64>,
    offset_increment: Size,
    size: Option<Size>,
    /// The least and the greatest.
    filesize: Option<(u64, u64)>,
    io_size: Option<Size>,
    loops: u64,
    number_ios: Option<u64>,
    runtime: Option<Nanos>,
    ramp_time: Nanos,
    startdelay: Nanos,
    thinktime: Nanos,
    thinktime_blocks: Option<u64>,
    thinktime_issues: bool,
    thinktime_iotime: Nanos,
    rate_iops: Each<u64>,
    rate: Each<u64>,
    poisson: bool,
    fsync: u64,
    fdatasync: u64,
    end_fsync: bool,
    fsync_on_close: bool,
    distribution: Distribution,
    lfsr: bool,
    percentage_random: Each<u8>,
    norandommap: bool,
    randseed: u64,
    stonewall: bool,
    new_group: bool,
    wait_for: Option<String>,
    exitall: bool,
    exit_what: ExitWhat,
    exit_on_io_done: bool,
    create_only: bool,
    kb_base: u64,
    prio: u16,
    prioclass: u16,
    read_fua: bool,
    write_fua: bool,
    /// True if it uses a part of each zone (`zonemode=strided`).
    strided: bool,
    zone_size: u64,
    zone_range: u64,
    zone_skip: u64,
    verify: bool,
    do_verify: bool,
    /// True if the job does no I/O but to read again what it would write.
    verify_only: bool,
    /// Writes after which some are read again, 0 for all at the end; and how many then.
    verify_backlog: u64,
    verify_batch: u64,
}

impl Default for Job {
    /// fio's defaults.
    fn default() -> Self {
        Self {
            name: String::new(),
            numjobs: 1,
            iodepth: 1,
            direction: Direction::Read,
            random: false,
            time_based: false,
            engine: Engine::Synchronous,
            of_drives: false,
            batch: 1,
            complete_min: 1,
            complete_max: 0,
            iodepth_low: 0,
            offload: false,
            file: Vec::new(),
            nrfiles: 1,
            openfiles: 0,
            service: Service::RoundRobin(1),
            direct: false,
            every: 1,
            identical: false,
            hole: 0,
            rwmixread: 50,
            bs: [4096; 3],
            ba: [0; 3],
            bsrange: [None; 3],
            bssplit: [None, None, None],
            bs_is_seq_rand: false,
            offset: Size::Bytes(0),
            offset_align: None,
            offset_increment: Size::Bytes(0),
            size: None,
            filesize: None,
            io_size: None,
            loops: 1,
            number_ios: None,
            runtime: None,
            ramp_time: 0,
            startdelay: 0,
            thinktime: 0,
            thinktime_blocks: None,
            thinktime_issues: false,
            thinktime_iotime: 0,
            rate_iops: [0; 3],
            rate: [0; 3],
            poisson: false,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            distribution: Distribution::Uniform,
            lfsr: false,
            percentage_random: [100; 3],
            norandommap: false,
            randseed: 0,
            stonewall: false,
            new_group: false,
            wait_for: None,
            exitall: false,
            exit_what: ExitWhat::Group,
            exit_on_io_done: false,
            create_only: false,
            kb_base: 1024,
            prio: 0,
            prioclass: 0,
            read_fua: false,
            write_fua: false,
            strided: false,
            zone_size: 0,
            zone_range: 0,
            zone_skip: 0,
            verify: false,
            do_verify: true,
            verify_only: false,
            verify_backlog: 0,
            verify_batch: 0,
        }
    }
}

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
    /// I/Os in flight of a thread at most.
    pub fn in_flight_max(&self) -> u32 {
        match self.engine {
            Engine::Asynchronous { .. } => self.iodepth,
            Engine::Synchronous if self.offload => self.iodepth,
            Engine::Synchronous | Engine::Processor => 1,
        }
    }

    /// The directions that are used, as numbers.
    fn used(&self) -> &'static [usize] {
        match self.direction {
            Direction::Read => &[0],
            Direction::Write => &[1],
            Direction::Trim => &[2],
            Direction::Mixed => &[0, 1],
            Direction::TrimWrite => &[1, 2],
        }
    }

    /// Number of files of a thread.
    fn file_count(&self) -> u32 {
        match self.file.len() as u32 {
            0 => self.nrfiles,
            named => named,
        }
    }

    /// Returns whether its only file is named more than once: fio then goes over it in as many
    /// places.
    fn is_repeated(&self) -> bool {
        self.file.len() > 1 && self.file.iter().all(|name| *name == self.file[0])
    }

    /// Returns the job's zones, if it has zones of a fixed distance.
    fn zones(&self) -> Option<Strided> {
        // As in fio, zones of a fixed distance are for one open file.
        let files = match self.openfiles {
            0 => self.file_count(),
            files => files.min(self.file_count()),
        };
        if !self.strided || files > 1 {
            return None;
        }
        let range = if self.zone_range > 0 { self.zone_range } else { self.zone_size };
        Some(Strided { size: self.zone_size, range, skip: self.zone_skip })
    }

    /// Returns whether random offsets may meet a block again before all were met.
    fn maps_nothing(&self) -> bool {
        let least = |d: usize| self.blocks()[d].bounds().0;
        let aligned = (0..3).any(|d| self.ba[d] > 0 && self.ba[d] != least(d));
        self.norandommap || self.distribution != Distribution::Uniform || self.random && aligned
    }

    /// Returns whether random blocks are in a map.
    fn has_map(&self) -> bool {
        self.random && !self.maps_nothing() && !self.lfsr
    }

    /// Returns whether it reads again what it wrote.
    fn reads_again(&self) -> bool {
        self.verify && self.do_verify && self.writes()
    }

    fn writes(&self) -> bool {
        matches!(self.direction, Direction::Write | Direction::Mixed | Direction::TrimWrite)
    }

    /// Returns whether it does I/O at all.
    fn does_io(&self) -> bool {
        self.engine != Engine::Processor && !self.create_only
    }

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
