//! Costs of leaving and entering guest mode: taken off the guest's time.

/// Ways of leaving guest mode, as far as the costs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ExitPath {
    /// IN or OUT.
    Port = 0,
    /// A store to a device's memory.
    MmioWrite = 1,
    /// A load from a device's memory.
    MmioRead = 2,
    /// WRMSR that comes to user space.
    MsrWrite = 3,
    /// RDMSR that comes to user space.
    MsrRead = 4,
    /// HLT.
    Halt = 5,
    /// A signal.
    Kick = 6,
    /// Others: interrupt windows, shutdown.
    Other = 7,
}

/// Number of ways.
pub const WAYS: usize = 8;

/// Costs of leaving and entering guest mode, in ticks of the host's TSC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// From reading the host's TSC before an entry to the guest's first instruction.
    pub enter: i64,
    /// Added to an entry by an injected interrupt.
    pub inject: i64,
    /// From the guest's last instruction to reading the host's TSC after the
    /// exit, by [`ExitPath`].
    pub leave: [i64; WAYS],
    /// Added to the time before an entry by setting the timer.
    pub arm: i64,
    /// Longest delay of a slice's end after its timer's time.
    pub slack: i64,
    /// Difference of exits of one kind: from the first to the last decile of the measured costs, of
    /// the kind where that is largest. The spread cannot be taken off.
    pub spread: i64,
}

impl Costs {
    /// Returns the costs with their names, for the results. Empty where no cost is taken from a
    /// guest's time.
    pub fn named(&self) -> Vec<(String, i64)> {
        const NAMES: [&str; WAYS] =
            ["port", "mmio-write", "mmio-read", "msr-write", "msr-read", "halt", "kick", "other"];
        if *self == Self::default() {
            return Vec::new();
        }
        let mut all = vec![("enter".to_owned(), self.enter), ("inject".to_owned(), self.inject)];
        let leave = NAMES.iter().zip(self.leave);
        all.extend(leave.map(|(name, cost)| (format!("leave-{name}"), cost)));
        all.push(("arm".to_owned(), self.arm));
        all.push(("slack".to_owned(), self.slack));
        all.push(("spread".to_owned(), self.spread));
        all
    }
}
