//! The guest's clock where a machine has several processors: KVM's
//! paravirtual clock, whose pages are this program's to write.
//!
//! The processors run in turn on the host and at once in virtual time, so each has its own place on
//! the timeline, its *local time*, at most a quantum from the others'. Each one's TSC is its local
//! time. CLOCK_MONOTONIC in the guest must be one clock for all of them that never goes back,
//! whichever of them runs. It is the mean of the local times of those that are busy: while one of k
//! busy processors runs, it runs at 1/k of that one's speed. Where the mean falls behind what was
//! read before (a processor that was ahead of it became idle), the clock goes slower until the mean
//! has caught up.
//!
//! Where a processor's TSC is known to the tick (`exact`) that is all. Under KVM the cost of an
//! entry and of an exit is an estimate, so the guest can read its TSC a little before the slice's
//! calculated beginning and after its calculated end. There the line begins at the earliest tick
//! that can be read and ends at the latest, which are known for certain
//! (`Clock::unsure_entry`, `Clock::unsure_exit`).
//!
//! Where several processors run at once, no line can hold for all: each shows its own local time,
//! and the guest is informed ([`FEATURES_OWN`], no `TSC_STABLE`). Linux then keeps the last value
//! over all processors, and reads the clock in the kernel only (`pvclock_clocksource_read` in
//! arch/x86/kernel/pvclock.c, `kvm_setup_vsyscall_timeinfo` in arch/x86/kernel/kvmclock.c).
//!
//! Pure: local times in, pages out. Layout of the pages and meaning of the
//! registers: Linux, Documentation/virt/kvm/x86/msr.rst (MSR_KVM_WALL_CLOCK_NEW,
//! MSR_KVM_SYSTEM_TIME_NEW) and cpuid.rst.

use std::ops::RangeInclusive;

use crate::freeze::Scale;

/// MSR that holds where the wall-clock time of the clock's zero is to be written.
pub const WALL_CLOCK: u32 = 0x4b56_4d00;
/// MSR that holds where a processor's page is.
pub const SYSTEM_TIME: u32 = 0x4b56_4d01;
/// Both.
pub const MSRS: RangeInclusive<u32> = WALL_CLOCK..=SYSTEM_TIME;
/// Bit of CPUID leaf 0x4000_0001, EAX: the clock at these MSRs, each processor's own.
const FEATURES_OWN: u32 = 1 << 3;
/// It, and that it is one clock for all processors (KVM_FEATURE_CLOCKSOURCE_STABLE_BIT).
const FEATURES_ONE: u32 = FEATURES_OWN | 1 << 24;

/// Length of a page's used part.
pub const LENGTH: usize = 32;
const TSC_STABLE: u8 = 1;
/// The length of the wall clock's structure.
pub const WALL_LENGTH: usize = 12;

/// Places on the clock are ticks with so many binary digits after the point.
const FRACTION: u32 = 32;
const ONE: u128 = 1 << FRACTION;

/// The clock that a guest reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// The mean of its busy processors' times, which never goes back: where they run
    /// in turn on the host.
    Mean,
    /// The reading processor's own time: where several run at once on the host. The guest keeps
    /// the last value over all of them, so its clock stands still where one is behind.
    Own,
}

impl Reads {
    /// The bits of CPUID leaf 0x4000_0001, EAX, that announce the clock to a guest.
    pub fn features(self) -> u32 {
        match self {
            Self::Mean => FEATURES_ONE,
            Self::Own => FEATURES_OWN,
        }
    }

    fn flags(self) -> u8 {
        match self {
            Self::Mean => TSC_STABLE,
            Self::Own => 0,
        }
    }
}

/// A machine's clock.
#[derive(Debug)]
pub struct PvClock {
    reads: Reads,
    /// Address of each processor's page (guest-physical), if the guest has set it.
    pages: Vec<Option<u64>>,
    version: u32,
    /// The present reading: ticks, with a fraction.
    reading: u128,
    /// Its advance for each tick of the running processor, as a fraction.
    slope: u64,
    /// The contents of the pages in the present slice.
    shown: Shown,
    /// By how many ticks before its calculated beginning the present slice can read the TSC.
    before: u64,
    /// Distance by which it was ahead of the mean when the present slice began (ticks).
    lead: u64,
}

/// The line on which a guest reads the time: `ns` at the slice's beginning.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    ns: u64,
    /// By how many ticks the line begins earlier: where what it costs to enter
    /// guest mode is not known to the tick, the TSC can be a little behind.
    margin: u64,
    multiplier: u32,
    shift: u8,
}

impl Shown {
    /// Nanoseconds that a guest makes of `ticks`.
    fn scaled(&self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks) << self.shift;
        ((ticks * u128::from(self.multiplier)) >> 32) as u64
    }

    fn at_margin(&self) -> u64 {
        self.ns.saturating_sub(self.scaled(self.margin))
    }

    /// The reading `ticks` after the beginning.
    fn after(&self, ticks: u64) -> u64 {
        self.at_margin() + self.scaled(self.margin + ticks)
    }
}

/// The greatest [`Shown::margin`]: far more than an entry's cost can be off.
const MARGIN: u64 = 1 << 20;

/// Local times of a machine's busy processors (ticks).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Busy {
    /// Number of blocks.
    pub count: u32,
    /// Their sum.
    pub sum: u128,
}

impl Busy {
    /// Returns their number, at least one, and the mean of their times.
    pub fn mean(&self) -> (u64, u64) {
        let count = u64::from(self.count.max(1));
        (count, (self.sum / u128::from(count)) as u64)
    }
}

impl PvClock {
    /// The clock of `processors` processors, at zero.
    pub fn new(processors: usize, reads: Reads) -> Self {
        Self {
            reads,
            pages: vec![None; processors],
            version: 0,
            reading: 0,
            slope: 0,
            shown: Shown::default(),
            before: 0,
            lead: 0,
        }
    }

    /// The clock that a guest reads.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Returns whether the guest reads one clock for all its processors.
    pub fn is_used(&self) -> bool {
        self.reads == Reads::Mean && self.pages.iter().any(Option::is_some)
    }

    /// Processor `index` writes [`SYSTEM_TIME`]. Returns the address and the bytes to write at
    /// once.
    pub fn set_page(
        &mut self,
        index: usize,
        value: u64,
        scale: Scale,
    ) -> Option<(u64, [u8; LENGTH])> {
        self.pages[index] = (value & 1 != 0).then_some(value & !3);
        let address = self.pages[index].filter(|_| self.reads == Reads::Own)?;
        let (multiplier, shift) = scale.multiplier(ONE as u64);
        let shown = Shown { multiplier, shift, ..Shown::default() };
        Some((address, page(2, 0, shown, self.reads.flags())))
    }

    /// Returns the distance by which it was ahead of the mean of the busy processors' times when
    /// the present slice began (ticks).
    pub fn lead(&self) -> u64 {
        self.lead
    }

    /// The present reading (ticks).
    pub fn now(&self) -> u64 {
        (self.reading >> FRACTION) as u64
    }

    /// The next reading, with these processors busy (ticks).
    pub fn with(&self, busy: Busy) -> u64 {
        self.now().max(busy.mean().1)
    }

    /// Sets the clock back, when the machine rewinds.
    pub fn rewind(&mut self, to: u64) {
        self.reading = self.reading.min(u128::from(to) << FRACTION);
        self.shown = Shown::default();
    }

    /// Begins a slice of a processor which does not run for more than `ticks`, and which reads no
    /// TSC more than `before` ticks before; `busy` includes it.
    pub fn begin(&mut self, ticks: u64, before: u64, busy: Busy) {
        let count = u128::from(busy.count.max(1));
        let mean = (busy.sum << FRACTION) / count;
        self.before = before;
        self.lead = (self.reading.saturating_sub(mean) >> FRACTION) as u64;
        self.reading = self.reading.max(mean);
        // Place of the mean if the slice goes to its end.
        let end = mean + (u128::from(ticks) << FRACTION) / count;
        let way = end.saturating_sub(self.reading);
        let ticks = u128::from(ticks) + u128::from(before);
        self.slope = (way / ticks.max(1)).min(ONE) as u64;
    }

    /// The slice has ended after `ticks`, or before: nothing later was read.
    pub fn end(&mut self, ticks: u64) {
        let ticks = ticks.saturating_add(self.before);
        self.reading += u128::from(ticks) * u128::from(self.slope);
        // The page's reading is rounded separately: it does not go back for that.
        self.shown = Shown { ns: self.shown.after(ticks), ..Shown::default() };
    }

    /// The pages that processor `index`, whose TSC is `tsc`, can read during the
    /// slice that has begun: its own (the kernel's), and the first (the
    /// vDSO's). Each address with what is to be written there.
    pub fn pages(
        &mut self,
        index: usize,
        tsc: u64,
        scale: Scale,
    ) -> impl Iterator<Item = (u64, [u8; LENGTH])> {
        self.version = self.version.wrapping_add(2);
        // The line begins where the TSC can be read first.
        let tsc = tsc.saturating_sub(self.before);
        let (multiplier, shift) = scale.multiplier(self.slope);
        let margin = MARGIN.min(tsc).min(self.now());
        let ns = scale.to_ns(self.now()).max(self.shown.ns);
        self.shown = Shown { ns, margin, multiplier, shift };
        let page = page(self.version, tsc - margin, self.shown, self.reads.flags());
        let own = self.pages[index];
        let first = self.pages[0].filter(|_| index != 0);
        own.into_iter().chain(first).map(move |address| (address, page))
    }
}

/// A page on which `shown` begins at `tsc`.
fn page(version: u32, tsc: u64, shown: Shown, flags: u8) -> [u8; LENGTH] {
    let mut page = [0; LENGTH];
    page[0..4].copy_from_slice(&version.to_le_bytes());
    page[8..16].copy_from_slice(&tsc.to_le_bytes());
    page[16..24].copy_from_slice(&shown.at_margin().to_le_bytes());
    page[24..28].copy_from_slice(&shown.multiplier.to_le_bytes());
    page[28] = shown.shift;
    page[29] = flags;
    page
}

/// The structure behind [`WALL_CLOCK`]: the date (seconds since 1970) at which
/// the clock was zero.
pub fn wall_clock(zero: u32) -> [u8; WALL_LENGTH] {
    let mut bytes = [0; WALL_LENGTH];
    bytes[0..4].copy_from_slice(&2u32.to_le_bytes());
    bytes[4..8].copy_from_slice(&zero.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reading that a guest computes from a page at `tsc` (Linux, pvclock-abi.h).
    fn read(page: &[u8; LENGTH], tsc: u64) -> u64 {
        let word = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
        let multiplier = word(24) as u32;
        let (delta, shift) = (tsc - word(8), page[28] as i8);
        let delta = if shift < 0 { delta >> -shift } else { delta << shift };
        word(16) + ((u128::from(delta) * u128::from(multiplier)) >> 32) as u64
    }

    #[test]
    fn a_page_says_what_linux_expects() {
        let scale = Scale::new(5_000_000);
        let mut clock = PvClock::new(2, Reads::Mean);
        assert_eq!(clock.set_page(1, 0x1001, scale), None);
        clock.begin(50_000, 0, Busy { count: 1, sum: 10_000 });
        let pages: Vec<_> = clock.pages(1, 10_000, scale).collect();
        assert_eq!(pages.len(), 1, "the first processor has none");
        let (address, page) = pages[0];
        assert_eq!((address, page[0] & 1, page[29]), (0x1000, 0, TSC_STABLE));
        assert_eq!(read(&page, 10_000), 2_000);
        assert!((1_979..=1_980).contains(&read(&page, 9_900)), "a little behind");
        // 2^32 / 5 is not a whole number: up to 1 ns is lost.
        assert!((11_999..=12_000).contains(&read(&page, 60_000)));
        clock.set_page(1, 0, scale);
        assert!(!clock.is_used());
        let mut own = PvClock::new(2, Reads::Own);
        let (address, page) = own.set_page(1, 0x1001, scale).unwrap();
        assert_eq!((address, read(&page, 50_000)), (0x1000, 9_999));
        assert!(!own.is_used());
    }

    /// Two clocks that are each a processor's own are not announced as one: Linux compares them
    /// then.
    #[test]
    fn only_one_clock_for_all_is_told_as_stable() {
        const STABLE_FEATURE: u32 = 1 << 24;
        let scale = Scale::new(1_000_000);
        let mut own = PvClock::new(2, Reads::Own);
        let (_, page) = own.set_page(0, 0x1001, scale).unwrap();
        assert_eq!((page[29], Reads::Own.features()), (0, 1 << 3));
        let mut mean = PvClock::new(2, Reads::Mean);
        mean.set_page(0, 0x1001, scale);
        mean.begin(1, 0, Busy { count: 1, sum: 0 });
        let (_, page) = mean.pages(0, 0, scale).next().unwrap();
        assert_eq!((page[29], Reads::Mean.features()), (TSC_STABLE, 1 << 3 | STABLE_FEATURE));
    }

    proptest! {
        /// Processors in any order, with slices that end early, that become idle and busy again:
        /// the reading never goes back, is never behind the mean, and is a quantum beyond it at
        /// most.
        #[test]
        fn it_never_goes_back(
            count in 1usize..9,
            khz in prop_oneof![Just(5_000_000u64), 600_000u64..9_000_000],
            steps in prop::collection::vec((0usize..9, 1u64..20_000, 0u64..20_000, any::<bool>()), 1..200),
            // The number of ticks of which it is not known whether the guest ran them, and of those
            // that it did.
            unsure in (0u64..500, 0u64..500),
            unseen in (0.0..=1.0f64, 0.0..=1.0f64),
        ) {
            const QUANTUM: u64 = 20_000;
            let scale = Scale::new(khz);
            let (before, doubt) = unsure;
            let part = |whole: u64, part: f64| (whole as f64 * part) as u64;
            let mut clock = PvClock::new(count, Reads::Mean);
            for index in 0..count {
                clock.set_page(index, (index as u64 + 1) << 12 | 1, scale);
            }
            let mut local = vec![0u64; count];
            let mut busy = vec![true; count];
            let mut last = 0;
            for (who, plan, ran, halts) in steps {
                let index = who % count;
                let first = (0..count).filter(|&i| busy[i]).map(|i| local[i]).min();
                let now = first.unwrap_or_else(|| *local.iter().max().unwrap());
                if !busy[index] {
                    busy[index] = true;
                    local[index] = local[index].max(now);
                }
                let limit = now.min(local[index]) + QUANTUM;
                let plan = plan.min(limit.saturating_sub(local[index]));
                if plan == 0 { continue; }
                let ran = ran.min(plan);
                let busy_of = |local: &[u64], busy: &[bool]| Busy {
                    count: busy.iter().filter(|&&b| b).count() as u32,
                    sum: (0..count).filter(|&i| busy[i]).map(|i| u128::from(local[i])).sum(),
                };
                let at_entry = busy_of(&local, &busy);
                clock.begin(plan, before, at_entry);
                let mut reading = last;
                for (_, page) in clock.pages(index, local[index], scale) {
                    let begin = read(&page, local[index].saturating_sub(part(before, unseen.0)));
                    let end = read(&page, local[index] + ran + part(doubt, unseen.1));
                    prop_assert!(begin >= last && end >= begin, "{last} {begin} {end}");
                    reading = end;
                }
                last = reading;
                clock.end(ran + doubt);
                local[index] += ran;
                busy[index] = !halts;
                let mean = (at_entry.sum / u128::from(at_entry.count)) as u64;
                prop_assert!(clock.now() + 1 >= mean);
                let most = mean + QUANTUM + before + doubt;
                prop_assert!(clock.now() <= most, "{} and {mean}", clock.now());
            }
        }

        #[test]
        fn alone_it_is_the_processors_own(local in 0u64..1 << 50, ticks in 1u64..1 << 24) {
            let mut clock = PvClock::new(4, Reads::Mean);
            clock.begin(ticks, 0, Busy { count: 1, sum: u128::from(local) });
            clock.end(ticks);
            prop_assert_eq!(clock.now(), local + ticks);
        }
    }
}
