//! Durability of writes to a disk image, as experiments configure it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, MILLISECOND};
use stasis_block::units;

/// Condition for the end of a guest's flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Everything is durable when the flush ends, and tables are put in order by
    /// flushes of the drive below, as QEMU does.
    #[default]
    Flush,
    /// Everything is durable when the flush ends, and tables are put in order by
    /// barriers: one flush at the end.
    Barrier,
    /// The flush is itself an order: it ends at once, and everything before it is
    /// durable before anything that comes after it. Durable writes (FUA) stay
    /// durable.
    Ordered,
}

impl Durability {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Flush, Self::Barrier, Self::Ordered];

    /// The way that has `name`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    /// Returns the name in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Barrier => "barrier",
            Self::Ordered => "ordered",
        }
    }
}

/// Treatment of writes to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ImageSettings {
    /// Condition for the end of a guest's flush.
    pub durability: Durability,
    /// With [`Durability::Ordered`]: the flushes that a crash can undo ended
    /// within this time (ns).
    #[serde(with = "units::duration")]
    pub max_lag: Nanos,
    /// With [`Durability::Ordered`]: approximate limit on the data written before those flushes and
    /// not yet durable (bytes).
    #[serde(with = "units::size")]
    pub max_lag_bytes: u64,
}

impl Default for ImageSettings {
    fn default() -> Self {
        let durability = Durability::default();
        Self { durability, max_lag: 50 * MILLISECOND, max_lag_bytes: 64 << 20 }
    }
}
