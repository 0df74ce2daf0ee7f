//! Watches the guest's BFQ for the machine: when it begins and when it ends to
//! raise weights (docs/channel.md, "Help").
//!
//! The kernel is the distribution's. A program of some twenty instructions
//! runs after each of two functions of BFQ, and writes into a page that the
//! machine reads: no process wakes up, and no call leaves the guest.

mod bpf;
mod btf;
mod program;

use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::sys::mman::{mmap, MapFlags, ProtFlags};
use stasis_channel::help;

use self::btf::Btf;
use self::program::Offsets;
use super::AgentError;

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const BFQ: &str = "/sys/kernel/btf/bfq";
/// Where BFQ takes requests in, and where it hands one out (block/bfq-iosched.c,
/// the operations of its `struct elevator_type`).
const FUNCTIONS: [&str; 2] = ["bfq_insert_requests", "bfq_dispatch_request"];

/// The watcher: it works until the guest ends.
#[derive(Debug)]
pub(super) struct Watcher {
    /// Guest-physical address of the page that the machine is to read.
    pub(super) page: u64,
    _held: Vec<OwnedFd>,
}

/// Begins to watch; BFQ is there already.
pub(super) fn start() -> Result<Watcher, AgentError> {
    let error = |what, on: &str| {
        let on = on.to_owned();
        move |source: io::Error| AgentError::new(what, on, source)
    };
    let read = |file: &str| fs::read(file).map_err(error("read the types in", file));
    let (kernel, module) = (read(KERNEL)?, read(BFQ)?);
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let kernel = Btf::parse(&kernel, None).ok_or_else(damaged);
    let kernel = kernel.map_err(error("understand", KERNEL))?;
    let module = Btf::parse(&module, Some(&kernel)).ok_or_else(damaged);
    let module = module.map_err(error("understand", BFQ))?;
    let offset = |structure, member| {
        let found = module.offset(structure, member).ok_or_else(|| io::ErrorKind::NotFound.into());
        found.map_err(error("find in the kernel's types", &format!("{structure}.{member}")))
    };
    let offsets = Offsets {
        queue: offset("blk_mq_hw_ctx", "queue")?,
        elevator: offset("request_queue", "elevator")?,
        id: offset("request_queue", "id")?,
        data: offset("elevator_queue", "elevator_data")?,
        raised: offset("bfq_data", "wr_busy_queues")?,
    };
    let map = bpf::page(help::PAGE as u32).map_err(error("make", "the page for help"))?;
    let page = share(&map).map_err(error("share", "the page for help"))?;
    let types = bpf::types_of("bfq").map_err(error("find the types of", "bfq"))?;
    let code = program::assemble(std::os::fd::AsRawFd::as_raw_fd(&map), &offsets);
    let mut held = vec![map];
    for name in FUNCTIONS {
        let function = module.function(name).ok_or_else(|| io::ErrorKind::NotFound.into());
        let function = function.map_err(error("find the kernel's function", name))?;
        let program =
            bpf::load(&code, &types, function).map_err(error("load a program for", name))?;
        held.push(bpf::attach(&program).map_err(error("attach a program to", name))?);
        held.push(program);
    }
    Ok(Watcher { page, _held: held })
}

/// Writes the page's beginning, and finds where the page is.
fn share(map: &OwnedFd) -> io::Result<u64> {
    let size = NonZeroUsize::new(help::PAGE).ok_or(io::ErrorKind::InvalidInput)?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping at an address the kernel chooses.
    let mapping = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, map, 0) }?;
    let header = help::header();
    // SAFETY: within the mapping, which is a page, and nobody else's yet.
    unsafe {
        std::ptr::copy_nonoverlapping(header.as_ptr(), mapping.as_ptr().cast(), header.len());
    }
    // proc(5), /proc/PID/pagemap: a page's number in bits 0 to 54, and bit 63
    // where it is in memory. A map's pages stay where they are.
    let place = mapping.as_ptr() as u64 / help::PAGE as u64 * 8;
    let mut entry = [0; 8];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entry, place)?;
    let entry = u64::from_le_bytes(entry);
    let number = entry & ((1 << 55) - 1);
    if entry >> 63 == 0 || number == 0 {
        return Err(io::Error::other("the kernel does not say where its page is"));
    }
    Ok(number * help::PAGE as u64)
}
