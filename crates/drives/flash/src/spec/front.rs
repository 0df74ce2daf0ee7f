//! The parts between the host and the translation layer in a description: the link, the
//! firmware's processors, the controller's memory, and the work of a trim.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Link, Rate};

/// Processors that the firmware runs on: each command takes one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorsSpec {
    /// Number of blocks.
    pub cores: u32,
    /// The time of a command (ns).
    #[serde(with = "units::duration")]
    pub command: Nanos,
    /// The time of each mapping unit that it reads or writes (ns).
    #[serde(default, with = "units::duration")]
    pub unit: Nanos,
}

/// Memory of the controller that the host's data goes through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramSpec {
    /// Its bandwidth, for both directions together.
    pub rate: Rate,
    /// Number of times that each byte crosses it: in, and out again.
    #[serde(default = "twice")]
    pub passes: u32,
}

fn twice() -> u32 {
    2
}

/// The work of a discard, one range after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrimSpec {
    /// The time of each range (ns).
    #[serde(with = "units::duration")]
    pub range: Nanos,
    /// The rate at which bytes of a range are forgotten; at once if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// The host interface, as its link has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcieSpec {
    /// Generation and lanes: `PCIe 4.0 x4`.
    pub link: Link,
    /// Most data of a packet (Max_Payload_Size, bytes).
    #[serde(default = "payload")]
    pub payload: u32,
}

fn payload() -> u32 {
    256
}

/// Generations whose packets are framed one by one.
pub(super) const GENERATIONS: u8 = 5;
/// Transfers a second of a lane, in millions, and the share of them that is no code: 8b/10b, then
/// 128b/130b (PCI Express Base Specification 5.0, 4.2.1 and 4.2.2).
const SPEEDS: [(u64, u64, u64); GENERATIONS as usize] =
    [(2_500, 8, 10), (5_000, 8, 10), (8_000, 128, 130), (16_000, 128, 130), (32_000, 128, 130)];
/// Bytes that frame a packet: start, sequence number, LCRC and end, or the token that has the first
/// two (3.6.2, 4.2.1.2, 4.2.2.3).
const FRAME: u64 = 8;
/// The header of a Memory Write with an address of 64 bits, and of a completion (2.2.4.1, 2.2.9).
const WRITE_HEADER: u64 = 16;
const COMPLETION_HEADER: u64 = 12;

impl PcieSpec {
    /// The bytes a second that the link carries of packets with `header`.
    fn rate(&self, header: u64) -> Rate {
        let generation = usize::from(self.link.generation().clamp(1, GENERATIONS));
        let (speed, data, code) = SPEEDS[generation - 1];
        let payload = u64::from(self.payload);
        // Bits of a lane in a millionth of a second, in bytes of all of them.
        let raw = u128::from(speed * 1_000_000) * u128::from(self.link.lanes()) / 8;
        let share = u128::from(data * payload);
        let whole = u128::from(code * (payload + FRAME + header));
        Rate::per_second(u64::try_from(raw * share / whole).unwrap_or(u64::MAX))
    }

    /// Returns the rate of data to the host, by Memory Writes.
    pub fn to_host(&self) -> Rate {
        self.rate(WRITE_HEADER)
    }

    /// Returns the rate of data to the drive, by completions of its Memory Reads.
    pub fn to_drive(&self) -> Rate {
        self.rate(COMPLETION_HEADER)
    }
}
