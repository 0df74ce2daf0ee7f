//! Aligned memory for direct I/O, used again; part of it known to the kernel
//! beforehand, which then need not look at it for each I/O.

use io_uring::IoUring;

/// Alignment (bytes): no Linux block driver asks for more than a page.
const ALIGNMENT: usize = 4096;
/// Size of a registered buffer (bytes), and how many there are: together less
/// than what an unprivileged process may lock (8 MiB, `RLIMIT_MEMLOCK`).
const REGISTERED: usize = 32 << 10;
const COUNT: usize = 64;
/// Limit on the bytes of larger buffers kept while unused.
const KEPT: usize = 32 << 20;

/// A piece of aligned memory.
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    /// Its number among the registered.
    number: Option<u16>,
}

impl Aligned {
    fn new(length: usize, number: Option<u16>) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, number }
    }

    /// Returns the first `length` bytes.
    pub(crate) fn memory(&mut self, length: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + length]
    }

    /// Returns the number among the registered buffers, if the buffer is one.
    pub(crate) fn registered(&self) -> Option<u16> {
        self.number
    }

    fn room(&self) -> usize {
        self.memory.len() - ALIGNMENT
    }
}

/// Buffers that are used again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    started: bool,
    registered: Vec<Aligned>,
    larger: Vec<Aligned>,
    kept: usize,
}

impl Buffers {
    /// A buffer of at least `length` bytes.
    pub(crate) fn take(&mut self, length: usize, ring: &IoUring) -> Aligned {
        if !std::mem::replace(&mut self.started, true) {
            self.register(ring);
        }
        if length <= REGISTERED {
            if let Some(buffer) = self.registered.pop() {
                return buffer;
            }
        }
        let fitting = self.larger.iter().position(|buffer| buffer.room() >= length);
        match fitting {
            Some(index) => {
                let buffer = self.larger.swap_remove(index);
                self.kept -= buffer.room();
                buffer
            }
            None => Aligned::new(length.next_power_of_two().max(REGISTERED), None),
        }
    }

    /// Keeps a buffer for the next [`Buffers::take`].
    pub(crate) fn give(&mut self, buffer: Aligned) {
        if buffer.number.is_some() {
            self.registered.push(buffer);
        } else if self.kept + buffer.room() <= KEPT {
            self.kept += buffer.room();
            self.larger.push(buffer);
        }
    }

    /// Makes the buffers that are registered with the kernel. Where it refuses (a limit on locked
    /// memory), they are ordinary ones.
    fn register(&mut self, ring: &IoUring) {
        let mut buffers: Vec<_> =
            (0..COUNT as u16).map(|number| Aligned::new(REGISTERED, Some(number))).collect();
        let vectors: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| {
                let memory = buffer.memory(REGISTERED);
                libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() }
            })
            .collect();
        // SAFETY: the memory stays where it is for as long as the ring lives:
        // the buffers are never freed before their owner, who drops the ring
        // first or waits for all that it does.
        let known = unsafe { ring.submitter().register_buffers(&vectors) };
        if known.is_err() {
            buffers.iter_mut().for_each(|buffer| buffer.number = None);
            self.kept += buffers.iter().map(Aligned::room).sum::<usize>();
            self.larger = buffers;
        } else {
            self.registered = buffers;
        }
    }
}
