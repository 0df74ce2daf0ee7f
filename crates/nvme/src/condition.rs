//! How the drive is: its health and its temperature.

use stasis_block::Health;

use crate::admin::NORMAL_TEMPERATURE;

/// What the drive says of itself.
#[derive(Debug)]
pub struct Condition {
    health: Health,
    // Bytes that its medium had taken before the first time it said.
    media_before: Option<u64>,
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
    /// Its health as last told.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Takes its health over; whether that is news.
    pub fn set_health(&mut self, health: Health) -> bool {
        self.media_before.get_or_insert(health.media_bytes_written);
        let news = self.health != health;
        self.health = health;
        news
    }

    /// Bytes that its medium has taken since it was first asked; `None` if it does not say.
    pub fn media_written(&self) -> Option<u64> {
        match self.health.media_bytes_written {
            0 => None,
            bytes => Some(bytes.saturating_sub(self.media_before.unwrap_or(0))),
        }
    }

    /// Its temperature in kelvin.
    pub fn temperature(&self) -> u16 {
        self.temperature
    }

    /// Sets its temperature in kelvin.
    pub fn set_temperature(&mut self, kelvin: u16) {
        self.temperature = kelvin;
    }
}
