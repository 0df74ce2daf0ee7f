//! Where the machine runs.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where the machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// KVM where it works, else `exact`.
    #[default]
    Auto,
    /// This machine's KVM.
    Kvm,
    /// The software KVM host in its fast form: time is this machine's.
    Softkvm,
    /// The software KVM host in its repeatable form: one instruction is one
    /// nanosecond before the CPU speed is applied.
    Exact,
    /// The same without Linux and KVM below the guest, for drives in memory: a
    /// result depends on the experiment only.
    Bare,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Engine; 5] = [Self::Auto, Self::Kvm, Self::Softkvm, Self::Exact, Self::Bare];

    /// Its name in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Softkvm => "softkvm",
            Self::Exact => "exact",
            Self::Bare => "bare",
        }
    }

    /// Whether a run repeats to the nanosecond: one instruction is one tick.
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact | Self::Bare)
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|engine| engine.name() == word).ok_or_else(|| {
            let nearest = crate::error::nearest(word, Self::ALL.iter().map(|engine| engine.name()));
            format!("unknown engine `{word}`; did you mean `{nearest}`?")
        })
    }
}
