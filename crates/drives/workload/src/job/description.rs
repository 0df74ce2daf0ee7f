//! A job as its options describe it.

use stasis_block::clock::Nanos;

use super::files::Service;
use super::ranks::Distribution;
use super::values::{Each, Size, Weighted};

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
    pub(super) engine: Engine,
    /// True if its files are drives, whatever their names.
    pub(super) of_drives: bool,
    /// I/Os that are submitted at once, 0 for `iodepth`.
    pub(super) batch: u32,
    /// Completions that are taken at once, and at most; the latter 0 for as many.
    pub(super) complete_min: u32,
    pub(super) complete_max: u32,
    /// I/Os in flight down to which completions are taken, 0 for `iodepth`.
    pub(super) iodepth_low: u32,
    /// True if a thread hands its I/Os to others.
    pub(super) offload: bool,
    /// Names of its files.
    pub(super) file: Vec<String>,
    pub(super) nrfiles: u32,
    pub(super) openfiles: u32,
    pub(super) service: Service,
    pub(super) direct: bool,
    /// A random offset only every so often (`rw=randread:8`), otherwise 1.
    pub(super) every: u64,
    /// True if the I/Os between are at the same place.
    pub(super) identical: bool,
    /// Added to the place of each sequential I/O (`rw=read:4k`).
    pub(super) hole: i64,
    pub(super) rwmixread: u8,
    pub(super) bs: Each<u64>,
    pub(super) ba: Each<u64>,
    pub(super) bsrange: Each<Option<(u64, u64)>>,
    pub(super) bssplit: [Option<Weighted<u64>>; 3],
    pub(super) bs_is_seq_rand: bool,
    pub(super) offset: Size,
    pub(super) offset_align: Option<u64>,
    pub(super) offset_increment: Size,
    pub(super) size: Option<Size>,
    /// The least and the greatest.
    pub(super) filesize: Option<(u64, u64)>,
    pub(super) io_size: Option<Size>,
    pub(super) loops: u64,
    pub(super) number_ios: Option<u64>,
    pub(super) runtime: Option<Nanos>,
    pub(super) ramp_time: Nanos,
    pub(super) startdelay: Nanos,
    pub(super) thinktime: Nanos,
    pub(super) thinktime_blocks: Option<u64>,
    pub(super) thinktime_issues: bool,
    pub(super) thinktime_iotime: Nanos,
    pub(super) rate_iops: Each<u64>,
    pub(super) rate: Each<u64>,
    pub(super) poisson: bool,
    pub(super) fsync: u64,
    pub(super) fdatasync: u64,
    pub(super) end_fsync: bool,
    pub(super) fsync_on_close: bool,
    pub(super) distribution: Distribution,
    pub(super) lfsr: bool,
    pub(super) percentage_random: Each<u8>,
    pub(super) norandommap: bool,
    pub(super) randseed: u64,
    pub(super) stonewall: bool,
    pub(super) new_group: bool,
    pub(super) wait_for: Option<String>,
    pub(super) exitall: bool,
    pub(super) exit_what: ExitWhat,
    pub(super) exit_on_io_done: bool,
    pub(super) create_only: bool,
    pub(super) kb_base: u64,
    pub(super) prio: u16,
    pub(super) prioclass: u16,
    pub(super) read_fua: bool,
    pub(super) write_fua: bool,
    /// True if it uses a part of each zone (`zonemode=strided`).
    pub(super) strided: bool,
    pub(super) zone_size: u64,
    pub(super) zone_range: u64,
    pub(super) zone_skip: u64,
    pub(super) verify: bool,
    pub(super) do_verify: bool,
    /// True if the job does no I/O but to read again what it would write.
    pub(super) verify_only: bool,
    /// Writes after which some are read again, 0 for all at the end; and how many then.
    pub(super) verify_backlog: u64,
    pub(super) verify_batch: u64,
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
    pub(super) fn used(&self) -> &'static [usize] {
        match self.direction {
            Direction::Read => &[0],
            Direction::Write => &[1],
            Direction::Trim => &[2],
            Direction::Mixed => &[0, 1],
            Direction::TrimWrite => &[1, 2],
        }
    }

    /// Number of files of a thread.
    pub(super) fn file_count(&self) -> u32 {
        match self.file.len() as u32 {
            0 => self.nrfiles,
            named => named,
        }
    }

    /// Returns whether its only file is named more than once: fio then goes over it in as many
    /// places.
    pub(super) fn is_repeated(&self) -> bool {
        self.file.len() > 1 && self.file.iter().all(|name| *name == self.file[0])
    }

    /// Returns whether it reads again what it wrote.
    pub(super) fn reads_again(&self) -> bool {
        self.verify && self.do_verify && self.writes()
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.direction, Direction::Write | Direction::Mixed | Direction::TrimWrite)
    }

    /// Returns whether it does I/O at all.
    pub(super) fn does_io(&self) -> bool {
        self.engine != Engine::Processor && !self.create_only
    }
}
