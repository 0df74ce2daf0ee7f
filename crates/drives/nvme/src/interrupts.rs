//! Which interrupt vectors are to be signalled, and when (NVMe 1.4 section 7.5).

use stasis_block::clock::Nanos;

use crate::narrow::bits;

/// Unit of the aggregation time: 100 us (NVMe 1.4 section 5.21.1.8).
const AGGREGATION_UNIT: Nanos = 100_000;

#[derive(Debug, Clone, Default)]
struct Vector {
    /// Completions held back.
    held: u32,
    /// Time at which they are signalled at the latest.
    deadline: Option<Nanos>,
    /// The Interrupt Vector Configuration feature's Coalescing Disable.
    coalescing_disabled: bool,
}

/// The interrupt vectors of a controller.
#[derive(Debug)]
pub struct Interrupts {
    vectors: Vec<Vector>,
    /// One bit for each vector to signal.
    pending: u128,
    /// One bit for each vector with a deadline.
    held: u128,
    /// True if the carrier keeps deadlines.
    can_hold: bool,
    threshold: u32,
    time: Nanos,
}

impl Interrupts {
    /// `count` is at most 65. `can_hold`: whether coalescing takes effect.
    pub fn new(count: u16, can_hold: bool) -> Self {
        let vectors = vec![Vector::default(); count.into()];
        Self { vectors, pending: 0, held: 0, can_hold, threshold: 0, time: 0 }
    }

    /// Forgets everything, as a reset does.
    pub fn reset(&mut self) {
        self.vectors.fill(Vector::default());
        (self.pending, self.held) = (0, 0);
        (self.threshold, self.time) = (0, 0);
    }

    /// The Interrupt Coalescing feature: threshold (0's based) in bits 7:0,
    /// time in bits 15:8; time 0 is no delay.
    pub fn set_coalescing(&mut self, value: u32) {
        self.threshold = (value & 0xff) + 1;
        self.time = Nanos::from(value >> 8 & 0xff) * AGGREGATION_UNIT;
        self.release(Nanos::MAX);
    }

    /// Returns whether coalescing is off for `vector`; `None` if the vector does not exist.
    pub fn coalescing_disabled(&self, vector: u16) -> Option<bool> {
        self.vectors.get(usize::from(vector)).map(|vector| vector.coalescing_disabled)
    }

    /// Turns coalescing off or on for `vector`.
    pub fn disable_coalescing(&mut self, vector: u16, disabled: bool) {
        if let Some(vector) = self.vectors.get_mut(usize::from(vector)) {
            vector.coalescing_disabled = disabled;
        }
        self.release(Nanos::MAX);
    }

    /// A completion was posted at `now` to a queue of `vector`. Coalescing
    /// concerns I/O queues only.
    pub fn completion(&mut self, vector: u16, io: bool, now: Nanos) {
        let index = usize::from(vector);
        let Some(vector) = self.vectors.get_mut(index) else { return };
        let holds = self.can_hold && io && self.time > 0 && !vector.coalescing_disabled;
        vector.held += 1;
        if holds && vector.held < self.threshold {
            vector.deadline.get_or_insert(now.saturating_add(self.time));
            self.held |= 1 << index;
            return;
        }
        self.signal(index);
    }

    /// Signals the interrupts that may be held back no later than `now`.
    pub fn release(&mut self, now: Nanos) {
        let mut held = self.held;
        while held != 0 {
            let index = held.trailing_zeros() as usize;
            held &= held - 1;
            if self.vectors[index].deadline.is_some_and(|deadline| deadline <= now) {
                self.signal(index);
            }
        }
    }

    fn signal(&mut self, index: usize) {
        let vector = &mut self.vectors[index];
        (vector.held, vector.deadline) = (0, None);
        self.pending |= 1 << index;
        self.held &= !(1 << index);
    }

    /// Returns the time at which [`Interrupts::release`] is to be called next.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.held == 0 {
            return None;
        }
        self.vectors.iter().filter_map(|vector| vector.deadline).min()
    }

    /// The lowest vector to signal.
    pub fn pop(&mut self) -> Option<u16> {
        if self.pending == 0 {
            return None;
        }
        let index = self.pending.trailing_zeros();
        self.pending &= self.pending - 1;
        Some(bits(index).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalescing_waits_for_the_threshold_or_the_time() {
        let mut interrupts = Interrupts::new(3, true);
        // 3 completions or 200 us.
        interrupts.set_coalescing(2 << 8 | 2);
        interrupts.completion(0, false, 0);
        assert_eq!(interrupts.pop(), Some(0), "the admin queue never waits");
        interrupts.completion(1, true, 5);
        interrupts.completion(1, true, 6);
        assert_eq!(interrupts.pop(), None);
        assert_eq!(interrupts.next_deadline(), Some(200_005));
        interrupts.completion(1, true, 7);
        assert_eq!(interrupts.pop(), Some(1));
        assert_eq!(interrupts.next_deadline(), None);
        interrupts.completion(2, true, 100);
        interrupts.release(200_099);
        assert_eq!(interrupts.pop(), None);
        interrupts.release(200_100);
        assert_eq!(interrupts.pop(), Some(2));
        interrupts.completion(2, true, 300_000);
        interrupts.disable_coalescing(2, true);
        assert_eq!(interrupts.pop(), Some(2), "what was held is not forgotten");
        interrupts.completion(2, true, 300_001);
        assert_eq!(interrupts.pop(), Some(2));
    }

    #[test]
    fn without_a_carrier_that_keeps_deadlines_nothing_waits() {
        let mut interrupts = Interrupts::new(2, false);
        interrupts.set_coalescing(0xffff);
        interrupts.completion(1, true, 0);
        assert_eq!((interrupts.pop(), interrupts.pop()), (Some(1), None));
    }
}
