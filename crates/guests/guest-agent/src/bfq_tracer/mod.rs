//! Watches this kernel's BFQ: when it begins and when it ends to raise weights
//! (docs/reference/channel.md, "Help").
//!
//! The kernel is the distribution's. Programs of some twenty instructions run
//! after three functions of BFQ, and write into a page. A machine of our own
//! reads that page from outside: no call leaves the guest. It also learns which
//! requests are the interactive queues'. A process can wait for the doorbell, which
//! rings only when raising begins or ends.

mod bpf;
mod program;
mod shared;

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use stasis_btf::Btf;
use stasis_channel::application_hint::{self, Page};

use self::program::{First, Offsets, SLOTS_OFFSET};
use self::shared::Shared;

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const BFQ: &str = "/sys/kernel/btf/bfq";
/// Functions in which BFQ takes requests in, and hands one out (block/bfq-iosched.c, the operations
/// of its `struct elevator_type`).
const FUNCTIONS: [&str; 2] = ["bfq_insert_requests", HANDS_OUT];
const HANDS_OUT: &str = "bfq_dispatch_request";
/// Function in which it takes a queue from those that have something to do: where the last raised
/// one goes after a completion, at its process's end, or when it has waited long enough for more.
/// Its first argument has changed over time.
const LEAVES: &str = "bfq_del_bfqq_busy";

/// Reason why BFQ cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There are no types of the kernel.
    #[error("cannot read {KERNEL}: {0}; the kernel must have been built with CONFIG_DEBUG_INFO_BTF, and /sys be mounted")]
    NoTypes(io::Error),
    /// There is no BFQ.
    #[error("this kernel has no BFQ, or its module is not loaded: try `modprobe bfq`")]
    NoBfq,
    /// The types are not as they should be.
    #[error("cannot find {0} in the kernel's types: this kernel's BFQ is another than those known (Linux 5.5 to 6.18)")]
    Unknown(String),
    /// Not allowed.
    #[error(
        "not permitted to {action}: run it as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"
    )]
    Forbidden {
        /// The attempted action.
        action: &'static str,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

fn failed(action: &'static str) -> impl Fn(io::Error) -> TraceError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => TraceError::Forbidden { action },
        _ => TraceError::System { action, source },
    }
}

/// The tracer: it works until it is dropped.
#[derive(Debug)]
pub struct BfqTracer {
    page: Shared,
    doorbell: Doorbell,
    _held: Vec<OwnedFd>,
}

/// The ring buffer that wakes a process. Its content does not matter.
#[derive(Debug)]
struct Doorbell {
    map: OwnedFd,
    // Positions up to which it has been read, and written.
    read: Shared,
    written: Shared,
}

impl BfqTracer {
    /// Begins to watch; BFQ is there already.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn start() -> Result<Self, TraceError> {
        let kernel = std::fs::read(KERNEL).map_err(TraceError::NoTypes)?;
        let kernel = Btf::parse(&kernel).ok_or_else(|| unknown("anything"))?;
        // BFQ is a module, or part of the kernel.
        let module = match std::fs::read(BFQ) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            bytes => Some(bytes.map_err(failed("read the types of bfq"))?),
        };
        let module = module.as_deref().map(|bytes| Btf::of_module(bytes, &kernel));
        let (btf, types) = match module {
            Some(btf) => {
                let types = bpf::types_of("bfq").map_err(failed("open the types of bfq"))?;
                (&btf.ok_or_else(|| unknown("anything of bfq"))?, Some(types))
            }
            None if kernel.function(FUNCTIONS[0]).is_some() => (&kernel, None),
            None => return Err(TraceError::NoBfq),
        };
        let offsets = offsets(btf)?;
        let map =
            bpf::page(application_hint::PAGE as u32).map_err(failed("make a map of bpf's"))?;
        let mut page = Shared::new(&map, 0, true).map_err(failed("map a page of bpf's"))?;
        page.write(&Page::new());
        let doorbell = Doorbell::new().map_err(failed("make a ring buffer of bpf's"))?;
        let mut held = Vec::new();
        for name in FUNCTIONS.into_iter().chain([LEAVES]) {
            let function = btf.function(name).ok_or_else(|| unknown(name))?;
            let first = match btf.first_argument(function) {
                Some("blk_mq_hw_ctx") => First::Context,
                Some("bfq_data") => First::Data,
                Some("bfq_queue") => First::Queue,
                _ => return Err(unknown(&format!("the first argument of {name}"))),
            };
            let code =
                program::assemble(first, map.as_raw_fd(), doorbell.map.as_raw_fd(), &offsets);
            attach(&code, types.as_ref(), function, &mut held)?;
            if name == HANDS_OUT {
                let code = program::assemble_urgent(map.as_raw_fd(), &offsets);
                attach(&code, types.as_ref(), function, &mut held)?;
            }
        }
        held.push(map);
        Ok(Self { page, doorbell, _held: held })
    }

    /// Guest-physical address of the page, for a machine that is to read it.
    ///
    /// # Errors
    /// The kernel does not give the address.
    pub fn physical_address(&self) -> Result<u64, TraceError> {
        self.page.physical_address().map_err(failed("find where a page of bpf's is"))
    }

    /// Returns the number of queues of each drive that are raised and have something to do.
    pub fn raised(&self) -> [u32; application_hint::SLOTS] {
        std::array::from_fn(|slot| self.page.word(SLOTS_OFFSET + 4 * slot))
    }

    /// Returns whether the machine is asked for help though nothing is raised.
    pub fn hold(&mut self, on: bool) {
        self.page.set_double_word(offset_of!(Page, hold), on.into());
    }

    /// Returns the number of times that each of these numbers has been written so far.
    pub fn written(&self) -> [u32; application_hint::SLOTS] {
        std::array::from_fn(|slot| self.page.word(SLOTS_OFFSET + program::WRITTEN + 4 * slot))
    }

    /// Returns the time at which raising last began or ended anywhere (ns of `CLOCK_MONOTONIC`).
    pub fn changed_at(&self) -> u64 {
        let times = (0..application_hint::SLOTS)
            .map(|slot| self.page.double_word(program::TIMES_OFFSET + 8 * slot));
        times.max().unwrap_or(0)
    }

    /// Readable once raising has begun or ended since [`BfqTracer::reset_doorbell`].
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.map.as_fd()
    }

    /// Makes the doorbell wait for the next change. To be called before [`BfqTracer::raised`], so
    /// that no change is missed.
    pub fn reset_doorbell(&mut self) {
        let written = self.doorbell.written.double_word(0);
        self.doorbell.read.set_double_word(0, written);
    }
}

impl Doorbell {
    /// The kernel's first page is the reader's, its second the writer's.
    fn new() -> io::Result<Self> {
        let map = bpf::ring(application_hint::PAGE as u32)?;
        let read = Shared::new(&map, 0, true)?;
        let written = Shared::new(&map, application_hint::PAGE as i64, false)?;
        Ok(Self { map, read, written })
    }
}

/// Makes a program run after a function, as long as the descriptors added to `held` live.
fn attach(
    code: &[u8],
    types: Option<&OwnedFd>,
    function: u32,
    held: &mut Vec<OwnedFd>,
) -> Result<(), TraceError> {
    let program = bpf::load(code, types, function);
    let program = program.map_err(failed("load a program of bpf's"))?;
    held.push(bpf::attach(&program).map_err(failed("attach a program of bpf's"))?);
    held.push(program);
    Ok(())
}

fn unknown(name: &str) -> TraceError {
    TraceError::Unknown(name.to_owned())
}

fn offsets(btf: &Btf<'_>) -> Result<Offsets, TraceError> {
    let offset = |structure: &str, member: &str| {
        let found = btf.offset(structure, member).and_then(|offset| i16::try_from(offset).ok());
        found.ok_or_else(|| TraceError::Unknown(format!("{structure}.{member}")))
    };
    Ok(Offsets {
        queue: offset("blk_mq_hw_ctx", "queue")?,
        elevator: offset("request_queue", "elevator")?,
        id: offset("request_queue", "id")?,
        data: offset("elevator_queue", "elevator_data")?,
        bfq_data: offset("bfq_queue", "bfqd")?,
        owner: offset("bfq_data", "queue")?,
        raised: offset("bfq_data", "wr_busy_queues")?,
        sector: offset("request", "__sector")?,
        private: offset("request", "elv.priv")?,
        coefficient: offset("bfq_queue", "wr_coeff")?,
        switch: offset("bfq_queue", "wr_start_at_switch_to_srt")?,
    })
}
