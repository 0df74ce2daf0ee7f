//! The whole drive against the shadow array.

mod agree;
pub mod basics;
mod broken;
mod caches;
mod dftl;
mod features;
mod hybrid;
pub mod load;
mod steady;
mod watched;
mod zones;
