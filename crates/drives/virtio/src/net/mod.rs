//! A network device: frames between a machine and its port of a network.

mod checksum;
mod config;
mod device;

pub use config::Config;
pub use device::{Device, Sent, Statistics};
