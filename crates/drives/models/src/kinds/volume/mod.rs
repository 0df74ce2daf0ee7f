//! A volume of a cloud: network storage whose provider bounds its I/Os and bytes a second.
//!
//! A limit is a rate, which may follow from the volume's size, with an optional bucket of credits:
//! these are spent at the burst's rate and come back at the limit's own (Amazon EBS User Guide,
//! "General Purpose SSD volumes": the burst bucket). A bucket is full at the start. Commands wait
//! for all limits in the order of submission, and complete one latency after they went, no sooner
//! than their bytes have moved at the highest rate. A command counts as one I/O for each `io_size`
//! bytes; with `merge` one that continues the last of its direction first fills up the I/O that
//! that one began. Providers do not say how evenly they let commands go: here they go at even
//! distances.

mod kind;
mod laws;
mod limits;
mod service;
mod spec;

pub use self::service::Volume;
pub use self::spec::{VolumeSpec, VolumeTier};
