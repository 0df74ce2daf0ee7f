//! The requests of a device that its drive holds.

use slab::Slab;

/// Limit on the number of requests in a drive at a time: 64 queues of 1024 entries.
const MAX_REQUESTS: usize = 64 << 10;

/// A request that a drive holds.
pub trait PendingRequest {
    /// Length in bytes of the data that it moves; 0 where it moves none.
    fn bytes(&self) -> usize;
}

/// All requests, by their tags: small numbers, used again.
#[derive(Debug)]
pub struct Requests<R> {
    slots: Slab<R>,
    bytes: usize,
}

impl<R> Default for Requests<R> {
    fn default() -> Self {
        Self { slots: Slab::new(), bytes: 0 }
    }
}

impl<R: PendingRequest> Requests<R> {
    /// Requests in flight.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of data of the requests in flight.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether `more` requests can be put in.
    pub fn has_room(&self, more: usize) -> bool {
        self.len() + more <= MAX_REQUESTS
    }

    /// Puts a request in, and gives its tag.
    pub fn insert(&mut self, request: R) -> u32 {
        self.bytes += request.bytes();
        self.slots.insert(request) as u32
    }

    /// Takes out the request with this tag, if there is one.
    pub fn remove(&mut self, tag: u32) -> Option<R> {
        let request = self.slots.try_remove(tag as usize)?;
        self.bytes -= request.bytes();
        Some(request)
    }

    /// The request of a tag, if it is in flight.
    pub fn get(&self, tag: u32) -> Option<&R> {
        self.slots.get(tag as usize)
    }

    /// The requests in flight, in the order of their tags.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.slots.iter().map(|(_, request)| request)
    }

    /// Like [`Self::iter`], but mutable, except for the length of their data.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.slots.iter_mut().map(|(_, request)| request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PendingRequest for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    #[test]
    fn tags_are_used_again_and_bytes_are_counted() {
        let mut requests = Requests::default();
        let tags = [10usize, 20, 30].map(|bytes| requests.insert(bytes));
        assert_eq!((tags, requests.len(), requests.bytes()), ([0, 1, 2], 3, 60));
        assert_eq!(
            (requests.remove(1), requests.remove(1), requests.remove(9)),
            (Some(20), None, None)
        );
        assert_eq!(requests.iter().sum::<usize>(), 40);
        assert_eq!((requests.insert(5), requests.bytes()), (1, 45));
        assert!(requests.has_room(MAX_REQUESTS - 3) && !requests.has_room(MAX_REQUESTS - 2));
    }
}
