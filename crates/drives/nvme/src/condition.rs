//! Condition of the drive: its health and its temperature.

use stasis_block::Health;

/// The composite temperature until the carrier sets another, in kelvin: 40 °C.
const NORMAL_TEMPERATURE: u16 = 313;
/// Warning Composite Temperature Threshold, in kelvin: 70 °C, which many data sheets give as the
/// highest operating temperature.
pub const WARNING_TEMPERATURE: u16 = 343;
/// Critical Composite Temperature Threshold, in kelvin: 80 °C.
pub const CRITICAL_TEMPERATURE: u16 = 353;
/// Available Spare Threshold, in percent: the usual value in data sheets.
pub const SPARE_THRESHOLD: u8 = 10;

/// Bits of Critical Warning in the SMART log (NVMe 1.4 section 5.14.1.2).
pub const WARNING_SPARE: u8 = 1;
pub const WARNING_TOO_WARM: u8 = 1 << 1;
pub const WARNING_READ_ONLY: u8 = 1 << 3;

/// The drive's health and temperature.
#[derive(Debug)]
pub struct Condition {
    health: Health,
    // Bytes written to the medium, and erased on it, as of the first health report.
    media_before: Option<(u64, u64)>,
    // Kelvin.
    temperature: u16,
}

impl Default for Condition {
    fn default() -> Self {
        let temperature = NORMAL_TEMPERATURE;
        Self { health: Health::default(), media_before: None, temperature }
    }
}

impl Condition {
    /// The health as last reported by the drive.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Stores the reported health; returns whether it differs from the last one.
    pub fn set_health(&mut self, health: Health) -> bool {
        self.media_before.get_or_insert((health.media_bytes_written, health.media_bytes_erased));
        let news = self.health != health;
        self.health = health;
        news
    }

    /// Bytes written to the medium since the first health report; `None` if the drive reports none.
    pub fn media_written(&self) -> Option<u64> {
        match self.health.media_bytes_written {
            0 => None,
            bytes => Some(bytes.saturating_sub(self.media_before.unwrap_or_default().0)),
        }
    }

    /// Bytes erased on the medium since the first health report; 0 if the drive reports none.
    pub fn media_erased(&self) -> u64 {
        let before = self.media_before.unwrap_or_default().1;
        self.health.media_bytes_erased.saturating_sub(before)
    }

    /// Returns the temperature in kelvin.
    pub fn temperature(&self) -> u16 {
        self.temperature
    }

    /// Sets its temperature in kelvin.
    pub fn set_temperature(&mut self, kelvin: u16) {
        self.temperature = kelvin;
    }

    /// The critical warnings of its health, without those of temperatures.
    pub fn warnings(&self) -> u8 {
        let warning = |holds: bool, bit: u8| if holds { bit } else { 0 };
        warning(self.health.available_spare < SPARE_THRESHOLD, WARNING_SPARE)
            | warning(self.health.read_only, WARNING_READ_ONLY)
    }

    /// Critical Warning of the SMART log (NVMe 1.4 section 5.14.1.2), where temperatures
    /// between two thresholds are right.
    pub fn critical_warning(&self, under: u16, over: u16) -> u8 {
        let beyond = self.temperature >= over || self.temperature <= under;
        self.warnings() | if beyond { WARNING_TOO_WARM } else { 0 }
    }
}
