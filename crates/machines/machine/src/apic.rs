//! A processor's local APIC and its timer, in user space: with none in the
//! kernel, HLT and timers come to the machine as events of virtual time.
//!
//! Pure: registers in, effects out. Source: Intel SDM vol. 3A, chapter 11
//! (APIC), table 11-1 (registers), 11.12 (x2APIC).

/// The effect of a register write on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing outside this APIC.
    None,
    /// Send an interrupt to other processors.
    Send(Message),
    /// The timer's next expiry changed.
    Timer,
    /// The register does not exist or cannot be written.
    Refused,
}

/// An interrupt message, from a processor or a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Way of its delivery.
    pub delivery: Delivery,
    /// The vector (for start-up: the page that execution starts in).
    pub vector: u8,
    /// To whom.
    pub destination: Destination,
}

/// Way of an interrupt's delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// An interrupt with the vector.
    Fixed,
    /// Non-maskable.
    Nmi,
    /// Reset.
    Init,
    /// Start-up of a processor that was reset.
    Startup,
    /// Any that this machine has no use for (SMI and the like).
    Ignored,
}

/// To whom an interrupt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The processor with this APIC identifier.
    Physical(u32),
    /// All that match this logical identifier.
    Logical(u32),
    /// The sender.
    Oneself,
    /// Everyone.
    All,
    /// Everyone but the sender.
    Others,
}

impl Message {
    /// The message of an MSI write (Intel SDM vol. 3A, 11.11).
    pub fn from_msi(address: u64, data: u32) -> Self {
        let id = (address >> 12) as u32 & 0xff;
        let destination = if address & 4 != 0 {
            Destination::Logical(id)
        } else if id == 0xff {
            Destination::All
        } else {
            Destination::Physical(id)
        };
        Self { delivery: delivery(data >> 8), vector: data as u8, destination }
    }
}

fn delivery(mode: u32) -> Delivery {
    match mode & 7 {
        0 | 1 => Delivery::Fixed,
        4 => Delivery::Nmi,
        5 => Delivery::Init,
        6 => Delivery::Startup,
        _ => Delivery::Ignored,
    }
}

/// The number of the register at `offset` of the APIC's page: they are 16 bytes apart.
pub fn register_at(offset: u64) -> u32 {
    (offset >> 4) as u32
}

/// The number of the register that is `msr` in x2APIC mode, from 0x800 on.
pub fn register_of(msr: u32) -> u32 {
    msr & 0xff
}

const ID: u32 = 0x02;
const VERSION: u32 = 0x03;
const TPR: u32 = 0x08;
const PPR: u32 = 0x0a;
const EOI: u32 = 0x0b;
const LDR: u32 = 0x0d;
const DFR: u32 = 0x0e;
const SVR: u32 = 0x0f;
const ISR: u32 = 0x10;
const TMR: u32 = 0x18;
const IRR: u32 = 0x20;
const ESR: u32 = 0x28;
const LVT_CMCI: u32 = 0x2f;
const ICR: u32 = 0x30;
const ICR_HIGH: u32 = 0x31;
const LVT_TIMER: u32 = 0x32;
const LVT_ERROR: u32 = 0x37;
const TIMER_INITIAL: u32 = 0x38;
const TIMER_CURRENT: u32 = 0x39;
const TIMER_DIVIDE: u32 = 0x3e;
const SELF_IPI: u32 = 0x3f;

const MASKED: u32 = 1 << 16;
const ENABLED: u32 = 1 << 8;

/// Ticks of the timer's bus clock per second in count-down modes: 1 GHz.
const BUS_NS: u64 = 1;

/// One local APIC.
#[derive(Debug, Clone)]
pub struct Apic {
    id: u32,
    x2apic: bool,
    tpr: u32,
    svr: u32,
    ldr: u32,
    dfr: u32,
    icr_high: u32,
    icr_low: u32,
    lvt: [u32; 6],
    divide: u32,
    irr: [u64; 4],
    isr: [u64; 4],
    deadline: u64,
    initial: u32,
    /// Time at which the count-down began (ns).
    started: u64,
    /// The expiry that has been delivered last, in one-shot mode.
    expired: bool,
}

/// Time at which a timer expires: on the TSC's scale, or on that of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// At this value of the TSC.
    Tsc(u64),
    /// At this virtual time (ns).
    At(u64),
}

/// Returns whether accesses to register `number` concern their own processor only.
pub fn is_local(number: u32) -> bool {
    number != ICR
}

impl Apic {
    /// The APIC of processor `id` after reset.
    pub fn new(id: u32) -> Self {
        Self {
            id,
            x2apic: false,
            tpr: 0,
            svr: 0xff,
            ldr: 0,
            dfr: u32::MAX,
            icr_high: 0,
            icr_low: 0,
            lvt: [MASKED; 6],
            divide: 0,
            irr: [0; 4],
            isr: [0; 4],
            deadline: 0,
            initial: 0,
            started: 0,
            expired: false,
        }
    }

    /// Applies an INIT message (Intel SDM vol. 3A, 11.4.7.3 and 11.12.5.1): the state is as after
    /// reset, except for the mode and the identifier.
    pub fn initialize(&mut self) {
        *self = Self { x2apic: self.x2apic, ..Self::new(self.id) };
    }

    /// Follows the APIC base register: whether x2APIC mode is on.
    pub fn set_x2apic(&mut self, on: bool) {
        self.x2apic = on;
    }

    /// Reads register `number`; `now` in ns. `None` where there is none.
    pub fn read(&self, number: u32, now: u64) -> Option<u64> {
        let word = |set: &[u64; 4], index: u32| {
            u64::from((set[index as usize / 2] >> (32 * (index % 2))) as u32)
        };
        Some(match number {
            ID => u64::from(if self.x2apic { self.id } else { self.id << 24 }),
            VERSION => 0x14 | 5 << 16,
            TPR => u64::from(self.tpr),
            PPR => u64::from(self.ppr()),
            EOI => 0,
            LDR if self.x2apic => u64::from((self.id >> 4) << 16 | 1 << (self.id & 15)),
            LDR => u64::from(self.ldr),
            DFR if !self.x2apic => u64::from(self.dfr),
            SVR => u64::from(self.svr),
            ISR..=0x17 => word(&self.isr, number - ISR),
            TMR..=0x1f => 0,
            IRR..=0x27 => word(&self.irr, number - IRR),
            ESR => 0,
            LVT_CMCI => u64::from(MASKED),
            ICR if self.x2apic => u64::from(self.icr_high) << 32 | u64::from(self.icr_low),
            ICR => u64::from(self.icr_low),
            ICR_HIGH if !self.x2apic => u64::from(self.icr_high),
            LVT_TIMER..=LVT_ERROR => u64::from(self.lvt[(number - LVT_TIMER) as usize]),
            TIMER_INITIAL => u64::from(self.initial),
            TIMER_CURRENT => u64::from(self.current(now)),
            TIMER_DIVIDE => u64::from(self.divide),
            _ => return None,
        })
    }

    /// Writes register `number`; `now` in ns.
    pub fn write(&mut self, number: u32, value: u64, now: u64) -> Effect {
        let low = value as u32;
        match number {
            ID if !self.x2apic => {}
            TPR => self.tpr = low & 0xff,
            EOI => self.end_of_interrupt(),
            LDR if !self.x2apic => self.ldr = low & 0xff00_0000,
            DFR if !self.x2apic => self.dfr = low | 0x0fff_ffff,
            SVR => self.svr = low & 0x1ff,
            ESR => {}
            LVT_CMCI => {}
            ICR => {
                self.icr_low = low & !(1 << 12);
                if self.x2apic {
                    self.icr_high = (value >> 32) as u32;
                }
                return Effect::Send(self.message());
            }
            ICR_HIGH if !self.x2apic => self.icr_high = low,
            LVT_TIMER..=LVT_ERROR => {
                self.lvt[(number - LVT_TIMER) as usize] = low & 0x7_ffff;
                if number == LVT_TIMER {
                    return Effect::Timer;
                }
            }
            TIMER_INITIAL => {
                self.initial = low;
                self.started = now;
                self.expired = false;
                return Effect::Timer;
            }
            TIMER_DIVIDE => {
                self.divide = low & 0xb;
                return Effect::Timer;
            }
            SELF_IPI if self.x2apic => {
                return Effect::Send(Message {
                    delivery: Delivery::Fixed,
                    vector: low as u8,
                    destination: Destination::Oneself,
                })
            }
            _ => return Effect::Refused,
        }
        Effect::None
    }

    fn message(&self) -> Message {
        let id = if self.x2apic { self.icr_high } else { self.icr_high >> 24 };
        let broadcast = if self.x2apic { u32::MAX } else { 0xff };
        let destination = match self.icr_low >> 18 & 3 {
            1 => Destination::Oneself,
            2 => Destination::All,
            3 => Destination::Others,
            _ if id == broadcast => Destination::All,
            _ if self.icr_low & 1 << 11 != 0 => Destination::Logical(id),
            _ => Destination::Physical(id),
        };
        // An INIT "de-assert" (level 0, trigger level) does nothing today.
        let level_deassert = self.icr_low & (1 << 14 | 1 << 15) == 1 << 15;
        let delivery = match delivery(self.icr_low >> 8) {
            Delivery::Init if level_deassert => Delivery::Ignored,
            other => other,
        };
        Message { delivery, vector: self.icr_low as u8, destination }
    }

    /// Returns whether a message with this logical destination is for this APIC.
    pub fn matches_logical(&self, destination: u32) -> bool {
        if self.x2apic {
            destination >> 16 == self.id >> 4 && destination & 1 << (self.id & 15) != 0
        } else {
            self.ldr >> 24 & destination != 0
        }
    }

    /// An interrupt arrives.
    pub fn raise(&mut self, vector: u8) {
        self.irr[usize::from(vector / 64)] |= 1 << (vector % 64);
    }

    /// The vector that the processor would take now, if any.
    pub fn pending(&self) -> Option<u8> {
        if self.svr & ENABLED == 0 {
            return None;
        }
        let vector = highest(&self.irr)?;
        (u32::from(vector >> 4) > self.ppr() >> 4).then_some(vector)
    }

    /// The processor takes `vector`.
    pub fn accept(&mut self, vector: u8) {
        self.irr[usize::from(vector / 64)] &= !(1 << (vector % 64));
        self.isr[usize::from(vector / 64)] |= 1 << (vector % 64);
    }

    /// Returns whether an interrupt is in service and none waits behind it.
    pub fn serves_one_alone(&self) -> bool {
        highest(&self.isr).is_some() && highest(&self.irr).is_none()
    }

    /// The highest interrupt in service has ended.
    pub fn end_of_interrupt(&mut self) {
        if let Some(vector) = highest(&self.isr) {
            self.isr[usize::from(vector / 64)] &= !(1 << (vector % 64));
        }
    }

    fn ppr(&self) -> u32 {
        let serviced = highest(&self.isr).map_or(0, |vector| u32::from(vector) & 0xf0);
        if self.tpr & 0xf0 >= serviced {
            self.tpr
        } else {
            serviced
        }
    }

    /// The deadline register (IA32_TSC_DEADLINE).
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Sets the deadline (TSC ticks; 0 disarms).
    pub fn set_deadline(&mut self, deadline: u64) {
        if self.timer_mode() == TimerMode::Deadline {
            self.deadline = deadline;
        }
    }

    /// Returns a copy whose timer is `ticks` and `ns` later.
    pub fn later(&self, ticks: u64, ns: u64) -> Self {
        let deadline = if self.deadline == 0 { 0 } else { self.deadline.saturating_add(ticks) };
        Self { deadline, started: self.started.saturating_add(ns), ..self.clone() }
    }

    /// Returns the time at which the timer expires next.
    pub fn expiry(&self) -> Option<Expiry> {
        match self.timer_mode() {
            TimerMode::Deadline => (self.deadline != 0).then_some(Expiry::Tsc(self.deadline)),
            TimerMode::Periodic | TimerMode::OneShot => (self.initial != 0 && !self.expired)
                .then(|| Expiry::At(self.started + u64::from(self.initial) * self.divisor())),
        }
    }

    /// The time of [`Apic::expiry`] has come: raises the timer's interrupt.
    pub fn expire(&mut self) {
        match self.timer_mode() {
            TimerMode::Deadline => self.deadline = 0,
            TimerMode::OneShot => self.expired = true,
            TimerMode::Periodic => self.started += u64::from(self.initial) * self.divisor(),
        }
        let lvt = self.lvt[0];
        if lvt & MASKED == 0 {
            self.raise(lvt as u8);
        }
    }

    fn current(&self, now: u64) -> u32 {
        if self.expired || self.initial == 0 || self.timer_mode() == TimerMode::Deadline {
            return 0;
        }
        let passed = now.saturating_sub(self.started) / self.divisor();
        u64::from(self.initial).saturating_sub(passed) as u32
    }

    fn divisor(&self) -> u64 {
        let code = self.divide & 3 | self.divide >> 1 & 4;
        BUS_NS << ((code + 1) & 7)
    }

    fn timer_mode(&self) -> TimerMode {
        match self.lvt[0] >> 17 & 3 {
            0 => TimerMode::OneShot,
            1 => TimerMode::Periodic,
            _ => TimerMode::Deadline,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum TimerMode {
    OneShot,
    Periodic,
    Deadline,
}

fn highest(set: &[u64; 4]) -> Option<u8> {
    (0..4)
        .rev()
        .find(|&word| set[word] != 0)
        .map(|word| word as u8 * 64 + 63 - set[word].leading_zeros() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn enabled() -> Apic {
        let mut apic = Apic::new(3);
        apic.set_x2apic(true);
        apic.write(SVR, 0x1ff, 0);
        apic
    }

    #[test]
    fn higher_class_interrupts_lower() {
        let mut apic = enabled();
        apic.raise(0x41);
        assert_eq!(apic.pending(), Some(0x41));
        apic.accept(0x41);
        apic.raise(0x42);
        assert_eq!(apic.pending(), None, "same priority class");
        apic.raise(0x51);
        assert_eq!(apic.pending(), Some(0x51));
        apic.accept(0x51);
        apic.write(EOI, 0, 0);
        assert_eq!(apic.pending(), None, "0x41 is still in service");
        apic.write(EOI, 0, 0);
        assert_eq!(apic.pending(), Some(0x42));
    }

    #[test]
    fn deadline_expires_once() {
        let mut apic = enabled();
        apic.write(LVT_TIMER, 2 << 17 | 0xec, 0);
        apic.set_deadline(500);
        assert_eq!(apic.expiry(), Some(Expiry::Tsc(500)));
        apic.expire();
        assert_eq!((apic.expiry(), apic.pending()), (None, Some(0xec)));
    }

    #[test]
    fn a_timer_is_moved_with_its_machine() {
        let mut apic = enabled();
        apic.write(TIMER_DIVIDE, 0b1011, 0);
        apic.write(TIMER_INITIAL, 100, 50);
        assert_eq!(apic.later(7, 1_000).expiry(), Some(Expiry::At(1_150)));
        apic.write(LVT_TIMER, 2 << 17 | 0xec, 0);
        assert_eq!(apic.later(7, 1_000).expiry(), None, "a timer that is off stays off");
        apic.set_deadline(500);
        assert_eq!(apic.later(7, 1_000).expiry(), Some(Expiry::Tsc(507)));
    }

    #[test]
    fn periodic_counts_again() {
        let mut apic = enabled();
        apic.write(LVT_TIMER, 1 << 17 | 0x30, 0);
        apic.write(TIMER_DIVIDE, 0b1011, 0);
        apic.write(TIMER_INITIAL, 100, 50);
        assert_eq!(apic.expiry(), Some(Expiry::At(150)));
        assert_eq!(apic.read(TIMER_CURRENT, 80), Some(70));
        apic.expire();
        assert_eq!(apic.expiry(), Some(Expiry::At(250)));
    }

    proptest! {
        #[test]
        fn no_access_panics(accesses in prop::collection::vec((0u32..0x400, any::<u64>(), any::<u32>()), 0..50)) {
            let mut apic = enabled();
            for (number, value, now) in accesses {
                apic.write(number, value, u64::from(now));
                apic.read(number, u64::from(now));
                if let Some(vector) = apic.pending() { apic.accept(vector); }
                apic.expiry();
            }
        }

        /// Against the simplest reference: a sorted set of requested vectors.
        #[test]
        fn vectors_come_highest_first(vectors in prop::collection::btree_set(16u8..=255, 0..20)) {
            let mut apic = enabled();
            for &vector in &vectors { apic.raise(vector); }
            let mut accepted = Vec::new();
            while let Some(vector) = apic.pending() {
                apic.accept(vector);
                apic.write(EOI, 0, 0);
                accepted.push(vector);
            }
            let expected: Vec<_> = vectors.into_iter().rev().collect();
            prop_assert_eq!(accepted, expected);
        }
    }
}
