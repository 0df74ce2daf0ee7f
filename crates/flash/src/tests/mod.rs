//! The whole drive against the shadow array.

mod agree;
mod basics;
mod load;
