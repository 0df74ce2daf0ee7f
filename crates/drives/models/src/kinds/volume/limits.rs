//! Limits of a volume, and the buckets that keep them.

use stasis_block::{Rate, TokenBucket};

/// A rate, and a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// Units a second.
    rate: u64,
    /// A higher rate, and the units that the bucket of credits for it holds.
    burst: Option<(u64, u64)>,
}

impl Limit {
    /// A limit with the burst that is higher than its rate, if it is.
    pub(super) fn new(rate: u64, burst: Option<u64>, credits: impl FnOnce(u64) -> u64) -> Self {
        let rate = rate.max(1);
        let burst = burst.filter(|burst| *burst > rate);
        Self { rate, burst: burst.map(|burst| (burst, credits(burst - rate))) }
    }

    pub(super) fn highest(&self) -> Rate {
        Rate::per_second(self.burst.map_or(self.rate, |(burst, _)| burst))
    }

    pub(super) fn buckets(self) -> [Option<TokenBucket>; 2] {
        match self.burst {
            None => [Some(TokenBucket::new(self.rate, 0)), None],
            Some((burst, credits)) => {
                let own = TokenBucket::holding(self.rate, credits);
                [Some(own), Some(TokenBucket::new(burst, 0))]
            }
        }
    }
}

/// Limits of a volume; `None`: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) ios: Option<Limit>,
    pub(super) bytes: Option<Limit>,
}
