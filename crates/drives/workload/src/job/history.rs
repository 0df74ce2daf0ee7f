//! Writes of a thread that are read again (`verify`; fio's iolog.c: `log_io_piece`, verify.c:
//! `get_next_verify`).

use std::collections::{BTreeMap, VecDeque};

/// An I/O's first byte and its length.
type Extent = (u64, u64);

/// Writes that are still to be read again.
#[derive(Debug, Clone)]
pub struct History {
    order: Order,
    /// Writes in flight.
    flying: Vec<Extent>,
}

#[derive(Debug, Clone)]
enum Order {
    /// As they were written.
    Time(VecDeque<Extent>),
    /// By their place; a write replaces those that it overlaps.
    Place(BTreeMap<u64, u64>),
}

impl History {
    /// Limit on the writes that are remembered: some GiB of memory.
    pub const MAX_WRITES: u64 = 1 << 27;

    /// Creates an empty history. With a random map, whose blocks are written once, the order is
    /// that of the writes, and otherwise that of their places.
    pub fn new(has_map: bool) -> Self {
        let order = match has_map {
            true => Order::Time(VecDeque::new()),
            false => Order::Place(BTreeMap::new()),
        };
        Self { order, flying: Vec::new() }
    }

    /// Number of writes to read again.
    pub fn len(&self) -> u64 {
        match &self.order {
            Order::Time(list) => list.len() as u64,
            Order::Place(map) => map.len() as u64,
        }
    }

    /// A write is prepared.
    pub fn write(&mut self, offset: u64, length: u64) {
        self.flying.push((offset, length));
        self.add(offset, length);
    }

    /// A write that is only supposed.
    pub fn add(&mut self, offset: u64, length: u64) {
        match &mut self.order {
            Order::Time(list) => list.push_back((offset, length)),
            Order::Place(map) => {
                let end = offset.saturating_add(length);
                while let Some((&place, &length)) = map.range(..end).next_back() {
                    if place.saturating_add(length) <= offset {
                        break;
                    }
                    map.remove(&place);
                }
                map.insert(offset, length);
            }
        }
    }

    /// A write has completed.
    pub fn complete(&mut self, offset: u64, length: u64) {
        if let Some(place) = self.flying.iter().position(|&flying| flying == (offset, length)) {
            self.flying.swap_remove(place);
        }
    }

    /// The next to read; `None` where there is none, or where it is in flight.
    pub fn next(&mut self) -> Option<Extent> {
        let first = match &self.order {
            Order::Time(list) => *list.front()?,
            Order::Place(map) => {
                map.first_key_value().map(|(&offset, &length)| (offset, length))?
            }
        };
        if self.flying.contains(&first) {
            return None;
        }
        match &mut self.order {
            Order::Time(list) => list.pop_front(),
            Order::Place(map) => map.pop_first(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(history: &mut History) -> Vec<Extent> {
        std::iter::from_fn(|| history.next()).collect()
    }

    #[test]
    fn the_order_is_of_time_or_of_place() {
        let writes = [(8, 4), (0, 4), (8, 4), (6, 4)];
        let (mut time, mut place) = (History::new(true), History::new(false));
        for (offset, length) in writes {
            time.add(offset, length);
            place.add(offset, length);
        }
        assert_eq!((time.len(), place.len()), (4, 2));
        assert_eq!(all(&mut time), writes);
        assert_eq!(all(&mut place), [(0, 4), (6, 4)]);
    }

    #[test]
    fn a_write_in_flight_is_not_read() {
        let mut history = History::new(true);
        history.write(0, 4);
        history.write(4, 4);
        history.complete(4, 4);
        assert_eq!(history.next(), None);
        history.complete(0, 4);
        assert_eq!(all(&mut history), [(0, 4), (4, 4)]);
    }
}
