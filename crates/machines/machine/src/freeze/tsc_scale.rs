//! The virtual clock's scale: TSC ticks as the guest counts them, and
//! nanoseconds.

use stasis_block::clock::Nanos;

/// Converts between ticks of the guest's TSC and nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    khz: u64,
    /// Ticks per nanosecond where that is a whole number: the quick way.
    whole: Option<u64>,
}

impl Scale {
    /// The scale of a TSC of `khz` kHz, at least 1.
    pub fn new(khz: u64) -> Self {
        let khz = khz.max(1);
        let whole = khz.is_multiple_of(1_000_000).then_some(khz / 1_000_000);
        Self { khz, whole }
    }

    /// The frequency (kHz).
    pub fn khz(&self) -> u64 {
        self.khz
    }

    /// Returns whether a nanosecond has a whole number of ticks.
    pub fn is_whole(self) -> bool {
        self.whole.is_some()
    }

    /// Nanoseconds that have wholly passed after `ticks`.
    pub fn to_ns(self, ticks: u64) -> Nanos {
        match self.whole {
            Some(per_ns) => ticks / per_ns,
            None => (u128::from(ticks) * 1_000_000 / u128::from(self.khz)) as u64,
        }
    }

    /// The first tick at which `ns` have passed.
    pub fn to_ticks(self, ns: Nanos) -> u64 {
        match self.whole {
            Some(per_ns) => ns.saturating_mul(per_ns),
            None => {
                let ticks = (u128::from(ns) * u128::from(self.khz)).div_ceil(1_000_000);
                u64::try_from(ticks).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Scale {
    /// Multiplier and shift that make nanoseconds of ticks which pass at `slope` (a fraction of
    /// 2^32) of their usual speed, as KVM's paravirtual clock has them:
    /// `(ticks << shift) * multiplier >> 32`, never too much.
    pub fn multiplier(self, slope: u64) -> (u32, u8) {
        let mut multiplier = u128::from(slope) * 1_000_000 / u128::from(self.khz);
        let mut shift = 0;
        // Below 1 GHz a tick is more than a nanosecond.
        while multiplier > u128::from(u32::MAX) {
            multiplier >>= 1;
            shift += 1;
        }
        (multiplier as u32, shift)
    }
}

/// The host's TSC.
#[inline]
pub fn host_tsc() -> u64 {
    // SAFETY: RDTSC exists on every 64-bit x86 processor and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_event_is_seen_at_its_own_nanosecond(ns in 0u64..1 << 50, khz in 1_000_000u64..8_000_000) {
            let scale = Scale::new(khz);
            prop_assert_eq!(scale.to_ns(scale.to_ticks(ns)), ns);
            let tick = scale.to_ticks(ns);
            prop_assert!(tick == 0 || scale.to_ns(tick - 1) < ns);
        }
    }
}
