//! Power states (NVMe 2.0 section 8.15), and what leaving them costs the next I/O.
//!
//! A drive that has several states leaves one that is not operational with the first I/O command,
//! whose requests it does not begin before the exit latency has passed; a transition that is under
//! way ends first. While nothing is under way, states follow one another as the host's table of
//! autonomous transitions has it (APST).

use stasis_block::clock::{Nanos, MILLISECOND};
use stasis_nvme_layout::features::TransitionEntry;
use stasis_nvme_layout::identify::PowerStateDescriptor;
use stasis_nvme_layout::{transmute, transmute_ref};

use crate::command::Dword;
use crate::narrow::configured16;
use crate::power_states::{PowerState, MAX_STATES};

/// Size of the table of autonomous transitions in bytes.
pub const TABLE: usize = MAX_STATES * size_of::<TransitionEntry>();

/// An autonomous transition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Transition {
    // The state to go to, and after how many idle milliseconds; 0: never.
    to: u8,
    after: u32,
}

/// The power state of a drive, as of the time of the last call.
#[derive(Debug)]
pub struct Power {
    states: Vec<PowerState>,
    // The present state, or the one that is being entered, and when it is reached.
    current: u8,
    reached: Nanos,
    // The last operational state.
    operational: u8,
    // Since when nothing is under way.
    idle_since: Nanos,
    // Autonomous transitions, and whether they take place.
    table: [Transition; MAX_STATES],
    autonomous: bool,
    workload: u8,
}

impl Power {
    /// A drive with these states, in the first one.
    pub fn new(states: &[PowerState]) -> Self {
        Self {
            states: states.to_vec(),
            current: 0,
            reached: 0,
            operational: 0,
            idle_since: 0,
            table: [Transition::default(); MAX_STATES],
            autonomous: false,
            workload: 0,
        }
    }

    /// Returns whether there is more than one state.
    pub fn has_choice(&self) -> bool {
        self.states.len() > 1
    }

    fn state(&self, number: u8) -> PowerState {
        self.states.get(usize::from(number)).copied().unwrap_or(PowerState::ONLY)
    }

    fn go_to(&mut self, number: u8, begin: Nanos) {
        let takes = self.state(self.current).exit + self.state(number).entry;
        self.reached = begin.max(self.reached).saturating_add(takes);
        self.current = number;
        if self.state(number).operational {
            self.operational = number;
        }
    }

    /// The transitions up to `now` of a drive that has been idle.
    fn settle(&mut self, now: Nanos) {
        // Each leads to a state of a higher number.
        while let Transition { to, after: after @ 1.. } = self.table[usize::from(self.current)] {
            let begin =
                self.reached.max(self.idle_since).saturating_add(Nanos::from(after) * MILLISECOND);
            if !self.autonomous || begin > now {
                return;
            }
            self.go_to(to, begin);
        }
    }

    /// An I/O command comes at `now`; `busy`: others are under way. Returns when its requests can
    /// begin.
    pub fn wake(&mut self, now: Nanos, busy: bool) -> Nanos {
        if !busy {
            self.settle(now);
            self.idle_since = now;
        }
        if !self.state(self.current).operational {
            self.go_to(self.operational, now);
        }
        self.reached.max(now)
    }

    /// The last command under way has ended.
    pub fn rest(&mut self, now: Nanos) {
        self.idle_since = now;
    }

    /// Power Management of Get Features: the state, and the workload hint.
    pub fn value(&mut self, now: Nanos, busy: bool) -> u32 {
        if !busy {
            self.settle(now);
        }
        u32::from(self.current) | u32::from(self.workload) << 5
    }

    /// Sets the power state, as Power Management of Set Features. Returns whether there is such a
    /// state.
    pub fn set(&mut self, now: Nanos, busy: bool, value: u32) -> bool {
        let number = value.byte(0) & 0x1f;
        let known = usize::from(number) < self.states.len();
        if known {
            if !busy {
                self.settle(now);
            }
            self.workload = value.byte(0) >> 5;
            self.idle_since = now;
            if number != self.current {
                self.go_to(number, now);
            }
        }
        known
    }

    /// Sets the table of autonomous transitions, and whether they take place. Returns whether the
    /// table is valid: each transition must lead to a state of a higher number that is not
    /// operational.
    pub fn set_transitions(&mut self, now: Nanos, table: &[u8; TABLE], autonomous: bool) -> bool {
        let mut transitions = [Transition::default(); MAX_STATES];
        let table: &[TransitionEntry; MAX_STATES] = transmute_ref!(table);
        for (number, entry) in table.iter().enumerate().take(self.states.len()) {
            let entry = entry.entry.get();
            let (to, after) = (entry.byte(0) >> 3, entry >> 8);
            let resting = |state: &PowerState| !state.operational;
            let leads =
                usize::from(to) > number && self.states.get(usize::from(to)).is_some_and(resting);
            if after > 0 && !leads {
                return false;
            }
            transitions[number] = Transition { to, after };
        }
        self.settle(now);
        (self.table, self.autonomous) = (transitions, autonomous);
        true
    }

    /// The table, and whether its transitions take place.
    pub fn transitions(&self) -> ([u8; TABLE], bool) {
        let table = self.table.map(|Transition { to, after }| {
            let entry = u32::from(to) << 3 | after << 8;
            TransitionEntry { entry: entry.into(), ..Default::default() }
        });
        (transmute!(table), self.autonomous)
    }

    /// The controller is reset: the features have their defaults, and the state is the first.
    pub fn reset(&mut self, now: Nanos) {
        self.settle(now);
        (self.autonomous, self.workload, self.idle_since) = (false, 0, now);
        self.table = [Transition::default(); MAX_STATES];
        if self.current != 0 {
            self.go_to(0, now);
        }
    }
}

/// The descriptors of Identify Controller (NVMe 2.0 figure 276).
pub fn descriptors(states: &[PowerState]) -> [PowerStateDescriptor; MAX_STATES] {
    const IN_TENTHS_OF_MILLIWATTS: u8 = 1;
    const NOT_OPERATIONAL: u8 = 1 << 1;
    let mut descriptors = [PowerStateDescriptor::default(); MAX_STATES];
    for (descriptor, state) in descriptors.iter_mut().zip(states) {
        let PowerState { milliwatts, entry, exit, operational } = *state;
        // In units of 10 mW where it can be, else of 0.1 mW: the configuration was checked.
        let (power, scale) = match milliwatts % 10 {
            0 => (milliwatts / 10, 0),
            _ => (milliwatts * 10, IN_TENTHS_OF_MILLIWATTS),
        };
        descriptor.mp.set(configured16(power.into()));
        descriptor.flags = scale | if operational { 0 } else { NOT_OPERATIONAL };
        let microseconds = |time: Nanos| u32::try_from(time / 1000).unwrap_or(u32::MAX);
        descriptor.enlat.set(microseconds(entry));
        descriptor.exlat.set(microseconds(exit));
        // All states that carry out I/O do so alike: relative throughput and latency are 0.
    }
    descriptors
}

#[cfg(test)]
mod tests {
    use stasis_nvme_layout::IntoBytes;

    use super::*;

    const US: Nanos = 1000;

    fn drive() -> Power {
        let state = |milliwatts, entry, exit, operational| PowerState {
            milliwatts,
            entry: entry * US,
            exit: exit * US,
            operational,
        };
        Power::new(&[
            state(8_000, 0, 0, true),
            state(3_000, 100, 100, true),
            state(50, 2_000, 1_500, false),
            state(5, 5_000, 9_000, false),
        ])
    }

    fn table(entries: [(u32, u32); 4]) -> [u8; TABLE] {
        let mut table = [0; TABLE];
        for (raw, (to, after)) in table.chunks_exact_mut(8).zip(entries) {
            raw[..4].copy_from_slice(&(to << 3 | after << 8).to_le_bytes());
        }
        table
    }

    #[test]
    fn a_command_waits_for_the_exit_and_first_for_the_entry() {
        // Idle times of 10 ms in state 0, and of 50 ms more in state 2.
        let entries = table([(2, 10), (2, 10), (3, 50), (0, 0)]);
        let asleep = |idle: Nanos| {
            let mut power = drive();
            assert!(power.set_transitions(0, &entries, true));
            power.rest(0);
            power.wake(idle, false) - idle
        };
        assert_eq!(asleep(10 * MILLISECOND - 1), 0, "not idle for long enough");
        // The entry of 2 ms has just begun, and ends first.
        assert_eq!(asleep(10 * MILLISECOND), 3_500 * US);
        assert_eq!(asleep(11 * MILLISECOND), 2_500 * US);
        assert_eq!(asleep(12 * MILLISECOND), 1_500 * US);
        assert_eq!(asleep(62 * MILLISECOND - 1), 1_500 * US);
        // From 62 ms on the next state: out of one, into the other.
        assert_eq!(asleep(62 * MILLISECOND), (1_500 + 5_000 + 9_000) * US);
        assert_eq!(asleep(70 * MILLISECOND), 9_000 * US);
        assert_eq!(asleep(u64::MAX / 2), 9_000 * US);
    }

    #[test]
    fn a_busy_drive_stays_awake_and_returns_to_the_state_it_had() {
        let mut power = drive();
        assert!(power.set(0, false, 1), "operational too");
        assert_eq!(power.wake(0, false), 100 * US, "its entry");
        assert!(power.set_transitions(0, &table([(2, 10), (2, 10), (0, 0), (0, 0)]), true));
        assert_eq!(power.wake(MILLISECOND, false), MILLISECOND);
        // One is under way, however long.
        assert_eq!(power.wake(50 * MILLISECOND, true), 50 * MILLISECOND);
        power.rest(60 * MILLISECOND);
        assert_eq!(power.value(69 * MILLISECOND, false), 1);
        assert_eq!(power.value(70 * MILLISECOND, false), 2);
        // Out of state 2 and into state 1.
        assert_eq!(power.wake(80 * MILLISECOND, false), 80 * MILLISECOND + 1_600 * US);
        assert_eq!(power.value(80 * MILLISECOND, true), 1);
        assert!(!power.set(0, false, 4), "there is none");
        power.reset(90 * MILLISECOND);
        assert_eq!(power.value(90 * MILLISECOND, false), 0);
        assert_eq!(power.transitions(), ([0; TABLE], false));
    }

    #[test]
    fn transitions_lead_on_to_states_without_io() {
        let mut power = drive();
        for wrong in [[(1, 5), (0, 0), (0, 0), (0, 0)], [(0, 0), (0, 0), (2, 5), (0, 0)]] {
            assert!(!power.set_transitions(0, &table(wrong), true));
        }
        assert!(!power.set_transitions(0, &table([(4, 1), (0, 0), (0, 0), (0, 0)]), true));
        let good = table([(2, 5), (3, 7), (3, 100), (0, 0)]);
        assert!(power.set_transitions(0, &good, false));
        assert_eq!(power.transitions(), (good, false));
        assert_eq!(power.wake(u64::MAX / 4, false), u64::MAX / 4, "they are off");
    }

    #[test]
    fn small_powers_are_told_in_tenths_of_milliwatts() {
        let raw = descriptors(&[PowerState::ONLY, drive().states[3], drive().states[2]]);
        let raw = raw.as_bytes();
        assert_eq!(raw[..12], [0xc4, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "25 W");
        assert_eq!(raw[32..44], [50, 0, 0, 3, 0x88, 0x13, 0, 0, 0x28, 0x23, 0, 0]);
        assert_eq!(raw[64..68], [5, 0, 0, 2], "50 mW");
    }
}
