//! The block device.

mod completions;
mod config;
mod device;
mod features;
mod request;
mod service;
mod slots;
mod space;

pub use config::{Config, ConfigError};
pub use device::{Device, Statistics, MAX_REFUSED};
pub use features::feature;
