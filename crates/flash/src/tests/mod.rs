//! The whole drive against the shadow array.

mod basics;
mod load;
