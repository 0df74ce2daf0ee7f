//! The read buffer: data that was read, and data that the head passes over next while the arm is
//! idle.

use stasis_block::clock::Nanos;

use super::geometry::Geometry;

#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

/// The read-ahead that is under way.
#[derive(Debug, Clone, Copy)]
struct Fill {
    segment: usize,
    // The byte that passed, or will pass, under the head at `since`.
    from: u64,
    since: Nanos,
    // Place at which it stops.
    until: u64,
}

/// The buffer's answer to a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// All of it is there.
    Ready,
    /// The last byte arrives at this time (ns) if the arm is left alone.
    Arrives(Nanos),
    /// The arm has to get it.
    Miss,
}

/// Segments of bytes that were read lately.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    segments: Vec<Segment>,
    // Distance ahead of the last read (bytes); 0 for no buffer.
    ahead: u64,
    fill: Option<Fill>,
    uses: u64,
}

impl ReadAhead {
    /// `segments` streams are kept, each with up to `ahead` bytes before and
    /// behind the last read.
    pub(crate) fn new(ahead: u64, segments: usize) -> Self {
        let segments = if ahead == 0 { 0 } else { segments };
        Self { segments: vec![Segment::default(); segments], ahead, fill: None, uses: 0 }
    }

    /// Empties the segments, and stops reading ahead.
    pub(crate) fn empty(&mut self) {
        self.segments.fill(Segment::default());
        self.fill = None;
    }

    fn reached(fill: &Fill, now: Nanos, geometry: &Geometry) -> u64 {
        let passed = geometry.bytes_in(fill.from, now.saturating_sub(fill.since));
        fill.from.saturating_add(passed).min(fill.until)
    }

    /// Looks for `start..end` at `now`. A hit keeps the read-ahead going;
    /// `arm` is the head's radius if the arm is idle.
    pub(crate) fn lookup(
        &mut self,
        now: Nanos,
        (start, end): (u64, u64),
        arm: Option<f64>,
        geometry: &Geometry,
    ) -> Lookup {
        if let Some(fill) = &mut self.fill {
            let reached = Self::reached(fill, now, geometry);
            let segment = &mut self.segments[fill.segment];
            segment.end = reached;
            let wanted = end.saturating_add(self.ahead).min(geometry.capacity());
            let running = reached < fill.until;
            // A read that begins where the head is, or behind it, is a stream.
            if segment.start <= start && start <= reached && (end <= reached || running) {
                self.uses += 1;
                segment.used = self.uses;
                segment.start = segment.start.max(start.saturating_sub(self.ahead));
                let arrives = fill.since.saturating_add(geometry.transfer(fill.from, end));
                if running {
                    fill.until = fill.until.max(wanted);
                } else if let (Some(head), true) = (arm, reached - end < self.ahead / 2) {
                    // The buffer was full; now the stream wants more.
                    fill.from = reached;
                    let arm = geometry.arm(now, head);
                    fill.since =
                        now.saturating_add(geometry.positioning(arm, &geometry.place(reached), 0));
                    fill.until = reached.max(wanted);
                }
                return if end <= reached {
                    Lookup::Ready
                } else {
                    Lookup::Arrives(arrives.max(now))
                };
            }
        }
        match self.segments.iter_mut().find(|s| s.start <= start && end <= s.end) {
            Some(segment) => {
                self.uses += 1;
                segment.used = self.uses;
                Lookup::Ready
            }
            None => Lookup::Miss,
        }
    }

    /// Ends the read-ahead, as the arm is needed elsewhere; returns the byte that the head has
    /// reached.
    pub(crate) fn stop(&mut self, now: Nanos, geometry: &Geometry) -> Option<u64> {
        let fill = self.fill.take()?;
        let reached = Self::reached(&fill, now, geometry);
        self.segments[fill.segment].end = reached;
        Some(reached)
    }

    /// The arm has read `start..end` at `now` and reads ahead from there.
    pub(crate) fn start(&mut self, now: Nanos, start: u64, end: u64, geometry: &Geometry) {
        let longest_unused = (0..self.segments.len()).min_by_key(|&i| self.segments[i].used);
        let Some(segment) = longest_unused else { return };
        self.uses += 1;
        let start = start.max(end.saturating_sub(self.ahead));
        self.segments[segment] = Segment { start, end, used: self.uses };
        let until = end.saturating_add(self.ahead).min(geometry.capacity());
        self.fill = Some(Fill { segment, from: end, since: now, until });
    }

    /// `start..end` changes: the buffer's copy of the range is no longer valid.
    pub(crate) fn invalidate(&mut self, start: u64, end: u64) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            let filling = self.fill.is_some_and(|fill| fill.segment == index);
            let until = match self.fill {
                Some(fill) if filling => fill.until,
                _ => segment.end,
            };
            if segment.start < end && start < until {
                *segment = Segment::default();
                if filling {
                    self.fill = None;
                }
            }
        }
    }
}
