//! The engines that run machines.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_config::guess;

/// Engine that runs the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// KVM where it works, else `exact`.
    #[default]
    Auto,
    /// This machine's KVM.
    Kvm,
    /// The software KVM host in its fast form: time follows this machine's clock.
    Softkvm,
    /// An emulated machine with nothing but this program below the guest: one
    /// instruction is one nanosecond before the CPU speed is applied, and a
    /// result depends on the experiment only.
    Exact,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Engine; 4] = [Self::Auto, Self::Kvm, Self::Softkvm, Self::Exact];

    /// Name of the engine in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Softkvm => "softkvm",
            Self::Exact => "exact",
        }
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|engine| engine.name() == word).ok_or_else(|| {
            let all = Self::ALL.map(Self::name);
            format!("unknown engine `{word}`; {}it is one of {}", guess(word, all), all.join(", "))
        })
    }
}
