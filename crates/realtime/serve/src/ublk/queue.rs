//! A queue of a ublk device: its requests come out of an io_uring, in which
//! each is answered as well.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

use io_uring::{opcode, types, IoUring};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

use super::abi::{self, Descriptor};

/// A request's place: the kernel copies a write's data into its buffer before it announces it, and
/// a read's out of it when it is answered.
#[derive(Debug)]
struct IoBuffer {
    /// At least as long as the longest request; away while it is under way.
    buffer: Vec<u8>,
    /// Address of the buffer.
    address: usize,
    /// True if the kernel has it: it may write to the buffer at any time.
    with_kernel: bool,
}

/// A queue.
pub(super) struct Queue {
    number: u16,
    ring: IoUring,
    device: RawFd,
    descriptors: Descriptors,
    places: Vec<IoBuffer>,
    /// Bytes of a buffer.
    room: usize,
    /// Answers that the kernel has not been given yet.
    pending: bool,
    /// Places that the kernel will not fill again.
    gone: usize,
}

/// Event of a place in the queue.
#[derive(Debug)]
pub(super) enum QueueEvent {
    /// There is a request.
    Request(u16, Descriptor),
    /// There will be none any more.
    Gone,
    /// The kernel does not understand the request.
    Failed(io::Error),
}

impl Queue {
    /// Begins to fetch requests. The thread that calls this must also make all later calls: the
    /// driver requires that.
    pub fn start(device: &File, number: u16, depth: u16, room: u32) -> io::Result<Self> {
        // An entry for each place, which has one event at a time.
        let ring = IoUring::new(u32::from(depth))?;
        let descriptors = Descriptors::map(device, number, depth)?;
        let room = room as usize;
        let place = |_| {
            let buffer = vec![0; room];
            IoBuffer { address: buffer.as_ptr() as usize, buffer, with_kernel: false }
        };
        let places = (0..depth).map(place).collect();
        let device = device.as_raw_fd();
        let mut queue =
            Self { number, ring, device, descriptors, places, room, pending: false, gone: 0 };
        for tag in 0..depth {
            queue.push(abi::io::FETCH, tag, 0)?;
        }
        queue.send()?;
        Ok(queue)
    }

    /// Readable when the kernel has an event.
    pub fn ring(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    fn push(&mut self, code: u32, tag: u16, result: i32) -> io::Result<()> {
        let place = &mut self.places[usize::from(tag)];
        let address = place.address as u64;
        let entry = opcode::UringCmd16::new(types::Fd(self.device), code)
            .cmd(abi::io_command(self.number, tag, result, address))
            .build()
            .user_data(u64::from(tag));
        place.with_kernel = true;
        self.pending = true;
        // SAFETY: the buffer is as long as the longest request, and stays where it is until the
        // kernel has announced the next one in this place, or is never freed (see `Drop`).
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }

    /// The next event from the kernel.
    pub fn next(&mut self) -> Option<QueueEvent> {
        let done = self.ring.completion().next()?;
        let tag = done.user_data() as u16;
        let place = self.places.get_mut(usize::from(tag))?;
        place.with_kernel = false;
        Some(match done.result() {
            // SAFETY: there is a descriptor for each place.
            abi::GOT => QueueEvent::Request(tag, unsafe {
                Descriptor::read(self.descriptors.start.as_ptr().cast(), tag)
            }),
            result => {
                self.gone += 1;
                match result {
                    abi::ABORTED => QueueEvent::Gone,
                    result => QueueEvent::Failed(io::Error::from_raw_os_error(-result)),
                }
            }
        })
    }

    /// Returns whether there will be no more requests.
    pub fn is_over(&self) -> bool {
        self.gone >= self.places.len()
    }

    /// The first `length` bytes of a request's buffer, with the data to be written; `None` if it is
    /// longer than any may be.
    pub fn take(&mut self, tag: u16, length: usize) -> Option<Vec<u8>> {
        let place = &mut self.places[usize::from(tag)];
        if length > self.room {
            return None;
        }
        let mut buffer = std::mem::take(&mut place.buffer);
        buffer.truncate(length);
        Some(buffer)
    }

    /// Answers a request that was taken and asks for the next in its place.
    /// `result`: bytes, or a negative error number.
    pub fn answer(&mut self, tag: u16, result: i32, mut buffer: Vec<u8>) -> io::Result<()> {
        let place = &mut self.places[usize::from(tag)];
        if buffer.as_ptr() as usize == place.address {
            // SAFETY: it is the one that was made with `room` bytes, all of them
            // set; a shorter length has left them there.
            unsafe { buffer.set_len(self.room) };
        } else {
            // A layer has put another in its place, which may be shorter.
            let other = std::mem::replace(&mut buffer, vec![0; self.room]);
            buffer[..other.len()].copy_from_slice(&other);
            place.address = buffer.as_ptr() as usize;
        }
        place.buffer = buffer;
        self.push(abi::io::COMMIT_AND_FETCH, tag, result)
    }

    /// Answers a request that was not taken.
    pub fn refuse(&mut self, tag: u16, error: i32) -> io::Result<()> {
        self.push(abi::io::COMMIT_AND_FETCH, tag, -error)
    }

    /// Submits the entries that the kernel has not been given yet.
    pub fn send(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.pending) {
            loop {
                match self.ring.submit() {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                    Ok(_) => return Ok(()),
                }
            }
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The kernel may copy into these until it has confirmed that it will not.
        for place in &mut self.places {
            if place.with_kernel {
                std::mem::forget(std::mem::take(&mut place.buffer));
            }
        }
    }
}

/// The requests' descriptors, which the kernel writes.
struct Descriptors {
    start: NonNull<std::ffi::c_void>,
    length: usize,
}

// SAFETY: only the owner of the value reads the memory; the mapping belongs to no thread.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn map(device: &File, queue: u16, depth: u16) -> io::Result<Self> {
        let (offset, length) = abi::descriptors(queue, depth, rustix::param::page_size());
        // SAFETY: a new mapping, of an area that the driver offers, at no place in particular.
        let start = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, device, offset)?
        };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nobody has a reference into it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.length) };
    }
}
