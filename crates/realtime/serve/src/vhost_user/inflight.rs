//! The buffer in which the requests under way outlive the server (vhost-user
//! specification, "Inflight I/O tracking", split virtqueues): it belongs to the
//! client, which gives it to the next server.
//!
//! A crash can fall between any two of these stores; the order of them is that
//! of the specification, so that the next server sees a request either as under
//! way or as given back.

use std::fs::File;
use std::sync::atomic::{compiler_fence, Ordering};
use std::sync::Arc;

use stasis_virtio::Track;

use crate::vhost_user::mapping::Mapping;
use crate::ServeError;

/// Bytes before a queue's descriptors: features, version, number of
/// descriptors, last batch, used index.
const HEADER: usize = 16;
/// Bytes for each descriptor: whether it is under way, the next of its batch,
/// its place in the order.
const DESCRIPTOR: usize = 16;
/// A queue's part begins on a cache line.
const ALIGNMENT: usize = 64;

const VERSION: usize = 8;
const DESCRIPTORS: usize = 10;
const LAST_BATCH: usize = 12;
const USED: usize = 14;
const NEXT: usize = 6;
const COUNTER: usize = 8;

/// Bytes that a queue of `size` entries needs.
fn queue_bytes(size: u16) -> usize {
    (HEADER + DESCRIPTOR * usize::from(size)).next_multiple_of(ALIGNMENT)
}

/// Bytes that `queues` queues of `size` entries need.
pub fn bytes(queues: u16, size: u16) -> u64 {
    queue_bytes(size) as u64 * u64::from(queues)
}

/// Makes an empty buffer.
///
/// # Errors
/// If there is no memory for it.
pub fn create(queues: u16, size: u16) -> Result<File, ServeError> {
    let failed = |source| ServeError::Inflight { source };
    let memory = rustix::fs::memfd_create("stasis-inflight", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| failed(error.into()))?;
    let file = File::from(memory);
    file.set_len(bytes(queues, size)).map_err(failed)?;
    Ok(file)
}

/// The buffer of all queues.
#[derive(Debug, Clone)]
pub struct Inflight {
    mapping: Arc<Mapping>,
    queues: u16,
    size: u16,
}

impl Inflight {
    /// Maps a buffer that a client has.
    ///
    /// # Errors
    /// The buffer is too small for its queues, or cannot be mapped.
    pub fn map(file: &File, offset: u64, queues: u16, size: u16) -> Result<Self, ServeError> {
        let mapping = Mapping::new(file, offset, bytes(queues, size))
            .map_err(|source| ServeError::Inflight { source })?;
        Ok(Self { mapping: Arc::new(mapping), queues, size })
    }

    /// Returns whether the client has made the buffer smaller than it was.
    pub fn is_broken(&self) -> bool {
        self.mapping.is_broken()
    }

    /// State of a queue of `size` entries, whose used ring's index is `used`: the requests under
    /// way, in their order, and the log of later ones. `None` if the buffer has no room for the
    /// queue.
    pub fn queue(&self, queue: u16, size: u16, used: u16) -> Option<(Vec<u16>, QueueLog)> {
        if queue >= self.queues || size > self.size {
            return None;
        }
        let start = queue_bytes(self.size) * usize::from(queue);
        let mut log = QueueLog { mapping: self.mapping.clone(), start, size, counter: 0 };
        if log.get(VERSION) == 0 {
            // A new buffer.
            log.set(VERSION, 1);
            log.set(DESCRIPTORS, size);
            log.set(USED, used);
            return Some((Vec::new(), log));
        }
        // Given back but not yet noted: the last batch.
        let mut batch = used.wrapping_sub(log.get(USED)).min(size);
        let mut head = log.get(LAST_BATCH);
        while batch > 0 && head < size {
            log.mark(head, false);
            head = log.get(log.place(head) + NEXT);
            batch -= 1;
        }
        log.set(USED, used);
        let mut under_way: Vec<_> = (0..size)
            .filter(|&head| log.is_marked(head))
            .map(|head| (log.order(head), head))
            .collect();
        under_way.sort_unstable();
        log.counter = under_way.last().map_or(0, |(order, _)| order.wrapping_add(1));
        Some((under_way.into_iter().map(|(_, head)| head).collect(), log))
    }
}

/// A queue's part of the buffer.
#[derive(Debug)]
pub struct QueueLog {
    mapping: Arc<Mapping>,
    start: usize,
    size: u16,
    counter: u64,
}

impl QueueLog {
    fn get(&self, at: usize) -> u16 {
        self.mapping.word(self.start + at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn set(&self, at: usize, value: u16) {
        if let Some(word) = self.mapping.word(self.start + at) {
            word.store(value, Ordering::Release);
        }
    }

    fn place(&self, head: u16) -> usize {
        HEADER + DESCRIPTOR * usize::from(head)
    }

    fn mark(&self, head: u16, under_way: bool) {
        self.mapping.write(self.start + self.place(head), &[u8::from(under_way)]);
    }

    fn is_marked(&self, head: u16) -> bool {
        let mut byte = [0];
        self.mapping.read(self.start + self.place(head), &mut byte) && byte[0] == 1
    }

    fn order(&self, head: u16) -> u64 {
        let mut raw = [0; 8];
        self.mapping.read(self.start + self.place(head) + COUNTER, &mut raw);
        u64::from_ne_bytes(raw)
    }
}

impl Track for QueueLog {
    fn taken(&mut self, head: u16) {
        if head >= self.size {
            return;
        }
        let counter = self.counter.to_ne_bytes();
        self.mapping.write(self.start + self.place(head) + COUNTER, &counter);
        self.counter = self.counter.wrapping_add(1);
        compiler_fence(Ordering::SeqCst);
        self.mark(head, true);
        compiler_fence(Ordering::SeqCst);
    }

    fn giving(&mut self, head: u16) {
        if head < self.size {
            self.set(self.place(head) + NEXT, self.get(LAST_BATCH));
            self.set(LAST_BATCH, head);
            compiler_fence(Ordering::SeqCst);
        }
    }

    fn given(&mut self, head: u16, used: u16) {
        if head < self.size {
            compiler_fence(Ordering::SeqCst);
            self.mark(head, false);
            compiler_fence(Ordering::SeqCst);
        }
        self.set(USED, used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buffer() -> Inflight {
        Inflight::map(&create(2, 16).unwrap(), 0, 2, 16).unwrap()
    }

    proptest! {
        /// Against a plain list: requests taken and not given back are found again in their order,
        /// wherever the server stopped.
        #[test]
        fn what_is_under_way_is_found_again(
            steps in prop::collection::vec((any::<bool>(), any::<u16>()), 0..100),
            stop in 0..3u8,
        ) {
            let buffer = buffer();
            let (heads, mut log) = buffer.queue(1, 16, 100).unwrap();
            prop_assert!(heads.is_empty());
            let (mut under_way, mut used) = (Vec::<u16>::new(), 100u16);
            for (take, pick) in steps {
                let head = pick % 16;
                if take && !under_way.contains(&head) {
                    log.taken(head);
                    under_way.push(head);
                } else if !under_way.is_empty() {
                    let head = under_way.remove(usize::from(pick) % under_way.len());
                    used = used.wrapping_add(1);
                    log.giving(head);
                    log.given(head, used);
                }
            }
            // Killed in the middle of giving one back: before the driver sees
            // it, after that, and after it was noted in part.
            if let Some(&head) = under_way.last() {
                log.giving(head);
                if stop > 0 {
                    used = used.wrapping_add(1);
                    under_way.pop();
                }
                if stop > 1 {
                    log.mark(head, false);
                }
            }
            drop(log);
            let (heads, mut log) = buffer.queue(1, 16, used).unwrap();
            prop_assert_eq!(&heads, &under_way);
            // Requests taken from then on come after.
            if let Some(free) = (0..16).find(|head| !under_way.contains(head)) {
                log.taken(free);
                under_way.push(free);
                prop_assert_eq!(buffer.queue(1, 16, used).unwrap().0, under_way);
            }
            prop_assert!(buffer.queue(0, 16, 0).unwrap().0.is_empty());
        }

        /// A client may write anything into it.
        #[test]
        fn no_contents_do_harm(bytes in prop::collection::vec(any::<u8>(), 544), used: u16) {
            let file = create(2, 16).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
            let buffer = Inflight::map(&file, 0, 2, 16).unwrap();
            for queue in 0..3 {
                if let Some((heads, mut log)) = buffer.queue(queue, 16, used) {
                    prop_assert!(heads.len() <= 16 && heads.iter().all(|&head| head < 16));
                    log.taken(200);
                    log.giving(3);
                    log.given(3, 1);
                }
            }
            prop_assert!(buffer.queue(0, 17, used).is_none());
        }
    }
}
