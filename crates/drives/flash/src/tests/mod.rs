//! The whole drive against the shadow array.

mod agree;
mod amplification;
mod bad_blocks;
pub mod basics;
mod broken;
mod caches;
mod dftl;
mod ecc;
mod features;
mod front;
mod housekeeping;
mod hybrid;
mod kept;
pub mod load;
mod owners;
mod padding;
mod read_cache;
mod reclaim;
mod scrub;
mod steady;
mod two_pass;
mod watched;
mod zones;
