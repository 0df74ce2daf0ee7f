//! The moments of a run without faults at which a fault is likely to matter: flushes, and what
//! clients were told. Faults that begin there find in tens of runs what faults at random times find in
//! thousands, because the windows in which a mistake shows are short.

use stasis_block::clock::Nanos;
use stasis_block::Operation;
use stasis_results::{KeptIos, ResultsError};

/// Limit on the moments of each kind that are kept; of more, every second one is, and so on.
const MAX_MOMENTS: usize = 1 << 14;

/// A part of a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Up to the first operation that was acknowledged.
    Start,
    /// From there to the last one.
    Work,
    /// From there to the end.
    End,
}

impl Phase {
    /// All of them, the most telling first.
    pub const ALL: [Self; 3] = [Self::Work, Self::Start, Self::End];

    /// Returns the phase's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "before the first acknowledgement",
            Self::Work => "while operations are acknowledged",
            Self::End => "after the last acknowledgement",
        }
    }
}

/// A flush or a durable write. Times count from the commands' start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flush {
    /// The drive's name.
    pub drive: String,
    /// Its number among the drive's commands.
    pub order: u64,
    /// Time at which the drive was given it (ns).
    pub begin: Nanos,
    /// Time at which the guest could see it complete (ns).
    pub end: Nanos,
}

/// The moments of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moments {
    /// Flushes and durable writes since the commands' start, in the order of their ends.
    pub flushes: Vec<Flush>,
    /// Times at which an operation was acknowledged (ns), rising.
    pub acknowledged: Vec<Nanos>,
    /// Length of the run from the commands' start on (ns).
    pub end: Nanos,
}

impl Moments {
    /// The moments of a run whose commands began `begin` after the machines' start and lasted `end`;
    /// `acknowledged`: times since the machines' start.
    ///
    /// # Errors
    /// If the I/Os cannot be read.
    pub fn read(
        ios: &mut KeptIos,
        acknowledged: &[Nanos],
        (begin, end): (Nanos, Nanos),
    ) -> Result<Self, ResultsError> {
        let mut flushes = Thinned::default();
        while let Some(io) = ios.next().transpose()? {
            let flushes_cache = io.operation == Operation::Flush || io.fua;
            if !flushes_cache || io.submit < begin || io.failed() {
                continue;
            }
            let drive = ios.drives().get(usize::from(io.drive)).cloned().unwrap_or_default();
            let [from, to] = [io.submit, io.delivered].map(|at| at - begin);
            flushes.push(Flush { drive, order: io.order, begin: from, end: to });
        }
        let mut own = Thinned::default();
        acknowledged.iter().filter_map(|at| at.checked_sub(begin)).for_each(|at| own.push(at));
        Ok(Self { flushes: flushes.kept, acknowledged: own.kept, end })
    }

    /// Beginning and end of a phase (ns); none where it has no length.
    pub fn span(&self, phase: Phase) -> Option<(Nanos, Nanos)> {
        let first = self.acknowledged.first().copied();
        let last = self.acknowledged.last().copied();
        let span = match (phase, first, last) {
            (Phase::Start, Some(first), _) => (0, first),
            (Phase::Work, Some(first), Some(last)) => (first, last),
            (Phase::End, _, Some(last)) => (last, self.end),
            // A run that acknowledges nothing works all the time.
            (Phase::Work, ..) => (0, self.end),
            _ => return None,
        };
        (span.1 > span.0).then_some(span)
    }

    /// The phase of a time after the commands' start (ns).
    pub fn phase(&self, at: Nanos) -> Phase {
        match (self.acknowledged.first(), self.acknowledged.last()) {
            (Some(first), _) if at < *first => Phase::Start,
            (_, Some(last)) if at > *last => Phase::End,
            _ => Phase::Work,
        }
    }
}

/// Items of which every second, fourth and so on is kept.
struct Thinned<T> {
    kept: Vec<T>,
    step: usize,
    count: usize,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), step: 1, count: 0 }
    }
}

impl<T> Thinned<T> {
    fn push(&mut self, item: T) {
        if self.count.is_multiple_of(self.step) {
            self.kept.push(item);
        }
        self.count += 1;
        if self.kept.len() > MAX_MOMENTS {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.step *= 2;
        }
    }
}
