//! The whole drive against the shadow array.

mod agree;
pub mod basics;
mod broken;
mod caches;
mod dftl;
mod ecc;
mod features;
mod front;
mod hybrid;
mod kept;
pub mod load;
mod owners;
mod padding;
mod read_cache;
mod reclaim;
mod scrub;
mod steady;
mod watched;
mod zones;
