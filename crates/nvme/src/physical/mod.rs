//! Open-Channel namespaces, whose host places its data itself, by the
//! "Open-Channel Solid State Drives Specification, revision 2.0" of
//! 2018-01-29, cited as "OCSSD 2.0" with the section.

mod config;

pub use config::{Physical, PhysicalError};
