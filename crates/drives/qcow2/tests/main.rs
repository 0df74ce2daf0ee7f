//! Tests of disk images, against qemu-img and under power cuts.

mod bad;
mod beside_qemu;
mod common;
mod contents;
mod cuts;
mod differential;
mod features;
mod flushes;
mod kills;
mod layers;
mod live_cuts;
mod urgent;
