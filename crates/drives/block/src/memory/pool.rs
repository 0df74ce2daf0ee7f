//! Buffers that are used again, so that an I/O allocates nothing.

use super::Segment;

/// Smallest class of data buffers: 512 bytes.
const MIN_SHIFT: u32 = 9;
/// Classes of data buffers, each twice as large as the one before: the last holds 4 MiB. A larger
/// buffer is not kept.
const CLASSES: usize = 14;
/// Limit on the bytes of data buffers kept while unused.
const KEPT_BYTES: usize = 64 << 20;
/// Limit on the number of segments kept while unused, 16 bytes each.
const KEPT_SEGMENTS: usize = 1 << 20;

/// Unused data buffers by size, and unused lists of segments.
#[derive(Debug, Default)]
pub struct Pool {
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
    lists: Vec<Vec<Segment>>,
    segments: usize,
}

impl Pool {
    /// A buffer of `length` zeroes.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        let class = class_for(length);
        let mut buffer = match self.classes.get_mut(class).and_then(Vec::pop) {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(length.max(1 << (class as u32 + MIN_SHIFT))),
        };
        buffer.clear();
        buffer.resize(length, 0);
        buffer
    }

    /// Keeps `buffer` for the next [`Pool::take`].
    pub fn give(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity < 1 << MIN_SHIFT || self.bytes + capacity > KEPT_BYTES {
            return;
        }
        // The class whose every length fits, for a buffer of any allocator.
        let class = (capacity.ilog2() - MIN_SHIFT) as usize;
        if let Some(class) = self.classes.get_mut(class) {
            self.bytes += capacity;
            class.push(buffer);
        }
    }

    /// An empty list of segments.
    pub fn take_segments(&mut self) -> Vec<Segment> {
        let list = self.lists.pop().unwrap_or_default();
        self.segments -= list.capacity();
        list
    }

    /// Keeps `list` for the next [`Pool::take_segments`].
    pub fn give_segments(&mut self, mut list: Vec<Segment>) {
        if list.capacity() == 0 || self.segments + list.capacity() > KEPT_SEGMENTS {
            return;
        }
        list.clear();
        self.segments += list.capacity();
        self.lists.push(list);
    }
}

fn class_for(length: usize) -> usize {
    (length.next_power_of_two().ilog2().max(MIN_SHIFT) - MIN_SHIFT) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_zeroed_and_without_allocation() {
        let mut pool = Pool::default();
        for length in [512, 4096, 5000, 8192, 1 << 20, 2 << 20, 4 << 20] {
            let mut buffer = pool.take(length);
            assert_eq!(buffer.len(), length);
            buffer.fill(0xff);
            let address = buffer.as_ptr();
            pool.give(buffer);
            let again = pool.take(length);
            assert_eq!(again.as_ptr(), address);
            assert!(again.iter().all(|&byte| byte == 0));
            pool.give(again);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = Pool::default();
        for _ in 0..100 {
            pool.give(vec![0; 2 << 20]);
            pool.give_segments(Vec::with_capacity(1 << 16));
        }
        assert!(pool.bytes <= KEPT_BYTES && pool.bytes > KEPT_BYTES / 2);
        assert!(pool.segments <= KEPT_SEGMENTS && pool.segments > KEPT_SEGMENTS / 2);
        // A stranger's buffer of an odd size never serves a larger length.
        pool.give(Vec::with_capacity(1000));
        assert!(pool.take(600).capacity() >= 1024);
    }
}
