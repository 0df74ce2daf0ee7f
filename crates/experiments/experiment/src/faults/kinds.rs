//! Kinds of faults, and the keys that each takes.

use serde::{Deserialize, Serialize};
use stasis_config::listed;
use stasis_drive::DriveFaultKind;

/// The kind of a machine's fault: its processors stand still.
pub(super) const PAUSE: &str = "pause";

/// A machine's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineFailureKind {
    /// Its power is cut, and that of its drives.
    PowerCut,
    /// The machine is reset; its drives keep their power.
    Reset,
    /// Its processors stop, while its devices go on until it is reset.
    Hang,
    /// Its kernel panics.
    Panic,
}

impl MachineFailureKind {
    /// Every kind.
    pub(super) const ALL: [Self; 4] = [Self::PowerCut, Self::Reset, Self::Hang, Self::Panic];

    /// Name of the kind in experiments and results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PowerCut => "power-cut",
            Self::Reset => "reset",
            Self::Hang => "hang",
            Self::Panic => "panic",
        }
    }
}

/// Kind of a fault inside a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuestFaultKind {
    Kill,
    MemoryShortage,
    ClockJump,
    ClockDrift,
}

impl GuestFaultKind {
    pub(super) const ALL: [Self; 4] =
        [Self::Kill, Self::MemoryShortage, Self::ClockJump, Self::ClockDrift];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::MemoryShortage => "memory-shortage",
            Self::ClockJump => "clock-jump",
            Self::ClockDrift => "clock-drift",
        }
    }

    /// Returns whether a key of a fault has an effect on this kind.
    pub(super) fn takes(self, key: &str) -> bool {
        match self {
            Self::Kill => ["at", "within", "process"].contains(&key),
            Self::MemoryShortage => ["begin", "end", "memory"].contains(&key),
            Self::ClockJump => ["at", "within", "by"].contains(&key),
            Self::ClockDrift => ["begin", "end", "ppm"].contains(&key),
        }
    }
}

/// Kind of a fault of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NetworkFaultKind {
    Partition,
    SlowNetwork,
}

impl NetworkFaultKind {
    pub(super) const ALL: [Self; 2] = [Self::Partition, Self::SlowNetwork];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::SlowNetwork => "slow-network",
        }
    }

    /// Returns whether a key of a fault has an effect on this kind.
    pub(super) fn takes(self, key: &str) -> bool {
        match key {
            "machines" | "peers" | "network" | "one-way" | "begin" | "end" | "within" => true,
            "rate" => self == Self::Partition,
            "delay" => self == Self::SlowNetwork,
            _ => false,
        }
    }
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    Drive(DriveFaultKind),
    Pause,
    Failure(MachineFailureKind),
    Guest(GuestFaultKind),
    Network(NetworkFaultKind),
}

impl FaultKind {
    pub(super) fn all() -> impl Iterator<Item = Self> + Clone {
        let drives = DriveFaultKind::ALL.into_iter().map(Self::Drive);
        let failures = MachineFailureKind::ALL.into_iter().map(Self::Failure);
        let guests = GuestFaultKind::ALL.into_iter().map(Self::Guest);
        let networks = NetworkFaultKind::ALL.into_iter().map(Self::Network);
        drives.chain([Self::Pause]).chain(failures).chain(guests).chain(networks)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Drive(kind) => kind.name(),
            Self::Pause => PAUSE,
            Self::Failure(kind) => kind.name(),
            Self::Guest(kind) => kind.name(),
            Self::Network(kind) => kind.name(),
        }
    }

    /// Returns whether a key of a fault has an effect on this kind.
    pub(super) fn takes(self, key: &str) -> bool {
        use DriveFaultKind::{BitRot, Full, NamespaceResized, Slow, Stall};
        match (key, self) {
            ("machine", Self::Pause | Self::Failure(_) | Self::Guest(_)) => true,
            ("at" | "within" | "restart", Self::Failure(_)) => true,
            ("leaves" | "loses", _) => self == Self::Failure(MachineFailureKind::PowerCut),
            ("begin" | "end", Self::Pause) => true,
            ("name" | "at-io" | "at-packet" | "at-output" | "output-of" | "when", _) => true,
            ("times", Self::Pause | Self::Failure(_) | Self::Guest(_) | Self::Network(_)) => true,
            (_, Self::Guest(kind)) => kind.takes(key),
            (_, Self::Network(kind)) => kind.takes(key),
            ("machines" | "peers" | "network" | "one-way", _) => false,
            ("machine" | "at" | "within" | "restart", _) => false,
            ("process" | "memory" | "by" | "ppm", _) => false,
            (_, Self::Pause | Self::Failure(_)) => false,
            ("controller", Self::Drive(kind)) => kind.is_of_path() && kind != NamespaceResized,
            ("namespace", Self::Drive(kind)) => kind.is_of_namespace(),
            ("size", Self::Drive(kind)) => kind == NamespaceResized,
            ("first" | "rate" | "times" | "offset" | "length", Self::Drive(kind))
                if kind.is_of_path() =>
            {
                false
            }
            ("end", Self::Drive(kind)) => kind != BitRot,
            ("first", Self::Drive(kind)) => kind != BitRot,
            ("rate", Self::Drive(kind)) => !matches!(kind, Stall | BitRot | Full),
            ("times", Self::Drive(kind)) => kind != Stall,
            ("offset" | "length", Self::Drive(kind)) => kind != Full,
            ("space", Self::Drive(kind)) => kind == Full,
            ("factor" | "delay", Self::Drive(kind)) => kind == Slow,
            ("operations", Self::Drive(kind)) => {
                matches!(kind, Slow | Stall) || kind.delivery().is_some()
            }
            (_, Self::Drive(_)) => true,
        }
    }
}

/// Every kind's name.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> + Clone {
    FaultKind::all().map(FaultKind::name)
}

/// The message about a key without an effect, which is a mistake.
pub(super) fn refusal(key: &str, kind: FaultKind) -> String {
    let name = kind.name();
    let all = FaultKind::all().filter(|kind| kind.takes(key));
    match all.clone().count() {
        0..=6 => {
            let kinds = listed(all.map(FaultKind::name));
            format!("{key} is for the kind {kinds}, and not for `{name}`")
        }
        _ => format!("{key} means nothing for the kind `{name}`"),
    }
}
