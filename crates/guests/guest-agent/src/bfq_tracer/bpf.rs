//! The system call bpf(2), as far as the tracer needs it (linux/bpf.h).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const BTF_GET_FD_BY_ID: libc::c_int = 19;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BTF_GET_NEXT_ID: libc::c_int = 23;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_RINGBUF: u32 = 27;
const MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_TRACING: u32 = 26;
const AFTER_FUNCTION: u32 = 25;

/// `union bpf_attr`, large enough for every use here, in words.
type Attributes = [u64; 18];

/// Makes the call; the attributes' addresses are of memory that lives on.
fn bpf(command: libc::c_int, attributes: &mut Attributes) -> io::Result<libc::c_int> {
    let size = std::mem::size_of::<Attributes>();
    // SAFETY: a union of the stated size, of which the kernel takes zeroes where it has no members;
    // the memory that its addresses point to outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as libc::c_int)
}

fn descriptor(command: libc::c_int, attributes: &mut Attributes) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the call made the descriptor; it is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// An array of one value of `size` bytes that can be mapped.
pub(super) fn page(size: u32) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::default();
    attributes[0] = pair(MAP_TYPE_ARRAY, 4);
    attributes[1] = pair(size, 1);
    attributes[2] = pair(MMAPABLE, 0);
    descriptor(MAP_CREATE, &mut attributes)
}

/// A ring buffer of `size` bytes, a power of two and a multiple of a page.
pub(super) fn ring(size: u32) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::default();
    attributes[0] = pair(MAP_TYPE_RINGBUF, 0);
    attributes[1] = pair(0, size);
    descriptor(MAP_CREATE, &mut attributes)
}

/// The types of the loaded module `name`.
pub(super) fn types_of(name: &str) -> io::Result<OwnedFd> {
    let mut id = 0u32;
    loop {
        let mut attributes = Attributes::default();
        attributes[0] = pair(id, 0);
        bpf(BTF_GET_NEXT_ID, &mut attributes)?;
        id = (attributes[0] >> 32) as u32;
        let mut attributes = Attributes::default();
        attributes[0] = pair(id, 0);
        let btf = match descriptor(BTF_GET_FD_BY_ID, &mut attributes) {
            Ok(btf) => btf,
            // Gone meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
            Err(error) => return Err(error),
        };
        let mut found = [0u8; 64];
        // struct bpf_btf_info: btf, btf_size, id, name, name_len, kernel_btf.
        let mut info = [0u64; 4];
        info[2] = found.as_mut_ptr() as u64;
        info[3] = pair(found.len() as u32, 0);
        let mut attributes = Attributes::default();
        attributes[0] = pair(btf.as_raw_fd() as u32, std::mem::size_of_val(&info) as u32);
        attributes[1] = info.as_mut_ptr() as u64;
        bpf(OBJ_GET_INFO_BY_FD, &mut attributes)?;
        if found.split(|byte| *byte == 0).next() == Some(name.as_bytes()) {
            return Ok(btf);
        }
    }
}

/// Loads a program that runs after a function: number `function` of a module's types, or without a
/// module of the kernel's own. The kernel verifier's log on a wrong one is in the error.
pub(super) fn load(code: &[u8], types: Option<&OwnedFd>, function: u32) -> io::Result<OwnedFd> {
    // The licence that the kernel requires of programs that call helpers for its own memory; the
    // project's licences allow it.
    const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";
    let mut log = vec![0u8; 64 << 10];
    let mut attributes = Attributes::default();
    attributes[0] = pair(PROG_TYPE_TRACING, (code.len() / 8) as u32);
    attributes[1] = code.as_ptr() as u64;
    attributes[2] = LICENCE.as_ptr() as u64;
    attributes[3] = pair(1, log.len() as u32);
    attributes[4] = log.as_mut_ptr() as u64;
    // kern_version, prog_flags; the name, 16 bytes.
    attributes[6] = u64::from_le_bytes(*b"stasis\0\0");
    // prog_ifindex, expected_attach_type; the types of the program itself: none.
    attributes[8] = pair(0, AFTER_FUNCTION);
    // line_info_cnt, attach_btf_id; attach_btf_obj_fd.
    attributes[13] = pair(0, function);
    attributes[14] = pair(types.map_or(0, |types| types.as_raw_fd() as u32), 0);
    descriptor(PROG_LOAD, &mut attributes).map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]);
        let last = text.lines().rev().find(|line| !line.starts_with("processed"));
        // The log is empty where bpf is not allowed at all.
        last.map_or(error, |last| io::Error::other(format!("the kernel's verifier: {last}")))
    })
}

/// Makes a program run from now on, as long as the descriptor is open.
pub(super) fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::default();
    attributes[1] = pair(program.as_raw_fd() as u32, 0);
    descriptor(RAW_TRACEPOINT_OPEN, &mut attributes)
}
