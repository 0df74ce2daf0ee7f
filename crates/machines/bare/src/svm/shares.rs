//! The debug registers of a processor, of which there are four: who has which.
//!
//! The guest comes first: a register that it has enabled is its own, at its own place, so that its status
//! register says what the processor's does. A debugger has the others: for its watchpoints first, then for
//! breakpoints whose code may not be in memory yet, then for the rest. A breakpoint without a register
//! waits: the guest cannot execute its page (`breakpoints.rs`).

use super::debug::{Debug, Watch, Watchpoint};

/// Debug registers for addresses (AMD64 APM vol. 2, 13.1.1).
pub(super) const REGISTERS: usize = 4;
/// DR7 with nothing enabled.
pub(super) const RESET_CONTROL: u64 = 1 << 10;
/// Bits of DR7 that enable.
pub(super) const ENABLES: u64 = 0xff;
const EXACT: u64 = 1 << 9;

/// A guest's own debug registers; its DR6 is in the control block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) addresses: [u64; REGISTERS],
    pub(super) control: u64,
}

impl Default for Own {
    fn default() -> Self {
        Self { addresses: [0; REGISTERS], control: RESET_CONTROL }
    }
}

/// The holder of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    Guest,
    /// This watchpoint of the debugger's.
    Watch(usize),
    /// This breakpoint of the debugger's.
    Breakpoint(usize),
}

/// The use of the processor's registers while a guest runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) holders: [Holder; REGISTERS],
    pub(super) addresses: [u64; REGISTERS],
    pub(super) control: u64,
    /// The breakpoints without a register.
    pub(super) waiting: Vec<usize>,
    /// The watchpoints without one: bit n for watchpoint n.
    pub(super) unwatched: u8,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            holders: [Holder::Nobody; REGISTERS],
            addresses: [0; REGISTERS],
            control: RESET_CONTROL,
            waiting: Vec::new(),
            unwatched: 0,
        }
    }
}

/// The bits of DR7 for a register: its kind and length, and that it is enabled in all tasks.
fn bits(register: usize, kind: u64, length: u8) -> u64 {
    let length = match length {
        1 => 0,
        2 => 1,
        8 => 2,
        _ => 3,
    };
    EXACT | 2 << (2 * register) | (kind | length << 2) << (16 + 4 * register)
}

impl Shares {
    /// Gives the registers out: to the guest, to watchpoints, and to the breakpoints in this `order`, as far as
    /// they can have one.
    pub(super) fn new(
        own: &Own,
        debug: &Debug,
        order: impl IntoIterator<Item = usize>,
        can_have: impl Fn(usize) -> bool,
    ) -> Self {
        const PORT: u64 = 2;
        let mut shares = Self::default();
        for register in 0..REGISTERS {
            let is_enabled = own.control >> (2 * register) & 3 != 0;
            let kind_and_length = own.control >> (16 + 4 * register) & 0xf;
            // Each access to a port leaves the guest before the processor would look.
            if is_enabled && kind_and_length & 3 != PORT {
                shares.holders[register] = Holder::Guest;
                shares.addresses[register] = own.addresses[register];
                shares.control |=
                    EXACT | 2 << (2 * register) | kind_and_length << (16 + 4 * register);
            }
        }
        for (number, watch) in debug.watches.iter().enumerate() {
            let &Some(Watchpoint { linear, kind, length, .. }) = watch else { continue };
            let kind = match kind {
                Watch::Write => 1,
                Watch::Access => 3,
            };
            if !shares.give(Holder::Watch(number), linear, (kind, length)) {
                shares.unwatched |= 1 << number;
            }
        }
        for number in order {
            let Some(breakpoint) = debug.breakpoints.get(number) else { continue };
            let holder = Holder::Breakpoint(number);
            if !can_have(number) || !shares.give(holder, breakpoint.linear, (0, 1)) {
                shares.waiting.push(number);
            }
        }
        shares
    }

    fn give(&mut self, holder: Holder, address: u64, (kind, length): (u64, u8)) -> bool {
        let free = self.holders.iter().position(|holder| *holder == Holder::Nobody);
        let Some(register) = free else { return false };
        (self.holders[register], self.addresses[register]) = (holder, address);
        self.control |= bits(register, kind, length);
        true
    }

    /// The registers that breakpoints can have.
    pub(super) fn room(&self) -> usize {
        let has_room = |holder: &&Holder| matches!(holder, Holder::Nobody | Holder::Breakpoint(_));
        self.holders.iter().filter(has_room).count()
    }

    /// Returns whether anybody has a register.
    pub(super) fn are_used(&self) -> bool {
        self.control & ENABLES != 0
    }

    /// DR7 without the debugger's breakpoints.
    pub(super) fn without_breakpoints(&self) -> u64 {
        let holders = self.holders.iter().enumerate();
        holders.fold(self.control, |control, (register, holder)| match holder {
            Holder::Breakpoint(_) => control & !(3 << (2 * register)),
            _ => control,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::debug::Breakpoint;
    use super::*;

    fn debug(breakpoints: &[u64]) -> Debug {
        let one = |&linear: &u64| Breakpoint { linear, process: None };
        Debug { breakpoints: breakpoints.iter().map(one).collect(), ..Debug::default() }
    }

    fn watch(linear: u64, kind: Watch, length: u8) -> Option<Watchpoint> {
        Some(Watchpoint { linear, kind, length, process: None })
    }

    #[test]
    fn watchpoints_are_encoded_as_the_manual_says() {
        let mut debug = debug(&[]);
        let control = |debug: &Debug| Shares::new(&Own::default(), debug, [], |_| true).control;
        assert_eq!(control(&debug), 0x400);
        debug.watches[0] = watch(0x1000, Watch::Write, 8);
        debug.watches[3] = watch(0x2000, Watch::Access, 4);
        // AMD64 APM vol. 2, figure 13-4: the first (8 bytes, stores) and the second (4 bytes,
        // accesses) are enabled.
        assert_eq!(control(&debug), 0x00f9_060a);
    }

    #[test]
    fn the_guest_comes_first_and_what_has_no_room_waits() {
        let mut debug = debug(&[10, 11, 12, 13]);
        debug.watches[2] = watch(0x100, Watch::Write, 4);
        // The guest's second register: stores of 2 bytes. Its third one is for ports.
        let own =
            Own { addresses: [1, 2, 3, 4], control: 0x400 | 1 << 2 | 2 << 4 | 5 << 20 | 2 << 24 };
        let shares = Shares::new(&own, &debug, [3, 0, 1, 2], |number| number != 0);
        let [watch, guest] = [Holder::Watch(2), Holder::Guest];
        let expected = [watch, guest, Holder::Breakpoint(3), Holder::Breakpoint(1)];
        assert_eq!(shares.holders, expected);
        assert_eq!(shares.addresses, [0x100, 2, 13, 11]);
        assert_eq!((&shares.waiting[..], shares.room(), shares.unwatched), (&[0, 2][..], 2, 0));
        assert_eq!(shares.control, 0x400 | 0x200 | 0xaa | 0xd << 16 | 5 << 20);
        assert_eq!(shares.without_breakpoints() & ENABLES, 0xa);
        assert!(shares.are_used() && !Shares::default().are_used());

        // All of the guest's: a debugger has none.
        let own = Own { control: 0x4ff, ..own };
        let shares = Shares::new(&own, &debug, 0..4, |_| true);
        assert_eq!((shares.holders, shares.room(), shares.unwatched), ([guest; 4], 0, 4));
        assert_eq!(shares.waiting, [0, 1, 2, 3]);
    }
}
